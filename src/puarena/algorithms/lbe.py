"""LBE: labeling bias estimation.

Gong, Wang, Liu, Han, You, Yang, Tao: Instance-dependent positive and unlabeled learning with
labeling bias estimation. IEEE TPAMI 44(8), 2022.
"""

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from puarena.algorithms._base import Algorithm, Batch, Passes, Phase, Update
from puarena.algorithms._losses import cross_entropy, logistic


class LBE(Algorithm):
    """EM with ``h = sigmoid(f) = p(y=1|x)`` and ``eta = sigmoid(e) = p(labeled|y=1,x)``.

    E-step, every epoch: ``q = p(y=1|unlabeled,x) = sigmoid(f - softplus(e))``. M-step: the mean
    over both batches of ``-log h - log eta`` on P and
    ``q (-log h - log(1-eta)) + (1-q) (-log(1-h))`` on U. Warm-up: P against U, f only.

    Both batches have the same weight, so eta orders points by their chance of a label, but it is no
    propensity: its odds are about n_U / n_P times too large.
    """

    name, title = "lbe", "LBE"
    paper = (
        "Gong et al.: Instance-dependent PU learning with labeling bias estimation, TPAMI 44(8), "
        "2022"
    )
    setting, needs_prior = "one-sample", False
    networks = ("f", "e")
    phases: ClassVar[tuple[Phase, ...]] = (
        Phase("warm-up", (Update("warm_up_loss"),), extra=True, selectable=False),
        Phase("main", (Update("loss", ("f", "e")),)),
    )
    cost = 2.0
    differs = (
        "The published code trains eta on unlabeled points without the weight q, so that it learns "
        "p(labeled|x), and sums over the batch instead of averaging."
    )

    e: nn.Module
    q: Tensor

    def prepare(self) -> None:
        """Create the posterior of every unlabeled point."""
        self.state("q", self.prior.new_zeros(self.setup.runs, self.setup.n_u))

    def warm_up_loss(self, batch: Batch) -> Tensor:
        """Return the loss of f separating P from U."""
        f_p, f_u = batch.split(self.f(batch.x))
        return logistic(f_p, +1).mean(-1) + logistic(f_u, -1).mean(-1)

    @staticmethod
    def posterior(f_u: Tensor, e_u: Tensor) -> Tensor:
        """E-step: return ``h (1-eta) / (h (1-eta) + 1-h)``."""
        return torch.sigmoid(f_u - softplus(e_u))

    def on_epoch(self, phase: Phase, epoch: int, passes: Passes) -> None:
        """Renew the posterior."""
        if phase.name == "main":
            self.q.copy_(self.posterior(passes.u(self.f), passes.u(self.e)))

    def m_step(self, f_p: Tensor, f_u: Tensor, e_p: Tensor, e_u: Tensor, q: Tensor) -> Tensor:
        """M-step: return the expected negative log likelihood per point.

        Negatives do not depend on eta.
        """
        on_p = logistic(f_p, +1) + logistic(e_p, +1)
        on_u = cross_entropy(f_u, q) + q * logistic(e_u, -1)
        return torch.cat([on_p, on_u], -1).mean(-1)

    def loss(self, batch: Batch) -> Tensor:
        """Return the loss of a step on both networks."""
        return self.m_step(
            *batch.split(self.f(batch.x)),
            *batch.split(self.e(batch.x)),
            self.q.gather(1, batch.i_u),
        )
