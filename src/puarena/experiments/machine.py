"""The machine that trains: its device, and what a results folder records about it."""

from __future__ import annotations

import os
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import puarena
from puarena.errors import UserError
from puarena.experiments.spec import PROBLEM_LISTS, Spec, is_path

DEVICES = ("auto", "cpu", "cuda")
GIT_SECONDS = 5
PROGRAMS = ("puarena", "puarena.exe", "__main__.py")
# Options of the command line that change the spec; the others concern the machine.
SPEC_OPTIONS = {*Spec.model_fields, *PROBLEM_LISTS, "datasets", "prior", "plugin"}


def choose_device(device: str = "auto", elsewhere: bool = False) -> str:
    """Return ``cpu`` or ``cuda``; ``auto`` is the GPU if there is one.

    A GPU that is missing here is an error, unless the fleets are trained ``elsewhere``.
    """
    import torch

    if device not in DEVICES:
        found = f"the device is '{device}'; choose one of: {', '.join(DEVICES)}"
        if device.startswith("cuda:"):
            number = device.removeprefix("cuda:")
            found += f". For one of several GPUs, set CUDA_VISIBLE_DEVICES={number} and use cuda"
        raise UserError(found, "invalid-value")
    available = torch.cuda.is_available()
    if device == "cuda" and elsewhere:
        return device
    if device == "cuda" and not available:
        raise UserError(
            "there is no CUDA device on this machine; use --device cpu", "not-supported"
        )
    return "cuda" if device != "cpu" and available else "cpu"


def describe_environment(device: str) -> dict[str, str]:
    """Return the ``machine``, the package's ``commit`` and the ``command``, if known."""
    facts = {
        "machine": describe_machine(device),
        "commit": read_commit(),
        "command": describe_command(sys.argv),
    }
    return {name: text for name, text in facts.items() if text}


def describe_command(arguments: Sequence[str]) -> str:
    """Return a ``puarena run`` command with the options that decide its numbers.

    It is empty if the program was not started by this command, or with a spec file, whose name
    alone would not say what was run.
    """
    program, *others = arguments
    if Path(program).name not in PROGRAMS or "run" not in others:
        return ""
    source = ""
    words: list[str] = []
    left = others[others.index("run") + 1 :]
    while left:
        word = left.pop(0)
        if not word.startswith("--"):
            source = source or word
            continue
        option, _, value = word[2:].partition("=")
        if "=" not in word and left:
            value = left.pop(0)
        if option == "plugin":
            value = Path(value).name
        if option.replace("-", "_") in SPEC_OPTIONS:
            words += [f"--{option}", value]
    if not source or is_path(source):
        return ""
    return shlex.join(["puarena", "run", source, *words])


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
