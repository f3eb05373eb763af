"""LBE as published: the labeling model learns p(labeled|x), and losses are sums."""

from dataclasses import replace

import torch
from torch import Tensor

from puarena.algorithms.core.losses import cross_entropy, logistic
from puarena.algorithms.lbe import LBE
from puarena.algorithms.released.common import Released


class ReleasedLBE(Released, LBE):
    """LBE whose M-step gives eta the weight 1 on U and sums over the batches."""

    phases = tuple(replace(phase, selectable=True) for phase in LBE.phases)
    differs = "On U eta is trained without the weight q; sums instead of means; warm-up checkpoints may be chosen."

    def m_step(self, f_p: Tensor, f_u: Tensor, e_p: Tensor, e_u: Tensor, q: Tensor) -> Tensor:
        """Return the summed loss."""
        on_p = logistic(f_p, +1) + logistic(e_p, +1)
        on_u = cross_entropy(f_u, q) + logistic(e_u, -1)
        return torch.cat([on_p, on_u], -1).sum(-1)
