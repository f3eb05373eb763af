"""Ranks of algorithms over blocks, tests of many algorithms at once, and comparisons of pairs.

Scores have one line per block (a problem, or a problem and a split) and one column per algorithm;
``higher`` states whether more is better. Results are tidy frames, see ``bootstrap``. The tests are
those of Demšar, "Statistical comparisons of classifiers over multiple data sets", JMLR 7, 2006.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import combinations
from typing import TYPE_CHECKING, Any

from puarena.report.statistics.bootstrap import (
    ALPHA,
    BOOTSTRAP_DRAWS,
    MIN_GAPS,
    TIE_DIGITS,
    Bootstrap,
    average_splits,
    compute_win_chances,
    find_widening,
    make_rows,
    percentile_interval,
    sort_rows,
    widen_interval,
)

if TYPE_CHECKING:
    from pandas import DataFrame

MIN_ALGORITHMS = 3  # for tests of many algorithms at once
MIN_BLOCKS = 5  # for these tests, and to draw blocks


# ranks


def compute_ranks(values: Any, higher: bool = True) -> Any:
    """Return ranks along the last axis: 1 is the best, ties (to nine digits) share the mean."""
    import numpy as np
    from scipy.stats import rankdata

    rounded = np.round(np.asarray(values, float), TIE_DIGITS)
    rounded = -rounded if higher else rounded
    order = np.argsort(rounded, axis=-1)
    places = np.broadcast_to(np.arange(1.0, rounded.shape[-1] + 1), rounded.shape)
    ranks = np.empty(rounded.shape)
    np.put_along_axis(ranks, order, places, axis=-1)
    # Few draws have ties, and averaging their ranks takes ten times as long as sorting.
    tied = (np.diff(np.take_along_axis(rounded, order, -1)) == 0).any(-1)
    if tied.any():
        ranks[tied] = rankdata(rounded[tied], axis=-1)
    return ranks


def rank_blocks(scores: DataFrame, higher: bool = True) -> DataFrame:
    """Return the rank of every algorithm in every block."""
    return scores.round(TIE_DIGITS).rank(axis=1, ascending=not higher, method="average")


def average_ranks(scores: DataFrame, seed: int = 0, higher: bool = True) -> DataFrame:
    """Return mean ranks, the best first, with intervals from drawing the blocks."""
    import numpy as np

    n, k = scores.shape
    if not n or not k:
        note = "There is no block in which every algorithm has a result."
        return make_rows("mean-rank", n, note=note)
    table = rank_blocks(scores, higher)
    means = table.mean().to_numpy()
    low = high = math.nan
    note = f"No intervals of mean ranks: they need {MIN_BLOCKS} blocks, and there are {n}."
    if n >= MIN_BLOCKS:
        random = np.random.default_rng(seed)
        weights = random.multinomial(n, np.full(n, 1 / n), size=BOOTSTRAP_DRAWS) / n
        factor = math.sqrt(n / (n - 1)) * find_widening(n - 1)
        interval = percentile_interval(weights @ table.to_numpy())
        low, high = widen_interval(means, interval, factor).clip(1, k)
        note = ""
    return sort_rows(make_rows("mean-rank", n, table.columns, means, low, high, note=note))


# tests of many algorithms


def run_friedman_test(scores: DataFrame, higher: bool = True) -> DataFrame:
    """Return Friedman's test, corrected for ties, and its F form after Iman and Davenport."""
    import pandas
    from scipy import stats

    n, k = scores.shape
    note = _explain_too_few("Friedman's test", n, k)
    if note:
        return make_rows("friedman-chi2", n, note=note)
    table = rank_blocks(scores, higher).to_numpy()
    middle = (k + 1) / 2
    plain = 12 * n / (k * (k + 1)) * float(((table.mean(0) - middle) ** 2).sum())
    spread = float(((table - middle) ** 2).sum()) / (n * k * (k * k - 1) / 12)  # 1 without ties
    if not spread:
        note = f"No number for Friedman's test: all algorithms are tied in all {n} blocks."
        return make_rows("friedman-chi2", n, note=note)
    chi2 = plain / spread
    rest = n * (k - 1) - chi2
    f = (n - 1) * chi2 / rest if rest > 1e-9 else math.inf
    values = {
        "friedman-chi2": chi2,
        "friedman-p": float(stats.chi2.sf(chi2, k - 1)),
        "friedman-f": f,
        "friedman-f-p": float(stats.f.sf(f, k - 1, (k - 1) * (n - 1))),
        "friedman-chi2-without-ties": plain,  # the textbook formula
    }
    return pandas.concat(
        [make_rows(name, n, value=value) for name, value in values.items()], ignore_index=True
    )


def compute_critical_difference(
    scores: DataFrame, alpha: float = ALPHA, higher: bool = True
) -> DataFrame:
    """Return Nemenyi's critical difference of mean ranks: ranks closer than that do not differ."""
    n, k = scores.shape
    note = _explain_too_few("the Nemenyi test", n, k)
    if note:
        return make_rows("critical-difference", n, note=note)
    value = _studentized_quantile(k, alpha) * math.sqrt(k * (k + 1) / (6 * n))
    return make_rows("critical-difference", n, value=value)


def group_ranks(scores: DataFrame, distance: float, higher: bool = True) -> list[tuple[str, ...]]:
    """Return the largest sets of algorithms with mean ranks closer than the critical difference."""
    means = rank_blocks(scores, higher).mean().sort_values(kind="stable")
    groups: list[tuple[str, ...]] = []
    end = 0
    for start in range(len(means)):
        close = means.iloc[start:] - means.iloc[start] < distance
        stop = start + int(close.to_numpy().nonzero()[0][-1]) + 1
        if stop > end and stop - start > 1:
            groups.append(tuple(map(str, means.index[start:stop])))
        end = max(end, stop)
    return groups


@lru_cache(maxsize=64)  # the page computes it for every metric and criterion, and it is slow
def _studentized_quantile(k: int, alpha: float) -> float:
    """Return the quantile of the studentized range of ``k`` algorithms over the root of two."""
    from scipy.stats import studentized_range

    return float(studentized_range.ppf(1 - alpha, k, math.inf)) / math.sqrt(2)


def _explain_too_few(test: str, n: int, k: int) -> str:
    """Return a sentence if there are too few algorithms or blocks for a test, otherwise nothing."""
    if k < MIN_ALGORITHMS:
        return f"No number for {test}: it needs {MIN_ALGORITHMS} algorithms, and there are {k}."
    if n < MIN_BLOCKS:
        return f"No number for {test}: it needs {MIN_BLOCKS} blocks, and there are {n}."
    return ""


# pairs of algorithms


def run_pair_tests(scores: DataFrame, reference: str | None = None) -> DataFrame:
    """Return Wilcoxon's signed-rank tests of pairs of algorithms, with Holm's correction.

    All pairs, or only those with ``reference``, which is then ``other``. Four rows per pair: the
    mean difference of the scores as shown, the statistic, and p without and with the correction.
    """
    import pandas

    n, k = scores.shape
    if k < 2 or n < MIN_GAPS:
        few, least, count = ("algorithms", 2, k) if k < 2 else ("blocks", MIN_GAPS, n)
        note = (
            f"No number for Wilcoxon's signed-rank test: it needs {least} {few}, "
            f"and there are {count}."
        )
        return make_rows("wilcoxon-p", n, note=note)
    tests = []
    for pair in combinations(scores.columns, 2):
        if reference not in (None, *pair):
            continue
        a, b = reversed(pair) if pair[0] == reference else pair
        gaps = (scores[a] - scores[b]).to_numpy().round(TIE_DIGITS)
        tests.append((str(a), str(b), float(gaps.mean()), *run_signed_rank_test(gaps)))
    firsts, others, means, statistics, p = (list(part) for part in zip(*tests, strict=True))
    values = {
        "wilcoxon-difference": means,
        "wilcoxon-statistic": statistics,
        "wilcoxon-p": p,
        "wilcoxon-p-holm": correct_holm(p),
    }
    return pandas.concat(
        [make_rows(name, n, firsts, value, other=others) for name, value in values.items()],
        ignore_index=True,
    )


def run_signed_rank_test(gaps: Any) -> tuple[float, float]:
    """Return the two-sided statistic and its p-value; differences of zero count half per side."""
    from scipy import stats

    if not gaps.any():
        return len(gaps) * (len(gaps) + 1) / 4, 1.0
    test = stats.wilcoxon(gaps, zero_method="zsplit")
    return float(test.statistic), float(test.pvalue)


def correct_holm(p: Sequence[float]) -> list[float]:
    """Return p-values after Holm's step-down correction, in the given order."""
    adjusted, largest = [0.0] * len(p), 0.0
    for place, i in enumerate(sorted(range(len(p)), key=lambda i: p[i])):
        largest = max(largest, min(1.0, (len(p) - place) * p[i]))
        adjusted[i] = largest
    return adjusted


def count_wins(
    splits: DataFrame, higher: bool = True
) -> Iterator[tuple[int, int, Any, tuple[int, int, int]]]:
    """Yield, for every two columns, their gaps on common problems, and wins, ties and losses."""
    import numpy as np

    means = average_splits(splits).to_numpy()
    for i, j in combinations(range(means.shape[1]), 2):
        gaps = (means[:, i] - means[:, j]).round(TIE_DIGITS)
        gaps = gaps[~np.isnan(gaps)]
        if len(gaps):
            above, below = int((gaps > 0).sum()), int((gaps < 0).sum())
            won, lost = (above, below) if higher else (below, above)
            yield i, j, gaps, (won, len(gaps) - above - below, lost)


def compare_pairs(
    splits: DataFrame, reference: str | None = None, higher: bool = True
) -> DataFrame:
    """Return every pair on the problems that both have: independent of the other algorithms.

    Six rows per pair: wins, ties and losses over problems, the mean difference, Wilcoxon's p
    without a correction, and the chance that a split of the first is better than one of the other.
    In pairs with ``reference`` it is the other.
    """
    import numpy as np
    import pandas

    if reference in splits.columns:
        splits = splits[[name for name in splits.columns if name != reference] + [reference]]
    sign = 1 if higher else -1
    values = []
    for _, part in splits.groupby(level=0, sort=False):
        values.append([column[~np.isnan(column)] for column in sign * part.to_numpy().T])
    names = [str(name) for name in splits.columns]
    lines: list[tuple[Any, ...]] = []
    for i, j, gaps, (won, tied, lost) in count_wins(splits, higher):
        both = [(part[i], part[j]) for part in values if len(part[i]) and len(part[j])]
        chances = compute_win_chances(*map(list, zip(*both, strict=True)))
        p = run_signed_rank_test(gaps)[1] if len(gaps) >= MIN_GAPS else math.nan
        chance = sum(chances) / len(chances)
        lines.append((names[i], names[j], len(gaps), won, tied, lost, gaps.mean(), p, chance))
    statistics = ["wins", "ties", "losses", "pair-difference", "pair-p", "win-chance"]
    frame = pandas.DataFrame(lines, columns=["algorithm", "other", "n", *statistics])
    parts = [
        make_rows(name, frame["n"], frame["algorithm"], frame[name], other=frame["other"])
        for name in statistics
    ]
    return pandas.concat(parts, ignore_index=True)


RIDGE = 1e-6
ELO_DRAWS = 200  # draws whose ratings are fitted for an interval
ELO_ORIGIN = 1000  # rating of the reference
ELO_TENFOLD = 400  # points that make a win ten times as likely


# -- Elo ratings (Bradley-Terry) -------------------------------------------------------------------
#
# Each split of each problem is a battle of every two algorithms. The likelihood is that of TabArena
# (Erickson et al., NeurIPS 2025). Every two algorithms also tie on one split that nobody ran:
# otherwise one that wins every battle has an infinite rating, and a tiny penalty would decide which
# number is printed.


def list_battles(lines: Any, higher: bool = True) -> Any:
    """Return ``[lines, k, k]``: 1 if the first beats the second, 1/2 for a tie, 0 for itself."""
    import numpy as np

    rounded = np.round(np.asarray(lines, float), TIE_DIGITS) * (1 if higher else -1)
    outcome = (np.sign(rounded[:, :, None] - rounded[:, None, :]) + 1) / 2
    return outcome * (1 - np.eye(rounded.shape[1]))


def sum_battles(problems: list[Any], higher: bool = True) -> Any:
    """Return battles won ``[k, k]``; every problem ``[splits, k]`` counts the same."""
    return sum(list_battles(part, higher).mean(0) for part in problems)


def fit_ratings(won: Any, reference: int | None = None) -> Any:
    """Return the ratings of greatest likelihood, for one table of wins or many.

    The reference, or the mean if there is none, has the rating 1000.
    """
    import numpy as np

    won = np.asarray(won, float)
    k = won.shape[-1]
    c, scale = np.zeros(won.shape[:-1]), math.log(10)
    total = won + np.swapaxes(won, -1, -2)
    for _ in range(200):
        chance = 1 / (1 + np.exp(-scale * (c[..., :, None] - c[..., None, :])))
        gradient = scale * (won - total * chance).sum(-1) - RIDGE * c
        curvature = scale**2 * total * chance * (1 - chance)
        hessian = np.eye(k) * (curvature.sum(-1)[..., None] + RIDGE) - curvature
        step = np.linalg.solve(hessian, gradient[..., None])[..., 0]
        # A Newton step may overshoot: at most one unit at a time.
        step /= np.maximum(1, np.abs(step).max(-1, keepdims=True))
        c = c + step
        if np.abs(step).max() < 1e-10:
            break
    origin = c.mean(-1, keepdims=True) if reference is None else c[..., [reference]]
    return ELO_TENFOLD * (c - origin) + ELO_ORIGIN


def compute_elo(
    splits: DataFrame, bootstrap: Bootstrap, reference: str, higher: bool = True
) -> DataFrame:
    """Return ratings, the best first; ``splits`` have no missing results.

    ``other`` is the reference, or empty if it does not take part and the mean rating is 1000.
    """
    import numpy as np

    parts = [part.to_numpy() for _, part in splits.groupby(level=0, sort=False)]
    names = [str(name) for name in splits.columns]
    if not parts or len(names) < 2:
        note = "No Elo: it needs two algorithms with a result on the same split."
        return make_rows("elo", len(parts), note=note)
    at = names.index(reference) if reference in names else None
    won = sum_battles(parts, higher)
    tie = len(parts) / (2 * len(splits)) * (1 - np.eye(len(names)))
    ratings = fit_ratings(won + tie, at)
    low = high = math.nan
    if bootstrap.unit:
        if bootstrap.unit == "splits":
            battles = list_battles(bootstrap.lines, higher)
        else:
            battles = np.stack([sum_battles([part], higher) for part in parts])
        drawn = len(parts) * np.tensordot(bootstrap.weights[:ELO_DRAWS], battles, 1)
        interval = percentile_interval(fit_ratings(drawn + tie, at))
        low, high = widen_interval(ratings, interval, bootstrap.whole_factor)
    wins, total = won.sum(1), (won + won.T).sum(1)
    one_sided = (wins == 0) | (wins == total)
    bounded = "Won or lost every battle: how far it is from the others is not known."
    notes = np.where(one_sided, bounded, "")
    other = reference if at is not None else ""
    frame = make_rows("elo", len(parts), names, ratings, low, high, other=other, note=notes)
    return sort_rows(frame, descending=True)
