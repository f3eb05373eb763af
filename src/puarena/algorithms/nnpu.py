"""nnPU: non-negative PU learning.

Kiryo, Niu, du Plessis, Sugiyama: Positive-unlabeled learning with non-negative risk estimator.
NeurIPS 2017.
"""

from typing import Any

from torch import Tensor

from puarena.algorithms._base import Algorithm, Hyper
from puarena.algorithms._losses import logistic
from puarena.algorithms._optimizer import Optimizer


class NonNegativeRisk(Algorithm):
    """Base class: ``prior mean_P l+ + max(-beta, mean_U l- - prior mean_P l-)``, tolerance 0."""

    beta: Any = 0.0

    def risk_parts(self, f_p: Tensor, f_u: Tensor) -> tuple[Tensor, Tensor]:
        """Return the positive and the negative part of the unbiased risk."""
        l_p = logistic(f_p, -1)
        negative = self.mean_u(logistic(f_u, -1), l_p) - self.prior * l_p.mean(-1)
        return self.prior * logistic(f_p, +1).mean(-1), negative

    def objective(self, f_p: Tensor, f_u: Tensor) -> Tensor:
        """Return the clamped risk."""
        positive, negative = self.risk_parts(f_p, f_u)
        return positive + negative.clamp_min(-self.beta)


class NNPU(NonNegativeRisk):
    """``prior mean_P l+ + max(-beta, mean_U l- - prior mean_P l-)``."""

    name, title = "nnpu", "nnPU"
    paper = (
        "Kiryo, Niu, du Plessis, Sugiyama: Positive-unlabeled learning with non-negative risk "
        "estimator, NeurIPS 2017"
    )
    setting, calibrates = "two-sample", True
    differs = (
        "The plain form is the published code's (its beta is fixed at 0); its calibrated form is "
        "the batch union."
    )
    authors_optimizer = Optimizer(
        "adam", 1e-3, weight_decay=5e-3, source="nnPU's code, MNIST; 1e-5 on CIFAR-10"
    )

    beta = Hyper(0.0, "tolerance: how far below zero the negative part may fall")
