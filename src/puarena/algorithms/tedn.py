"""TEDn: best bin estimation and CVIR in turn.

Garg, Wu, Smola, Balakrishnan, Lipton: Mixture proportion estimation and PU learning: a modern
approach. NeurIPS 2021.
"""

from math import log, sqrt
from typing import NamedTuple

import torch
from torch import Tensor

from puarena.algorithms._base import Batch, Passes, Phase, Update
from puarena.algorithms._losses import count, logistic
from puarena.algorithms._optimizer import Optimizer
from puarena.algorithms.cvir import CVIR

DELTA, GAMMA = 0.1, 0.01  # failure probability and slack of the confidence bound


class BestBin(NamedTuple):
    """An estimated share of positives among unlabeled points, and its cut; ``[runs]`` each."""

    share: Tensor
    threshold: Tensor
    count_u: Tensor
    count_p: Tensor
    bound: Tensor  # infinite where no cut has a positive at or above it


def best_bin(z_p: Tensor, z_u: Tensor, delta: float = DELTA, gamma: float = GAMMA) -> BestBin:
    """Return ``min(1, q_u(t) / q_p(t))`` at the unlabeled score t with the lowest bound.

    ``q(t)`` is the share of scores at or above t. Of equal confidence bounds the largest t counts.
    Without a candidate the share is 0.
    """
    n_p, n_u = z_p.shape[-1], z_u.shape[-1]
    cuts = z_u.sort(-1, descending=True).values.contiguous()
    count_u = n_u - torch.searchsorted(z_u.sort(-1).values.contiguous(), cuts)
    count_p = n_p - torch.searchsorted(z_p.sort(-1).values.contiguous(), cuts)
    slack = (1 + gamma) * (sqrt(log(4 / delta) / (2 * n_u)) + sqrt(log(4 / delta) / (2 * n_p)))
    bound = torch.where(
        count_p > 0, (count_u.double() / n_u + slack) * n_p / count_p.double(), float("inf")
    )
    best = bound.argmin(-1, keepdim=True)
    at, on_u, on_p, lowest = (
        values.gather(-1, best).squeeze(-1) for values in (cuts, count_u, count_p, bound)
    )
    share = (on_u.double() * n_p / (on_p.double() * n_u).clamp_min(1)).clamp_max(1)
    return BestBin(torch.where(on_p > 0, share, 0.0), at, on_u, on_p, lowest)


class TEDn(CVIR):
    """``1/2 mean_P l+ + 1/2 mean of l- over the kept members of U``, as CVIR.

    Every epoch begins with the best bin estimate of the share of positives in U, from held-out
    positives and unlabeled points, and drops that share of U. The warm-up is
    ``1/2 mean_P l+ + 1/2 mean_U l-``.
    """

    name, title = "tedn", "TEDn"
    setting, needs_prior, in_paper, calibrates = "either", False, False, False
    phases = (Phase("warm-up", (Update("warm_up_loss"),), extra=True, selectable=False), Phase())
    authors_optimizer = Optimizer(
        "sgd", 0.1, weight_decay=5e-4, source="the authors' code, CIFAR-10"
    )
    cost = 1.2
    differs = (
        "The authors' code counts unlabeled scores strictly above the cut, asks for two points in "
        "both counts, lets the estimate exceed 1, ranks U in a randomly augmented view, and warms "
        "up for 100 of 2,100 epochs. Here the estimate uses the validation sets without labels, "
        "which also choose the model."
    )

    unlabeled_prior = None  # it is estimated

    # [runs], float64: the estimated share of positives in U; NaN before the first estimate.
    share: Tensor

    def prepare(self) -> None:
        """Create the estimate and the flags of kept points."""
        runs, n_u = self.setup.runs, self.setup.n_u
        self.state("share", self.prior.new_full((runs,), float("nan"), dtype=torch.float64))
        self.state("keep", self.prior.new_ones(runs, n_u))

    def estimate(self, passes: Passes) -> Tensor:
        """Return the share of positives in U estimated with the current network."""
        return best_bin(passes.val_p(self.f), passes.val_u(self.f)).share

    def on_epoch(self, phase: Phase, epoch: int, passes: Passes) -> None:
        """Renew the estimate, then choose which unlabeled points to keep."""
        if not phase.extra:
            self.share.copy_(self.estimate(passes))
            self.keep.copy_(self.kept(passes.u(self.f), count(self.share, self.setup.n_u)))

    def records(self) -> dict[str, Tensor]:
        """Return the estimate and the true share, for comparison."""
        return {"estimated_share": self.share, "true_share": self.setup.shifted_prior}

    def warm_up(self, f_p: Tensor, f_u: Tensor) -> Tensor:
        """Return the risk of separating positives from unlabeled points."""
        return (logistic(f_p, +1).mean(-1) + logistic(f_u, -1).mean(-1)) / 2

    def warm_up_loss(self, batch: Batch) -> Tensor:
        """Return the loss of a warm-up step."""
        return self.warm_up(*batch.split(self.f(batch.x)))

    def risk(self, f_p: Tensor, f_u: Tensor, keep: Tensor) -> Tensor:
        """Return the risk of positives and kept unlabeled points; of positives if none is kept."""
        negative = (keep * logistic(f_u, -1)).sum(-1) / keep.sum(-1).clamp_min(1)
        return (logistic(f_p, +1).mean(-1) + negative) / 2

    def loss(self, batch: Batch) -> Tensor:
        """Return the risk of a step."""
        return self.risk(*batch.split(self.f(batch.x)), self.keep.gather(1, batch.i_u))
