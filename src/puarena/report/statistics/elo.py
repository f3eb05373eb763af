"""Elo ratings (Bradley-Terry): each split of each problem is a battle of every two algorithms.

The likelihood is that of TabArena (Erickson et al., NeurIPS 2025). Every two algorithms also tie on
one split that nobody ran: otherwise one that wins every battle has an infinite rating, and a tiny
penalty would decide which number is printed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from puarena.report.statistics.bootstrap import (
    TIE_DIGITS,
    Bootstrap,
    make_rows,
    percentile_interval,
    sort_rows,
    widen_interval,
)

if TYPE_CHECKING:
    from pandas import DataFrame

RIDGE = 1e-6
ELO_DRAWS = 200  # draws whose ratings are fitted for an interval
ELO_ORIGIN = 1000  # rating of the reference
ELO_TENFOLD = 400  # points that make a win ten times as likely


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
