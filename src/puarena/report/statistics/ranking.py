"""Ranks of algorithms over blocks, and the tests of many algorithms at once.

Every function takes scores as a frame, one line per block (a problem, or a problem and a split) and one column per
algorithm; ``higher`` says whether more is better. Where results are too few for a number there is none, and ``note``
says so. The tests are those of Demšar, "Statistical comparisons of classifiers over multiple data sets", JMLR 7, 2006.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

from puarena.report.statistics.draws import DIGITS
from puarena.report.statistics.results import ALPHA, DRAWS, Friedman, Interval, Intervals, Nemenyi

if TYPE_CHECKING:
    from pandas import DataFrame

LEAST_ALGORITHMS = 3  # for tests of many algorithms at once
LEAST_BLOCKS = 5  # for these tests, and to draw blocks again


def ranks(scores: DataFrame, higher: bool = True) -> DataFrame:
    """The rank of every algorithm in every block: 1 is the best, ties (to nine digits) share the mean."""
    return scores.round(DIGITS).rank(axis=1, ascending=not higher, method="average")


def mean_ranks(scores: DataFrame, seed: int = 0, higher: bool = True) -> Intervals:
    """Mean ranks, best first, with percentile intervals from drawing the blocks again (always the same draws)."""
    import numpy as np

    n, k = scores.shape
    if not n or not k:
        return Intervals((), n, note="There is no block in which every algorithm has a result.")
    table = ranks(scores, higher)
    low = high = np.full(k, math.nan)
    note = ""
    if n >= LEAST_BLOCKS:
        weights = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), size=DRAWS) / n
        low, high = np.quantile(weights @ table.to_numpy(), [ALPHA / 2, 1 - ALPHA / 2], axis=0)
    else:
        note = f"No intervals of mean ranks: they need {LEAST_BLOCKS} blocks, and there are {n}."
    means = table.mean().to_numpy()
    numbers = zip(table.columns, means, low, high, strict=True)
    items = [
        Interval(str(name), float(mean), float(a), float(b), n) for name, mean, a, b in numbers
    ]
    return Intervals(
        tuple(sorted(items, key=lambda item: (item.value, item.algorithm))), n, note=note
    )


def friedman(scores: DataFrame, higher: bool = True) -> Friedman:
    """Friedman's test, with the correction for ties, and its F form after Iman and Davenport."""
    from scipy import stats

    n, k = scores.shape
    note = _too_few("Friedman's test", n, k)
    if note:
        return Friedman(k, n, note=note)
    table = ranks(scores, higher).to_numpy()
    means = table.mean(0)
    plain = 12 * n / (k * (k + 1)) * float(((means - (k + 1) / 2) ** 2).sum())
    spread = float(((table - (k + 1) / 2) ** 2).sum()) / (
        n * k * (k * k - 1) / 12
    )  # 1 without ties
    if not spread:
        return Friedman(
            k, n, note=f"Friedman's test has no answer: all algorithms are tied in all {n} blocks."
        )
    chi2 = plain / spread
    rest = n * (k - 1) - chi2
    f = (n - 1) * chi2 / rest if rest > 1e-9 else math.inf
    p, f_p = stats.chi2.sf(chi2, k - 1), stats.f.sf(f, k - 1, (k - 1) * (n - 1))
    return Friedman(k, n, chi2, float(p), f, float(f_p), plain)


def nemenyi(scores: DataFrame, alpha: float = ALPHA, higher: bool = True) -> Nemenyi:
    """The critical difference of mean ranks, and which algorithms it cannot tell apart."""
    n, k = scores.shape
    note = _too_few("the Nemenyi test", n, k)
    if note:
        return Nemenyi(k, n, alpha, note=note)
    q = _studentized(k, alpha)
    distance = q * math.sqrt(k * (k + 1) / (6 * n))
    means = ranks(scores, higher).mean().sort_values(kind="stable")
    groups: list[tuple[str, ...]] = []
    end = 0
    for start in range(k):
        stop = max(i for i in range(start, k) if means.iloc[i] - means.iloc[start] < distance) + 1
        if stop > end and stop - start > 1:
            groups.append(tuple(map(str, means.index[start:stop])))
        end = max(end, stop)
    return Nemenyi(k, n, alpha, q, distance, tuple(groups))


@lru_cache(maxsize=64)  # the page asks for the same one with every chart
def _studentized(k: int, alpha: float) -> float:
    """The quantile of the studentized range for ``k`` algorithms, over the root of two."""
    from scipy.stats import studentized_range

    return float(studentized_range.ppf(1 - alpha, k, math.inf)) / math.sqrt(2)


def _too_few(what: str, n: int, k: int) -> str:
    """A sentence if a test of many algorithms makes no sense; else nothing."""
    if k < LEAST_ALGORITHMS:
        return f"No number for {what}: it needs {LEAST_ALGORITHMS} algorithms, and there are {k}."
    if n < LEAST_BLOCKS:
        return f"No number for {what}: it needs {LEAST_BLOCKS} blocks, and there are {n}."
    return ""
