"""Records of a fleet. They stay on the device until the end, so that training never waits for the
host.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from puarena.algorithms import Phase

MAX_PENDING_RECORDS = 4  # by which the host may be ahead of the device


@dataclass
class Curves:
    """Records of all rows: ``values[column]`` is ``[records, runs]`` in float64."""

    step: np.ndarray
    phase: list[str]
    selectable: np.ndarray
    seconds: np.ndarray
    values: dict[str, np.ndarray]
    diverged: np.ndarray  # [runs]: step of the record that found the run not finite, or -1


class Log:
    """Collects records; from the one on that finds a row not finite, the row's values are NaN."""

    def __init__(self, runs: int, device: torch.device) -> None:
        self.device = device
        self.lost_at = torch.full((runs,), -1, dtype=torch.int64, device=device)
        self.names: list[str] = []
        self.step: list[int] = []
        self.phase: list[str] = []
        self.selectable: list[bool] = []
        self.blocks: list[Tensor] = []
        self.before: list[float] = []  # seconds of the records that were restored
        self.marks: list[float | torch.cuda.Event] = [self._mark()]
        self._queue: deque[torch.cuda.Event] = deque()

    def _mark(self) -> float | torch.cuda.Event:
        if self.device.type != "cuda":
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self.device))
        return event

    def add(self, step: int, phase: Phase, values: dict[str, Tensor]) -> Tensor:
        """Store a record of ``[runs]`` values, among them ``finite``; return which rows are lost
        (bool).
        """
        finite = values.pop("finite") == 1
        self.lost_at = torch.where(
            (self.lost_at < 0) & ~finite, torch.full_like(self.lost_at, step), self.lost_at
        )
        lost = self.lost_at >= 0
        self.names = list(values)
        block = torch.stack([v.double() for v in values.values()])
        self.blocks.append(torch.where(lost, torch.full_like(block, float("nan")), block))
        self.step.append(step)
        self.phase.append(phase.name)
        self.selectable.append(phase.selectable)
        mark = self._mark()
        self.marks.append(mark)
        if isinstance(mark, torch.cuda.Event):
            self._queue.append(mark)
            if len(self._queue) > MAX_PENDING_RECORDS:
                self._queue.popleft().synchronize()
        return lost

    def curves(self) -> Curves:
        """Return what was collected: the one copy to the host."""
        values = torch.stack(self.blocks, 1).cpu().numpy()
        return Curves(
            step=np.array(self.step),
            phase=list(self.phase),
            selectable=np.array(self.selectable),
            seconds=np.array(self.seconds()),
            values=dict(zip(self.names, values, strict=True)),
            diverged=self.lost_at.cpu().numpy(),
        )

    def seconds(self) -> list[float]:
        """Return the time of every record since training began, interruptions left out; the device
        must be idle.
        """
        began = self.before[-1] if self.before else 0.0
        return self.before + [
            began + _elapsed_seconds(self.marks[0], mark) for mark in self.marks[1:]
        ]

    def notes(self) -> dict[str, Any]:
        """Return what is known on the host, as JSON can hold it; the device must be idle."""
        return {
            "names": list(self.names),
            "step": list(self.step),
            "phase": list(self.phase),
            "selectable": list(self.selectable),
            "seconds": self.seconds(),
        }

    def restore(self, values: Tensor, notes: dict[str, Any]) -> None:
        """Go on from records ``[columns, records, runs]`` and their notes; ``lost_at`` is restored
        apart.
        """
        self.blocks = list(values.unbind(1))
        self.names, self.step, self.phase = (
            list(notes["names"]),
            list(notes["step"]),
            list(notes["phase"]),
        )
        self.selectable, self.before = list(notes["selectable"]), list(notes["seconds"])
        self.marks = [self._mark()]


def _elapsed_seconds(a: float | torch.cuda.Event, b: float | torch.cuda.Event) -> float:
    """Return the seconds from one mark to another."""
    if isinstance(a, torch.cuda.Event) and isinstance(b, torch.cuda.Event):
        return float(a.elapsed_time(b)) / 1000
    assert isinstance(a, float)
    assert isinstance(b, float)
    return b - a
