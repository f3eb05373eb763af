"""Statistics as text for the terminal: a table of ranks, and a sentence per test."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from puarena.metrics import METRICS
from puarena.report.statistics.results import OVER, Statistics

if TYPE_CHECKING:
    from rich.console import Console

SHOWN = 20  # significant pairs listed one by one


def show_statistics(everything: Sequence[Statistics], console: Console | None = None) -> None:
    """Print the statistics of every metric and criterion."""
    from rich.console import Console
    from rich.text import Text

    console = console or Console()
    for item in everything:
        console.print(Text(item.title, style="bold"))
        if item.ranks.items:
            console.print(_ranks(item))
        for line in sentences(item):
            console.print(Text(line))
        console.print()


def _ranks(item: Statistics) -> object:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    metric = METRICS[item.metric]
    unit, digits = "points" if metric.percent else metric.inline, metric.decimals
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    grid.add_column("", no_wrap=True)
    for head in ("mean rank", "95% interval", f"{unit} from {item.differences.reference}", "95% interval"):
        grid.add_column(Text(head), justify="right")
    gaps = {gap.algorithm: gap for gap in item.differences.items}
    for rank in item.ranks.items:
        gap = gaps.get(rank.algorithm)
        points = [_points(gap.value, item), _interval(gap.low, gap.high, digits)] if gap else ["", ""]
        interval = _interval(rank.low, rank.high, 1)
        grid.add_row(Text(rank.algorithm), *map(Text, (f"{rank.value:.2f}", interval, *points)))
    return grid


def sentences(item: Statistics) -> list[str]:
    """What the tests say, each with its n; and why where they say nothing."""
    blocks = OVER[item.over]
    lines = [f"Mean ranks over n = {item.n} {blocks} (1 is best); intervals from drawing them again."]
    if item.ranks.note:
        lines = [item.ranks.note if not item.ranks.items else f"{lines[0].partition(';')[0]}. {item.ranks.note}"]
    friedman, nemenyi, pairs = item.friedman, item.nemenyi, item.wilcoxon
    size = f"n = {friedman.n} {blocks}, k = {friedman.k} algorithms"
    lines.append(
        friedman.note
        or f"Friedman: chi2 = {friedman.chi2:.2f}, {_p(friedman.p)}; F = {friedman.f:.2f}, {_p(friedman.f_p)} ({size})."
    )
    lines.append(
        nemenyi.note
        or f"Nemenyi: critical difference of mean ranks {nemenyi.critical_difference:.2f} "
        f"at {nemenyi.alpha:g} ({size})."
    )
    if pairs.note:
        lines.append(pairs.note)
    else:
        differ = pairs.significant
        some = "; ".join(f"{a} - {b} {_points(d, item)} ({_p(p)})" for a, b, d, p in _ordered(item)[:SHOWN])
        more = f"; and {len(differ) - SHOWN} more" if len(differ) > SHOWN else ""
        lines.append(
            f"Wilcoxon with Holm's correction: {len(differ)} of {len(pairs.pairs)} pairs differ at {pairs.alpha:g} "
            f"(n = {pairs.n} {blocks}){': ' if differ else ''}{some}{more}."
        )
    gaps = item.differences
    lines.append(
        gaps.note or f"Differences over n = {gaps.n} splits; intervals from drawing each problem's splits again."
    )
    if item.over == "problems" and (friedman.note or pairs.note) and gaps.n > item.n:
        lines.append(f"--over splits would take the {gaps.n} splits as blocks.")
    return [*lines, *item.notes]


def _ordered(item: Statistics) -> list[tuple[str, str, float, float]]:
    """The significant pairs, the better algorithm first."""
    pairs = [(pair.a, pair.b, pair.difference, pair.p_holm) for pair in item.wilcoxon.significant]
    sign = METRICS[item.metric].sign
    return [(a, b, d, p) if sign * d >= 0 else (b, a, -d, p) for a, b, d, p in pairs]


def _p(value: float) -> str:
    return "p < 0.0001" if value < 1e-4 else f"p = {value:.2g}"


def _points(value: float, item: Statistics) -> str:
    return f"{value:+.{METRICS[item.metric].decimals}f}"


def _interval(low: float, high: float, decimals: int) -> str:
    return "--" if math.isnan(low) else f"{low:.{decimals}f} to {high:.{decimals}f}"
