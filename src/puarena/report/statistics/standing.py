"""Who won, and how sure that is: places by the mean over problems, their intervals, and who is tied with the best."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from puarena.report.statistics.draws import DIGITS, draws, problem_means
from puarena.report.statistics.results import ALPHA, DRAWS, Standing, Standings

if TYPE_CHECKING:
    from pandas import DataFrame


def ranks_of(means: Any, higher: bool = True) -> Any:
    """Ranks along the last axis: 1 is the best, equal means (to nine digits) share the average rank."""
    import numpy as np
    from scipy.stats import rankdata

    rounded = np.round(np.asarray(means, float), DIGITS)
    rounded = -rounded if higher else rounded
    order = np.argsort(rounded, axis=-1)
    ranks = np.empty(rounded.shape)
    np.put_along_axis(
        ranks, order, np.broadcast_to(np.arange(1.0, rounded.shape[-1] + 1), rounded.shape), axis=-1
    )
    tied = (np.diff(np.take_along_axis(rounded, order, -1)) == 0).any(-1)
    if tied.any():  # few draws have ties, and averaging their ranks takes ten times as long
        ranks[tied] = rankdata(rounded[tied], axis=-1)
    return ranks


def standings(
    splits: DataFrame,
    datasets: Mapping[str, str],
    higher: bool = True,
    seed: int = 0,
    count: int = DRAWS,
) -> Standings:
    """Algorithms by their mean over problems, the best first; one without a result on every problem has no place.

    ``splits``: a line per problem and split, a column per algorithm; NaN where there is no result.
    """
    import numpy as np

    table = problem_means(splits)
    lacking = tuple(map(str, table.columns[table.isna().any()]))
    table = table.drop(columns=list(lacking))
    n, k = table.shape
    sizes = sorted(Counter(splits.index.get_level_values(0)).values()) or [0]
    about = {
        "n": n,
        "datasets": len({datasets[str(name)] for name in table.index}),
        "left_out": lacking,
    }
    if not n or not k:
        return Standings(
            (), splits=(0, 0), note="No algorithm has a result on every problem.", **about
        )
    means = table.mean().to_numpy().round(DIGITS)
    ranks = ranks_of(means, higher)
    best = int(np.argmin(ranks))
    again = draws(splits if not lacking else splits[table.columns], datasets, seed, count, table)
    nothing = np.full(k, math.nan)
    (rank_low, rank_high), (low, high) = (nothing, nothing), (nothing, nothing)
    if again.unit:
        drawn = again.means()
        rank_low, rank_high = again.interval(ranks_of(drawn, higher), ALPHA)
        low, high = again.interval((drawn - drawn[:, [best]]).round(DIGITS), ALPHA).round(DIGITS)
    items = [
        Standing(
            algorithm=str(table.columns[i]),
            mean=float(means[i]),
            rank=float(ranks[i]),
            rank_low=float(rank_low[i]),
            rank_high=float(rank_high[i]),
            difference=float(means[i] - means[best]),
            low=float(low[i]),
            high=float(high[i]),
            tied=bool(means[i] == means[best] or low[i] <= 0 <= high[i]),
            n=n,
        )
        for i in np.argsort(ranks, kind="stable")
    ]
    return Standings(
        tuple(items), splits=(sizes[0], sizes[-1]), unit=again.unit, note=again.words, **about
    )
