"""Live progress of a run: fleets done, runs, run-steps per second, time left.

``run`` tells a :class:`Progress` what happens; how it looks is decided here. A run-step is one step of one run.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TextIO

from puarena.experiments.forecast import Cost, Forecast, Lanes

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bar

    from puarena.experiments.beacon import Beacon
    from puarena.experiments.plan import FleetSpec


REFRESHED = 1.0  # seconds for which the time left is not computed anew


class Progress:
    """Counts and shows nothing; a subclass shows. Use as a context manager."""

    def __init__(self) -> None:
        self.fleets = self.fleets_done = self.failed = 0
        self.runs = self.runs_done = 0
        self.steps = self.steps_done = 0
        self._ahead: dict[str, int] = {}  # run-steps of the fleets in training
        self._done = 0  # run-steps of the finished ones
        self._resumed = 0  # run-steps that were behind at the start
        self.now: Callable[[], float] = time.perf_counter
        self._began = self.now()
        self._lock = (
            threading.Lock()
        )  # a display may ask for the time left from a thread of its own
        self._known: dict[str, Cost] = {}
        self._lanes = Lanes()
        self._forecast = Forecast((), {}, self._began)
        self._shown: tuple[float, float | None] = (
            float("-inf"),
            None,
        )  # when the time left was computed
        self.visible = True  # until something goes wrong with the display
        self.thorough = False  # also say which fleets are stored
        self.beacon: Beacon | None = None  # tells other processes which fleets are in training

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        """Leave the terminal tidy."""

    def expect(self, known: Mapping[str, Cost], lanes: Lanes) -> None:
        """Called before ``start``: what is known of the costs of fleets, and how they are trained side by side."""
        self._known, self._lanes = dict(known), lanes

    def start(self, fleets: list[FleetSpec], resumed: dict[str, int]) -> None:
        """Called once, with what is to be computed; fleets in ``resumed`` go on after so many run-steps."""
        self.fleets, self.runs = len(fleets), sum(len(fleet.runs) for fleet in fleets)
        self.steps = sum(fleet.steps for fleet in fleets)
        self._ahead = dict(resumed)
        self.steps_done = self._resumed = sum(self._ahead.values())
        self._began = self.now()
        self._forecast = Forecast(fleets, resumed, self._began, self._known, self._lanes)
        self.safely(self.show)

    def safely(self, display: Callable[..., None], *words: str) -> None:
        """Display something; a terminal that is gone, a pipe that nobody reads, or a full disk never end training."""
        if self.visible:
            try:
                display(*words)
            except (OSError, ValueError):
                self.visible = False

    def news(self, fleet: FleetSpec, done: int) -> None:
        """Called at the records of a fleet in training: ``done`` run-steps of it are behind."""
        self._ahead[fleet.fleet_id] = done
        with self._lock:
            self._forecast.news(fleet, done, self.now())
        if self.beacon:
            self.beacon.trains(fleet)
        self.steps_done = self._done + sum(self._ahead.values())
        self.safely(self.show, fleet.label)

    def elsewhere(self, fleet: FleetSpec) -> None:
        """Called when another process turns out to train a fleet."""
        with self._lock:
            self._forecast.elsewhere(fleet, self.now())

    def fleet_ends(self, fleet: FleetSpec, failure: str | None = None) -> None:
        """Called after a fleet was stored or failed."""
        self._done += fleet.steps
        with self._lock:
            self._forecast.ended(fleet, self.now(), failed=failure is not None)
            self._shown = (float("-inf"), None)
        self._ahead.pop(fleet.fleet_id, None)
        if self.beacon:
            self.beacon.ended(fleet)
        self.steps_done = self._done + sum(self._ahead.values())
        self.fleets_done += 1
        if failure is None:
            self.runs_done += len(fleet.runs)
            if self.thorough:
                self.safely(self.say, f"stored: {fleet.label}, {len(fleet.runs)} runs")
        else:
            self.failed += 1
            self.safely(self.say, f"{fleet.label} failed: {failure}")
        self.safely(self.show)

    @property
    def speed(self) -> float:
        """Run-steps per second so far."""
        return (self.steps_done - self._resumed) / max(self.now() - self._began, 1e-9)

    @property
    def left(self) -> float | None:
        """Seconds left; unknown at the beginning."""
        with self._lock:
            now = self.now()
            if now - self._shown[0] >= REFRESHED:
                self._shown = now, self._forecast.left(now)
            at, left = self._shown
        return None if left is None else max(left - (now - at), 0.0)

    @property
    def line(self) -> str:
        """The state in one line."""
        return "  ".join(filter(None, (self.time_left, self.counts)))

    @property
    def time_left(self) -> str:
        """The time left, if it is known; in the end the time it took."""
        if self.fleets_done >= self.fleets:
            return f"took {clock(self.now() - self._began)}"
        left = self.left
        return "" if left is None else f"{clock(max(left, 1.0))} left"

    @property
    def counts(self) -> str:
        """How many fleets and runs are done, and how fast."""
        words = [f"runs {self.runs_done}/{self.runs}", f"fleets {self.fleets_done}/{self.fleets}"]
        if self.speed > 0:
            words.append(f"{_short(self.speed)} run-steps/s")
        return "  ".join(words)

    def show(self, label: str | None = None) -> None:
        """Show the present state."""

    def say(self, text: str) -> None:
        """Show a sentence that stays."""


class Lines(Progress):
    """One line now and then, for logs and pipes."""

    def __init__(self, stream: TextIO | None = None, every: float = 5.0) -> None:
        super().__init__()
        self.stream, self.every, self._last = stream or sys.stderr, every, 0.0

    def show(self, label: str | None = None) -> None:
        """Print a line if the last one is old enough, and at the end."""
        now = self.now()
        if self.fleets and (now - self._last >= self.every or self.fleets_done == self.fleets):
            self._last = now
            self.say(self.line)

    def say(self, text: str) -> None:
        """Print a line."""
        print(text, file=self.stream, flush=True)


class Live(Progress):
    """A bar in the terminal."""

    def __init__(self, console: Console | None = None) -> None:
        super().__init__()
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as Bar
        from rich.table import Column

        whole = Column(
            no_wrap=True
        )  # bar, percentage and time left are never cut; what follows gets what is left
        rest = Column(no_wrap=True, overflow="ellipsis", ratio=1)
        self._bar: Bar = Bar(
            BarColumn(bar_width=20, table_column=whole),
            TextColumn("{task.percentage:>3.0f}%", table_column=Column(no_wrap=True, min_width=4)),
            TextColumn("{task.fields[left]}", table_column=Column(no_wrap=True, min_width=10)),
            TextColumn("{task.fields[line]} [dim]{task.description}", table_column=rest),
            console=console or Console(stderr=True),
            expand=True,
        )
        self._task = self._bar.add_task("", total=None, line="", left=_TimeLeft(self))

    def __enter__(self) -> Progress:
        self.safely(self._bar.start)
        return self

    def __exit__(self, *error: object) -> None:
        self.safely(self._bar.stop)

    def show(self, label: str | None = None) -> None:
        """Redraw the bar."""
        from rich.markup import escape

        total = max(self.steps, 1)
        done = self.steps_done if self.steps else total
        fleet = escape(label or "")
        self._bar.update(
            self._task, total=total, completed=done, description=fleet, line=self.counts
        )

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        self._bar.console.print(text, markup=False, highlight=False)


class _TimeLeft:
    """The time left whenever the bar is drawn, also when there have been no news for a while."""

    def __init__(self, live: Progress) -> None:
        self.live = live

    def __format__(self, how: str) -> str:
        return self.live.time_left if self.live.fleets else ""


def for_terminal(thorough: bool = False) -> Progress:
    """A bar where somebody watches, lines elsewhere; ``thorough`` is for who wants to hear of every fleet."""
    live = Live() if sys.stderr.isatty() else Lines()
    live.thorough = thorough
    return live


def clock(seconds: float) -> str:
    """``3:07`` or ``1:02:45``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def in_words(seconds: float) -> str:
    """``40 seconds``, ``7 minutes``, ``3.5 hours``, ``2.1 days``."""
    for unit, length, until in (("seconds", 1, 90), ("minutes", 60, 90), ("hours", 3600, 48)):
        if seconds < until * length:
            return f"{seconds / length:.{1 if seconds < 10 * length and length > 1 else 0}f} {unit}"
    return f"{seconds / 86400:.1f} days"


def _short(number: float) -> str:
    """``1.2`` below ten, ``1,234`` below ten thousand, then ``12.3k``, ``1.2M``."""
    if number < 10:
        return f"{number:.2g}"
    if number < 1e4:
        return f"{number:,.0f}"
    return f"{number / 1e3:.1f}k" if number < 1e6 else f"{number / 1e6:.1f}M"
