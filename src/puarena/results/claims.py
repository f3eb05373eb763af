"""Claims on fleets: which process trains what, among all that share a results folder.

A claim is the file ``claims/<fleet>.<n>``. It is created atomically and its owner touches it every
few seconds. The claim of a dead process is superseded by the file with the next number, which again
only one process can create. A claim of another process is never deleted, so no two can take it.

filelock's ``SoftFileLease`` was tried and fails: it never takes over a claim on NFS and SMB, as it
needs an atomic exchange of names, and a holder killed before it wrote its marker blocks the name.
"""

from __future__ import annotations

import json
import os
import threading
import uuid
from contextlib import suppress
from pathlib import Path

from puarena.utils.files import parse_json, write_file
from puarena.utils.processes import HOST, MACHINE, is_running, start_time

HEARTBEAT_SECONDS = 10.0
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
            return bool(parse_json(self.file.read_text(encoding="utf-8"))["token"] == self.token)
        return False


def claim(folder: Path, name: str) -> Claim | None:
    """Claim a fleet; return None if a live process has it."""
    folder.mkdir(exist_ok=True)
    latest = max(_numbers(folder, name), default=0)
    if latest and _is_live(folder / f"{name}.{latest}"):
        return None
    mine = Claim(folder / f"{name}.{latest + 1}", uuid.uuid4().hex)
    owner = {"token": mine.token, "machine": MACHINE, "host": HOST, "pid": os.getpid()}
    owner["started"] = start_time(os.getpid())
    try:
        write_file(mine.file, json.dumps(owner), exclusive=True)
    except FileExistsError:
        return None
    # A slow process can create a number that is below one that another process holds by now.
    if mine.is_lost():
        mine.release()
        return None
    mine.keep_alive()
    return mine


def claimed(folder: Path) -> set[str]:
    """Return the fleets that live processes have claimed."""
    latest: dict[str, int] = {}
    for file in folder.glob("[!.]*.*"):
        name, number = _split(file.name)
        latest[name] = max(number, latest.get(name, 0))
    return {name for name, number in latest.items() if _is_live(folder / f"{name}.{number}")}


def _is_live(file: Path) -> bool:
    """Return whether the owner of a claim lives; on another machine only its heartbeat can tell."""
    try:
        owner = parse_json(file.read_text(encoding="utf-8"))
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
