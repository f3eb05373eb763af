"""PAN as published: the authors' script, with a hinge in the discriminator's game."""

import torch
from torch import Tensor

from puarena.algorithms.core.base import col
from puarena.algorithms.pan import PAN
from puarena.algorithms.released.common import Released


def log_shifted(f: Tensor) -> Tensor:
    """Return ``log(sigmoid(f) + 0.01)``."""
    return torch.log(f.sigmoid() + 0.01)


class ReleasedPAN(Released, PAN):
    """PAN with 0.01 inside the logarithms and ``max(log(1-D) - log(1 - mean_U D), 0)`` for ``log(1-D)`` on U."""

    differs = "0.01 inside the logarithms; unlabeled points that D likes more than average feel no force."

    def agreement(self, d_u: Tensor, c_u: Tensor) -> Tensor:
        """Return ``balance sum_U [log(1.01-C) - log(C+0.01)] (2D - 1)``."""
        return self.balance * ((log_shifted(-c_u) - log_shifted(c_u)) * torch.tanh(d_u / 2)).sum(-1)

    def recognition(self, d_p: Tensor, d_u: Tensor) -> Tensor:
        """Return the game without the classifier; the batch mean is a constant."""
        average = torch.sigmoid(-d_u.detach()).mean(-1).log()
        return log_shifted(d_p).sum(-1) + (log_shifted(-d_u) - col(average)).clamp_min(0).sum(-1)
