"""VPU: variational PU learning.

Chen, Liu, Wang, Zhao, Wu: A variational approach for learning from positive and unlabeled data.
NeurIPS 2020.
"""

from math import log

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from puarena.algorithms._base import Algorithm, Batch, Hyper, Passes, Phase
from puarena.algorithms._losses import col, mixup, pick
from puarena.algorithms._optimizer import Optimizer
from puarena.random import Draws


def log_mean(log_values: Tensor) -> Tensor:
    """Return ``log mean exp`` over the last axis."""
    return log_values.logsumexp(-1) - log(log_values.shape[-1])


class VPU(Algorithm):
    """``log mean_U Phi - mean_P log Phi + weight mean[(log t - log Phi(mix))^2]``.

    ``Phi = sigmoid(f)``, ``mix = lam u + (1-lam) p`` with ``lam ~ Beta(0.3, 0.3)``,
    ``t = lam Phi(u) + 1 - lam``. Positive iff ``Phi`` is at least half its maximum over the
    training data, because the loss determines it only up to a factor.
    """

    name, title = "vpu", "VPU"
    paper = (
        "Chen, Liu, Wang, Zhao, Wu: A variational approach for learning from PU data, NeurIPS 2020"
    )
    setting, needs_prior, calibrates = "two-sample", False, True
    cost = 1.6
    differs = (
        "The published code compares log t with the raw second output instead of log Phi, gives t "
        "no gradient, and predicts by f >= 0 without normalization."
    )
    authors_optimizer = Optimizer(
        "adam",
        3e-5,
        betas=(0.5, 0.99),
        schedule="halving",
        halve_at=(0.38, 0.78),
        source="the authors' code, which halves after epochs 19 and 39 of 50",
    )

    weight = Hyper(0.03, "weight of the mixup term")
    mix_beta = 0.3

    def variational(self, f_p: Tensor, f_u: Tensor) -> Tensor:
        """Return ``log mean_U Phi - mean_P log Phi``, the first mean being the marginal's."""
        log_p, log_u = logsigmoid(f_p), logsigmoid(f_u)
        marginal = torch.logaddexp(
            torch.log1p(-self.w) + log_mean(log_u), torch.log(self.w) + log_mean(log_p)
        )
        return marginal - log_p.mean(-1)

    def log_target(self, f_u: Tensor, lam: Tensor) -> Tensor:
        """Return ``log(lam Phi(u) + 1 - lam)``."""
        return torch.logaddexp(col(lam.log()) + logsigmoid(f_u), col(torch.log1p(-lam)))

    def mixing(self, f_u: Tensor, f_mix: Tensor, lam: Tensor) -> Tensor:
        """Return the mixup term; the k mixed points belong to the first k unlabeled ones."""
        return (
            (self.log_target(f_u[:, : f_mix.shape[1]], lam) - logsigmoid(f_mix)).square().mean(-1)
        )

    def draws(self, draws: Draws, phase: Phase) -> dict[str, Tensor]:
        """Draw one lambda and one permutation of the positives per step."""
        return {
            "lam": draws.beta("lam", self.mix_beta),
            "partner": draws.permutation("partner", self.setup.batch_p),
        }

    def mixed(self, batch: Batch) -> Tensor:
        """Return the mixed inputs."""
        pairs = min(self.setup.batch_p, self.setup.batch_u)
        return mixup(
            batch.x_u[:, :pairs],
            pick(batch.x_p, batch.draw["partner"][:, :pairs]),
            batch.draw["lam"],
        )

    def output_on_mixed(self, x: Tensor) -> Tensor:
        """Return the logits of mixed inputs."""
        return self.f(x)

    def loss(self, batch: Batch) -> Tensor:
        """Return the loss of a step."""
        f_p, f_u = batch.split(self.f(batch.x))
        f_mix = self.output_on_mixed(self.mixed(batch))
        return self.variational(f_p, f_u) + self.weight * self.mixing(f_u, f_mix, batch.draw["lam"])

    @staticmethod
    def half_of_the_largest(f: Tensor) -> Tensor:
        """Return the logit of ``max Phi / 2``."""
        top = f.max(-1).values
        return logsigmoid(top) - torch.log1p(torch.sigmoid(-top))

    def threshold(self, passes: Passes) -> Tensor:
        """Return the logit of half the largest Phi on the training data."""
        return self.half_of_the_largest(torch.cat([passes.p(self.f), passes.u(self.f)], -1))
