"""What a results folder says of the machine and the program that made it."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from pathlib import Path

import puarena


def made(device: str) -> dict[str, str]:
    """The machine in words, and the commit of the program where it runs from a repository; no name of a host."""
    return {
        name: text for name, text in (("machine", machine(device)), ("commit", commit())) if text
    }


def machine(device: str) -> str:
    """``NVIDIA H200`` or ``AMD EPYC 7763, 2 cores``."""
    if device == "cuda":
        import torch

        return str(torch.cuda.get_device_name()) if torch.cuda.is_available() else ""
    cores = os.cpu_count() or 1
    return f"{_processor()}, {cores} {'core' if cores == 1 else 'cores'}"


def _processor() -> str:
    """The processor's name, as the system has it."""
    try:
        found = re.search(
            r"^model name\s*:\s*(.+)$",
            Path("/proc/cpuinfo").read_text("utf-8", "replace"),
            re.MULTILINE,
        )
    except OSError:
        found = None
    return (
        " ".join(found[1].split()) if found else platform.processor() or platform.machine() or "CPU"
    )


def commit() -> str:
    """The commit that is checked out where the package lies; nothing for an installed one."""
    root = Path(puarena.__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return ""
    try:
        done = subprocess.run(
            ["git", "-C", str(root), "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
