"""Progress of a run: a bar in a terminal or a notebook, a line every few seconds elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from rich.progress import BarColumn, TaskProgressColumn, TextColumn
from rich.progress import Progress as RichProgress
from rich.table import Column

from puarena import catalog
from puarena.utils.notebook import in_notebook
from puarena.utils.terminal import open_console, strip_controls

if TYPE_CHECKING:
    from rich.console import Console

    from puarena.experiments.plan import FleetSpec

LINE_SECONDS = 5.0  # between two lines where nothing can be redrawn
REDRAW_SECONDS = 0.2  # between two drawings in a notebook
UNITS = (  # of durations, with their seconds, and from how many on the next one is used
    ("seconds", 1, 90),
    ("minutes", 60, 90),
    ("hours", 3600, 48),
    ("days", 86_400, 90),
    ("years", 31_557_600, 0),
)
FIXED_BATCH = 8  # what a step costs whatever its batch size, in examples
# The fit of a classic counts as so many steps of a network: between what the fast and the slow ones
# take, so that neither ends the run too early nor makes it look endless.
CLASSIC_STEPS = 2000


class Progress:
    """Follows a run and shows nothing.

    ``run`` calls ``start`` once, ``record`` at every record of a fleet in training, ``end`` when a
    fleet was stored or failed, and ``message`` for anything else. Subclasses may override these.
    """

    def __init__(self) -> None:
        self.runs = self.runs_done = self.runs_failed = 0
        self.fleets_done = 0
        self.steps = self.steps_done = 0  # of all runs together
        self.work = self.work_done = 0.0  # steps, weighted by what they cost
        self.began = time.monotonic()
        self._work_before = 0.0  # done by an earlier run
        self._steps_of: dict[str, int] = {}  # steps done of every fleet in training

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        """Leave the display."""

    def start(self, fleets: Sequence[FleetSpec], resumed: Mapping[str, int]) -> None:
        """Count what is to be trained; of the fleets in ``resumed``, so many steps are done."""
        self.runs = sum(len(fleet.runs) for fleet in fleets)
        self.steps = sum(fleet.steps for fleet in fleets)
        self.work = sum(fleet.steps * step_cost(fleet) for fleet in fleets)
        for fleet in fleets:
            self._count(fleet, resumed.get(fleet.fleet_id, 0))
        self.began, self._work_before = time.monotonic(), self.work_done

    def record(self, fleet: FleetSpec, steps: int) -> None:
        """Note that so many steps of a fleet in training are done."""
        self._count(fleet, steps)

    def end(self, fleet: FleetSpec, failure: str | None = None) -> None:
        """Note that a fleet was stored, or failed."""
        self._count(fleet, fleet.steps)
        self.fleets_done += 1
        if failure is None:
            self.runs_done += len(fleet.runs)
        else:
            self.runs_failed += len(fleet.runs)
            self.message(f"{fleet.label} failed: {failure}")

    def message(self, text: str) -> None:
        """Take note of something that stays on the display."""

    def _count(self, fleet: FleetSpec, steps: int) -> None:
        new = steps - self._steps_of.get(fleet.fleet_id, 0)
        self._steps_of[fleet.fleet_id] = steps
        # The parts of a fleet that did not fit in memory start from the beginning.
        if fleet.claim != fleet.fleet_id:
            new -= self._steps_of.pop(fleet.claim, 0)
        self.steps_done += new
        self.work_done += new * step_cost(fleet)

    @property
    def share_done(self) -> float:
        """The share of the work that is done."""
        return 1.0 if self.is_over else self.work_done / self.work

    @property
    def seconds_left(self) -> float | None:
        """The time left if the work goes on at the rate so far; unknown before the first record."""
        done = self.work_done - self._work_before
        rate = done / max(time.monotonic() - self.began, 1e-9)
        return (self.work - self.work_done) / rate if rate > 0 else None

    @property
    def is_over(self) -> bool:
        """Whether every run was stored or failed."""
        return self.runs_done + self.runs_failed >= self.runs


class ConsoleProgress(Progress):
    """Shows the progress; ``verbose`` also lists every stored fleet."""

    def __init__(self, console: Console | None = None, verbose: bool = False) -> None:
        super().__init__()
        self.console = console or open_console(stderr=True, force_jupyter=False)
        self.verbose = verbose
        self.label = ""  # of the fleet that had the latest record
        self.messages: list[str] = []
        self._redraws = self.console.is_terminal
        self._notebook: Any = None if in_notebook() else False  # the handle of its display
        self._drawn_at = 0.0
        self._is_broken = False
        whole = Column(no_wrap=True)
        rest = Column(no_wrap=True, overflow="ellipsis", ratio=1)
        self._bar = RichProgress(
            BarColumn(bar_width=20, table_column=whole),
            TaskProgressColumn(table_column=whole),
            TextColumn("{task.fields[time]}", table_column=whole),
            TextColumn("{task.description}", markup=False, table_column=rest),
            console=self.console,
            expand=True,
            disable=not self._redraws,
        )
        self._task = self._bar.add_task("", total=None, time="")

    def __enter__(self) -> Progress:
        self._show(self._bar.start)
        return self

    def __exit__(self, *error: object) -> None:
        self._show(self._bar.stop)

    def start(self, fleets: Sequence[FleetSpec], resumed: Mapping[str, int]) -> None:
        """Show the bar."""
        super().start(fleets, resumed)
        self._bar.update(self._task, total=self.work)
        self._refresh()

    def record(self, fleet: FleetSpec, steps: int) -> None:
        """Move the bar."""
        super().record(fleet, steps)
        self.label = fleet.label
        self._refresh()

    def end(self, fleet: FleetSpec, failure: str | None = None) -> None:
        """Move the bar, and list the fleet if that is wanted."""
        super().end(fleet, failure)
        if self.verbose and failure is None:
            self.message(f"stored: {fleet.label}, {len(fleet.runs)} runs")
        self._refresh()

    def message(self, text: str) -> None:
        """Print a line above the bar, or below it in a notebook."""
        if self._notebook is False:
            self._show(lambda: self._print(text))
        else:
            self.messages.append(text)
            self._show(self._draw_in_notebook)

    @property
    def line(self) -> str:
        """The progress in one line."""
        return "  ".join(filter(None, [f"{self.share_done:.0%}", self.time, self._counts]))

    @property
    def time(self) -> str:
        """The time left, or in the end the time it took."""
        if self.is_over:
            return f"took {format_clock(time.monotonic() - self.began)}"
        left = self.seconds_left
        return "" if left is None else f"{format_clock(max(left, 1.0))} left"

    @property
    def _counts(self) -> str:
        return f"{self.runs_done}/{self.runs} runs  {self.label}".rstrip()

    def _refresh(self) -> None:
        """Show the present state, or a line if the last one is old enough."""
        done = self.share_done * self.work
        self._bar.update(self._task, completed=done, description=self._counts, time=self.time)
        now = time.monotonic()
        pause = LINE_SECONDS if self._notebook is False else REDRAW_SECONDS
        if self._redraws or not (self.is_over or now - self._drawn_at >= pause):
            return
        self._drawn_at = now
        if self._notebook is False:
            self._show(lambda: self._print(self.line))
        else:
            self._show(self._draw_in_notebook)

    def _print(self, text: str) -> None:
        if self._redraws:
            self.console.print(text, markup=False, highlight=False, soft_wrap=True)
        else:
            # rich would end the process if nothing reads the pipe.
            print(strip_controls(text), file=self.console.file, flush=True)

    def _draw_in_notebook(self) -> None:
        """Draw below the cell; unlike rich's display this needs no widgets."""
        from IPython.display import display

        if self._notebook is None:
            self._notebook = display(self, display_id=True)
        else:
            self._notebook.update(self)

    def _repr_html_(self) -> str:
        """Return the bar and the messages below it."""
        bar = f'<progress max="1" value="{self.share_done:.4f}" style="width:16em"></progress>'
        messages = "".join(f"<div>{escape(text)}</div>" for text in self.messages)
        return f"<div>{bar} {escape(self.line)}</div>{messages}"

    def __repr__(self) -> str:
        return "\n".join([self.line, *self.messages])

    def _show(self, display: Callable[[], object]) -> None:
        """Display something; a closed terminal or pipe, or a full disk, does not end training."""
        if not self._is_broken:
            try:
                display()
            except (OSError, ValueError):
                self._is_broken = True


def choose_progress(wanted: Progress | bool | None) -> Progress:
    """Return the progress of ``run``: the given one, one that is shown, or one that is not."""
    if isinstance(wanted, Progress):
        return wanted
    return ConsoleProgress() if wanted else Progress()


def step_cost(fleet: FleetSpec) -> float:
    """Return what a step of one run of a fleet costs relative to those of other fleets."""
    first = fleet.first
    entry = catalog.get(first.algorithm)
    cost = CLASSIC_STEPS if entry.is_classic else entry.cost
    return cost * (first.batch_size + FIXED_BATCH)


def format_clock(seconds: float) -> str:
    """Return ``3:07`` or ``1:02:45``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def format_duration(low: float, high: float | None = None) -> str:
    """Return ``40 seconds``, ``3.5 hours`` or ``2 to 3 years``; of a range, in one unit."""
    high = low if high is None else high
    name, length = next(
        (name, length) for name, length, until in UNITS if high < until * length or name == "years"
    )
    few = low < (10 if low == high else 3) * length
    digits = 1 if few and length > 1 else 0
    shown = dict.fromkeys(f"{seconds / length:,.{digits}f}" for seconds in (low, high))
    return f"{' to '.join(shown)} {name}"
