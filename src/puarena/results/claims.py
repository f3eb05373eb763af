"""Who works on what, among all processes and machines that share a results folder.

A claim is the file ``claims/<name>.<n>``, which only one of several can create; its owner touches it every few seconds.
The claim of a dead process is overruled by the file with the next number, which again only one can create, so nobody
ever removes the claim of another. Who lost a claim learns that, and whoever stores a fleet first has stored it.
"""

from __future__ import annotations

import json
import os
import platform
import threading
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from puarena.errors import UserError
from puarena.utils.files import parse_json, write_file
from puarena.utils.processes import MACHINE, beginning, lives

BEAT = 10.0  # seconds between two signs of life
STALE = 120.0  # seconds without one, from another machine, after which a claim is void


@dataclass(frozen=True)
class Claim:
    """A claim that this process holds."""

    file: Path
    token: str

    def beat(self) -> None:
        """Give a sign of life."""
        with suppress(OSError):
            os.utime(self.file)

    def is_lost(self) -> bool:
        """Has somebody overruled it, taking this process for dead?"""
        name, number = _parts(self.file)
        return (
            any(other > number for other in _numbers(self.file.parent, name))
            or _owner(self.file) != self.token
        )

    def release(self) -> None:
        """Give it back, and remove those it overruled."""
        if _owner(self.file) == self.token:
            name, number = _parts(self.file)
            for other in _numbers(self.file.parent, name):
                if other <= number:
                    with suppress(OSError):
                        (self.file.parent / f"{name}.{other}").unlink(missing_ok=True)
        _Heart.held.discard(self)


class _Heart:
    """One thread gives signs of life for all claims of this process."""

    held: ClassVar[set[Claim]] = set()
    thread: ClassVar[threading.Thread | None] = None

    @classmethod
    def watch(cls, claim: Claim) -> None:
        cls.held.add(claim)
        if cls.thread is None or not cls.thread.is_alive():
            cls.thread = threading.Thread(target=cls._beat, daemon=True)
            cls.thread.start()

    @classmethod
    def _beat(cls) -> None:
        pause = threading.Event()
        while not pause.wait(BEAT):
            for claim in tuple(cls.held):
                claim.beat()


def claim(folder: Path, name: str) -> Claim | None:
    """Claim something; None if a living process has it."""
    folder.mkdir(exist_ok=True)
    token = uuid.uuid4().hex
    content = {"token": token, "machine": MACHINE, "host": platform.node(), "pid": os.getpid()}
    content["began"] = beginning(os.getpid())
    numbers = _numbers(folder, name)
    if numbers and is_alive(folder / f"{name}.{numbers[-1]}"):
        return None
    file = folder / f"{name}.{numbers[-1] + 1 if numbers else 1}"
    try:
        write_file(file, json.dumps(content), exclusive=True)
    except FileExistsError:
        return None
    except UserError as error:
        if isinstance(error.__cause__, FileNotFoundError):  # the folder was tidied away under way
            return None
        raise
    mine = Claim(file, token)
    if mine.is_lost():  # somebody saw neither this one nor the one before it
        mine.release()
        return None
    _Heart.watch(mine)
    return mine


def claimed(folder: Path) -> set[str]:
    """What living processes have claimed."""
    names = {_parts(file)[0] for file in folder.glob("[!.]*.*")}
    return {name for name in names if is_claimed(folder, name)}


def is_claimed(folder: Path, name: str) -> bool:
    """Has a living process claimed this?"""
    numbers = _numbers(folder, name)
    return bool(numbers) and is_alive(folder / f"{name}.{numbers[-1]}")


def is_alive(file: Path) -> bool:
    """Does the owner of a claim live? Of another machine's only the last sign of life can tell."""
    try:
        content = parse_json(file.read_text(encoding="utf-8"))
        if content["machine"] == MACHINE:
            return lives(int(content["pid"]), str(content["began"]))
    except FileNotFoundError:
        return False
    except (OSError, ValueError, KeyError, TypeError):
        pass
    try:
        return _now(file.parent) - file.stat().st_mtime < STALE
    except OSError:
        return False


def _now(folder: Path) -> float:
    """The time by the clock of the file system, which may be that of another machine."""
    clock = folder / f".clock.{MACHINE}-{os.getpid()}.tmp"
    clock.touch()
    now = clock.stat().st_mtime
    clock.unlink(missing_ok=True)
    return now


def _numbers(folder: Path, name: str) -> list[int]:
    with suppress(OSError):
        entries = [entry.rpartition(".") for entry in os.listdir(folder)]
        return sorted(
            int(number) for owner, _, number in entries if owner == name and number.isdecimal()
        )
    return []


def _parts(file: Path) -> tuple[str, int]:
    name, _, number = file.name.rpartition(".")
    return name, int(number) if number.isdecimal() else 0


def _owner(file: Path) -> str:
    with suppress(OSError, ValueError, KeyError, TypeError):
        return str(parse_json(file.read_text(encoding="utf-8"))["token"])
    return ""
