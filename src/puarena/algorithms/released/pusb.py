"""PUSB as published: nnPU whose scores are thrown away."""

from torch import Tensor

from puarena.algorithms.core.base import Batch, Passes
from puarena.algorithms.pusb import PUSB
from puarena.algorithms.released.common import Released


class ReleasedPUSB(Released, PUSB):
    """The clamped nnPU risk; hard outputs, so that AUC is the balanced accuracy."""

    differs = "Trains the clamped nnPU risk, predicts by f >= 0 and returns hard outputs."

    def loss(self, batch: Batch) -> Tensor:
        """Return the clamped risk."""
        return self.objective(*batch.split(self.f(batch.x)))

    def threshold(self, passes: Passes) -> None:  # type: ignore[override]
        """The routine that would set a threshold never runs."""

    def outputs(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the predictions ±1/2, as decision and as score; what is not finite stays so."""
        f = self.f(x)
        hard = (f >= 0).to(f.dtype) - 0.5 + 0 * f
        return hard, hard
