"""The training engine: a run is a row. Inputs ``[runs, batch, …]``, logits ``[runs, batch]``,
losses ``[runs]``.
"""

from puarena.training.capture import use_own_stream
from puarena.training.checkpoint import State, StateError
from puarena.training.config import FleetConfig, Row, shape_of
from puarena.training.engine import Fleet, schedule_phases, train
from puarena.training.log import Curves

__all__ = [
    "Curves",
    "Fleet",
    "FleetConfig",
    "Row",
    "State",
    "StateError",
    "schedule_phases",
    "shape_of",
    "train",
    "use_own_stream",
]
