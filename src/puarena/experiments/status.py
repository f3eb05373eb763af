"""The state of a results folder: how many runs are done, running, failed and missing.

A run whose loss diverged is done: its curve is data. A run has failed if its fleet raised an error.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from puarena.pu import Problem
from puarena.results import Folder
from puarena.utils.terminal import open_console

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text
    from rich.tree import Tree

    from puarena.results import Results
    from puarena.results.records import FailureNote

MAX_REASONS = 5  # shown of one algorithm


@dataclass
class AlgorithmStatus:
    """The runs of one algorithm on one problem."""

    algorithm: str
    planned: int = 0
    done: int = 0  # including those that diverged
    failed: int = 0
    running: int = 0
    begun: int = 0  # missing, but with a checkpoint
    divergences: list[int] = field(default_factory=list)  # the step of each run that diverged
    reasons: list[str] = field(default_factory=list)  # of each run that failed

    @property
    def diverged(self) -> int:
        """How many runs diverged."""
        return len(self.divergences)

    @property
    def missing(self) -> int:
        """How many runs are neither done nor failed nor running."""
        return self.planned - self.done - self.failed - self.running

    @property
    def complete(self) -> bool:
        """Whether everything is done."""
        return self.done == self.planned


@dataclass(frozen=True)
class FolderStatus:
    """The runs of a results folder, by problem and algorithm."""

    problems: dict[Problem, list[AlgorithmStatus]]

    def count(self, what: str) -> int:
        """Return how many runs are ``planned``, ``done``, ``diverged``, ``failed``, …"""
        algorithms = [each for part in self.problems.values() for each in part]
        return sum(getattr(each, what) for each in algorithms)

    @property
    def counts(self) -> dict[str, int]:
        """Counts for programs: ``done`` includes diverged runs, ``missing`` running ones."""
        counts = {name: self.count(name) for name in ("planned", "done", "diverged", "failed")}
        return counts | {"missing": counts["planned"] - counts["done"] - counts["failed"]}

    @property
    def is_over(self) -> bool:
        """Whether nothing is missing and nothing is running."""
        return not self.count("missing") and not self.count("running")

    @property
    def line(self) -> str:
        """The counts in one line."""
        counts, running = self.counts, self.count("running")
        diverged = f" ({counts['diverged']} diverged)" if counts["diverged"] else ""
        of_them = f" ({running} of them running)" if running else ""
        return (
            f"planned {counts['planned']}  done {counts['done']}{diverged}  "
            f"failed {counts['failed']}  missing {counts['missing']}{of_them}"
        )


def read_status(store: Results, runs: Mapping[str, dict[str, Any]] | None = None) -> FolderStatus:
    """Return the status of results; ``runs`` are the planned ones if they are known already."""
    runs = store.known_runs() if runs is None else runs
    outcomes = store.outcomes()
    diverged, failed = store.diverged(outcomes), store.failed(outcomes)
    places = {run: _place(note) for note in store.failures() for run in note.runs}
    claimed = store.claimed() if isinstance(store, Folder) else set()
    begun = store.runs_with_state()
    problems: dict[Problem, dict[str, AlgorithmStatus]] = {}
    for run, row in runs.items():
        algorithms = problems.setdefault(Problem.from_columns(row), {})
        status = algorithms.setdefault(row["algorithm"], AlgorithmStatus(row["algorithm"]))
        status.planned += 1
        if run in outcomes:
            status.done += 1
            if run in diverged:
                status.divergences.append(int(diverged[run].split()[-1]))
        elif row["fleet"] in claimed:
            status.running += 1
        elif run in failed:
            status.failed += 1
            status.reasons.append(failed[run] + places[run])
        else:
            status.begun += run in begun
    return FolderStatus({problem: list(each.values()) for problem, each in problems.items()})


def _place(note: FailureNote) -> str:
    """Describe where a fleet failed, after how long, and at which attempt."""
    if not note.machine:
        return ""
    again = f", attempt {note.attempt}" if note.attempt > 1 else ""
    return f" [on {note.machine} after {note.seconds:.0f} s{again}]"


def show(store: Results, console: Console | None = None) -> FolderStatus:
    """Print the status as a tree."""

    status = read_status(store)
    (console or open_console()).print(make_tree(status), soft_wrap=True)
    return status


def watch(store: Results, seconds: float = 2.0, console: Console | None = None) -> FolderStatus:
    """Show the tree and update it until nothing is missing, or until an interrupt."""
    from rich.live import Live

    runs = store.known_runs()
    status = read_status(store, runs)
    first = make_tree(status, short=True)
    with Live(first, console=console or open_console(), auto_refresh=False) as live:
        try:
            while not status.is_over:
                time.sleep(seconds)
                status = read_status(store, runs)
                live.update(make_tree(status, short=True), refresh=True)
        except KeyboardInterrupt:
            pass
    return status


def make_tree(status: FolderStatus, short: bool = False) -> Tree:
    """Return the tree for the terminal; ``short`` leaves out algorithms that are complete."""
    from rich.text import Text
    from rich.tree import Tree

    root = Tree(Text(status.line, style="bold"))
    for problem, algorithms in status.problems.items():
        node = root.add(Text(_describe_problem(problem, algorithms)))
        width = max(len(each.algorithm) for each in algorithms)
        for each in algorithms:
            if not (short and each.complete):
                leaf = node.add(_describe_algorithm(each, width))
                for reason in count_reasons(each.reasons):
                    leaf.add(Text(f"failed: {reason}", style="red"))
    return root


def _describe_problem(problem: Problem, algorithms: Sequence[AlgorithmStatus]) -> str:
    done = sum(each.done for each in algorithms)
    planned = sum(each.planned for each in algorithms)
    return f"{problem.label(prior=True)}: {done} of {planned} done"


def _describe_algorithm(status: AlgorithmStatus, width: int) -> Text:
    from rich.text import Text

    line = Text(f"{status.algorithm:<{width}}  ")
    style = "green" if status.complete else ""
    line.append(f"{status.done} of {status.planned} done", style=style)
    if status.divergences:
        first, last = min(status.divergences), max(status.divergences)
        steps = f"at step {first}" if first == last else f"at steps {first} to {last}"
        line.append(f" ({status.diverged} diverged {steps})", style="magenta")
    for count, word, style in (
        (status.running, "running", "cyan"),
        (status.failed, "failed", "red"),
        (status.missing, "missing", "yellow"),
    ):
        if count:
            line.append(", ").append(f"{count} {word}", style=style)
    if status.begun:
        line.append(f" ({status.begun} begun)", style="yellow")
    return line


def count_reasons(reasons: list[str]) -> list[str]:
    """Return different reasons with how often each occurs, the most frequent first."""
    counted = Counter(reasons).most_common()
    texts = [f"{count} x {reason}" if count > 1 else reason for reason, count in counted]
    rest = len(texts) - MAX_REASONS
    return [*texts[:MAX_REASONS], f"{rest} more reasons"] if rest > 0 else texts
