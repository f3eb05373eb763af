"""Worker processes that fleets are dealt to; one that ends takes nothing with it but its own fleet.

Imports nothing large: a worker chooses its device before torch is imported.
"""

from __future__ import annotations

import os
import pickle
import platform
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import TYPE_CHECKING, Any

from puarena.errors import UserError
from puarena.experiments.executors.base import Ended, Executor, How, News, longest_first
from puarena.experiments.executors.orphan import end_with_parent
from puarena.experiments.executors.spawning import WorkerContext
from puarena.experiments.failures import Broken, Elsewhere, Trouble
from puarena.experiments.stop import Stop, Stopped

if TYPE_CHECKING:
    from puarena.experiments.plan import FleetSpec
    from puarena.experiments.work import Job

GRACE = 60.0  # seconds for workers to come to a record and keep their states
OPENING = 900.0  # seconds for a worker to be ready
ENDING = 10.0  # seconds for a worker to end that has closed its line
STARTS = 3  # workers in a row that end before they train, after which something is wrong with all


@dataclass
class Worker:
    """A process, the line to it, and the fleets it was given and has not ended."""

    process: SpawnProcess
    line: Connection
    environment: Mapping[str, str]
    ready: bool = False
    stopped: bool = (
        False  # on its own account: it was sent a signal, and its fleets keep their states
    )
    fleets: list[FleetSpec] = field(default_factory=list)
    since: float = field(default_factory=time.monotonic)  # it has them, or was started


class Pool:
    """Deals fleets to worker processes with these environments, each of which has them trained by ``inner``.

    A fleet whose worker ended is tried once more when nothing else is in training, and then noted as failed.
    """

    def __init__(
        self,
        environments: Sequence[Mapping[str, str]],
        job: Job,
        how: How,
        inner: type[Executor],
        shared: Any = None,
    ) -> None:
        self.job, self.how, self.inner, self.shared = job, how, inner, shared
        self.free = list(environments)
        self.workers: list[Worker] = []
        self.suspects: deque[FleetSpec] = deque()  # their worker ended
        self.tried: set[str] = set()
        self.known: dict[str, FleetSpec] = {}  # by their names, so that news are short
        self.short_lived = 0
        self.portion: Callable[[FleetSpec, int], int] = lambda first, waiting: 1

    def train(self, fleets: Sequence[FleetSpec], news: News) -> Iterator[Ended]:
        """Train fleets, the longest first."""
        waiting = deque(longest_first(fleets))
        self.known = {fleet.fleet_id: fleet for fleet in fleets}
        try:
            while waiting or self.suspects or any(worker.fleets for worker in self.workers):
                self._deal(waiting)
                lines = [worker.line for worker in self.workers]
                wait([*lines, *(worker.process.sentinel for worker in self.workers)], timeout=0.2)
                for worker in tuple(self.workers):
                    yield from self._hear(worker, news, waiting)
                self.how.stop.check()
        finally:
            self._end()

    def _deal(self, waiting: deque[FleetSpec]) -> None:
        """Give fleets to idle workers; start workers where fleets are left."""
        idle = [worker for worker in self.workers if worker.ready and not worker.fleets]
        for worker in idle:
            if waiting:
                count = 1 if self.how.fleet_timeout else self.portion(waiting[0], len(waiting))
                self._give(worker, [waiting.popleft() for _ in range(min(count, len(waiting)))])
            elif self.suspects and not any(other.fleets for other in self.workers):
                self._give(worker, [self.suspects.popleft()])
        starting = sum(not worker.ready for worker in self.workers)
        needed = (
            len(waiting)
            + bool(self.suspects)
            - starting
            - sum(not worker.fleets for worker in idle)
        )
        while self.free and needed > 0:
            self._start(self.free.pop(0))
            needed -= 1

    def _start(self, environment: Mapping[str, str]) -> None:
        context = WorkerContext()
        here, there = context.Pipe()
        arrays = (
            self.shared and self.shared.arrays
        )  # what is long goes through the line: that notices if nobody reads
        process = context.Process(target=_work, args=(there, dict(environment), arrays))
        process.start()
        there.close()
        self.workers.append(Worker(process, here, environment))
        with suppress(OSError):  # it ended at once
            bare = self.shared and replace(self.shared, arrays={})
            here.send((self.job, self.inner, self.how.workers, self.how.threads, bare))

    def _give(self, worker: Worker, fleets: list[FleetSpec]) -> None:
        worker.fleets, worker.since = fleets, time.monotonic()
        with suppress(OSError):
            worker.line.send(fleets)

    def _hear(self, worker: Worker, news: News, waiting: deque[FleetSpec]) -> Iterator[Ended]:
        """Take in what a worker sent, and that it ended."""
        dead = not worker.process.is_alive()  # asked first: what it sent before is still read
        for kind, fleet, value in _received(worker.line):
            if kind == "ready":
                worker.ready, self.short_lived = True, 0
            elif kind == "news":
                news(self.known.setdefault(value[0], fleet), value[1])
            elif kind == "stopped":
                worker.stopped = True
            elif kind == "refused":
                raise value
            elif kind == "gone":
                dead = True
            else:
                worker.fleets = _without(worker.fleets, fleet)
                yield Ended(fleet, value)
        limit = self.how.fleet_timeout if worker.fleets else None if worker.ready else OPENING
        late = limit is not None and time.monotonic() - worker.since > limit
        if dead or late:
            yield from self._bury(worker, late and not dead, waiting)

    def _bury(self, worker: Worker, late: bool, waiting: deque[FleetSpec]) -> Iterator[Ended]:
        """Take leave of a worker that ended, or that is ended as its fleet takes too long."""
        self.workers.remove(worker)
        self.free.append(worker.environment)
        worker.process.join(0 if late else ENDING)
        worker.process.kill()
        worker.process.join()
        worker.line.close()
        if not worker.ready:
            self.short_lived += 1
            if self.short_lived >= STARTS:
                raise UserError(
                    f"worker processes end before they train ({_ending(worker.process.exitcode)})"
                )
        if worker.stopped:
            waiting.extendleft(worker.fleets)
            return
        for fleet in worker.fleets:
            if late or fleet.fleet_id in self.tried:
                limit = self.how.fleet_timeout
                what = (
                    ("Timeout", f"not ended after {limit:g} seconds")
                    if late
                    else ("WorkerLost", _words(worker))
                )
                yield Ended(
                    fleet,
                    Broken(Trouble(*what, "", platform.node(), time.monotonic() - worker.since)),
                )
            else:
                self.tried.add(fleet.fleet_id)
                self.suspects.append(fleet)

    def _end(self) -> None:
        """Have workers keep their states and end."""
        try:
            for worker in self.workers:
                with suppress(OSError):
                    worker.line.send(None)
            until = time.monotonic() + GRACE
            for worker in self.workers:
                while worker.process.is_alive() and time.monotonic() < until:
                    with suppress(EOFError, OSError, pickle.UnpicklingError):
                        while worker.line.poll(0.05):  # a full line would hold it up
                            worker.line.recv()
                    worker.process.join(0.05)
        finally:
            for worker in self.workers:
                if worker.process.is_alive():
                    worker.process.kill()
                worker.process.join()
                worker.line.close()
            self.workers.clear()


def _received(line: Connection) -> Iterator[tuple[str, Any, Any]]:
    """What a worker has sent, and in the end that it is gone, if it is. What listeners raise is not its ending."""
    try:
        while line.poll():
            yield line.recv()
    except (EOFError, OSError, pickle.UnpicklingError):
        yield "gone", None, None


def _without(fleets: list[FleetSpec], ended: FleetSpec) -> list[FleetSpec]:
    """The fleets less one that ended, or less a part of one."""
    gone = {run.run_id for run in ended.runs}
    left = [
        type(fleet)(tuple(run for run in fleet.runs if run.run_id not in gone), fleet.group)
        for fleet in fleets
    ]
    return [fleet for fleet in left if fleet.runs]


def _words(worker: Worker) -> str:
    return f"the process that trained it {_ending(worker.process.exitcode)}, and so did a second one that had it alone"


def _ending(code: int | None) -> str:
    if code is not None and code < 0:
        return f"was ended by signal {-code} ({signal.Signals(-code).name})"
    return f"ended with code {code}"


def _work(line: Connection, environment: Mapping[str, str], arrays: Any) -> None:
    """What a worker process does: it is sent a job, then fleets, then nothing."""
    os.environ.update(environment)
    end_with_parent()
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # the parent process decides what an interrupt means
    stop = Stop()
    signal.signal(signal.SIGTERM, stop._note)
    try:
        job, inner, workers, threads, bare = line.recv()
        if bare is not None:
            job.source.datasets = replace(bare, arrays=arrays).datasets()
        job.prepare()
        executor = inner(workers, How(threads=threads))
        line.send(("ready", None, None))

        known: set[str] = set()

        def news(fleet: FleetSpec, done: int) -> None:
            line.send(("news", None if fleet.fleet_id in known else fleet, (fleet.fleet_id, done)))
            if line.poll() or stop.asked:
                raise Stopped("the driver", 0)

        while (fleets := line.recv()) is not None:
            known.update(fleet.fleet_id for fleet in fleets)
            for ended in executor.train(fleets, job, news):
                error = ended.error
                if error is not None and not isinstance(error, (UserError, Elsewhere, Broken)):
                    error = RuntimeError(str(error))
                line.send(("ended", ended.fleet, error))
    except Stopped:
        line.send(("stopped", None, None))
    except (EOFError, BrokenPipeError):
        os._exit(1)
    except UserError as error:
        line.send(("refused", None, error))
