"""Where an experiment stands: per problem and algorithm, how many runs are done, running, failed and missing."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from puarena.bench.beacon import running
from puarena.bench.unite import planned
from puarena.data import labelling

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text
    from rich.tree import Tree

    from puarena.bench.plan import RunSpec
    from puarena.data import Problem
    from puarena.store import Store

REASONS = 5  # shown of one algorithm


@dataclass
class Branch:
    """One algorithm on one problem."""

    algorithm: str
    planned: int = 0
    done: int = 0
    failed: int = 0
    running: int = 0
    begun: int = 0  # missing, and interrupted after a state was kept
    reasons: list[str] = field(default_factory=list)

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
        """All runs that are ``planned``, ``done``, ``failed``, ``running`` or ``missing``."""
        return sum(getattr(branch, what) for branches in self.problems.values() for branch in branches)

    @property
    def counts(self) -> dict[str, int]:
        """What ``status --json`` prints; a running run is still missing."""
        found = {name: self.count(name) for name in ("planned", "done", "failed")}
        return found | {"missing": found["planned"] - found["done"] - found["failed"]}

    @property
    def over(self) -> bool:
        """Is nothing missing, and nothing running?"""
        return not self.count("missing") and not self.count("running")

    @property
    def line(self) -> str:
        """The counts in one line."""
        words = [f"{name} {count}" for name, count in self.counts.items()]
        active = self.count("running")
        return "  ".join(words) + (f"  ({active} of them running)" if active else "")


def standing(store: Store, runs: Sequence[RunSpec] | None = None) -> Standing:
    """Look at a results folder; ``runs`` are its planned ones if they are known already."""
    outcomes = store.outcomes()
    failed = store.failed(outcomes)
    active, begun = running(store.path), store.runs_with_state()
    problems: dict[Problem, dict[str, Branch]] = {}
    for run in planned(store) if runs is None else runs:
        branch = problems.setdefault(run.problem, {}).setdefault(run.algorithm, Branch(run.algorithm))
        branch.planned += 1
        if run.run_id in active and run.run_id not in outcomes:  # perhaps a second attempt
            branch.running += 1
        elif run.run_id in failed:
            branch.failed += 1
            branch.reasons.append(failed[run.run_id])
        elif run.run_id in outcomes:
            branch.done += 1
        else:
            branch.begun += run.run_id in begun
    return Standing({problem: list(branches.values()) for problem, branches in problems.items()})


def grouped(reasons: list[str]) -> list[str]:
    """Reasons with how often each occurs; runs that diverged are one reason, with the first and the last step."""
    steps = sorted(int(found[1]) for found in (re.fullmatch(r"diverged at step (\d+)", r) for r in reasons) if found)
    others = Counter(reason for reason in reasons if not re.fullmatch(r"diverged at step \d+", reason))
    told = [f"{count} x {reason}" if count > 1 else reason for reason, count in others.most_common()]
    if steps:
        several = f"{len(steps)} x diverged at steps {steps[0]} to {steps[-1]}"
        told.append(f"diverged at step {steps[0]}" if len(steps) == 1 else several)
    return told


def tree(found: Standing, short: bool = False) -> Tree:
    """The tree for the terminal; ``short`` leaves out algorithms of which everything is done."""
    from rich.text import Text
    from rich.tree import Tree

    root = Tree(Text(found.line, style="bold"))
    for problem, branches in found.problems.items():
        where = f"{problem.dataset}, case {problem.case}, {labelling.get(problem.setting).short}, rate {problem.rate:g}"
        prior = "" if problem.prior is None else f", prior {problem.prior:.3g}"
        done, total = sum(branch.done for branch in branches), sum(branch.planned for branch in branches)
        node = root.add(Text(f"{where}{prior}: {done} of {total} done"))
        width = max(len(branch.algorithm) for branch in branches)
        for branch in branches:
            if short and branch.complete:
                continue
            leaf = node.add(_line(branch, width))
            reasons = grouped(branch.reasons)
            for reason in reasons[:REASONS]:
                leaf.add(Text(f"failed: {reason}", style="red"))
            if len(reasons) > REASONS:
                leaf.add(Text(f"failed: {len(reasons) - REASONS} more reasons", style="red"))
    return root


def _line(branch: Branch, width: int) -> Text:
    from rich.text import Text

    line = Text(f"{branch.algorithm:<{width}}  ")
    line.append(f"{branch.done} of {branch.planned} done", style="green" if branch.complete else "")
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


def show(store: Store, console: Console | None = None) -> Standing:
    """Print the tree."""
    from rich.console import Console

    found = standing(store)
    (console or Console()).print(tree(found), soft_wrap=True)
    return found


def watch(store: Store, every: float = 2.0, console: Console | None = None) -> Standing:
    """Show the tree and keep it up to date until nothing is missing; an interrupt ends it, too."""
    from rich.console import Console
    from rich.live import Live

    runs = planned(store)
    found = standing(store, runs)
    with Live(tree(found, short=True), console=console or Console(), auto_refresh=False) as live:
        try:
            while not found.over:
                time.sleep(every)
                found = standing(store, runs)
                live.update(tree(found, short=True), refresh=True)
        except KeyboardInterrupt:
            pass
    return found
