"""Statistics as text: the verdict, tables of places and of amounts, and a sentence per test."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from puarena.metrics import METRICS
from puarena.report.statistics.results import OVER, Intervals, Standings, Statistics

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
        about = [verdict(item.standings, item.metric), item.standings.note]
        console.print(Text(" ".join(dict.fromkeys(about))))
        if item.standings.items:
            console.print(_places(item))
            if item.differences.reference != item.standings.items[0].algorithm:
                console.print(_gaps(item))
            console.print(_amounts(item))
        for line in sentences(item):
            console.print(Text(line))
        console.print()


def verdict(standings: Standings, metric: str) -> str:
    """Who has the best mean, and how many cannot be told apart from it, in one sentence."""
    record, items = METRICS[metric], standings.items
    if not items:
        return standings.note
    equal = [item.algorithm for item in items if item.mean == items[0].mean]
    several = len(equal) > 1
    names = f"{', '.join(equal[:-1])} and {equal[-1]}" if several else equal[0]
    first = f"{names} {'have' if several else 'has'} the {'highest' if record.higher else 'lowest'} mean {record.inline}"
    value = f"{items[0].mean:.{record.decimals}f}"
    others = len(items) - len(equal)
    tied, it = len(standings.tied) - len(equal), "them" if several else "it"
    if not others:
        rest = "there is no other method to compare with"
    elif not standings.unit:
        rest = f"the results are too few to say who can be told apart from {it}"
    elif not tied:
        who = f"all {others} other methods are" if others > 1 else "the other method is"
        where = (
            " on these problems" if standings.unit == "splits" else ""
        )  # nothing is known of other datasets
        rest = f"{who} behind by more than chance{where}"
    elif tied == 1:
        rest = f"1 other method cannot be told apart from {it}"
    else:
        rest = f"{tied} other methods cannot be told apart from {it}"
    low, high = standings.splits
    splits = (
        f"{low} split{'s' * (low != 1)} each" if low == high else f"{low} to {high} splits each"
    )
    problems = f"{standings.n} problem{'s' * (standings.n != 1)}"
    datasets = f"{standings.datasets} dataset{'s' * (standings.datasets != 1)}"
    return f"{first}, {value}; {rest} (n = {problems} of {datasets}, {splits})."


def place(rank: float, ranks: Sequence[float]) -> str:
    """A rank as a place: ``3``, or ``2=`` where several share it."""
    return f"{1 + sum(other < rank for other in ranks)}{'=' * (ranks.count(rank) > 1)}"


def places(low: float, high: float) -> str:
    """The interval of a place."""
    if math.isnan(low):
        return "--"
    first, last = math.floor(low), math.ceil(high)
    return f"{first}" if first == last else f"{first} to {last}"


def _grid(*heads: str) -> Any:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    grid.add_column("", no_wrap=True)
    for head in heads:
        grid.add_column(Text(head, overflow="fold"), justify="right")
    return grid


def _places(item: Statistics) -> Any:
    """Places by the mean, and who is tied with the best."""
    from rich.text import Text

    digits, standings = METRICS[item.metric].decimals, item.standings
    grid = _grid("place", "95% interval", "mean", "from the best", "95% interval", "")
    ranks = [row.rank for row in standings.items]
    for row in standings.items:
        best = row is standings.items[0]
        gap = (
            ("", "")
            if best
            else (_points(row.difference, item), _interval(row.low, row.high, digits))
        )
        tied = "tied with the best" if row.tied and not best else ""
        numbers = (
            place(row.rank, ranks),
            places(row.rank_low, row.rank_high),
            f"{row.mean:.{digits}f}",
            *gap,
            tied,
        )
        grid.add_row(Text(row.algorithm), *map(Text, numbers))
    return grid


def _gaps(item: Statistics) -> Any:
    """Differences from an algorithm that was asked for."""
    from rich.text import Text

    metric = METRICS[item.metric]
    unit = "points" if metric.percent else metric.inline
    grid = _grid(f"{unit} from {item.differences.reference}", "95% interval")
    for gap in item.differences.items:
        numbers = (_points(gap.value, item), _interval(gap.low, gap.high, metric.decimals))
        grid.add_row(Text(gap.algorithm), *map(Text, numbers))
    return grid


def _amounts(item: Statistics) -> Any:
    """Mean rank, Elo, gap closed, improvability, interquartile mean, and the duels with the reference."""
    from rich.text import Text

    digits, other = METRICS[item.metric].decimals, item.differences.reference
    heads = (
        "mean rank",
        "95%",
        "Elo",
        "95%",
        "gap closed",
        "improvable",
        "IQM",
        "won, tied, lost",
        "better, same, worse",
    )
    ranks = {rank.algorithm: rank for rank in item.ranks.items}
    closed, improvable, middle = (
        _by_name(part) for part in (item.gap_closed, item.improvability, item.iqm)
    )
    duels = {(duel.a, duel.b): (duel.wins, duel.ties, duel.losses) for duel in item.duels}
    chances = {post.algorithm: post for post in item.signed_rank.items}
    lines = []
    for row in item.elo.items:
        name = row.algorithm
        duel = duels.get((name, other)) or tuple(reversed(duels.get((other, name), ())))
        chance = chances.get(name)
        rank = ranks[name]
        numbers = (
            f"{rank.value:.2f}",
            _interval(rank.low, rank.high, 1),
            f"{row.value:.0f}",
            _interval(row.low, row.high, 0),
            _share(closed.get(name)),
            _share(improvable.get(name)),
            f"{middle[name]:.{digits}f}" if name in middle else "--",
            "-".join(map(str, duel)),
            f"{chance.better:.2f}, {chance.same:.2f}, {chance.worse:.2f}" if chance else "",
        )
        lines.append((name, numbers))
    told = [
        i for i in range(len(heads)) if any(numbers[i] not in ("", "--") for _, numbers in lines)
    ]
    grid = _grid(*(heads[i] for i in told))
    for name, numbers in lines:
        # A number is never cut: where there is no room it goes on in the next line.
        grid.add_row(Text(name), *(Text(numbers[i], overflow="fold") for i in told))
    return grid


def _by_name(intervals: Intervals) -> dict[str, float]:
    return {item.algorithm: item.value for item in intervals.items}


def _share(value: float | None) -> str:
    return "--" if value is None or math.isnan(value) else f"{100 * value:.1f}%"


def sentences(item: Statistics) -> list[str]:
    """What the tests say, each with its n; and why where they say nothing."""
    blocks = OVER[item.over]
    lines = [
        f"Mean ranks over n = {item.n} {blocks} (1 is best); intervals from drawing them again."
    ]
    if item.ranks.note:
        lines = [
            item.ranks.note
            if not item.ranks.items
            else f"{lines[0].partition(';')[0]}. {item.ranks.note}"
        ]
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
        some = "; ".join(
            f"{a} - {b} {_points(d, item)} ({_p(p)})" for a, b, d, p in _ordered(item)[:SHOWN]
        )
        more = f"; and {len(differ) - SHOWN} more" if len(differ) > SHOWN else ""
        lines.append(
            f"Wilcoxon with Holm's correction: {len(differ)} of {len(pairs.pairs)} pairs differ at {pairs.alpha:g} "
            f"(n = {pairs.n} {blocks}){': ' if differ else ''}{some}{more}."
        )
    gaps = item.differences
    lines.append(
        gaps.note
        or f"Differences over n = {gaps.n} splits; intervals from drawing each problem's splits again."
    )
    if item.over == "problems" and (friedman.note or pairs.note) and gaps.n > item.n:
        lines.append(f"--over splits would take the {gaps.n} splits as blocks.")
    return [*lines, *_about_amounts(item), *item.notes]


def _about_amounts(item: Statistics) -> list[str]:
    """What the last table shows, each with its n."""
    other, unit = (
        item.differences.reference,
        "points" if METRICS[item.metric].percent else METRICS[item.metric].inline,
    )
    zero = f"{item.elo.reference} has 1000" if item.elo.reference else "their mean is 1000"
    lines = [
        f"Elo from battles on n = {item.elo.n} problems, each counted once ({zero})."
        if item.elo.items
        else ""
    ]
    lines += [item.elo.note]
    if item.gap_closed.items:
        lines.append(
            f"Gap closed: the share of the way from the naive method to the one with all labels, "
            f"mean over n = {item.gap_closed.n} problems."
        )
    lines.append(item.gap_closed.note)
    if item.improvability.items:
        n = item.improvability.n
        lines.append(
            f"Improvable: the share of the error that the best does not make, mean over n = {n} problems."
        )
    lines.append(item.improvability.note)
    if item.iqm.items:
        lines.append(
            f"IQM: interquartile mean of n = {item.iqm.n} splits; won-tied-lost: problems, against {other}."
        )
    lines.append(item.iqm.note)
    bayes = item.signed_rank
    lines.append(
        bayes.note
        or f"Better, same, worse: Bayesian signed-rank test against {bayes.reference} over n = {bayes.n} {bayes.unit}; "
        f"up to {bayes.rope:g} {unit} counts as the same."
    )
    return [line for line in lines if line]


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
