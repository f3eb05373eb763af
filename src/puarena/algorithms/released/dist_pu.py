"""Dist-PU as published: the wrong class in the histogram, hard labels, integer mixtures."""

import torch
from torch import Tensor

from puarena.algorithms.core.base import Batch
from puarena.algorithms.core.losses import cross_entropy
from puarena.algorithms.dist_pu import DistPU
from puarena.algorithms.released.common import Released


def plain_entropy(f: Tensor) -> Tensor:
    """Entropy of ``sigmoid(f)`` from probabilities: not a number once one of them underflows."""
    s, n = f.sigmoid(), torch.sigmoid(-f)
    return -s * s.log() - n * n.log()


class ReleasedDistPU(Released, DistPU):
    """Dist-PU that pulls the mean score to ``1 - prior``; a mixed pair is positive only if both members are."""

    differs = (
        "The histogram gets the negative class's probability; no warm-up entropy; labels are the hard predictions of "
        "the current batch and their mixture is cut to an integer; entropies without clamp."
    )

    mu_warm = 0.0

    def distribution(self, f_p: Tensor, f_u: Tensor) -> Tensor:
        """Return ``L_dist`` with the mean score of U pulled to ``1 - prior``."""
        s_p, s_u = f_p.sigmoid(), f_u.sigmoid()
        return 1 - s_p.mean(-1) + (1 - self.mean_u(s_u, s_p) - self.prior).abs() / (2 * self.prior)

    def warm_up(self, f_p: Tensor, f_u: Tensor) -> Tensor:
        """Return the loss of the first epochs."""
        return self.distribution(f_p, f_u)

    def main(self, f_p: Tensor, f_u: Tensor, f_mix: Tensor, target: Tensor, mu: Tensor) -> Tensor:
        """Return the loss of the main stage."""
        mixing = self.gamma * plain_entropy(f_mix).mean(-1) + self.nu * cross_entropy(f_mix, target).mean(-1)
        return self.distribution(f_p, f_u) + mu * plain_entropy(f_u).mean(-1) + mixing

    def targets(self, batch: Batch, f_u: Tensor) -> Tensor:
        """Return the mixed labels: hard, and 1 only where both members of a pair are positive."""
        y = torch.cat([f_u.new_ones(len(f_u), batch.n_p), (f_u >= 0).to(f_u.dtype)], 1)
        return y * y.gather(1, batch.draw["partner"])
