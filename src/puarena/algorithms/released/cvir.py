"""CVIR as published: weighted by the prior, and positives alone where nothing is kept."""

from torch import Tensor

from puarena.algorithms.core.base import Batch
from puarena.algorithms.core.losses import logistic
from puarena.algorithms.cvir import CVIR
from puarena.algorithms.released.common import Released


class ReleasedCVIR(Released, CVIR):
    """``prior mean_P l+ + (1-prior) mean of l- over the kept members of U``."""

    calibrates = False  # the published code has no row told the prior inside U
    differs = "Weights prior and 1 - prior; a batch without kept points trains on the positives."

    def risk(self, f_p: Tensor, f_u: Tensor, keep: Tensor) -> Tensor:
        """Return the weighted risk."""
        negative = (keep * logistic(f_u, -1)).sum(-1) / keep.sum(-1).clamp_min(1)
        return self.prior * logistic(f_p, +1).mean(-1) + (1 - self.prior) * negative

    def loss(self, batch: Batch) -> Tensor:
        """Return the risk; every row is updated."""
        return self.risk(*batch.split(self.f(batch.x)), self.keep.gather(1, batch.i_u))
