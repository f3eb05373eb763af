"""nnPU: non-negative PU learning, and nnPU-GA: with gradient ascent, the paper's Algorithm 1.

Kiryo, Niu, du Plessis, Sugiyama: Positive-unlabeled learning with non-negative risk estimator.
NeurIPS 2017.
"""

from typing import Any

from torch import Tensor

from puarena.algorithms._base import Algorithm, Batch, Hyper
from puarena.algorithms._losses import ascent_step, logistic, replace_value
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


class AscentStep(NonNegativeRisk):
    """Base class of the algorithms that train or begin with Algorithm 1; tolerance 0, scale 1."""

    gamma: Any = 1.0

    def surrogate(self, f_p: Tensor, f_u: Tensor) -> Tensor:
        """Return what the step differentiates."""
        return ascent_step(*self.risk_parts(f_p, f_u), self.beta, self.gamma)

    def ascent(self, f_p: Tensor, f_u: Tensor) -> Tensor:
        """Step on the surrogate, report the clamped risk."""
        return replace_value(self.surrogate(f_p, f_u), self.objective(f_p, f_u))


class NNPUGA(AscentStep, NNPU):
    """nnPU whose step un-learns the negative part alone if that is below the tolerance.

    With ``rho = mean_U l- - prior mean_P l-`` the step is on ``prior mean_P l+ + rho`` where
    ``rho >= -beta``, and on ``-gamma rho`` elsewhere.
    """

    name, title = "nnpu-ga", "nnPU-GA"
    differs = (
        "The published code tests the sign of the whole unbiased risk and flips the whole "
        "gradient, which un-learns positives too and triggers later."
    )

    gamma = Hyper(1.0, "scale of the ascent step, 0 to 1")

    def loss(self, batch: Batch) -> Tensor:
        """Take the ascent step."""
        return self.ascent(*batch.split(self.f(batch.x)))
