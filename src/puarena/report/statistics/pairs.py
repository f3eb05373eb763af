"""Pairs of algorithms: signed-rank tests, and paired differences with bootstrap intervals.

Scores are frames as in ``ranking``; differences are those of the numbers as shown, whichever direction is better.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from puarena.report.statistics.results import ALPHA, DRAWS, Interval, Intervals, Pair, Wilcoxon

if TYPE_CHECKING:
    from pandas import DataFrame

LEAST_PAIRS = 6  # for a signed-rank test: with five pairs p cannot fall below 0.0625
LEAST_SPLITS = 3  # of a problem, to draw them again


def wilcoxon(scores: DataFrame, reference: str | None = None, alpha: float = ALPHA) -> Wilcoxon:
    """Two-sided signed-rank tests (equal results count half for each side) with Holm's correction."""
    from scipy import stats

    n, k = scores.shape
    if k < 2 or n < LEAST_PAIRS:
        few, least, count = ("algorithms", 2, k) if k < 2 else ("blocks", LEAST_PAIRS, n)
        note = f"No number for Wilcoxon's signed-rank test: it needs {least} {few}, and there are {count}."
        return Wilcoxon(n, (), alpha, note)
    tests = []
    for a, b in combinations(scores.columns, 2):
        if reference not in (None, a, b):
            continue
        first, second = (b, a) if b == reference else (a, b)
        gaps = (scores[first] - scores[second]).to_numpy()
        if gaps.any():
            test = stats.wilcoxon(gaps, zero_method="zsplit")
            tests.append((str(first), str(second), float(gaps.mean()), float(test.statistic), float(test.pvalue)))
        else:
            tests.append((str(first), str(second), 0.0, n * (n + 1) / 4, 1.0))
    corrected = holm([p for *_, p in tests])
    pairs = [Pair(a, b, n, gap, t, p, q) for (a, b, gap, t, p), q in zip(tests, corrected, strict=True)]
    return Wilcoxon(n, tuple(sorted(pairs, key=lambda pair: (pair.p, pair.a, pair.b))), alpha)


def holm(p: Sequence[float]) -> list[float]:
    """Holm's step-down correction: adjusted p-values in the given order."""
    adjusted, largest = [0.0] * len(p), 0.0
    for place, i in enumerate(sorted(range(len(p)), key=lambda i: p[i])):
        largest = max(largest, min(1.0, (len(p) - place) * p[i]))
        adjusted[i] = largest
    return adjusted


def differences(scores: DataFrame, reference: str, seed: int = 0, higher: bool = True) -> Intervals:
    """Mean paired differences from ``reference`` over splits; intervals from drawing each problem's splits again.

    ``scores`` has a line per problem and split; every problem counts the same. The best comes first.
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
    items.sort(key=lambda item: (-item.value if higher else item.value, item.algorithm))
    return Intervals(tuple(items), n, reference=reference, note=note)
