"""VPU as published: the mixup term pulls on the raw second output, and nothing is normalized."""

from torch import Tensor

from puarena.algorithms.core.base import Passes
from puarena.algorithms.released.common import Released, SecondOutput
from puarena.algorithms.vpu import VPU


class ReleasedVPU(Released, VPU):
    """``log mean_U Phi - mean_P log Phi + weight mean[(log t - z1(mix))^2]``, ``t`` constant."""

    differs = "The mixup term compares log t, without gradient, with the raw second output; positive iff f >= 0."

    def mixing(self, f_u: Tensor, f_mix: Tensor, lam: Tensor) -> Tensor:
        """Return the mixup term; ``f_mix`` is the raw second output on the mixed points."""
        return (self.log_target(f_u[:, : f_mix.shape[1]].detach(), lam) - f_mix).square().mean(-1)

    def output_on_mixed(self, x: Tensor) -> Tensor:
        """Return the raw second output."""
        return SecondOutput(self.f)(x)

    def threshold(self, passes: Passes) -> None:  # type: ignore[override]
        """Zero."""
