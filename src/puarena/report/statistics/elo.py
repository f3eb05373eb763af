"""Elo ratings (Bradley-Terry): every split of every problem is a battle of every two algorithms.

The likelihood is that of TabArena (Erickson et al., NeurIPS 2025), with a tiny ridge, so that it has a maximum even
where one algorithm wins every battle.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from puarena.report.statistics.draws import DIGITS, Draws, draws
from puarena.report.statistics.results import ALPHA, Interval, Intervals

if TYPE_CHECKING:
    from pandas import DataFrame

RIDGE = 1e-6
DRAWN = 200  # ratings that are fitted again
MIDDLE, UNIT = 1000, 400  # of the reference; the points that make a win ten times as likely


def battles(lines: Any, higher: bool = True) -> Any:
    """``[lines, k, k]``: 1 where the first beats the second in a line, half for a tie, nothing against itself."""
    import numpy as np

    rounded = np.round(np.asarray(lines, float), DIGITS) * (1 if higher else -1)
    outcome = (np.sign(rounded[:, :, None] - rounded[:, None, :]) + 1) / 2
    return outcome * (1 - np.eye(rounded.shape[1]))


def wins(problems: list[Any], higher: bool = True) -> Any:
    """Battles won ``[k, k]``; every problem (``[splits, k]``) counts the same, however many splits it has."""
    return sum(battles(part, higher).mean(0) for part in problems)


def ratings(won: Any, reference: int | None = None) -> Any:
    """Ratings of greatest likelihood, of one table of wins or many; the reference, or their mean, is 1000."""
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
        step /= np.maximum(
            1, np.abs(step).max(-1, keepdims=True)
        )  # never more than one unit at a time
        c = c + step
        if np.abs(step).max() < 1e-10:
            break
    origin = c.mean(-1, keepdims=True) if reference is None else c[..., [reference]]
    return UNIT * (c - origin) + MIDDLE


def elo(
    splits: DataFrame,
    datasets: Mapping[str, str],
    reference: str,
    higher: bool = True,
    seed: int = 0,
    again: Draws | None = None,
) -> Intervals:
    """Ratings, best first, with intervals from drawing again; ``splits`` without missing results."""
    import numpy as np

    parts = [part.to_numpy() for _, part in splits.groupby(level=0, sort=False)]
    names = [str(name) for name in splits.columns]
    if not parts or len(names) < 2:
        return Intervals(
            (), len(parts), note="No Elo: it needs two algorithms with a result on the same split."
        )
    at = names.index(reference) if reference in names else None
    won = wins(parts, higher)
    values = ratings(won, at)
    low = high = np.full(len(names), math.nan)
    again = again or draws(splits, datasets, seed)
    if again.unit:
        per_line = (
            battles(again.lines, higher)
            if again.unit == "splits"
            else np.stack([wins([p], higher) for p in parts])
        )
        drawn = len(parts) * np.tensordot(again.weights[:DRAWN], per_line, 1)
        low, high = again.interval(ratings(drawn, at), ALPHA)
    items = [
        Interval(*item, len(parts))
        for item in zip(names, values.tolist(), low.tolist(), high.tolist(), strict=True)
    ]
    items.sort(key=lambda item: (-item.value, item.algorithm))
    total = won + won.T
    sure = [name for name, a, b in zip(names, won.sum(1), total.sum(1), strict=True) if a in (0, b)]
    note = (
        f"{', '.join(sure)} won or lost every battle: only a small penalty bounds the rating."
        if sure
        else ""
    )
    return Intervals(
        tuple(items), len(parts), reference=reference if at is not None else "", note=note
    )
