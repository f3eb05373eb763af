"""Dist-PU as published: the wrong class in the histogram, hard labels, integer mixtures."""

import torch
from torch import Tensor

from puarena.algorithms.core.base import Batch, Draws, Phase, Setup
from puarena.algorithms.core.losses import cross_entropy, mixup, pick
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
        "the current batch and their mixture is cut to an integer; entropies without clamp. Calibrated by the batch "
        "union, entropy and mixing are over the union too: the positives are mixed once with label 1 and once with "
        "their prediction."
    )
    forms_mix = False  # the union has half as many mixed points again

    mu_warm = 0.0

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        kinds = set(setup.calibration)
        self.union = "batch-union" in kinds
        if self.union and len(kinds) > 1:
            raise ValueError(
                "plain runs and batch unions of the released Dist-PU cannot share a fleet"
            )

    def distribution(self, f_p: Tensor, f_u: Tensor) -> Tensor:
        """Return ``L_dist`` with the mean score of U pulled to ``1 - prior``."""
        s_p, s_u = f_p.sigmoid(), f_u.sigmoid()
        return 1 - s_p.mean(-1) + (1 - self.mean_u(s_u, s_p) - self.prior).abs() / (2 * self.prior)

    def warm_up(self, f_p: Tensor, f_u: Tensor) -> Tensor:
        """Return the loss of the first epochs."""
        return self.distribution(f_p, f_u)

    def main(self, f_p: Tensor, f_u: Tensor, f_mix: Tensor, target: Tensor, mu: Tensor) -> Tensor:
        """Return the loss of the main stage."""
        mixing = self.gamma * plain_entropy(f_mix).mean(-1) + self.nu * cross_entropy(
            f_mix, target
        ).mean(-1)
        over = torch.cat([f_u, f_p], 1) if self.union else f_u
        return self.distribution(f_p, f_u) + mu * plain_entropy(over).mean(-1) + mixing

    def targets(self, batch: Batch, f_u: Tensor) -> Tensor:
        """Return the mixed labels: hard, and 1 only where both members of a pair are positive."""
        y = torch.cat([f_u.new_ones(len(f_u), batch.n_p), (f_u >= 0).to(f_u.dtype)], 1)
        return y * y.gather(1, batch.draw["partner"])

    def draws(self, draws: Draws, phase: Phase) -> dict[str, Tensor]:
        """Draw a permutation of the union's points, where that is what is mixed."""
        drawn = super().draws(draws, phase)
        if self.union and drawn:
            drawn["partner"] = draws.permutation(
                "partner", 2 * self.setup.batch_p + self.setup.batch_u
            )
        return drawn

    def loss(self, batch: Batch) -> Tensor:
        """Return the loss of a step of the main stage; in a union the positives also follow the unlabeled points."""
        if not self.union:
            return super().loss(batch)
        f_p, f_u = batch.split(self.f(batch.x))
        x = torch.cat([batch.x, batch.x_p], 1)
        f_mix = self.f(mixup(x, pick(x, batch.draw["partner"]), batch.draw["lam"]))
        target = self.targets(batch, torch.cat([f_u, f_p], 1))
        return self.main(f_p, f_u, f_mix, target, self.mu * batch.at["growth"])
