"""PAN: predictive adversarial networks.

Hu, Le, Liu, Ji, Ma, Zhao, Yan: Predictive adversarial learning from positive and unlabeled data. AAAI 2021.
"""

import torch
from torch import Tensor, nn

from puarena.algorithms.core.base import Algorithm, Batch, Hyper, Phase, Update
from puarena.algorithms.core.losses import logistic


class PAN(Algorithm):
    """``V = sum_P log D + sum_U log(1-D) + balance sum_U [log(1-C) - log C] (2D - 1)``: D maximises, C minimises.

    ``D = sigmoid(d)`` tells labeled from unlabeled, ``C = sigmoid(f)`` predicts; sums, not means, so that with SGD the
    classifier moves little.
    """

    name, title = "pan", "PAN"
    paper = "Hu et al.: Predictive adversarial learning from positive and unlabeled data, AAAI 2021"
    needs_prior = False
    networks = ("d", "f")
    phases = (Phase(updates=(Update("discriminator_loss", ("d",)), Update("classifier_loss", ("f",)))),)
    cost = 2.0
    differs = (
        "The published code follows the authors' script: 0.01 inside every logarithm, and in place of log(1-D) a hinge "
        "against the batch mean. The plain form is recalled from the paper, not verified."
    )

    balance = Hyper(1e-4, "weight of the term that ties the classifier to the discriminator")

    d: nn.Module

    def agreement(self, d_u: Tensor, c_u: Tensor) -> Tensor:
        """Return ``balance sum_U [log(1-C) - log C] (2D - 1)``; the bracket is ``-c``."""
        return -self.balance * (c_u * torch.tanh(d_u / 2)).sum(-1)

    def recognition(self, d_p: Tensor, d_u: Tensor) -> Tensor:
        """Return ``sum_P log D + sum_U log(1-D)``."""
        return -logistic(d_p, +1).sum(-1) - logistic(d_u, -1).sum(-1)

    def discriminator(self, d_p: Tensor, d_u: Tensor, c_u: Tensor) -> Tensor:
        """Return what the discriminator minimises."""
        return -self.recognition(d_p, d_u) - self.agreement(d_u, c_u)

    def discriminator_loss(self, batch: Batch) -> Tensor:
        """First update of a step: the discriminator, against the fixed classifier."""
        with torch.no_grad():
            c_u = self.f(batch.x_u)
        return self.discriminator(*batch.split(self.d(batch.x)), c_u)

    def classifier_loss(self, batch: Batch) -> Tensor:
        """Second update: the classifier, against the discriminator as it is now."""
        with torch.no_grad():
            _, d_u = batch.split(self.d(batch.x))
        return self.agreement(d_u, self.f(batch.x_u))
