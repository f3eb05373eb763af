"""The training engine: a run is a row. Inputs ``[runs, batch, …]``, logits ``[runs, batch]``,
losses ``[runs]``.
"""

from puarena.training.capture import use_own_stream
from puarena.training.checkpoint import State, StateError
from puarena.training.engine import Fleet, FleetConfig, Row, schedule_phases, shape_of, train
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
