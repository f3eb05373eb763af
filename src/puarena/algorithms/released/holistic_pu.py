"""Holistic-PU as released.

Not reproduced: the teacher left in training mode, which matters with batch normalization only.
"""

from dataclasses import replace

from torch import Tensor, nn

from puarena.algorithms.core.averages import ema_
from puarena.algorithms.core.base import Batch, Phase
from puarena.algorithms.holistic_pu import DECAY, EXPONENT, HolisticPU
from puarena.algorithms.released.common import Released


class ReleasedHolisticPU(Released, HolisticPU):
    """Holistic-PU that predicts with the teacher, continued from the first network to the second."""

    phases = tuple(replace(phase, selectable=True) for phase in HolisticPU.phases)  # type: ignore[assignment]

    def predictor(self) -> nn.Module:
        """Return the teacher."""
        return self.teacher

    def after_step(self, batch: Batch) -> None:
        """Move the teacher in both phases."""
        super().after_step(batch)
        if not self.phase.extra:
            ema_(self.teacher, self.f, DECAY)

    def record(self, score: Tensor) -> None:
        """Points in the dropped last batch keep score 1."""
        score[:, self.setup.epoch * self.setup.batch_u :] = 1.0
        super().record(score)

    def schedule(self, phase: Phase, step: int, steps: int, epoch: int) -> dict[str, float]:
        """Let the learning rate rise through phase 1, and the ramp exceed 1: it is divided by 18,000 of 20,000."""
        plan = super().schedule(phase, step, steps, epoch)
        return {
            "lr": step / steps if phase.extra else plan["lr"],
            "ramp": (step / (0.9 * steps)) ** EXPONENT,
        }
