"""The law of the number of positives among n independent labels (Poisson-binomial).

Labels are Bernoulli(``sigmoid(f_i)``). Laws of neighboring groups are merged pairwise in log space,
``c(k) = logsumexp_j a(j) + b(k - j)``: ``log2 n`` levels, nothing underflows, logits of any size.
On the way up a merge keeps ``p(left count = j | count = k)``; on the way down these carry a
gradient, or a condition on the count, to the labels. Both passes are written out: no cancellation,
no graph. ``f`` is ``[runs, n]``, laws are ``[runs, n + 1]``.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, pad

# Log-probability of an impossible event. It is finite so that differences of two are defined.
IMPOSSIBLE = -1e30


def _merge_all(f: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Return ``log Q`` and, level by level, the split probabilities ``[runs, groups, k, m - j]``.

    The number of labels is filled up to a power of two with labels that are surely negative.
    """
    n = f.shape[-1]
    law = torch.stack([logsigmoid(-f), logsigmoid(f)], -1)  # [runs, groups, count]
    missing = (1 << max(n - 1, 0).bit_length()) - n
    if missing:
        sure = law.new_zeros(len(f), missing, 2)
        sure[..., 1] = IMPOSSIBLE
        law = torch.cat([law, sure], 1)
    splits = []
    while law.shape[1] > 1:
        m = law.shape[-1] - 1
        right = pad(law[:, 1::2], (m, m), value=IMPOSSIBLE)
        # [.., k, m - j] = a(j) + b(k - j)
        terms = right.unfold(-1, m + 1, 1) + law[:, 0::2].flip(-1).unsqueeze(-2)
        top = terms.amax(-1, keepdim=True)
        split = terms.sub_(top).exp_()
        total = split.sum(-1, keepdim=True)
        splits.append(split.div_(total))
        law = total.log_().add_(top).squeeze(-1)
    return law[:, 0, : n + 1], splits


def _push_down(weight: Tensor, splits: list[Tensor], n: int) -> Tensor:
    """Carry weights on the count, ``[runs, n + 1]``, down to the labels.

    The result is ``sum_k weight(k) p(y_i = 0 / 1 | k)``.

    Result ``[runs, n, 2]``.
    """
    runs, width = len(weight), 1 << len(splits)
    weight = pad(weight, (0, width - n)).unsqueeze(1)
    for split in reversed(splits):
        m = split.shape[-1] - 1
        joint = split * weight.unsqueeze(-1)  # [runs, groups, k, m - j]
        left = joint.sum(-2).flip(-1)
        size, stride = (*joint.shape[:2], m + 1, m + 1), (*joint.stride()[:2], m + 1, m)
        right = joint.as_strided(size, stride, m).sum(-1)  # [i] = sum_j joint[i + j, m - j]
        weight = torch.stack([left, right], 2).view(runs, -1, m + 1)
    return weight[:, :n]


class _LogCountLaw(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, f: Tensor) -> Tensor:
        law, splits = _merge_all(f)
        ctx.save_for_backward(f, *splits)
        return law

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        f, *splits = ctx.saved_tensors
        zero, one = _push_down(grads[0], splits, f.shape[-1]).unbind(-1)
        return one * torch.sigmoid(-f) - zero * torch.sigmoid(f)


def log_count_law(f: Tensor) -> Tensor:
    """Return ``log Q(k)``, the log-probability of ``k = 0 … n`` positives; differentiable once."""
    return _LogCountLaw.apply(f)


@torch.no_grad()
def posterior_given_count(f: Tensor, m: Tensor) -> Tensor:
    """Return ``p(y_i = 1 | sum of labels = m)`` for one count per run, without gradient.

    It sums to ``m``.
    """
    n = f.shape[-1]
    _, splits = _merge_all(f)
    certain = (torch.arange(n + 1, device=f.device) == m.unsqueeze(-1)).to(f.dtype)
    return _push_down(certain, splits, n)[..., 1]


def nearest_count(share: Tensor, n: int) -> Tensor:
    """Return ``round(share n)``, halves to even, as int64.

    It is computed in double precision; products within 1e-9 of a half count as that half.
    """
    product = share.double() * n
    halves = (2 * product).round() / 2
    return torch.where((product - halves).abs() <= 1e-9, halves, product).round().long()
