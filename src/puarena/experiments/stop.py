"""Asked to stop, by a signal or as the time is up: training ends at the next record, and its state is kept."""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType
from typing import Any

SIGNALS = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]


class Stopped(KeyboardInterrupt):
    """Training was asked to stop; ``code`` is what a command then ends with."""

    def __init__(self, why: str, code: int) -> None:
        super().__init__(why)
        self.why, self.code = why, code


class Stop:
    """Notes signals instead of obeying them at once; a second one is obeyed. Use as a context manager."""

    TIME_IS_UP = 3  # what a command ends with when its time is up and work is left

    def __init__(self, seconds: float | None = None) -> None:
        self.until = None if seconds is None else time.monotonic() + seconds
        self.signal: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Stop:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                if signal.getsignal(number) != signal.SIG_IGN:  # as nohup has it
                    self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.signal is not None:
            raise Stopped(f"{signal.Signals(number).name}, twice", 128 + number)
        self.signal = number

    @property
    def asked(self) -> bool:
        """Is it time to stop?"""
        return self.signal is not None or (
            self.until is not None and time.monotonic() >= self.until
        )

    def check(self) -> None:
        """Stop if that was asked for."""
        if self.signal is not None:
            raise Stopped(signal.Signals(self.signal).name, 128 + self.signal)
        if self.asked:
            raise Stopped("the time is up", self.TIME_IS_UP)
