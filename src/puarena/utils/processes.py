"""The name of this machine, and whether a process of it is running."""

from __future__ import annotations

import hashlib
import os
import platform
from contextlib import suppress
from pathlib import Path

HOST = platform.node()  # for people; two containers can have the same


def _identify_machine() -> str:
    """Return a name for the scope in which process numbers are unique: host, boot, container."""
    parts = [HOST]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text())
    with suppress(OSError):
        parts.append(os.readlink("/proc/self/ns/pid"))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:10]


MACHINE = _identify_machine()


def is_running(pid: int, started: str = "") -> bool:
    """Return whether this machine runs a process with this number (and this start time)."""
    # On Windows the signal 0 would end the process.
    if os.name == "nt":
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    state, now = _read_stat(pid)
    return state != "Z" and (not started or now in ("", started))


def start_time(pid: int) -> str:
    """Return when a process was started, in the system's ticks; empty if that is unknown.

    The system reuses process numbers, and this tells two processes of one number apart.
    """
    return _read_stat(pid)[1]


def _read_stat(pid: int) -> tuple[str, str]:
    """Return the state of a process (Z: a zombie) and when it was started."""
    with suppress(OSError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return fields[0], fields[19]
    return "", ""
