"""The training engine: a run is a row. Inputs ``[runs, batch, …]``, logits ``[runs, batch]``, losses ``[runs]``."""

from puarena.training.capture import own_stream
from puarena.training.checkpoint import State, StateError
from puarena.training.engine import Fleet, timetable, train
from puarena.training.rows import Curves, FleetConfig, Row, shape_of

__all__ = [
    "Curves",
    "Fleet",
    "FleetConfig",
    "Row",
    "State",
    "StateError",
    "own_stream",
    "shape_of",
    "timetable",
    "train",
]
