"""Count Loss as released: the exact-count form on a probability scale."""

from typing import Any

import torch
from torch import Tensor

from puarena.algorithms.core.base import Batch
from puarena.algorithms.core.counting import log_count_law
from puarena.algorithms.core.losses import col, count, logistic, with_value
from puarena.algorithms.count_loss import CountLoss
from puarena.algorithms.released.common import Released

LARGEST = 10.0  # norm of a run's gradient


class ReleasedCountLoss(Released, CountLoss):
    """``mean_P l+ - log [Q(m) / (sum_k Q(k) + 1e-6)]``, ``m = int(n prior)``; gradient norm at most 10, NaN skipped."""

    calibrates = False  # the published code has no row told the prior inside U
    cost = 2.4

    form: Any = "exact"  # no choice here

    m: Tensor

    def prepare(self) -> None:
        """Count the positives of a batch."""
        self.state("m", count(self.unlabeled_prior_of_runs(exact=True), self.setup.batch_u))

    def objective(self, f_p: Tensor, f_u: Tensor) -> Tensor:
        """Return the positive risk plus the penalty on the count; infinite where the probability underflows."""
        law = log_count_law(f_u).exp()
        share = law / (law.sum(-1, keepdim=True) + 1e-6)
        return logistic(f_p, +1).mean(-1) - share.gather(-1, col(self.m)).squeeze(-1).log()

    def loss(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Scale each run's loss so that its gradient's norm is at most 10, and skip runs whose loss is NaN."""
        loss = self.objective(*batch.split(self.f(batch.x)))
        grads = torch.autograd.grad(loss.sum(), list(self.f.parameters()), retain_graph=True)
        norm = torch.stack([g.flatten(1).square().sum(-1) for g in grads]).sum(0).sqrt()
        scale = (LARGEST / (norm + 1e-6)).clamp_max(1.0)
        return with_value(scale * loss, loss), ~loss.isnan()
