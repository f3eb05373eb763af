"""Stopping a run by a signal or after a time: at the next record, with checkpoints saved."""

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
    """Training was asked to stop; a command ends with ``code``."""

    def __init__(self, reason: str, code: int) -> None:
        super().__init__(reason)
        self.reason, self.code = reason, code


class Stop:
    """Notes signals, to be obeyed at the next record; a second one is obeyed at once."""

    TIME_IS_UP = 3  # exit code of a command whose time is up

    def __init__(self, seconds: float | None = None) -> None:
        self.until = None if seconds is None else time.monotonic() + seconds
        self.signal: int | None = None
        self._handlers_before: dict[int, Any] = {}

    def __enter__(self) -> Stop:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                # nohup has signals ignored.
                if signal.getsignal(number) != signal.SIG_IGN:
                    self._handlers_before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._handlers_before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.signal is not None:
            raise Stopped(f"{signal.Signals(number).name}, twice", 128 + number)
        self.signal = number

    @property
    def asked(self) -> bool:
        """Whether it is time to stop."""
        is_late = self.until is not None and time.monotonic() >= self.until
        return self.signal is not None or is_late

    def check(self) -> None:
        """Raise ``Stopped`` if it is time to stop."""
        if self.signal is not None:
            raise Stopped(signal.Signals(self.signal).name, 128 + self.signal)
        if self.asked:
            raise Stopped("the time is up", self.TIME_IS_UP)
