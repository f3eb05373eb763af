"""Experiments that stand still while a file is there, so that a test can interrupt them; commands
that always end.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import puarena
from puarena.experiments.spec import Spec

LIMIT = 120.0  # seconds that anything here may take
PLUGIN = """
import time
from pathlib import Path
from puarena.algorithms import Algorithm, logistic

class Mine(Algorithm):
    name, title, paper = "mine", "Mine", "a test"

    def objective(self, f_p, f_u):
        return logistic(f_p, +1).mean(-1) + logistic(f_u, -1).mean(-1)

    def on_epoch(self, phase, epoch, passes):
        until = time.monotonic() + {limit}
        while epoch == 3 and Path({flag!r}).exists() and time.monotonic() < until:
            if Path({flag!r}).read_text() == "break":
                raise RuntimeError("broken on purpose")
            time.sleep(0.02)

class Twin(Mine):
    name, title = "twin", "Twin"
"""
# A shell that ignores signals hands that on to what it starts, so they are set anew.
START = """
import signal
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.SIG_DFL)
from puarena.cli import main
main()
"""


def plugged(folder: Path, spec: Spec) -> tuple[Spec, Path]:
    """A spec of two fleets that stand still, or break, after three epochs while there is a flag;
    and the flag.
    """
    flag, plugin = folder / "flag", folder / "mine.py"
    plugin.write_text(PLUGIN.format(flag=str(flag), limit=LIMIT))
    return spec.override(algorithms=["mine", "twin"], plugins=[str(plugin)], splits=1), flag


@contextmanager
def command(folder: Path, spec: Spec, *more: str) -> Iterator[subprocess.Popen[str]]:
    """``puarena run`` of a spec into ``folder / "out"``, in a process group of its own, which ends
    with this.
    """
    (folder / "spec.yaml").write_text(json.dumps(spec.to_dict()))
    words = [
        "run",
        str(folder / "spec.yaml"),
        "--out",
        str(folder / "out"),
        "--device",
        "cpu",
        *more,
    ]
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(Path(puarena.__file__).parents[1]),
    }
    process = subprocess.Popen(
        [sys.executable, "-c", START, *words],
        env=environment,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=LIMIT)


def until(condition: Callable[[], object], process: subprocess.Popen[str]) -> None:
    """Wait for something while a process lives."""
    limit = time.monotonic() + LIMIT
    while not condition():
        assert process.poll() is None, process.communicate(timeout=LIMIT)[1]
        assert time.monotonic() < limit
        time.sleep(0.02)
