"""Do captured steps and records give the curves of eager ones? Tried on a GPU or a pretended one.

A captured step reads the same tensors at every replay and runs no Python. So an algorithm goes
wrong there if it binds a state anew instead of writing into it, or if its step or ``outputs``
depends on an attribute that changes; and it is slow there if a step does what cannot be captured.
"""

from __future__ import annotations

import inspect
import traceback
import warnings
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from puarena import training
from puarena.algorithms import Algorithm
from puarena.testing.pretended import Usage, pretend
from puarena.training import Curves, Fleet, FleetConfig, Row
from puarena.training.capture import WARMUP_STEPS

RECORD_STEPS = 10  # so often that records of every phase are replayed
TOLERANCE = 3e-3  # of curves on a real GPU, where sums may be taken in another order


def find_capture_problem(rows: Sequence[Row], x: np.ndarray, config: FleetConfig) -> str | None:
    """Train captured and eagerly; return what is wrong with the captured steps, or None."""
    config = replace(config, record_every=RECORD_STEPS)
    pretended = torch.device(config.device).type == "cpu"
    captured_config = replace(config, device="cuda" if pretended else config.device)
    with pretend() if pretended else nullcontext() as usage:
        fleet = Fleet(rows, captured_config, x)
        watch = CaptureWatch(fleet.algorithm)
        try:
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                captured = fleet.train()
        except RuntimeError as error:
            if "same device" not in str(error):
                raise
            line = watch.find_line(traceback.extract_tb(error.__traceback__))
            return (
                f"{line} uses a tensor on the CPU beside one on the GPU: make it there, with "
                f"device=... of a tensor at hand ({error})"
            )
        problem = _find_uncaptured(fleet, usage, [str(each.message) for each in said], watch)
        if problem is not None:
            return problem
        # On a pretended device the CPU's curves are those of eager steps; they cost less.
        if pretended and _find_difference(captured, training.train(rows, config, x), 0) is None:
            return None
        eager = training.train(rows, replace(captured_config, capture=False), x)
    column = _find_difference(captured, eager, 0 if pretended else TOLERANCE)
    return None if column is None else watch.explain(column)


def _find_uncaptured(
    fleet: Fleet, usage: Usage | None, said: Iterable[str], watch: CaptureWatch
) -> str | None:
    """Return what was not captured."""
    for refusal in usage.refusals if usage else ():
        line = watch.find_line(refusal.calls)
        return (
            f"{line} does what cannot be captured: {refusal.what}; make constants once, in "
            "prepare() with self.state(...), or write plain numbers"
        )
    uncaptured = next((text for text in said if "uncaptured" in text), None)
    spans = training.schedule_phases(fleet.algorithm, fleet.config)
    phases = sum(span.steps > WARMUP_STEPS for span in spans)
    if usage is not None and uncaptured is None and usage.graphs <= phases:
        return "the steps of a phase are not captured"
    if uncaptured is None and fleet.evaluate.graph is None:
        return "its records are not captured"
    return uncaptured


def _find_difference(a: Curves, b: Curves, tolerance: float) -> str | None:
    """Return the first column in which curves differ."""
    for name in sorted(a.values):
        close = np.allclose(a.values[name], b.values[name], tolerance, tolerance, equal_nan=True)
        if not close:
            return name
    return None


class CaptureWatch:
    """Notes what an algorithm's code reads while it is captured, and states that it binds anew."""

    def __init__(self, algorithm: Algorithm) -> None:
        self.algorithm = algorithm
        # The files of the author, of puarena's own algorithms too, but not of their base class.
        classes = type(algorithm).__mro__[: type(algorithm).__mro__.index(Algorithm)]
        self.files = {inspect.getsourcefile(cls) for cls in classes}
        self.read: dict[str, tuple[Any, str]] = {}  # attribute: its value then, and the line
        self.bound: dict[str, str] = {}  # state: the line that bound it anew
        self.is_captured = False
        algorithm.__class__ = _watched_class(type(algorithm), self)

    def find_line(self, calls: Sequence[traceback.FrameSummary]) -> str:
        """Return the author's line that made these calls: ``line 12 of method.py``."""
        own = [call for call in calls if call.filename in self.files]
        if not own:
            return "something"
        return f"line {own[-1].lineno} of {Path(own[-1].filename).name}"

    def note_read(self, name: str, value: Any) -> None:
        """Note an attribute's value if it is read in a capture."""
        if torch.cuda.is_current_stream_capturing():
            self.is_captured = True
            line = self.find_line(traceback.extract_stack())
            if line != "something" and name not in self.read:
                self.read[name] = (value, line)

    def note_binding(self, name: str) -> None:
        """Note that a state is bound anew after something was captured."""
        if self.is_captured and name not in self.bound:
            self.bound[name] = self.find_line(traceback.extract_stack())

    def explain(self, column: str) -> str:
        """Return why captured curves may differ from eager ones."""
        found = []
        for name, line in self.bound.items():
            found.append(
                f"{line} binds the state '{name}' anew, while captured steps go on with the old "
                f"tensor: write into it, as in self.{name}.copy_(...)"
            )
        for name, (value, line) in self.read.items():
            if vars(self.algorithm).get(name) is not value:
                found.append(
                    f"{line} reads self.{name}, which has another value later, while what was "
                    "captured goes on with the first one: keep what depends on it in a tensor, "
                    "with self.state(...), and write into that"
                )
        reason = "; ".join(found) or (
            "a step or outputs() depends on something that changes and is not in a tensor of its"
        )
        return f"captured, it gives another '{column}' than eagerly: {reason}"


def _watched_class(cls: type[Algorithm], watch: CaptureWatch) -> type[Algorithm]:
    """Return a subclass whose attributes are watched."""
    plain = vars(nn.Module())

    class Watched(cls):  # type: ignore[misc, valid-type]
        def __getattribute__(self, name: str) -> Any:
            value = super().__getattribute__(name)
            own = object.__getattribute__(self, "__dict__")
            if name in own and name not in plain and not isinstance(value, Tensor):
                watch.note_read(name, value)
            return value

        def __setattr__(self, name: str, value: Any) -> None:
            if name in self._buffers and value is not self._buffers[name]:
                watch.note_binding(name)
            super().__setattr__(name, value)

    Watched.__name__ = cls.__name__
    return Watched
