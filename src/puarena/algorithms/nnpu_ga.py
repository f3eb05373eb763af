"""nnPU-GA: nnPU with gradient ascent, Algorithm 1 of the nnPU paper.

Kiryo, Niu, du Plessis, Sugiyama: Positive-unlabeled learning with non-negative risk estimator.
NeurIPS 2017.
"""

from typing import Any

from torch import Tensor

from puarena.algorithms._base import Batch, Hyper
from puarena.algorithms._losses import ascent_step, replace_value
from puarena.algorithms.nnpu import NNPU, NonNegativeRisk


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
