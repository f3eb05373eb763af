"""PUSB: PU learning with a selection bias.

Kato, Teshima, Honda: Learning from positive and unlabeled data with a selection bias. ICLR 2019.
"""

import torch
from torch import Tensor

from puarena.algorithms._base import Algorithm, Batch, Passes
from puarena.algorithms._losses import col, count
from puarena.algorithms._optimizer import Optimizer
from puarena.algorithms.nnpu import AscentStep


class MarginalQuantile(Algorithm):
    """Base class with the threshold that a share ``prior`` of a marginal sample reaches."""

    rank_u: Tensor
    rank_all: Tensor

    def prepare(self) -> None:
        """Count how many members of U, and of P and U together, lie below the threshold."""
        n_p, n_u = self.setup.n_p, self.setup.n_u
        self.state("rank_u", count(1 - self.setup.prior, n_u))
        self.state("rank_all", count(1 - self.setup.prior, n_p + n_u))

    @staticmethod
    def order_statistic(scores: Tensor, rank: Tensor) -> Tensor:
        """Return the score with ``rank`` (``[runs]``) others below it."""
        rank = col(rank.clamp_max(scores.shape[-1] - 1))
        return scores.sort(-1).values.gather(-1, rank).squeeze(-1)

    def threshold(self, passes: Passes) -> Tensor:
        """Return the quantile of a marginal sample: U, or P and U in the one-sample setting."""
        f_p, f_u = passes.p(self.f), passes.u(self.f)
        of_union = self.order_statistic(torch.cat([f_p, f_u], -1), self.rank_all)
        return torch.where(self.one_sample, of_union, self.order_statistic(f_u, self.rank_u))


class PUSB(MarginalQuantile, AscentStep):
    """The nnPU-GA step; positive iff ``f >= t``.

    A share ``prior`` of a marginal training sample has ``f >= t``. If labeling favors the more
    positive instances, the learned score has the right order, but not the right zero.
    """

    name, title = "pusb", "PUSB"
    paper = (
        "Kato, Teshima, Honda: Learning from positive and unlabeled data with a selection bias, "
        "ICLR 2019"
    )
    setting, calibrates = "two-sample", True
    differs = (
        "The published code trains the clamped nnPU loss, keeps the threshold at zero and returns "
        "hard outputs, so that its AUC is the balanced accuracy. The authors take the quantile on "
        "the test inputs."
    )
    authors_optimizer = Optimizer("adam", 1e-5, weight_decay=5e-3, source="the authors' code")

    def loss(self, batch: Batch) -> Tensor:
        """Return the step of nnPU-GA."""
        return self.ascent(*batch.split(self.f(batch.x)))
