"""The training engine: a run is a row. Inputs ``[runs, batch, …]``, logits ``[runs, batch]``, losses ``[runs]``."""

from puarena.fleet.capture import own_stream
from puarena.fleet.checkpoint import State, StateError
from puarena.fleet.engine import Fleet, timetable, train
from puarena.fleet.rows import Curves, FleetConfig, Row, shape_of

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
