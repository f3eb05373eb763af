"""What broke a fleet, as data."""

from __future__ import annotations

import platform
import traceback
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Trouble:
    """An unexpected error: what it says, where it happened, on which machine, after how long."""

    exception: str
    message: str
    place: str
    machine: str
    seconds: float
    memory: bool = False  # too little of it

    @property
    def reason(self) -> str:
        """All in one line."""
        return f"{self.exception}: {self.message}" + (f" ({self.place})" if self.place else "")


class Broken(Exception):  # noqa: N818
    """A fleet broke off; unlike the error itself it can be sent to another process."""

    def __init__(self, trouble: Trouble) -> None:
        super().__init__(trouble)
        self.trouble = trouble

    def __str__(self) -> str:
        return self.trouble.message


class Elsewhere(Exception):  # noqa: N818
    """Another process has claimed a fleet, or has just stored it."""


def trouble_of(error: BaseException, seconds: float = 0.0) -> Trouble:
    """Describe an error."""
    if isinstance(error, Broken):
        return error.trouble
    frames = traceback.extract_tb(error.__traceback__)
    place = f"{Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else ""
    message = " ".join(str(error).split())[:500]
    memory = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    return Trouble(type(error).__name__, message, place, platform.node(), round(seconds, 3), memory)
