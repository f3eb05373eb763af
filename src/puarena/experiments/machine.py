"""The machine that trains: its device, and what a results folder records about it."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from pathlib import Path

import puarena
from puarena.errors import UserError

DEVICES = ("auto", "cpu", "cuda")
GIT_SECONDS = 5


def choose_device(device: str = "auto", elsewhere: bool = False) -> str:
    """Return ``cpu`` or ``cuda``; ``auto`` is the GPU if there is one.

    A GPU that is missing here is an error, unless the fleets are trained ``elsewhere``.
    """
    import torch

    if device not in DEVICES:
        raise UserError(
            f"the device is '{device}'; choose one of: {', '.join(DEVICES)}", "invalid-value"
        )
    available = torch.cuda.is_available()
    if device == "cuda" and elsewhere:
        return device
    if device == "cuda" and not available:
        raise UserError(
            "there is no CUDA device on this machine; use --device cpu", "not-supported"
        )
    return "cuda" if device != "cpu" and available else "cpu"


def describe_environment(device: str) -> dict[str, str]:
    """Return the ``machine`` and the ``commit`` of the package, without those that are unknown."""
    facts = {"machine": describe_machine(device), "commit": read_commit()}
    return {name: text for name, text in facts.items() if text}


def describe_machine(device: str) -> str:
    """Return ``NVIDIA H200`` or ``AMD EPYC 7763, 2 cores``; never the name of the host."""
    if device == "cuda":
        import torch

        return str(torch.cuda.get_device_name()) if torch.cuda.is_available() else ""
    cores = os.cpu_count() or 1
    return f"{_read_processor()}, {cores} {'core' if cores == 1 else 'cores'}"


def _read_processor() -> str:
    """Return the processor's name; ``platform.processor()`` is empty on most Linux systems."""
    try:
        text = Path("/proc/cpuinfo").read_text("utf-8", "replace")
    except OSError:
        text = ""
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    if found:
        return " ".join(found[1].split())
    return platform.processor() or platform.machine() or "CPU"


def read_commit() -> str:
    """Return the commit checked out in the package's repository; empty for an installed package."""
    root = Path(puarena.__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return ""
    command = ["git", "-C", str(root), "rev-parse", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=GIT_SECONDS)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
