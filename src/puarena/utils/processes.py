"""Which machine this is, and which of its processes live."""

from __future__ import annotations

import hashlib
import os
import platform
from contextlib import suppress
from pathlib import Path


def _machine() -> str:
    """A name for where process numbers mean the same: this host since it was started, this container."""
    parts = [platform.node()]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text())
    with suppress(OSError):
        parts.append(os.readlink("/proc/self/ns/pid"))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:10]


MACHINE = _machine()


def lives(pid: int, began: str = "") -> bool:
    """Is there such a process on this machine (and, where that is known, did it begin then)?"""
    if os.name == "nt":  # a signal would end it
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    state, now = _stat(pid)
    return state != "Z" and (not began or now in ("", began))


def beginning(pid: int) -> str:
    """When a process began, as the system counts it; empty where it does not say. Numbers are given out again."""
    return _stat(pid)[1]


def _stat(pid: int) -> tuple[str, str]:
    """The state of a process (Z: it has ended, and nobody has asked how) and when it began."""
    with suppress(OSError, IndexError):
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return words[0], words[19]
    return "", ""
