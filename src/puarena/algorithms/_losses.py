"""Functions that several algorithms share.

Logits are ``[runs, batch]``. Losses use stable forms only (``softplus``, ``logsigmoid``).
"""

from __future__ import annotations

from copy import deepcopy

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

# From here on, trends are left out if the break point is positive.
STEEP_TREND = 0.2 / 9

# -- losses ----------------------------------------------------------------------------------------


def logistic(f: Tensor, label: int) -> Tensor:
    """Return the logistic loss of logits for the label +1 or -1."""
    return softplus(-f if label > 0 else f)


def cross_entropy(f: Tensor, target: Tensor) -> Tensor:
    """Return the binary cross entropy of logits against targets, which may be soft."""
    return target * softplus(-f) + (1 - target) * softplus(f)


def entropy(f: Tensor) -> Tensor:
    """Return the entropy of ``sigmoid(f)``."""
    s = torch.sigmoid(f)
    return s * softplus(-f) + (1 - s) * softplus(f)


def ascent_step(
    positive: Tensor, negative: Tensor, beta: Tensor | float, gamma: Tensor | float
) -> Tensor:
    """Return what the non-negative step of nnPU's Algorithm 1 differentiates, ``[runs]``.

    It is the risk while its negative part is above the tolerance, otherwise ``-gamma`` times the
    negative part alone.
    """
    return torch.where(negative < -beta, -gamma * negative, positive + negative)


def replace_value(surrogate: Tensor, value: Tensor) -> Tensor:
    """Return a tensor with the value of ``value`` and the gradient of ``surrogate``."""
    return surrogate + (value - surrogate).detach()


# -- shapes and batches ----------------------------------------------------------------------------


def col(per_run: Tensor) -> Tensor:
    """Turn a ``[runs]`` tensor into ``[runs, 1]``, which broadcasts over ``[runs, batch]``."""
    return per_run.unsqueeze(-1)


def expand_like(per_run: Tensor, x: Tensor) -> Tensor:
    """Shape a ``[runs]`` tensor so that it broadcasts over inputs ``[runs, batch, …]``."""
    return per_run.view(-1, *[1] * (x.dim() - 1))


def mixup(x: Tensor, partner: Tensor, lam: Tensor) -> Tensor:
    """Return ``lam x + (1 - lam) partner`` with one ``lam`` per run."""
    return torch.lerp(partner, x, expand_like(lam, x))


def pick(x: Tensor, index: Tensor) -> Tensor:
    """Return the members of ``x`` (``[runs, n, …]``) at ``index`` (``[runs, k]``), run by run."""
    return x.gather(1, index.view(*index.shape, *[1] * (x.dim() - 2)).expand(-1, -1, *x.shape[2:]))


def count(share: Tensor, n: int) -> Tensor:
    """Return ``floor(share n)`` as int64; ``share`` should be float64.

    The small constant guards against products that are rounded to just below a whole number.
    """
    return (share.double() * n + 1e-9).long()


# -- running averages of networks (teachers) -------------------------------------------------------


def frozen_copy(network: nn.Module) -> nn.Module:
    """Return a copy of a network without gradients."""
    return deepcopy(network).requires_grad_(False)


@torch.no_grad()
def ema_(average: nn.Module, network: nn.Module, decay: float) -> None:
    """Move an average to ``decay * average + (1 - decay) * network``; buffers are copied."""
    torch._foreach_lerp_(list(average.parameters()), list(network.parameters()), 1 - decay)
    for mine, theirs in zip(average.buffers(), network.buffers(), strict=True):
        mine.copy_(theirs)


@torch.no_grad()
def move_(average: nn.Module, network: nn.Module, by: Tensor) -> None:
    """Move an average's parameters by the part ``by`` (0-dim) of the way to a network's.

    The average keeps its own buffers.
    """
    mine: list[Tensor] = list(average.parameters())
    theirs: list[Tensor] = list(network.parameters())
    torch._foreach_lerp_(mine, theirs, [by] * len(mine))


# -- trends of predictions and natural breaks ------------------------------------------------------


def trend_terms(before: Tensor, after: Tensor) -> Tensor:
    """Return ``log(1 + d + d^2/2)`` for the difference ``d`` of successive scores.

    A trend is the mean of these terms over time.
    """
    d = after - before
    return torch.log1p(d + d.square() / 2)


def natural_break(values: Tensor, keep: Tensor | None = None) -> Tensor:
    """Return, per run, the largest value of the lower of two groups, in float64.

    The groups come from the split of the sorted values (``[runs, n]``, where ``keep`` is True)
    that minimizes the summed squared deviation inside the groups; of equal splits, the lowest. The
    result is infinity if there are fewer than two distinct values.
    """
    # With centered values, minimizing that sum is maximizing ``c_i^2 (1/i + 1/(n-i))``, where
    # ``c_i`` is the sum of the lowest i values.
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
    """Return each run's natural break; if it is positive, that of the trends below 0.2/9 only."""
    first = natural_break(trends)
    return torch.where(first > 0, natural_break(trends, trends < STEEP_TREND), first)
