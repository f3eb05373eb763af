"""Worker processes that do not import the user's main module.

A script, ``python -`` or a notebook that calls ``puarena.run`` needs no ``if __name__ == "__main__"``: everything a
worker works on comes from puarena's own modules.
"""

from __future__ import annotations

import sys
from multiprocessing.context import SpawnContext, SpawnProcess
from types import ModuleType
from typing import Any


class WorkerProcess(SpawnProcess):
    """A process whose main module is empty."""

    @staticmethod
    def _Popen(process_obj: Any) -> Any:  # noqa: N802
        main = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            return SpawnProcess._Popen(process_obj)
        finally:
            sys.modules["__main__"] = main


class WorkerContext(SpawnContext):
    """In the place of ``multiprocessing.get_context("spawn")``."""

    Process = WorkerProcess
