"""Python code in a process of its own, which sees the same packages as the tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def run_python(*arguments: str | Path, cwd: Path, first: Path | None = None) -> str:
    """What a process prints that must succeed; modules are looked for in ``first`` at first."""
    paths = [str(first)] if first else []
    paths += [path for path in sys.path if path]
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(paths)},
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
