"""Bootstrap intervals, aggregates over problems and splits, and the Bayesian signed-rank test.

Scores are frames with one line per problem and split (or per problem) and one column per
algorithm. Every statistic is a tidy frame with the columns ``STATISTIC_COLUMNS``, one row per
algorithm, pair or test. Where results are too few, ``value`` is NaN and ``note`` gives the reason.

scikit-posthocs, baycomp and rliable were tried. They pull in statsmodels, seaborn, matplotlib and
arch, and replace 35 to 95 lines each.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pandas import DataFrame, Series

STATISTIC_COLUMNS = ("algorithm", "other", "statistic", "value", "low", "high", "n", "note")
ALPHA = 0.05
BOOTSTRAP_DRAWS = 10_000
STRATIFIED_DRAWS = 2_000  # of the splits inside every problem, for IQM and profiles
POSTERIOR_DRAWS = 50_000
MIN_DATASETS = 5  # to draw datasets, and for the signed-rank test
MIN_SPLITS = 3  # of every problem, to draw its splits
RELIABLE_SPLITS = 5  # with fewer splits of a problem a verdict is a first impression
RELIABLE_DATASETS = 10  # with fewer datasets, too
MIN_GAPS = 6  # paired differences: with five, the p-value of a signed-rank test is at least 0.0625
PROFILE_POINTS = 41
TIE_DIGITS = 9  # results that agree in so many digits are tied


def make_rows(
    statistic: str,
    n: Any,
    algorithms: Iterable[Any] = ("",),
    value: Any = math.nan,
    low: Any = math.nan,
    high: Any = math.nan,
    *,
    other: Any = "",
    note: Any = "",
) -> DataFrame:
    """Return the tidy frame of one statistic, with one row per algorithm."""
    import pandas

    columns = {
        "algorithm": [str(name) for name in algorithms],
        "other": other,
        "statistic": statistic,
        "value": value,
        "low": low,
        "high": high,
        "n": n,
        "note": note,
    }
    return pandas.DataFrame(columns)


# bootstrap


@dataclass(frozen=True)
class Bootstrap:
    """Lines of scores and the weight of each line in every draw.

    Draws of ``m`` results scatter less than the results themselves: their variance is that of the
    population times ``(m - 1)/m``, and percentiles ignore that it is estimated. So deviations from
    the mean are multiplied by the root of ``m/(m - 1)``, and intervals by the quotient of Student's
    quantile and that of the normal distribution (``widen_interval``).
    """

    unit: str  # "datasets", "splits", or empty if nothing could be drawn
    n: int  # how many units there are
    lines: Any = None  # [lines, algorithms]
    weights: Any = None  # [draws, lines]; the weights of a draw sum to one
    note: str = ""  # what was drawn, and what limits it
    sizes: tuple[int, ...] = ()  # of the groups of units that are drawn apart

    @property
    def factor(self) -> float:
        """By what an interval of ``average`` is widened if the units of all groups vary alike."""
        return float(find_widening(self.n - len(self.sizes)))

    @property
    def whole_factor(self) -> float:
        """By what an interval of weighted sums is widened."""
        return self.factor * _find_scatter(min(self.sizes))

    def compute_means(self) -> Any:
        """Return the mean of every algorithm in every draw, rounded so that ties are ties."""
        return self.average(self.lines).round(TIE_DIGITS)

    def average(self, lines: Any) -> Any:
        """Return the mean of lines in every draw, with the scatter of means of such lines."""
        import numpy as np

        if self.unit == "datasets":
            even = np.full(len(lines), 1 / len(lines))
            scale = np.full(len(lines), _find_scatter(self.n))
        else:
            sizes = np.array(self.sizes)
            even = np.repeat(1 / (len(sizes) * sizes), sizes)
            scale = np.repeat([_find_scatter(size) for size in self.sizes], sizes)
        scaled = scale[:, None] * lines
        return even @ lines - even @ scaled + self.weights @ scaled

    def find_factors(self, lines: Any) -> Any:
        """Return by what the interval of each column of lines is widened."""
        import numpy as np

        if self.unit == "datasets":
            return np.full(lines.shape[1], self.factor)
        ends = np.cumsum(self.sizes)[:-1]
        return find_widening(count_freedom(np.split(lines, ends)))


def _find_scatter(size: int) -> float:
    """Return the root of ``m/(m - 1)``."""
    return math.sqrt(size / (size - 1)) if size > 1 else 1.0


def count_freedom(parts: Iterable[Any]) -> Any:
    """Return the degrees of freedom of the mean over problems of every column.

    ``parts``: results ``[splits, columns]`` of each problem. After Welch and Satterthwaite, because
    results vary more on one problem than on another; with equal variances it errs towards wider
    intervals.
    """
    import numpy as np

    parts = [np.asarray(part, float) for part in parts]
    squares = np.stack([part.var(0, ddof=1) / len(part) for part in parts])
    below = np.sum([part**2 / (len(x) - 1) for part, x in zip(squares, parts, strict=True)], axis=0)
    pooled = sum(len(part) - 1 for part in parts)
    # Columns that do not vary have an interval without a length.
    varies = below > 0
    return np.where(varies, squares.sum(0) ** 2 / np.where(varies, below, 1), pooled)


def find_widening(freedom: Any) -> Any:
    """Return the quotient of Student's quantile and that of the normal distribution."""
    from scipy.stats import norm, t

    return t.ppf(1 - ALPHA / 2, freedom) / norm.ppf(1 - ALPHA / 2)


def widen_interval(middle: Any, interval: Any, factor: Any) -> Any:
    """Return the low and high ends of an interval, both this much further from the middle."""
    return middle + factor * (interval - middle)


def percentile_interval(values: Any) -> Any:
    """Return the low and high percentiles of values per draw."""
    import numpy as np

    return np.quantile(values, [ALPHA / 2, 1 - ALPHA / 2], axis=0)


def average_splits(splits: DataFrame) -> DataFrame:
    """Return one line per problem: the mean over its splits."""
    return splits.groupby(level=0, sort=False).mean()


def draw_bootstrap(
    splits: DataFrame,
    datasets: Mapping[str, str],
    seed: int = 0,
    count: int = BOOTSTRAP_DRAWS,
    means: DataFrame | None = None,
) -> Bootstrap:
    """Draw datasets if there are enough, otherwise the splits inside each problem.

    The cases and rates of one dataset share its examples, so they are not independent: a dataset is
    drawn with all its problems. ``datasets`` maps problems to datasets. ``means``: the result of
    ``average_splits``, if it is known already. The same seed gives the same draws.
    """
    import numpy as np

    means = average_splits(splits) if means is None else means
    owners = [datasets[str(name)] for name in means.index]
    names = list(dict.fromkeys(owners))
    if len(names) >= MIN_DATASETS:
        weights = _draw_weights((len(names),), seed, count)
        weights = weights[:, [names.index(owner) for owner in owners]]
        weights = weights / weights.sum(1, keepdims=True)
        note = (
            f"Intervals: bootstrap over the {len(names)} datasets; cases of one dataset stay "
            "together."
        )
        return Bootstrap("datasets", len(names), means.to_numpy(), weights, note, (len(names),))
    few = f"datasets: {len(names)} ({MIN_DATASETS} needed)"
    values = splits.to_numpy(float)
    complete = ~np.isnan(values).any(1)
    problem = means.index.get_indexer(splits.index.get_level_values(0)[complete])
    sizes = np.bincount(problem, minlength=len(means)).tolist()
    fewest = min(sizes, default=0)
    if fewest < MIN_SPLITS:
        note = f"No intervals: too few {few} and splits: {fewest} ({MIN_SPLITS} needed)."
        return Bootstrap("", 0, note=note)
    note = (
        f"Intervals: bootstrap over the splits of each problem, valid for these problems only; "
        f"too few {few}."
    )
    lines = values[complete][np.argsort(problem, kind="stable")]
    weights = _draw_weights(tuple(sizes), seed, count) / len(sizes)
    return Bootstrap("splits", len(lines), lines, weights, note, tuple(sizes))


@lru_cache(maxsize=2)  # the page draws the same problems for every metric and criterion
def _draw_weights(sizes: tuple[int, ...], seed: int, count: int) -> Any:
    """Return ``[draws, lines]`` weights; groups of lines are drawn separately and sum to one."""
    import numpy as np

    random = np.random.default_rng(seed)
    parts = [random.multinomial(size, np.full(size, 1 / size), size=count) / size for size in sizes]
    weights = np.concatenate(parts, axis=1)
    weights.flags.writeable = False
    return weights


def compute_differences(
    scores: DataFrame, reference: str, seed: int = 0, higher: bool = True
) -> DataFrame:
    """Return mean paired differences from ``reference``, the best first.

    Every problem counts the same; intervals come from drawing each problem's splits.
    """
    import numpy as np

    n = len(scores)
    if reference not in scores.columns or not n:
        note = "No differences: no split has a result of every algorithm."
        return make_rows("difference", n, other=reference, note=note)
    others = [name for name in scores.columns if name != reference]
    gaps = scores[others].sub(scores[reference], axis=0)
    parts = [part.to_numpy() for _, part in gaps.groupby(level=0)]
    means = np.mean([part.mean(0) for part in parts], axis=0)
    low = high = np.full(len(others), math.nan)
    fewest = min(map(len, parts))
    note = ""
    if fewest < MIN_SPLITS or n < MIN_GAPS:
        note = (
            f"No intervals of differences: they need {MIN_SPLITS} splits of each problem and "
            f"{MIN_GAPS} in all, and there are {fewest} and {n}."
        )
    else:
        random = np.random.default_rng(seed)
        drawn = np.zeros((BOOTSTRAP_DRAWS, len(others)))
        for part in parts:
            size = len(part)
            weights = random.multinomial(size, np.full(size, 1 / size), size=BOOTSTRAP_DRAWS)
            drawn += _find_scatter(size) * (weights @ part / size - part.mean(0))
        interval = percentile_interval(means + drawn / len(parts))
        low, high = widen_interval(means, interval, find_widening(count_freedom(parts)))
    frame = make_rows("difference", n, others, means, low, high, other=reference, note=note)
    return sort_rows(frame, descending=higher)


def sort_rows(frame: DataFrame, descending: bool = False) -> DataFrame:
    """Sort the rows of a statistic by value, then by algorithm."""
    order = ["value", "algorithm"]
    return frame.sort_values(order, ascending=[not descending, True], ignore_index=True)


# aggregates over problems and splits


def compute_improvability(errors: Any) -> Any:
    """Return, per problem and algorithm, the share of its error that the best does not make."""
    import numpy as np

    errors = np.asarray(errors, float)
    best = errors.min(1, keepdims=True)
    return np.where(errors > 0, 1 - best / np.where(errors > 0, errors, 1), 0.0)


def compute_gap_closed(values: Any, naive: Any, oracle: Any) -> Any:
    """Return ``(value - naive) / (oracle - naive)`` per problem; NaN if the oracle is not above."""
    import numpy as np

    values, naive, oracle = (np.asarray(numbers, float) for numbers in (values, naive, oracle))
    room = np.where(oracle > naive, oracle - naive, math.nan)
    return (values.T - naive).T / (room if values.ndim == 1 else room[:, None])


def compute_iqm(values: Any, axis: int | None = None) -> Any:
    """Return the interquartile mean: a quarter of the values (rounded down) is cut at each end."""
    import numpy as np

    values = np.sort(np.asarray(values, float), axis=axis)
    axis = 0 if axis is None else axis
    cut = values.shape[axis] // 4
    return np.take(values, range(cut, values.shape[axis] - cut), axis).mean(axis)


def share_above(values: Any, at: Any) -> Any:
    """Return the share of values, over the first axis, strictly above every point."""
    import numpy as np

    return (np.asarray(values, float)[..., None] > np.asarray(at, float)).mean(0)


def compute_win_chances(first: Iterable[Any], second: Iterable[Any]) -> list[float]:
    """Return, per problem, the chance that a split of the first is better; a tie counts half."""
    import numpy as np

    chances = []
    for a, b in zip(first, second, strict=True):
        signs = np.sign(np.round(np.subtract.outer(a, b), TIE_DIGITS))
        chances.append(float((signs.mean() + 1) / 2))
    return chances


def average_problems(
    statistic: str, table: DataFrame, bootstrap: Bootstrap, note: str = ""
) -> DataFrame:
    """Return means over problems, with intervals if datasets could be drawn."""
    low = high = math.nan
    means = table.mean().to_numpy()
    if bootstrap.unit == "datasets" and len(table) == bootstrap.weights.shape[1]:
        drawn = percentile_interval(bootstrap.average(table.to_numpy()))
        low, high = widen_interval(means, drawn, bootstrap.factor)
    return make_rows(statistic, len(table), table.columns, means, low, high, note=note)


def average_gap_closed(
    means: DataFrame, naive: Series, oracle: Series, bootstrap: Bootstrap
) -> DataFrame:
    """Return the share of the gap from the naive baseline to the oracle that is closed."""
    import pandas

    if naive.isna().all() or oracle.isna().all():
        note = "No gap closed: it needs a naive baseline and one with all labels."
        return make_rows("gap-closed", 0, note=note)
    closed = compute_gap_closed(means, naive, oracle)
    kept = pandas.DataFrame(closed, means.index, means.columns).dropna()
    if kept.empty:
        note = "No gap closed: the oracle is nowhere above the naive baseline."
        return make_rows("gap-closed", 0, note=note)
    left_out = len(means) - len(kept)
    note = ""
    if left_out:
        note = (
            f"Gap closed leaves out {left_out} problems: the oracle is not above the naive "
            "baseline."
        )
    return average_problems("gap-closed", kept, bootstrap, note)


def average_quartiles(splits: DataFrame, seed: int = 0) -> DataFrame:
    """Return interquartile means over all splits; intervals draw the splits of each problem."""
    values, n = splits.to_numpy(), len(splits)
    if not n:
        note = "No interquartile mean: no split has a result of every algorithm."
        return make_rows("iqm", 0, note=note)
    low = high = math.nan
    iqm = compute_iqm(values, axis=0)
    drawn = _draw_stratified(splits, seed)
    if drawn is not None:
        interval = percentile_interval(compute_iqm(values[drawn], axis=1))
        low, high = widen_interval(iqm, interval, _find_stratified_factor(splits))
    return make_rows("iqm", n, splits.columns, iqm, low, high)


def compute_profiles(splits: DataFrame, seed: int = 0, at: Any = None) -> DataFrame:
    """Return ``algorithm, at, share, low, high``: the share of results above each of some points.

    The points are evenly spaced over all results, unless they are given. The band is NaN if there
    are too few splits to draw.
    """
    import numpy as np
    import pandas

    values = splits.to_numpy()
    at = np.linspace(values.min(), values.max(), PROFILE_POINTS) if at is None else at
    at = np.asarray(at, float).round(4)
    share = share_above(values, at)  # [algorithms, points]
    low = high = np.full(share.shape, math.nan)
    drawn = _draw_stratified(splits, seed)
    if drawn is not None:
        counts = [np.bincount(lines, minlength=len(values)) for lines in drawn]
        weights = np.stack(counts) / len(values)
        above = values[:, :, None] > at
        interval = percentile_interval(np.tensordot(weights, above.astype(float), 1))
        low, high = widen_interval(share, interval, _find_stratified_factor(splits)).clip(0, 1)
    names = [str(name) for name in splits.columns]
    columns = {
        "algorithm": np.repeat(names, len(at)),
        "at": np.tile(at, len(names)),
        "share": share.round(4).ravel(),
        "low": low.round(4).ravel(),
        "high": high.round(4).ravel(),
    }
    return pandas.DataFrame(columns)


def _draw_stratified(splits: DataFrame, seed: int) -> Any:
    """Return line numbers ``[draws, lines]`` drawn inside every problem, or None if too few."""
    import numpy as np

    sizes = splits.groupby(level=0, sort=False).size().to_numpy()
    if sizes.min() < MIN_SPLITS:
        return None
    random = np.random.default_rng(seed)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    shape = STRATIFIED_DRAWS
    drawn = [
        start + random.integers(size, size=(shape, size))
        for start, size in zip(starts, sizes, strict=True)
    ]
    return np.concatenate(drawn, axis=1)


def _find_stratified_factor(splits: DataFrame) -> float:
    """Return by what intervals are widened that come from drawing the splits of each problem."""
    sizes = splits.groupby(level=0, sort=False).size()
    return _find_scatter(int(sizes.min())) * float(find_widening(len(splits) - len(sizes)))


# the Bayesian signed-rank test (Benavoli, Corani, Demšar, Zaffalon 2017)

ZERO_WEIGHT = 0.5  # prior weight of one difference of zero


def compute_rope_shares(gaps: Any, weights: Any, rope: float) -> Any:
    """Return ``[draws, 3]``: the weight of pairs of gaps below, inside and above the region.

    ``rope`` is half the width of the region of practical equivalence; its edges count half.
    """
    import numpy as np

    gaps = np.concatenate([[0.0], np.asarray(gaps, float)])
    weights = np.asarray(weights, float)
    sums = np.round(gaps[:, None] + gaps[None, :], TIE_DIGITS)
    edge = round(2 * rope, TIE_DIGITS)

    def weigh(side: Any) -> Any:
        beyond = (side > edge) + 0.5 * (side == edge)
        return ((weights @ beyond) * weights).sum(1)

    below, above = weigh(-sums), weigh(sums)
    return np.stack([below, 1 - below - above, above], axis=1)


def compare_with_rope(
    blocks: DataFrame, reference: str, rope: float, unit: str, higher: bool = True, seed: int = 0
) -> DataFrame:
    """Return the probabilities that each algorithm is worse, the same or better than the reference.

    Differences up to ``rope`` are practically none; ``unit`` names what a line of ``blocks`` is.
    """
    import numpy as np
    import pandas

    n = len(blocks)
    if n < MIN_DATASETS or reference not in blocks.columns or blocks.shape[1] < 2:
        note = (
            f"No Bayesian signed-rank test: it needs {MIN_DATASETS} {unit} and two algorithms, "
            f"and there are {n}."
        )
        return make_rows("probability-better", n, other=reference, note=note)
    prior = [ZERO_WEIGHT, *[1.0] * n]
    weights = np.random.default_rng(seed).dirichlet(prior, size=POSTERIOR_DRAWS)
    others = [name for name in blocks.columns if name != reference]
    likeliest = []
    for name in others:
        gaps = (1 if higher else -1) * (blocks[name] - blocks[reference]).to_numpy()
        likeliest.append(compute_rope_shares(gaps, weights, rope).argmax(1))
    parts = []
    for side, word in enumerate(("worse", "same", "better")):
        shares = [float((sides == side).mean()) for sides in likeliest]
        parts.append(make_rows(f"probability-{word}", n, others, shares, other=reference))
    return pandas.concat(parts, ignore_index=True)
