"""Which differences between algorithms are more than chance: ranks, tests and intervals, each with its n.

Every function takes scores as a frame, one line per block (a problem, or a problem and a split) and one column per
algorithm, larger is better. Where results are too few for a number there is none, and ``note`` says so.
The tests are those of Demšar, "Statistical comparisons of classifiers over multiple data sets", JMLR 7, 2006.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from puarena.data import labelling
from puarena.errors import UserError, unknown
from puarena.report.select import CRITERIA, METRICS, PROBLEM, default_criteria, names, opened, select
from puarena.report.statistics_results import (
    ALPHA,
    Friedman,
    Interval,
    Intervals,
    Nemenyi,
    Pair,
    Statistics,
    Wilcoxon,
)
from puarena.report.table import ORACLE, Row

if TYPE_CHECKING:
    from pandas import DataFrame

    from puarena.report.select import Source

OVER = {"problems": "problems", "splits": "splits of problems"}
LEAST_ALGORITHMS = 3  # for tests of many algorithms at once
LEAST_BLOCKS = 5  # for these tests, and to draw blocks again
LEAST_PAIRS = 6  # for a signed-rank test: with five pairs p cannot fall below 0.0625
LEAST_SPLITS = 3  # of a problem, to draw them again
DRAWS = 10_000  # bootstrap samples


# from the store to scores


def scores(
    source: Source,
    metric: str = "accuracy",
    criterion: str = "pa",
    over: str = "problems",
    algorithms: Sequence[str] | None = None,
) -> DataFrame:
    """Test results in percent: a line per block, a column per algorithm, NaN where there is none.

    The oracle, which sees the true labels, takes part only if it is among ``algorithms``.
    """
    (metric,) = names("metric", metric, METRICS, ())
    (criterion,) = names("criterion", criterion, CRITERIA, ())
    if over not in OVER:
        raise unknown("kind of block", over, OVER)
    return _scores(select(source, [criterion]), metric, criterion, over, algorithms)


def _scores(
    selection: DataFrame, metric: str, criterion: str, over: str, algorithms: Sequence[str] | None
) -> DataFrame:
    """Scores out of a selection by several criteria."""
    chosen = selection[selection["criterion"] == criterion]
    if algorithms is None:
        chosen = chosen[chosen["algorithm"] != ORACLE]
    else:
        for name in algorithms:
            if name not in set(chosen["algorithm"]):
                raise unknown("algorithm", name, chosen["algorithm"])
        chosen = chosen[chosen["algorithm"].isin(list(algorithms))]
    label = [Row(a, p, ()).label for a, p in zip(chosen["algorithm"], chosen["profile"], strict=True)]
    problem = [_problem(*values) for values in chosen[list(PROBLEM)].itertuples(index=False)]
    long = chosen.assign(label=label, problem=problem, score=100 * chosen[METRICS[metric]].astype(float))
    index = ["problem"] if over == "problems" else ["problem", "split"]
    table: DataFrame = long.groupby([*index, "label"])["score"].mean().unstack("label")
    return table


def _problem(dataset: str, case: int, setting: str, rate: float, prior: float) -> str:
    known = "" if math.isnan(prior) else f", prior {prior:.3g}"
    return f"{dataset}, case {case}, {labelling.get(setting).short}, rate {rate:.3g}{known}"


def _complete(scores: DataFrame) -> tuple[DataFrame, list[str]]:
    """Only the blocks in which every algorithm has a result, and a sentence about the others."""
    full = scores.dropna(axis=0, how="any")
    lacking = scores.columns[scores.isna().any()]
    if len(full) == len(scores):
        return full, []
    listed = ", ".join(lacking[:5]) + (", ..." if len(lacking) > 5 else "")
    left_out = len(scores) - len(full)
    return full, [
        f"{left_out} of {len(scores)} blocks left out because an algorithm has no result there ({listed}); "
        "--algorithms chooses others."
    ]


def statistics(
    source: Source,
    metrics: Iterable[str] | str | None = None,
    criteria: Iterable[str] | str | None = None,
    over: str = "problems",
    algorithms: Sequence[str] | None = None,
    reference: str | None = None,
    seed: int = 0,
) -> list[Statistics]:
    """All statistics per metric (accuracy unless told) and criterion (those of the profile unless told).

    Blocks are the problems, or, ``over="splits"``, the splits of all problems. ``reference``: test pairs with this
    algorithm only, and take differences from it (from the algorithm of the best mean rank unless told).
    """
    source = opened(source)
    chosen = names("metric", metrics, METRICS, ("accuracy",))
    by = names("criterion", criteria, CRITERIA, default_criteria(source))
    if over not in OVER:
        raise unknown("kind of block", over, OVER)
    selection = select(source, by)
    found = []
    for metric in chosen:
        for criterion in by:
            blocks, notes = _complete(_scores(selection, metric, criterion, over, algorithms))
            splits, _ = _complete(_scores(selection, metric, criterion, "splits", algorithms))
            if over == "splits":
                notes.append("Splits of one problem share data: such tests find differences too easily.")
            found.append(_all(metric, criterion, over, blocks, splits, notes, reference, seed))
    return found


def _all(
    metric: str,
    criterion: str,
    over: str,
    blocks: DataFrame,
    splits: DataFrame,
    notes: list[str],
    reference: str | None,
    seed: int,
) -> Statistics:
    order = mean_ranks(blocks, seed)
    listed = tuple(item.algorithm for item in order.items)
    if reference is not None and reference not in listed:
        raise (
            unknown("algorithm", reference, listed)
            if listed
            else UserError(f"'{reference}' cannot be compared: no block has a result of every algorithm")
        )
    return Statistics(
        metric=metric,
        criterion=criterion,
        over=over,
        algorithms=listed,
        blocks=tuple(name if isinstance(name, str) else f"{name[0]}, split {name[1]}" for name in blocks.index),
        ranks=order,
        friedman=friedman(blocks),
        nemenyi=nemenyi(blocks),
        wilcoxon=wilcoxon(blocks, reference),
        differences=differences(splits, reference or (listed[0] if listed else ""), seed),
        notes=tuple(notes),
    )


# ranks


def ranks(scores: DataFrame) -> DataFrame:
    """The rank of every algorithm in every block: 1 is the best, ties share the mean of their ranks."""
    return scores.rank(axis=1, ascending=False, method="average")


def mean_ranks(scores: DataFrame, seed: int = 0) -> Intervals:
    """Mean ranks, best first, with percentile intervals from drawing the blocks again (always the same draws)."""
    import numpy as np

    n, k = scores.shape
    if not n or not k:
        return Intervals((), n, note="There is no block in which every algorithm has a result.")
    table = ranks(scores)
    low = high = np.full(k, math.nan)
    note = ""
    if n >= LEAST_BLOCKS:
        weights = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), size=DRAWS) / n
        low, high = np.quantile(weights @ table.to_numpy(), [ALPHA / 2, 1 - ALPHA / 2], axis=0)
    else:
        note = f"No intervals of mean ranks: they need {LEAST_BLOCKS} blocks, and there are {n}."
    means = table.mean().to_numpy()
    numbers = zip(table.columns, means, low, high, strict=True)
    items = [Interval(str(name), float(mean), float(a), float(b), n) for name, mean, a, b in numbers]
    return Intervals(tuple(sorted(items, key=lambda item: (item.value, item.algorithm))), n, note=note)


def friedman(scores: DataFrame) -> Friedman:
    """Friedman's test, with the correction for ties, and its F form after Iman and Davenport."""
    from scipy import stats

    n, k = scores.shape
    note = _too_few("Friedman's test", n, k)
    if note:
        return Friedman(k, n, note=note)
    table = ranks(scores).to_numpy()
    means = table.mean(0)
    plain = 12 * n / (k * (k + 1)) * float(((means - (k + 1) / 2) ** 2).sum())
    spread = float(((table - (k + 1) / 2) ** 2).sum()) / (n * k * (k * k - 1) / 12)  # 1 without ties
    if not spread:
        return Friedman(k, n, note=f"Friedman's test has no answer: all algorithms are tied in all {n} blocks.")
    chi2 = plain / spread
    rest = n * (k - 1) - chi2
    f = (n - 1) * chi2 / rest if rest > 1e-9 else math.inf
    p, f_p = stats.chi2.sf(chi2, k - 1), stats.f.sf(f, k - 1, (k - 1) * (n - 1))
    return Friedman(k, n, chi2, float(p), f, float(f_p), plain)


def nemenyi(scores: DataFrame, alpha: float = ALPHA) -> Nemenyi:
    """The critical difference of mean ranks, and which algorithms it cannot tell apart."""
    from scipy.stats import studentized_range

    n, k = scores.shape
    note = _too_few("the Nemenyi test", n, k)
    if note:
        return Nemenyi(k, n, alpha, note=note)
    q = float(studentized_range.ppf(1 - alpha, k, math.inf)) / math.sqrt(2)
    distance = q * math.sqrt(k * (k + 1) / (6 * n))
    means = ranks(scores).mean().sort_values(kind="stable")
    groups: list[tuple[str, ...]] = []
    end = 0
    for start in range(k):
        stop = max(i for i in range(start, k) if means.iloc[i] - means.iloc[start] < distance) + 1
        if stop > end and stop - start > 1:
            groups.append(tuple(map(str, means.index[start:stop])))
        end = max(end, stop)
    return Nemenyi(k, n, alpha, q, distance, tuple(groups))


def _too_few(what: str, n: int, k: int) -> str:
    """A sentence if a test of many algorithms makes no sense; else nothing."""
    if k < LEAST_ALGORITHMS:
        return f"No number for {what}: it needs {LEAST_ALGORITHMS} algorithms, and there are {k}."
    if n < LEAST_BLOCKS:
        return f"No number for {what}: it needs {LEAST_BLOCKS} blocks, and there are {n}."
    return ""


# pairs


def wilcoxon(scores: DataFrame, reference: str | None = None, alpha: float = ALPHA) -> Wilcoxon:
    """Two-sided signed-rank tests (equal results count half for each side) with Holm's correction."""
    from scipy import stats

    n, k = scores.shape
    if k < 2 or n < LEAST_PAIRS:
        few, least, there = ("algorithms", 2, k) if k < 2 else ("blocks", LEAST_PAIRS, n)
        note = f"No number for Wilcoxon's signed-rank test: it needs {least} {few}, and there are {there}."
        return Wilcoxon(n, (), alpha, note)
    found = []
    for a, b in combinations(scores.columns, 2):
        if reference not in (None, a, b):
            continue
        first, second = (b, a) if b == reference else (a, b)
        gaps = (scores[first] - scores[second]).to_numpy()
        if gaps.any():
            test = stats.wilcoxon(gaps, zero_method="zsplit")
            found.append((str(first), str(second), float(gaps.mean()), float(test.statistic), float(test.pvalue)))
        else:
            found.append((str(first), str(second), 0.0, n * (n + 1) / 4, 1.0))
    corrected = holm([p for *_, p in found])
    pairs = [Pair(a, b, n, gap, t, p, q) for (a, b, gap, t, p), q in zip(found, corrected, strict=True)]
    return Wilcoxon(n, tuple(sorted(pairs, key=lambda pair: (pair.p, pair.a, pair.b))), alpha)


def holm(p: Sequence[float]) -> list[float]:
    """Holm's step-down correction: adjusted p-values in the given order."""
    adjusted, largest = [0.0] * len(p), 0.0
    for place, i in enumerate(sorted(range(len(p)), key=lambda i: p[i])):
        largest = max(largest, min(1.0, (len(p) - place) * p[i]))
        adjusted[i] = largest
    return adjusted


def differences(scores: DataFrame, reference: str, seed: int = 0) -> Intervals:
    """Mean paired differences from ``reference`` over splits; intervals from drawing each problem's splits again.

    ``scores`` has a line per problem and split; every problem counts the same.
    """
    import numpy as np

    n = len(scores)
    if reference not in scores.columns or not n:
        return Intervals((), n, reference=reference, note="No differences: no split has a result of every algorithm.")
    others = [name for name in scores.columns if name != reference]
    gaps = scores[others].sub(scores[reference], axis=0)
    parts = [part.to_numpy() for _, part in gaps.groupby(level=0)]
    means = np.mean([part.mean(0) for part in parts], axis=0)
    low = high = np.full(len(others), math.nan)
    least = min(map(len, parts))
    note = ""
    if least < LEAST_SPLITS or n < LEAST_PAIRS:
        note = (
            f"No intervals of differences: they need {LEAST_SPLITS} splits of each problem and {LEAST_PAIRS} in all, "
            f"and there are {least} and {n}."
        )
    else:
        random = np.random.default_rng(seed)
        drawn = np.zeros((DRAWS, len(others)))
        for part in parts:
            m = len(part)
            drawn += random.multinomial(m, np.full(m, 1 / m), size=DRAWS) @ part / m
        low, high = np.quantile(drawn / len(parts), [ALPHA / 2, 1 - ALPHA / 2], axis=0)
    numbers = zip(others, means, low, high, strict=True)
    items = [Interval(str(name), float(mean), float(a), float(b), n) for name, mean, a, b in numbers]
    items.sort(key=lambda item: (-item.value, item.algorithm))
    return Intervals(tuple(items), n, reference=reference, note=note)
