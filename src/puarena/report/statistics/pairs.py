"""Pairs of algorithms: signed-rank tests, and paired differences with bootstrap intervals.

Scores are frames as in ``ranking``; differences are those of the numbers as shown, whichever direction is better.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

from puarena.report.statistics.aggregates import improvement
from puarena.report.statistics.draws import DIGITS, LEAST_SPLITS, problem_means
from puarena.report.statistics.results import (
    ALPHA,
    DRAWS,
    Duel,
    Interval,
    Intervals,
    Pair,
    Wilcoxon,
)

if TYPE_CHECKING:
    from pandas import DataFrame

LEAST_PAIRS = 6  # for a signed-rank test: with five pairs p cannot fall below 0.0625


def wilcoxon(scores: DataFrame, reference: str | None = None, alpha: float = ALPHA) -> Wilcoxon:
    """Two-sided signed-rank tests (equal results count half for each side) with Holm's correction."""
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
        gaps = (scores[first] - scores[second]).to_numpy().round(DIGITS)
        tests.append((str(first), str(second), float(gaps.mean()), *_signed_rank(gaps)))
    corrected = holm([p for *_, p in tests])
    pairs = [
        Pair(a, b, n, gap, t, p, q) for (a, b, gap, t, p), q in zip(tests, corrected, strict=True)
    ]
    return Wilcoxon(n, tuple(sorted(pairs, key=lambda pair: (pair.p, pair.a, pair.b))), alpha)


def _signed_rank(gaps: Any) -> tuple[float, float]:
    """The statistic and its p-value; differences of zero count half for each side."""
    from scipy import stats

    if not gaps.any():
        return len(gaps) * (len(gaps) + 1) / 4, 1.0
    test = stats.wilcoxon(gaps, zero_method="zsplit")
    return float(test.statistic), float(test.pvalue)


def tallies(
    splits: DataFrame, higher: bool = True
) -> Iterator[tuple[int, int, Any, tuple[int, int, int]]]:
    """Every two columns: the gaps on the problems that both have, and how many of these are won, tied and lost."""
    import numpy as np

    means = problem_means(splits).to_numpy()
    for i, j in combinations(range(means.shape[1]), 2):
        gaps = (means[:, i] - means[:, j]).round(DIGITS)
        gaps = gaps[~np.isnan(gaps)]
        if len(gaps):
            up, down = int((gaps > 0).sum()), int((gaps < 0).sum())
            won, lost = (up, down) if higher else (down, up)
            yield i, j, gaps, (won, len(gaps) - up - down, lost)


def duels(splits: DataFrame, higher: bool = True) -> tuple[Duel, ...]:
    """Every pair on the problems that both have: independent of who else is in the table."""
    import numpy as np

    sign = 1 if higher else -1
    parts = [
        [column[~np.isnan(column)] for column in part.to_numpy().T]
        for _, part in splits.groupby(level=0, sort=False)
    ]
    names = [str(name) for name in splits.columns]
    items = []
    for i, j, gaps, tally in tallies(splits, higher):
        both = [(sign * part[i], sign * part[j]) for part in parts if len(part[i]) and len(part[j])]
        chances = improvement([x for x, _ in both], [y for _, y in both])
        p = _signed_rank(gaps)[1] if len(gaps) >= LEAST_PAIRS else math.nan
        items.append(
            Duel(
                names[i],
                names[j],
                len(gaps),
                *tally,
                float(gaps.mean()),
                p,
                sum(chances) / len(chances),
            )
        )
    return tuple(items)


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
        return Intervals(
            (),
            n,
            reference=reference,
            note="No differences: no split has a result of every algorithm.",
        )
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
    items = [
        Interval(str(name), float(mean), float(a), float(b), n) for name, mean, a, b in numbers
    ]
    items.sort(key=lambda item: (-item.value if higher else item.value, item.algorithm))
    return Intervals(tuple(items), n, reference=reference, note=note)
