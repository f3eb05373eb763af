"""Fleets in worker processes on a CPU.

Small matrix products gain little from a second thread and lose much to it on a busy machine; two processes with a fleet
and a thread each use two cores fully.
"""

from __future__ import annotations

import heapq
import os
import queue
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import suppress
from multiprocessing.managers import SyncManager
from typing import Any

import torch

from puarena.bench.executors.base import Ended, Executor, News, longest_first
from puarena.bench.executors.orphan import end_with_parent
from puarena.bench.executors.spawning import WorkerContext
from puarena.bench.plan import FleetSpec
from puarena.bench.work import Job

SMALL = 50_000  # run-steps below which starting processes costs more than it brings
STARTING = 4.0  # seconds until a worker process trains
_worker: dict[str, Any] = {}  # of a worker process: its job, and where its news go


def available_cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def side_by_side(workers: int | None, fleets: Sequence[FleetSpec]) -> int:
    """How many worker processes to start: what was asked for, else what pays; never more than there are fleets."""
    if workers is None:
        workers = 1 if sum(fleet.steps for fleet in fleets) < SMALL else available_cores()
    return max(1, min(workers, len(fleets)))


class Processes(Executor):
    """Trains in worker processes, each with a fleet and a thread."""

    name = "processes"
    devices = ("cpu",)

    @classmethod
    def preference(cls, workers: int | None, fleets: Sequence[FleetSpec]) -> int:
        """Where it is worth starting more than one."""
        return 2 * (side_by_side(workers, fleets) > 1)

    def train(self, fleets: Sequence[FleetSpec], job: Job, news: News) -> Iterator[Ended]:
        """Train fleets, the longest first; every process prepares the job once."""
        context = WorkerContext()
        known = {fleet.fleet_id: fleet for fleet in fleets}
        server = SyncManager(ctx=context)
        server.start(end_with_parent)
        with server as manager:
            records = manager.Queue()
            pool = ProcessPoolExecutor(side_by_side(self.workers, fleets), context, _start, (job, records))
            try:
                pending = {pool.submit(_train, fleet): fleet for fleet in longest_first(fleets)}
                while pending:
                    finished, _ = wait(pending, timeout=0.2, return_when=FIRST_COMPLETED)
                    with suppress(queue.Empty):
                        while True:
                            fleet_id, done = records.get_nowait()
                            news(known[fleet_id], done)
                    for future in finished:
                        error = future.exception()
                        if error is not None and not isinstance(error, Exception):
                            raise error
                        yield Ended(pending.pop(future), error)
            except BaseException:
                for process in list((pool._processes or {}).values()):
                    process.terminate()
                raise
            finally:
                pool.shutdown(wait=True, cancel_futures=True)

    def duration(self, fleets: Sequence[FleetSpec], seconds: Sequence[float]) -> float:
        """Each worker takes the longest fleet that waits."""
        ends = [STARTING] * side_by_side(self.workers, fleets)
        for each in sorted(seconds, reverse=True):
            heapq.heapreplace(ends, ends[0] + each)
        return max(ends)


def _start(job: Job, records: Any) -> None:
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process decides what an interrupt means
    torch.set_num_threads(1)
    job.prepare()
    _worker.update(job=job, records=records)


def _train(fleet: FleetSpec) -> None:
    for done in _worker["job"].work(fleet):
        _worker["records"].put((fleet.fleet_id, done))
