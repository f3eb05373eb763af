"""The training engine: a run is a row. Inputs ``[runs, batch, …]``, logits ``[runs, batch]``, losses ``[runs]``."""

from puarena.fleet.engine import Fleet, timetable, train
from puarena.fleet.rows import Curves, FleetConfig, Row, shape_of

__all__ = ["Curves", "Fleet", "FleetConfig", "Row", "shape_of", "timetable", "train"]
