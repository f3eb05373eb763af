"""Numbers that say how much, not only who: gap closed, improvability, interquartile mean, performance profiles."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from puarena.report.statistics.draws import DIGITS, LEAST_SPLITS, Draws, problem_means
from puarena.report.statistics.results import ALPHA, Interval, Intervals, Profile

if TYPE_CHECKING:
    from pandas import DataFrame, Series

STRATIFIED = 2000  # draws of the splits inside every problem
POINTS = 41  # of a profile


def improvability(errors: Any) -> Any:
    """Per problem and algorithm: the share of its error that the best of all does not make (nothing where none)."""
    import numpy as np

    errors = np.asarray(errors, float)
    return np.where(
        errors > 0, 1 - errors.min(1, keepdims=True) / np.where(errors > 0, errors, 1), 0.0
    )


def gap_closed(values: Any, naive: Any, oracle: Any) -> Any:
    """``(value - naive) / (oracle - naive)`` per problem; NaN where the oracle is not above the naive one."""
    import numpy as np

    values, naive, oracle = (np.asarray(numbers, float) for numbers in (values, naive, oracle))
    room = np.where(oracle > naive, oracle - naive, math.nan)
    return (values.T - naive).T / (room if values.ndim == 1 else room[:, None])


def iqm(values: Any, axis: int | None = None) -> Any:
    """The interquartile mean: of what remains when a quarter (rounded down) is cut at each end."""
    import numpy as np

    values = np.sort(np.asarray(values, float), axis=axis)
    axis = 0 if axis is None else axis
    cut = values.shape[axis] // 4
    return np.take(values, range(cut, values.shape[axis] - cut), axis).mean(axis)


def profile(values: Any, at: Any) -> Any:
    """The share of results strictly above every point."""
    import numpy as np

    return (np.ravel(values)[:, None] > np.asarray(at, float)).mean(0)


def improvement(first: Sequence[Any], second: Sequence[Any]) -> list[float]:
    """Per problem the chance that a split of the first is better than one of the second; a tie counts half."""
    import numpy as np

    gaps = [
        np.sign(np.round(np.subtract.outer(a, b), DIGITS))
        for a, b in zip(first, second, strict=True)
    ]
    return [float((gap.mean() + 1) / 2) for gap in gaps]


def intervals_over_problems(table: DataFrame, again: Draws) -> Intervals:
    """Means over problems of a number per problem; intervals where datasets could be drawn. The order is kept."""
    import numpy as np

    n, k = table.shape
    low = high = np.full(k, math.nan)
    if again.unit == "datasets" and n == again.weights.shape[1]:
        low, high = again.interval(again.weights @ table.to_numpy(), ALPHA)
    numbers = zip(table.columns, table.mean().to_numpy(), low, high, strict=True)
    return Intervals(
        tuple(Interval(str(name), float(m), float(a), float(b), n) for name, m, a, b in numbers), n
    )


def gaps_closed(means: DataFrame, naive: Series, oracle: Series, again: Draws) -> Intervals:
    """How much of the way from the naive method to the one with all labels each algorithm goes."""
    import pandas

    if naive.isna().all() or oracle.isna().all():
        return Intervals(
            (), 0, note="No gap closed: it needs a naive method and one that sees all labels."
        )
    closed = pandas.DataFrame(gap_closed(means, naive, oracle), means.index, means.columns)
    kept = closed.dropna()
    if kept.empty:
        return Intervals(
            (),
            0,
            note="No gap closed: nowhere is the method that sees all labels above the naive one.",
        )
    result = intervals_over_problems(kept, again)
    left = len(means) - len(kept)
    note = (
        f"{left} problems left out where the oracle is not above the naive method." if left else ""
    )
    return Intervals(result.items, len(kept), note=note)


def quartile_means(splits: DataFrame, seed: int = 0) -> Intervals:
    """Interquartile means over all splits of all problems; intervals from drawing the splits inside each problem."""
    import numpy as np

    values, n = splits.to_numpy(), len(splits)
    if not n:
        return Intervals(
            (), 0, note="No interquartile mean: no split has a result of every algorithm."
        )
    low = high = np.full(values.shape[1], math.nan)
    numbers = _stratified(splits, seed)
    if numbers is not None:
        low, high = np.quantile(iqm(values[numbers], axis=1), [ALPHA / 2, 1 - ALPHA / 2], axis=0)
    items = zip(splits.columns, iqm(values, axis=0), low, high, strict=True)
    return Intervals(
        tuple(Interval(str(name), float(m), float(a), float(b), n) for name, m, a, b in items), n
    )


def profiles(splits: DataFrame, seed: int = 0) -> Profile:
    """Per algorithm the share of results above each of evenly spaced points, with a band."""
    import numpy as np

    if splits.empty:
        return Profile(0, note="No profile: no split has a result of every algorithm.")
    values = splits.to_numpy()
    at = np.linspace(values.min(), values.max(), POINTS).round(4)
    above = values[:, :, None] > at  # [lines, algorithms, points]
    numbers = _stratified(splits, seed)
    bands: Mapping[str, Any] = {"low": {}, "high": {}}
    if numbers is not None:
        counts = np.stack([np.bincount(drawn, minlength=len(values)) for drawn in numbers]) / len(
            values
        )
        low, high = np.quantile(
            np.tensordot(counts, above.astype(float), 1), [ALPHA / 2, 1 - ALPHA / 2], axis=0
        )
        bands = {"low": _by_name(splits, low), "high": _by_name(splits, high)}
    return Profile(len(values), tuple(at.tolist()), _by_name(splits, above.mean(0)), **bands)


def means_and_errors(
    splits: DataFrame, best_possible: float | None, higher: bool
) -> tuple[DataFrame, DataFrame | None]:
    """Problem means, and how far each is from the best possible value (``None`` where there is no such value)."""
    means = problem_means(splits)
    if not higher:
        return means, means
    return means, None if best_possible is None else (best_possible - means).clip(lower=0)


def _by_name(splits: DataFrame, rows: Any) -> dict[str, tuple[float, ...]]:
    return {
        str(name): tuple(row.round(4).tolist())
        for name, row in zip(splits.columns, rows, strict=True)
    }


def _stratified(splits: DataFrame, seed: int) -> Any:
    """Line numbers ``[draws, lines]``, drawn inside every problem; ``None`` where splits are too few."""
    import numpy as np

    sizes = splits.groupby(level=0, sort=False).size().to_numpy()
    if sizes.min() < LEAST_SPLITS:
        return None
    random = np.random.default_rng(seed)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    drawn = [
        at + random.integers(m, size=(STRATIFIED, m)) for at, m in zip(starts, sizes, strict=True)
    ]
    return np.concatenate(drawn, axis=1)
