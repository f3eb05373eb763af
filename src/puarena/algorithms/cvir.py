"""CVIR: conditional value ignoring risk, the classifier of TED^n.

Garg, Wu, Smola, Balakrishnan, Lipton: Mixture proportion estimation and PU learning: a modern
approach. NeurIPS 2021.
"""

import torch
from torch import Tensor

from puarena.algorithms._base import Algorithm, Batch, Hyper, Passes, Phase
from puarena.algorithms._losses import col, count, logistic
from puarena.algorithms._optimizer import Optimizer


class CVIR(Algorithm):
    """``1/2 mean_P l+ + 1/2 mean of l- over the kept members of U``.

    Every epoch begins by dropping from U the share ``prior`` that scores highest; the calibrated
    form drops the share of positives inside U. A batch without kept members makes no update.
    """

    name, title = "cvir", "CVIR"
    paper = (
        "Garg et al.: Mixture proportion estimation and PU learning: a modern approach, "
        "NeurIPS 2021"
    )
    setting, calibrates, calibration_is = "two-sample", True, "prior"
    cost = 1.1
    differs = (
        "The published code weights the two means by the prior and its complement, and trains on "
        "the positives alone when no unlabeled member of the batch is kept. The authors drop the "
        "share of positives inside U; the benchmark gives it the prior, as the plain form here, "
        "and drops too many in the one-sample setting."
    )
    authors_optimizer = Optimizer("sgd", 0.1, weight_decay=5e-4, source="the authors' code")

    unlabeled_prior = Hyper(
        "pi", "what a plain run drops of U: pi, or pi-bar inside U", choices=("pi", "pi-bar")
    )

    n_dropped: Tensor
    keep: Tensor

    def prepare(self) -> None:
        """Count the points to drop and create their flags."""
        self.state("n_dropped", count(self.get_unlabeled_prior(exact=True), self.setup.n_u))
        self.state("keep", self.prior.new_ones(self.setup.runs, self.setup.n_u))

    @staticmethod
    def kept(scores: Tensor, n_dropped: Tensor) -> Tensor:
        """Return 0 for the ``n_dropped`` highest scores of every run and 1 for the others.

        Of equal scores the first is dropped.
        """
        order = scores.argsort(dim=-1, descending=True, stable=True)
        place = torch.arange(scores.shape[-1], device=scores.device)
        return torch.zeros_like(scores).scatter_(
            -1, order, (place >= col(n_dropped)).to(scores.dtype)
        )

    def on_epoch(self, phase: Phase, epoch: int, passes: Passes) -> None:
        """Choose which unlabeled points to keep."""
        self.keep.copy_(self.kept(passes.u(self.f), self.n_dropped))

    def risk(self, f_p: Tensor, f_u: Tensor, keep: Tensor) -> Tensor:
        """Return the risk of positives and kept unlabeled points; zero if none is kept."""
        negative = (keep * logistic(f_u, -1)).sum(-1) / keep.sum(-1).clamp_min(1)
        return torch.where(keep.sum(-1) > 0, (logistic(f_p, +1).mean(-1) + negative) / 2, 0.0)

    def loss(self, batch: Batch) -> Tensor | tuple[Tensor, Tensor]:
        """Return the risk, and which rows have anything to learn from."""
        keep = self.keep.gather(1, batch.i_u)
        return self.risk(*batch.split(self.f(batch.x)), keep), keep.sum(-1) > 0
