"""Claims on fleets: which process trains what, among all that share a results folder.

A claim is the file ``claims/<fleet>.<n>``. It is created atomically and its owner touches it every
few seconds. The claim of a dead process is superseded by the file with the next number, which again
only one process can create. A claim of another process is never deleted, so no two can take it.

A part of a fleet, such as half of one that did not fit in memory, is claimed with its runs as
``claims/<fleet>+<part>.<n>``: parts without a common run can be trained by different processes.

filelock's ``SoftFileLease`` was tried and fails: it never takes over a claim on NFS and SMB, as it
needs an atomic exchange of names, and a holder killed before it wrote its marker blocks the name.
"""

from __future__ import annotations

import json
import os
import stat
import threading
import uuid
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from puarena.utils.files import parse_json, write_file
from puarena.utils.processes import HOST, MACHINE, is_running, start_time

HEARTBEAT_SECONDS = 10.0
PART = "+"  # between the names of a fleet and of its part
STALE_SECONDS = 120.0  # without a heartbeat, after which a claim of another machine is void


class Claim:
    """A claim that this process holds."""

    def __init__(self, file: Path, token: str) -> None:
        self.file, self.token = file, token
        self._released = threading.Event()

    def keep_alive(self) -> None:
        """Touch the file from a thread until the claim is released."""
        threading.Thread(target=self._beat, daemon=True).start()

    def _beat(self) -> None:
        while not self._released.wait(HEARTBEAT_SECONDS):
            with suppress(OSError):
                os.utime(self.file)

    def is_lost(self) -> bool:
        """Return whether another process took this one for dead and superseded the claim."""
        name, number = _split(self.file.name)
        return max(_numbers(self.file.parent, name), default=0) > number or not self._is_mine()

    def release(self) -> None:
        """Remove the claim, and those that it superseded."""
        self._released.set()
        if self._is_mine():
            name, number = _split(self.file.name)
            for earlier in _numbers(self.file.parent, name):
                if earlier <= number:
                    with suppress(OSError):
                        self.file.with_name(f"{name}.{earlier}").unlink(missing_ok=True)

    def _is_mine(self) -> bool:
        with suppress(OSError, ValueError, KeyError, TypeError):
            return bool(parse_json(_read(self.file))["token"] == self.token)
        return False


def claim(folder: Path, fleet: str, part: str = "", runs: Iterable[str] = ()) -> Claim | None:
    """Claim a fleet, or a part of it that has these runs.

    Return None if a live process has it, or a part of it with one of these runs.
    """
    folder.mkdir(exist_ok=True)
    name, own_runs = f"{fleet}{PART}{part}" if part else fleet, frozenset(runs)
    if _is_held(folder, fleet, own_runs):
        return None
    latest = max(_numbers(folder, name), default=0)
    mine = Claim(folder / f"{name}.{latest + 1}", uuid.uuid4().hex)
    owner = {"token": mine.token, "machine": MACHINE, "host": HOST, "pid": os.getpid()}
    owner["started"] = start_time(os.getpid())
    if part:
        owner["runs"] = sorted(own_runs)
    try:
        write_file(mine.file, json.dumps(owner), exclusive=True)
    except FileExistsError:
        return None
    # A slow process can create a number that is below one that another process holds by now, and
    # two processes can claim parts with common runs at once: then neither has them.
    if mine.is_lost() or _is_held(folder, fleet, own_runs, besides=mine.file):
        mine.release()
        return None
    mine.keep_alive()
    return mine


def claimed(folder: Path) -> set[str]:
    """Return the fleets that live processes have claimed, or parts of them."""
    return {_fleet_of(file) for file in _latest(folder) if _is_live(file)}


def _latest(folder: Path) -> list[Path]:
    """Return the files of all claims that are not superseded."""
    latest: dict[str, int] = {}
    for file in folder.glob("[!.]*.*"):
        name, number = _split(file.name)
        latest[name] = max(number, latest.get(name, 0))
    return [folder / f"{name}.{number}" for name, number in latest.items()]


def _is_held(folder: Path, fleet: str, runs: frozenset[str], besides: Path | None = None) -> bool:
    """Return whether a live process has a fleet or, of these runs (none: all), a part of it."""
    for file in _latest(folder):
        if file != besides and _fleet_of(file) == fleet and _is_live(file):
            of_part = _read_runs(file)
            if not runs or not of_part or runs & of_part:
                return True
    return False


def _fleet_of(file: Path) -> str:
    """Return the fleet that a claim's file is for."""
    return _split(file.name)[0].partition(PART)[0]


def _read_runs(file: Path) -> frozenset[str]:
    """Return the runs of a claimed part; none for a whole fleet, or if that cannot be read."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        return frozenset(parse_json(_read(file))["runs"])
    return frozenset()


def _is_live(file: Path) -> bool:
    """Return whether the owner of a claim lives; on another machine only its heartbeat can tell."""
    try:
        owner = parse_json(_read(file))
        if owner["machine"] == MACHINE:
            return is_running(int(owner["pid"]), str(owner["started"]))
    except FileNotFoundError:
        return False
    except (OSError, ValueError, KeyError, TypeError):
        pass  # damaged: as if it were another machine's
    try:
        return _file_system_time(file.parent) - file.stat().st_mtime < STALE_SECONDS
    except OSError:
        return False


def _read(file: Path) -> str:
    """Return the text of a claim; a pipe would block, and a device may never end."""
    if not stat.S_ISREG(file.stat().st_mode):
        raise ValueError("it is no file")
    return file.read_text(encoding="utf-8")


def _file_system_time(folder: Path) -> float:
    """Return the time by the clock of the file system, which may be another machine's."""
    clock = folder / f".clock.{MACHINE}-{os.getpid()}.tmp"
    clock.touch()
    now = clock.stat().st_mtime
    clock.unlink(missing_ok=True)
    return now


def _numbers(folder: Path, name: str) -> list[int]:
    """Return the numbers of all claims on a fleet."""
    try:
        found = [_split(entry) for entry in os.listdir(folder)]
    except OSError:
        return []
    return [number for fleet, number in found if fleet == name and number]


def _split(file_name: str) -> tuple[str, int]:
    """Return the fleet and the number of a claim's file; 0 if it has none."""
    name, _, number = file_name.rpartition(".")
    return name, int(number) if number.isdecimal() else 0
