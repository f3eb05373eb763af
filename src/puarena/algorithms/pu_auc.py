"""PU-AUC: the area under the curve from positives and unlabeled points.

Sakai, Niu, Sugiyama: Semi-supervised AUC optimization based on positive-unlabeled learning. Machine
Learning 107, 2018.
"""

import torch
from torch import Tensor

from puarena.algorithms._base import Hyper
from puarena.algorithms._losses import logistic
from puarena.algorithms.pusb import MarginalQuantile


class PUAUC(MarginalQuantile):
    """``[mean l(f_p - f_u) - q mean l(f_p - f_p')] / (1-q)`` over pairs of the batch.

    q is the prior inside U. With the sigmoid loss the second mean is always 1/2: the step maximizes
    PAUC itself and does not depend on the prior. With the logistic loss it does. Positive iff
    ``f >= t``, where a share ``prior`` of a marginal sample has ``f >= t``.
    """

    name, title = "pu-auc", "PU-AUC"
    paper = (
        "Sakai, Niu, Sugiyama: Semi-supervised AUC optimization based on positive-unlabeled "
        "learning, Machine Learning 107, 2018"
    )
    in_paper = False
    cost = 1.1
    differs = (
        "No code of the authors was found. They fit kernel models with the squared loss to all "
        "pairs; here pairs come from the batch. The threshold, for metrics that need one, is "
        "PUSB's."
    )

    surrogate_loss = Hyper(
        "sigmoid", "the loss l of a difference of scores", choices=("sigmoid", "logistic")
    )
    correction = Hyper(
        "prior", "subtract pairs of positives with weight q, or not", choices=("prior", "none")
    )

    bounded: Tensor
    q: Tensor

    def prepare(self) -> None:
        """Turn the named options into flags and weights."""
        super().prepare()
        self.state("bounded", self.has_option("surrogate_loss", "sigmoid"))
        self.state("q", torch.where(self.has_option("correction", "none"), 0.0, self.shifted_prior))

    def pair_losses(self, f_p: Tensor, other: Tensor) -> Tensor:
        """Return ``l(f - f')`` of positives and members of ``other``, ``[runs, n_p, n]``."""
        difference = f_p.unsqueeze(2) - other.unsqueeze(1)
        kinds = set(self.surrogate_loss)
        if kinds == {"sigmoid"}:
            return torch.sigmoid(-difference)
        if kinds == {"logistic"}:
            return logistic(difference, +1)
        return torch.where(
            self.bounded.view(-1, 1, 1), torch.sigmoid(-difference), logistic(difference, +1)
        )

    def among_positives(self, f_p: Tensor) -> Tensor:
        """Return the mean loss over pairs of different positives; 1/2 for the sigmoid loss."""
        half = torch.full_like(self.q, 0.5)
        n = f_p.shape[-1]
        if n == 1 or set(self.surrogate_loss) == {"sigmoid"}:
            return half
        losses = self.pair_losses(f_p, f_p)
        others = (losses.sum((1, 2)) - losses.diagonal(dim1=1, dim2=2).sum(-1)) / (n * (n - 1))
        return torch.where(self.bounded, half, others)

    def objective(self, f_p: Tensor, f_u: Tensor) -> Tensor:
        """Return the risk of ranking a positive below a negative."""
        unlabeled = self.pair_losses(f_p, f_u).mean((1, 2))
        return (unlabeled - self.q * self.among_positives(f_p)) / (1 - self.q)
