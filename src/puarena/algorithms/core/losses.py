"""What several algorithms share. Logits are ``[runs, batch]``, stable forms only (``softplus``, ``logsigmoid``)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import softplus


def col(per_run: Tensor) -> Tensor:
    """Turn a ``[runs]`` tensor into ``[runs, 1]`` for use beside ``[runs, batch]``."""
    return per_run.unsqueeze(-1)


def logistic(f: Tensor, label: int) -> Tensor:
    """Logistic loss of logits for the label +1 or -1."""
    return softplus(-f if label > 0 else f)


def ascent_step(
    positive: Tensor, negative: Tensor, beta: Tensor | float, gamma: Tensor | float
) -> Tensor:
    """The non-negative step of nnPU's Algorithm 1, ``[runs]``.

    Descend on the risk while its negative part is above the tolerance; otherwise un-learn that part alone.
    """
    return torch.where(negative < -beta, -gamma * negative, positive + negative)


def with_value(surrogate: Tensor, value: Tensor) -> Tensor:
    """Return something with the value of ``value`` and the gradient of ``surrogate``."""
    return surrogate + (value - surrogate).detach()


def cross_entropy(f: Tensor, target: Tensor) -> Tensor:
    """Binary cross entropy of logits against targets, which may be soft."""
    return target * softplus(-f) + (1 - target) * softplus(f)


def entropy(f: Tensor) -> Tensor:
    """Entropy of ``sigmoid(f)``."""
    s = torch.sigmoid(f)
    return s * softplus(-f) + (1 - s) * softplus(f)


def along(per_run: Tensor, x: Tensor) -> Tensor:
    """Shape a ``[runs]`` tensor for use beside inputs ``[runs, batch, …]``."""
    return per_run.view(-1, *[1] * (x.dim() - 1))


def mixup(x: Tensor, partner: Tensor, lam: Tensor) -> Tensor:
    """Return ``lam x + (1 - lam) partner`` with one ``lam`` per run."""
    return torch.lerp(partner, x, along(lam, x))


def pick(x: Tensor, index: Tensor) -> Tensor:
    """Return the members of ``x`` (``[runs, n, …]``) at ``index`` (``[runs, k]``), run by run."""
    return x.gather(1, index.view(*index.shape, *[1] * (x.dim() - 2)).expand(-1, -1, *x.shape[2:]))


def count(share: Tensor, n: int) -> Tensor:
    """Return ``floor(share n)`` as int64, in double precision and guarded against rounding; ``share`` in float64."""
    return (share.double() * n + 1e-9).long()
