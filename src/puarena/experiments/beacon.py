"""A small file in the results folder that says which fleets are in training now, for ``puarena status``.

It is a help and no more: it may be missing or stale, and nothing that computes depends on it.
"""

from __future__ import annotations

import json
import os
import platform
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from puarena.errors import UserError
from puarena.utils.files import parse_json, write_file

if TYPE_CHECKING:
    from puarena.experiments.plan import FleetSpec

EVERY = 5.0  # seconds between two signs of life
STALE = 600.0  # seconds without a sign of life from another machine after which nothing is running


class Beacon:
    """Notes the fleets in training; use as a context manager, which removes the note."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / f".running-{platform.node()[:60].replace('/', '_')}-{os.getpid()}.json"
        self._fleets: dict[str, list[str]] = {}
        self._last = 0.0

    def __enter__(self) -> Beacon:
        for file in self.file.parent.glob(".running-*.json"):  # of processes that were killed
            with suppress(OSError):
                if not _runs(file):
                    file.unlink()
        return self

    def __exit__(self, *error: object) -> None:
        with suppress(OSError):
            self.file.unlink(missing_ok=True)

    def trains(self, fleet: FleetSpec) -> None:
        """This fleet is in training."""
        new = fleet.fleet_id not in self._fleets
        self._fleets.setdefault(fleet.fleet_id, [run.run_id for run in fleet.runs])
        if new or time.monotonic() - self._last >= EVERY:
            self._write()

    def ended(self, fleet: FleetSpec) -> None:
        """This fleet is no longer in training."""
        if self._fleets.pop(fleet.fleet_id, None) is not None:
            self._write()

    def _write(self) -> None:
        self._last = time.monotonic()
        content = {"host": platform.node(), "pid": os.getpid(), "fleets": self._fleets}
        with suppress(UserError):
            write_file(self.file, json.dumps(content))


def running(folder: Path) -> set[str]:
    """The runs that are in training now, as far as can be told."""
    return {run for file in folder.glob(".running-*.json") for run in _runs(file)}


def _runs(file: Path) -> list[str]:
    """The runs one note names, if the process that wrote it is alive."""
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        content = parse_json(file.read_text(encoding="utf-8"))
        if _alive(content["host"], int(content["pid"]), time.time() - file.stat().st_mtime):
            return [str(run) for runs in content["fleets"].values() for run in runs]
    return []


def _alive(host: str, pid: int, age: float) -> bool:
    """Does the process live? On another machine only its last sign of life can tell."""
    if host != platform.node() or os.name == "nt":
        return age < STALE
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
