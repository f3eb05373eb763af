"""Executors for the CPU of this machine: this process, or workers on one copy of the data."""

from __future__ import annotations

import heapq
import mmap
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import DupFd
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
import torch

from puarena.datasets import Dataset
from puarena.errors import UserError
from puarena.experiments.executors.base import (
    POLL_SECONDS,
    SAVE_SECONDS,
    Executor,
    ExecutorOptions,
    Updates,
    sort_longest_first,
)
from puarena.experiments.plan import FleetSpec
from puarena.experiments.worker import FleetUpdate, Job, failed

SMALL_PLAN_STEPS = 50_000  # run-steps below which starting processes costs more than it saves
READY_SECONDS = 900.0  # for a worker to load the data
EXIT_SECONDS = 10.0  # for a worker to end that has closed its connection
MAX_EARLY_DEATHS = 3  # of workers in a row that were never ready

SharedArrays: TypeAlias = "dict[str, dict[str, Any]]"  # by dataset and field


class Inline(Executor):
    """Trains in this process, one fleet after the other."""

    name = "inline"
    devices = ("cpu",)

    @classmethod
    def preference(cls, options: ExecutorOptions, fleets: Sequence[FleetSpec]) -> int:
        """Suit small plans."""
        return 1

    def train(self, fleets: Sequence[FleetSpec], job: Job) -> Updates:
        """Train fleets in their order."""
        # Small products gain little from a second thread, and lose much to it on a busy machine.
        before = torch.get_num_threads()
        torch.set_num_threads(self.options.threads or 1)
        try:
            for fleet in fleets:
                yield from job.train(fleet)
        finally:
            torch.set_num_threads(before)


class Processes(Executor):
    """Trains in worker processes, each with one fleet and one thread, on one copy of the data."""

    name = "processes"
    devices = ("cpu",)
    takes = ("fleet_timeout",)
    start_seconds = 4.0

    @classmethod
    def preference(cls, options: ExecutorOptions, fleets: Sequence[FleetSpec]) -> int:
        """Suit plans that keep several processes busy, or fleets with a time limit."""
        several = cls(options).lanes(fleets) > 1
        return 2 if several or options.fleet_timeout is not None else 0

    def lanes(self, fleets: Sequence[FleetSpec]) -> int:
        """Return the number of processes: as asked for, else one per core if that pays."""
        workers = self.options.workers
        if workers is None:
            large = sum(fleet.steps for fleet in fleets) >= SMALL_PLAN_STEPS
            workers = count_cores() if large else 1
        return max(1, min(workers, len(fleets)))

    def train(self, fleets: Sequence[FleetSpec], job: Job) -> Updates:
        """Train fleets, the longest first."""
        environments = [{"CUDA_VISIBLE_DEVICES": ""}] * self.lanes(fleets)
        yield from WorkerPool(environments, job, Inline, self.options).train(fleets)

    def estimate(self, fleets: Sequence[FleetSpec], seconds: Sequence[float]) -> float:
        """Return when the last worker ends if each takes the longest fleet that waits."""
        ends = [self.start_seconds] * self.lanes(fleets)
        for each in sorted(seconds, reverse=True):
            heapq.heapreplace(ends, ends[0] + each)
        return max(ends)


def count_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Worker:
    """A worker process, the connection to it, and the fleets that it has and has not ended."""

    def __init__(self, environment: Mapping[str, str], arrays: SharedArrays) -> None:
        self.environment = environment
        self.fleets: list[FleetSpec] = []
        self.ready = False
        self.since = time.monotonic()  # it was started, or was given its fleets
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, arrays))
        with _spawning(environment):
            self.process.start()
        theirs.close()

    def send(self, message: Any) -> None:
        """Send a message; that the process has ended is noticed when its answers are read."""
        with suppress(OSError):
            self.connection.send(message)

    def give(self, fleets: list[FleetSpec]) -> None:
        """Have it train these fleets."""
        self.fleets, self.since = fleets, time.monotonic()
        self.send(fleets)

    def is_late(self, fleet_timeout: float | None) -> bool:
        """Return whether it needs too long to start or to train its fleet."""
        limit = fleet_timeout if self.ready else READY_SECONDS
        waited_for = self.fleets or not self.ready
        return bool(waited_for) and limit is not None and time.monotonic() - self.since > limit

    def kill(self) -> None:
        """End the process at once."""
        self.process.kill()
        self.process.join(EXIT_SECONDS)
        self.connection.close()

    @property
    def exit_reason(self) -> str:
        """How the process ended."""
        code = self.process.exitcode
        if code is not None and code < 0:
            return f"was ended by signal {-code} ({signal.Signals(-code).name})"
        return f"ended with code {code}"


class WorkerPool:
    """Worker processes with these environments, each of which trains with an executor of its own.

    If a worker dies, its fleet is tried once more while nothing else is in training, and fails if
    that worker dies, too.

    ``ProcessPoolExecutor`` was tried, one per worker: it reports only finished calls, and a worker
    that is killed while it writes a result blocks the pool for good, which keeps both pipe ends.
    """

    def __init__(
        self,
        environments: Sequence[Mapping[str, str]],
        job: Job,
        inner: type[Executor],
        options: ExecutorOptions,
        portion: Callable[[FleetSpec, int], int] = lambda first, waiting: 1,
    ) -> None:
        self.job, self.inner, self.options = job, inner, options
        self.portion = portion  # how many fleets a worker is given, of so many that wait
        self.datasets, self.arrays = share_datasets(job.source.datasets)
        self.free = list(environments)
        self.workers: list[Worker] = []
        self.waiting: deque[FleetSpec] = deque()
        self.suspects: deque[FleetSpec] = deque()  # their worker died
        self.retried: set[str] = set()
        self.known: dict[str, FleetSpec] = {}
        self.early_deaths = 0

    def train(self, fleets: Sequence[FleetSpec]) -> Updates:
        """Train fleets, the longest first."""
        self.waiting.extend(sort_longest_first(fleets))
        self.known = {fleet.fleet_id: fleet for fleet in fleets}
        try:
            while self.waiting or self.suspects or any(worker.fleets for worker in self.workers):
                self._deal()
                wait([worker.connection for worker in self.workers], POLL_SECONDS)
                yield None
                for worker in tuple(self.workers):
                    yield from self._attend(worker)
        finally:
            self._stop()

    def _deal(self) -> None:
        """Give fleets to idle workers, and start workers if fleets are left."""
        idle = [worker for worker in self.workers if worker.ready and not worker.fleets]
        for worker in idle:
            if self.waiting:
                count = self.portion(self.waiting[0], len(self.waiting))
                if self.options.fleet_timeout is not None:
                    count = 1
                count = min(count, len(self.waiting))
                worker.give([self.waiting.popleft() for _ in range(count)])
            elif self.suspects and not any(other.fleets for other in self.workers):
                worker.give([self.suspects.popleft()])
        coming = sum(not worker.fleets for worker in self.workers)
        needed = len(self.waiting) + bool(self.suspects) - coming
        while self.free and needed > 0:
            self._start(self.free.pop(0))
            needed -= 1

    def _start(self, environment: Mapping[str, str]) -> None:
        worker = Worker(environment, self.arrays)
        self.workers.append(worker)
        # What can be long goes through the connection: sending it fails if the process has died,
        # while an argument of a process that has died would block its start.
        worker.send((self.job, self.datasets, self.inner, self.options))

    def _attend(self, worker: Worker) -> Iterator[FleetUpdate]:
        """Yield what a worker has sent, and retire it if it died or needs too long."""
        # Asked first, so that all that it sent before it died is read.
        dead = not worker.process.is_alive()
        while True:
            try:
                if not worker.connection.poll():
                    break
                message = worker.connection.recv()
            except (EOFError, OSError):
                dead = True
                break
            if isinstance(message, UserError):
                raise message
            if message is None:
                worker.ready, self.early_deaths = True, 0
            elif isinstance(message, FleetUpdate):
                worker.fleets = _without(worker.fleets, message.fleet)
                yield message
            else:
                fleet_id, steps = message
                # Half of a fleet that did not fit is not known here; its ending is enough.
                if fleet_id in self.known:
                    yield FleetUpdate(self.known[fleet_id], steps)
        if dead:
            worker.process.join(EXIT_SECONDS)
        if dead or worker.is_late(self.options.fleet_timeout):
            yield from self._retire(worker, dead)

    def _retire(self, worker: Worker, died: bool) -> Iterator[FleetUpdate]:
        """Remove a worker that died, or end one that needs too long, and decide on its fleets."""
        self.workers.remove(worker)
        self.free.append(worker.environment)
        worker.kill()
        if not worker.ready:
            self.early_deaths += 1
            if self.early_deaths >= MAX_EARLY_DEATHS:
                raise UserError(
                    f"{MAX_EARLY_DEATHS} worker processes ended before they trained (the last one "
                    f"{worker.exit_reason}); is there enough memory? Try --workers 1",
                    "out-of-resources",
                )
        seconds = time.monotonic() - worker.since
        for fleet in worker.fleets:
            if not died:
                limit = self.options.fleet_timeout
                yield failed(fleet, "Timeout", f"not finished after {limit:g} seconds", seconds)
            elif fleet.fleet_id in self.retried:
                message = f"its process {worker.exit_reason}, and so did the first one"
                yield failed(fleet, "WorkerLost", message, seconds)
            else:
                self.retried.add(fleet.fleet_id)
                self.suspects.append(fleet)

    def _stop(self) -> None:
        """Have workers save their checkpoints and end."""
        deadline = time.monotonic() + SAVE_SECONDS
        try:
            for worker in self.workers:
                worker.send(None)
            for worker in self.workers:
                while worker.process.is_alive() and time.monotonic() < deadline:
                    # A worker would wait for ever if nothing read what it sends.
                    with suppress(EOFError, OSError):
                        while worker.connection.poll(0.05):
                            worker.connection.recv()
                    worker.process.join(0.05)
        finally:
            for worker in self.workers:
                worker.kill()
            self.workers.clear()


def _without(fleets: list[FleetSpec], ended: FleetSpec) -> list[FleetSpec]:
    """Return fleets without the runs of one that ended, which may be a part of one of them."""
    gone = {run.run_id for run in ended.runs}
    left = []
    for fleet in fleets:
        runs = tuple(run for run in fleet.runs if run.run_id not in gone)
        if len(runs) == len(fleet.runs):
            left.append(fleet)
        elif runs:
            left.append(FleetSpec(runs, fleet.claim))
    return left


@contextmanager
def _spawning(environment: Mapping[str, str]) -> Iterator[None]:
    """Start processes with an environment of their own and without the user's main module.

    The environment is set before the process imports torch. As its main module is empty, a script
    or a notebook that calls ``puarena.run`` needs no ``if __name__ == "__main__"``.
    """
    before = {name: os.environ.get(name) for name in environment}
    main = sys.modules["__main__"]
    os.environ.update(environment)
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def serve(connection: Connection, arrays: SharedArrays) -> None:
    """Run a worker process: it receives a job, then lists of fleets, then None."""
    # The driver decides what a signal to the whole group means, and asks at the next record.
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    try:
        job, datasets, inner, options = connection.recv()
        if datasets is not None:
            job.source.datasets = attach_datasets(datasets, arrays)
        job.prepare()
        executor = inner(replace(options, fleet_timeout=None))
        connection.send(None)
        while (fleets := connection.recv()) is not None:
            with closing(executor.train(fleets, job)) as updates:
                for update in updates:
                    if update.ending:
                        connection.send(update)
                        continue
                    connection.send((update.fleet.fleet_id, update.steps))
                    # While fleets are in training, the only message is the one that ends this.
                    if connection.poll():
                        return
    except UserError as error:
        connection.send(error)
    except (EOFError, BrokenPipeError):
        os._exit(1)


def _exit_with_parent() -> None:
    """End this process when its parent has ended: another run may train its fleets."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


class SharedArray:
    """An array in memory without a name, which is freed when the last process that has it ends."""

    def __init__(self, array: np.ndarray) -> None:
        self.shape, self.kind = array.shape, array.dtype.str
        self.handle = os.memfd_create("puarena")
        os.ftruncate(self.handle, array.nbytes)
        with mmap.mmap(self.handle, array.nbytes) as memory:
            np.frombuffer(memory, array.dtype)[:] = array.reshape(-1)

    def __reduce__(self) -> tuple[Any, ...]:
        """Become an array in the process that is being started."""
        return _attach_array, (DupFd(self.handle), self.shape, self.kind)

    def __del__(self) -> None:
        os.close(self.handle)


def _attach_array(handle: Any, shape: tuple[int, ...], kind: str) -> np.ndarray:
    number = handle.detach()
    size = int(np.prod(shape)) * np.dtype(kind).itemsize
    # Private: if a process writes to it, the others do not see that.
    memory = mmap.mmap(number, size, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)
    os.close(number)
    return np.frombuffer(memory, kind).reshape(shape)


def share_datasets(
    datasets: Mapping[str, Dataset],
) -> tuple[dict[str, Dataset] | None, SharedArrays]:
    """Return datasets without their large arrays, and these arrays in shared memory.

    Where there is no anonymous shared memory, or too little, workers load the data themselves:
    (None, {}). Named shared memory would stay behind if all processes were killed.
    """
    if not hasattr(os, "memfd_create"):
        return None, {}
    bare: dict[str, Dataset] = {}
    arrays: SharedArrays = {}
    for name, dataset in datasets.items():
        large = {"features": dataset.features, "evaluation": dataset.evaluation}
        try:
            arrays[name] = {
                key: SharedArray(array)
                for key, array in large.items()
                if array is not None and array.size
            }
        except OSError:
            return None, {}
        removed: dict[str, Any] = dict.fromkeys(arrays[name])
        bare[name] = replace(dataset, **removed)
    return bare, arrays


def attach_datasets(bare: Mapping[str, Dataset], arrays: SharedArrays) -> dict[str, Dataset]:
    """Return the whole datasets in a process that was started with their arrays."""
    return {name: replace(dataset, **arrays[name]) for name, dataset in bare.items()}
