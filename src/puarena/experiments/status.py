"""Where an experiment stands: per problem and algorithm, how many runs are done, running, failed and missing.

A run whose loss ran away has diverged: it is done, and is data. A run has failed where its fleet broke.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from puarena.experiments.beacon import running
from puarena.experiments.joint_spec import planned
from puarena.pu import Problem

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text
    from rich.tree import Tree

    from puarena.results import Results

REASONS = 5  # shown of one algorithm


@dataclass
class Branch:
    """One algorithm on one problem."""

    algorithm: str
    planned: int = 0
    done: int = 0  # also those that diverged
    failed: int = 0
    running: int = 0
    begun: int = 0  # missing, and interrupted after a state was kept
    divergences: list[int] = field(default_factory=list)  # the step of each run that diverged
    reasons: list[str] = field(default_factory=list)  # of each run that failed

    @property
    def diverged(self) -> int:
        """Done, but their loss ran away."""
        return len(self.divergences)

    @property
    def missing(self) -> int:
        """Neither done nor failed nor running."""
        return self.planned - self.done - self.failed - self.running

    @property
    def complete(self) -> bool:
        """Is everything done?"""
        return self.done == self.planned


@dataclass(frozen=True)
class Standing:
    """A whole results folder."""

    problems: dict[Problem, list[Branch]]

    def count(self, what: str) -> int:
        """All runs that are ``planned``, ``done``, ``diverged``, ``failed``, ``running`` or ``missing``."""
        return sum(
            getattr(branch, what) for branches in self.problems.values() for branch in branches
        )

    @property
    def counts(self) -> dict[str, int]:
        """What ``status --json`` prints: ``done`` counts diverged runs, ``missing`` those that are running."""
        counts = {name: self.count(name) for name in ("planned", "done", "diverged", "failed")}
        return counts | {"missing": counts["planned"] - counts["done"] - counts["failed"]}

    @property
    def over(self) -> bool:
        """Is nothing missing, and nothing running?"""
        return not self.count("missing") and not self.count("running")

    @property
    def line(self) -> str:
        """The counts in one line."""
        counts = self.counts
        asides = {
            "done": (counts.pop("diverged"), "diverged"),
            "missing": (self.count("running"), "of them running"),
        }
        words = []
        for name, count in counts.items():
            part, what = asides.get(name, (0, ""))
            words.append(f"{name} {count}" + (f" ({part} {what})" if part else ""))
        return "  ".join(words)


def standing(store: Results, runs: Mapping[str, dict[str, Any]] | None = None) -> Standing:
    """Look at a results folder; ``runs`` are its planned ones if they are known already."""
    outcomes = store.outcomes()
    diverged, failed = store.diverged(outcomes), store.failed(outcomes)
    active, begun = running(store.path), store.runs_with_state()
    facts = (
        {run: _facts(note) for note in store.failures() for run in note["runs"]} if failed else {}
    )
    problems: dict[Problem, dict[str, Branch]] = {}
    for run, row in (planned(store) if runs is None else runs).items():
        branches = problems.setdefault(Problem.from_columns(row), {})
        branch = branches.setdefault(row["algorithm"], Branch(row["algorithm"]))
        branch.planned += 1
        if run in outcomes:  # perhaps at a second attempt
            branch.done += 1
            if run in diverged:
                branch.divergences.append(int(diverged[run].split()[-1]))
        elif run in active:
            branch.running += 1
        elif run in failed:
            branch.failed += 1
            branch.reasons.append(failed[run] + facts.get(run, ""))
        else:
            branch.begun += run in begun
    return Standing({problem: list(branches.values()) for problem, branches in problems.items()})


def _facts(note: dict[str, Any]) -> str:
    """Where a fleet failed, after how long, at which attempt."""
    if "machine" not in note:
        return ""
    again = f", attempt {note['attempt']}" if note.get("attempt", 1) > 1 else ""
    return f" [on {note['machine']} after {note.get('seconds', 0):.0f} s{again}]"


def tree(current: Standing, short: bool = False) -> Tree:
    """The tree for the terminal; ``short`` leaves out algorithms of which everything is done."""
    from rich.text import Text
    from rich.tree import Tree

    root = Tree(Text(current.line, style="bold"))
    for problem, branches in current.problems.items():
        done, total = (
            sum(branch.done for branch in branches),
            sum(branch.planned for branch in branches),
        )
        node = root.add(Text(f"{problem.label(prior=True)}: {done} of {total} done"))
        width = max(len(branch.algorithm) for branch in branches)
        for branch in branches:
            if not (short and branch.complete):
                leaf = node.add(_line(branch, width))
                for reason in grouped(branch.reasons):
                    leaf.add(Text(f"failed: {reason}", style="red"))
    return root


def grouped(reasons: list[str]) -> list[str]:
    """Reasons with how often each occurs, most frequent first; of many the first few."""
    texts = [
        f"{count} x {reason}" if count > 1 else reason
        for reason, count in Counter(reasons).most_common()
    ]
    rest = len(texts) - REASONS
    return [*texts[:REASONS], f"{rest} more reasons"] if rest > 0 else texts


def _line(branch: Branch, width: int) -> Text:
    from rich.text import Text

    line = Text(f"{branch.algorithm:<{width}}  ")
    line.append(f"{branch.done} of {branch.planned} done", style="green" if branch.complete else "")
    if branch.divergences:
        first, last = min(branch.divergences), max(branch.divergences)
        steps = f"at step {first}" if first == last else f"at steps {first} to {last}"
        line.append(f" ({branch.diverged} diverged {steps})", style="magenta")
    for count, word, style in (
        (branch.running, "running", "cyan"),
        (branch.failed, "failed", "red"),
        (branch.missing, "missing", "yellow"),
    ):
        if count:
            line.append(", ").append(f"{count} {word}", style=style)
    if branch.begun:
        line.append(f" ({branch.begun} begun)", style="yellow")
    return line


def show(store: Results, console: Console | None = None) -> Standing:
    """Print the tree."""
    from rich.console import Console

    current = standing(store)
    (console or Console()).print(tree(current), soft_wrap=True)
    return current


def watch(store: Results, every: float = 2.0, console: Console | None = None) -> Standing:
    """Show the tree and keep it up to date until nothing is missing; an interrupt ends it, too."""
    from rich.console import Console
    from rich.live import Live

    runs = planned(store)
    current = standing(store, runs)
    with Live(tree(current, short=True), console=console or Console(), auto_refresh=False) as live:
        try:
            while not current.over:
                time.sleep(every)
                current = standing(store, runs)
                live.update(tree(current, short=True), refresh=True)
        except KeyboardInterrupt:
            pass
    return current
