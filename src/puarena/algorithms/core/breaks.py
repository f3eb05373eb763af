"""Trends of predictions over time, and natural breaks: values split into two groups, run by run."""

from __future__ import annotations

import torch
from torch import Tensor

from puarena.algorithms.core.losses import col

STEEP = 0.2 / 9  # trends from here on are left out when the break point comes out positive


def trend_terms(before: Tensor, after: Tensor) -> Tensor:
    """Return ``log(1 + d + d^2/2)`` for the difference of successive scores; a trend is the mean of these over time."""
    d = after - before
    return torch.log1p(d + d.square() / 2)


def natural_break(values: Tensor, keep: Tensor | None = None) -> Tensor:
    """Return, per run, the largest value of the lower of two groups, in float64.

    The split of the sorted values (``[runs, n]``, those where ``keep`` is True) that minimizes the summed squared
    deviation inside the groups, the lowest such split on ties; plus infinity where fewer than two distinct values are.
    With values centerd, minimizing that sum is maximizing ``c_i^2 (1/i + 1/(n-i))``, ``c_i`` the sum of the lowest i.
    """
    values = values.double()
    keep = torch.ones_like(values, dtype=torch.bool) if keep is None else keep
    kept = col(keep.sum(-1))
    mean = torch.where(keep, values, 0.0).sum(-1, keepdim=True) / kept.clamp_min(1)
    ordered = torch.where(keep, values, torch.inf).sort(-1).values
    size = torch.arange(1, values.shape[-1], device=values.device)  # of the lower group
    possible = (size < kept) & (ordered[:, :-1] < ordered[:, 1:])
    below = torch.where(ordered.isfinite(), ordered - mean, 0.0).cumsum(-1)[:, :-1]
    gain = torch.where(possible, below.square() * (1 / size + 1 / (kept - size).clamp_min(1)), -1.0)
    best = gain.argmax(-1, keepdim=True) if gain.shape[-1] else size.new_zeros(len(values), 1)
    return torch.where(possible.any(-1), ordered.gather(1, best).squeeze(-1), torch.inf)


def break_of_trends(trends: Tensor) -> Tensor:
    """Return each run's natural break; where it is positive, that of the trends below 0.2/9 alone."""
    first = natural_break(trends)
    return torch.where(first > 0, natural_break(trends, trends < STEEP), first)
