"""PUe as published: as specified, with the propensity network left in training mode."""

from dataclasses import replace

from puarena.algorithms.core.base import Passes, Phase
from puarena.algorithms.pue import PUe
from puarena.algorithms.released.common import Released


class ReleasedPUe(Released, PUe):
    """PUe whose untrained classifier may be chosen during the first stage."""

    phases = tuple(replace(phase, selectable=True) for phase in PUe.phases)  # type: ignore[assignment]
    differs = "The propensity network stays in training mode; checkpoints of the first stage may be chosen."

    def on_phase(self, phase: Phase, passes: Passes) -> None:
        """Nothing is switched."""
