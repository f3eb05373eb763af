"""Fleets side by side on a CPU: one process per core, each with one thread.

Small matrix products gain little from a second thread and lose much to it on a busy machine; two processes with a
fleet each use two cores fully. Results come back to the one process that writes.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import queue
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING, Any

from puarena.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

    from puarena.bench.plan import FleetSpec

Job = Callable[["FleetSpec", Callable[[int, int], None]], "pd.DataFrame"]
SMALL = 50_000  # run-steps below which starting processes costs more than it brings
_state: dict[str, Any] = {}


def available_cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def choose_workers(workers: int | None, fleets: list[FleetSpec], device: str) -> int:
    """How many processes to train with: what was asked for, else one per core where that pays."""
    if workers is not None:
        if workers < 1:
            raise UserError(f"the number of workers is {workers}; give 1 or more")
        return workers
    if device != "cpu" or sum(fleet.steps for fleet in fleets) < SMALL:
        return 1
    return max(1, min(available_cores(), len(fleets)))


def _start(make_job: Callable[[], Job], news: Any) -> None:
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process decides what an interrupt means
    torch.set_num_threads(1)
    _state.update(job=make_job(), news=news)


def _train(stack: FleetSpec) -> pd.DataFrame:
    def on_record(done: int, total: int) -> None:
        _state["news"].put((stack.fleet_id, done, total))

    return _state["job"](stack, on_record)


def train_all(
    fleets: list[FleetSpec], workers: int, make_job: Callable[[], Job], on_news: Callable[[str, int, int], None]
) -> Iterator[tuple[FleetSpec, Future[pd.DataFrame]]]:
    """Train fleets in ``workers`` processes, the longest first, and yield each as it ends.

    ``make_job`` is called once in every process; ``on_news(fleet, done, total)`` follows the records.
    """
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager:
        news = manager.Queue()
        pool = ProcessPoolExecutor(workers, context, _start, (make_job, news))
        try:
            longest_first = sorted(fleets, key=lambda stack: -stack.steps)
            pending = {pool.submit(_train, stack): stack for stack in longest_first}
            while pending:
                finished, _ = wait(pending, timeout=0.2, return_when=FIRST_COMPLETED)
                with contextlib.suppress(queue.Empty):
                    while True:
                        on_news(*news.get_nowait())
                for future in finished:
                    yield pending.pop(future), future
        except BaseException:
            for process in list((pool._processes or {}).values()):
                process.terminate()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


__all__ = ["SMALL", "BrokenProcessPool", "Job", "available_cores", "choose_workers", "train_all"]
