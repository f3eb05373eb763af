"""PUe: PU learning enhancement by causal inference, on the unbiased risk (uPUe).

Wang, Chen, Guo, Wang: PUe: Biased positive-unlabeled learning enhancement by causal inference.
NeurIPS 2023.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from puarena.algorithms._base import Algorithm, Batch, Hyper, Passes, Phase, Update
from puarena.algorithms._losses import logistic


class PUe(Algorithm):
    """``prior sum_P w (l+ - l-) + mean_U l-``.

    ``w`` are the inverse propensities ``1/sigmoid(e)``, normalized in the batch. The first stage
    trains the network e with the mean of ``softplus(∓e)`` over P and U, plus
    ``alpha |sum sigmoid(e) - n_P|``.
    """

    name, title = "pue", "PUe"
    paper = (
        "Wang, Chen, Guo, Wang: Biased PU learning enhancement by causal inference, NeurIPS 2023"
    )
    setting, calibrates = "two-sample", True
    networks = ("e", "f")
    phases = (
        Phase("propensity", (Update("propensity_loss", ("e",)),), extra=True, selectable=False),
        Phase(),
    )
    cost = 1.2
    lr = 1e-3  # its risk falls without end, and with more it diverges on small tables
    differs = (
        "The published code keeps the propensity network in training mode, which matters with "
        "batch normalization only."
    )

    alpha = Hyper(
        0.1, "weight of the regularizer of the propensities (15 is reported as the authors' choice)"
    )

    e: nn.Module

    def propensity(self, e_p: Tensor, e_u: Tensor) -> Tensor:
        """Return the loss of the first stage.

        The propensities of a batch should sum to its number of positives.
        """
        likelihood = torch.cat([softplus(-e_p), softplus(e_u)], -1).mean(-1)
        total = e_p.sigmoid().sum(-1) + e_u.sigmoid().sum(-1)
        return likelihood + self.alpha * (total - e_p.shape[-1]).abs()

    def propensity_loss(self, batch: Batch) -> Tensor:
        """First stage: train e."""
        return self.propensity(*batch.split(self.e(batch.x)))

    def on_phase(self, phase: Phase, passes: Passes) -> None:
        """At the switch: e is frozen and evaluates."""
        if phase.name == "main":
            self.e.eval()

    @staticmethod
    def weights(e_p: Tensor) -> Tensor:
        """Return the normalized inverse propensities: softmax of ``-log sigmoid(e)``."""
        return softplus(-e_p).softmax(-1)

    def risk(self, f_p: Tensor, f_u: Tensor, w_p: Tensor) -> Tensor:
        """Return the unbiased risk with weighted positives; ``l+ - l- = -f``."""
        on_marginal = self.mean_u(logistic(f_u, -1), logistic(f_p, -1))
        return on_marginal - self.prior * (w_p * f_p).sum(-1)

    def loss(self, batch: Batch) -> Tensor:
        """Second stage: train f with the weights of the frozen e."""
        with torch.no_grad():
            w_p = self.weights(self.e(batch.x_p))
        return self.risk(*batch.split(self.f(batch.x)), w_p)
