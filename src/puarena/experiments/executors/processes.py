"""Fleets in worker processes on a CPU.

Small matrix products gain little from a second thread and lose much to it on a busy machine; two processes with a fleet
and a thread each use two cores fully.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterator, Sequence

from puarena.experiments.executors.base import Ended, Executor, How, News
from puarena.experiments.executors.inline import Inline
from puarena.experiments.executors.pool import Pool
from puarena.experiments.forecast import Lanes
from puarena.experiments.plan import FleetSpec
from puarena.experiments.shared_memory import SharedDatasets
from puarena.experiments.work import Job

SMALL = 50_000  # run-steps below which starting processes costs more than it brings
STARTING = 4.0  # seconds until a worker process trains


def available_cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def side_by_side(workers: int | None, fleets: Sequence[FleetSpec]) -> int:
    """How many worker processes to start: what was asked for, else what pays; never more than there are fleets."""
    if workers is None:
        workers = 1 if sum(fleet.steps for fleet in fleets) < SMALL else available_cores()
    return max(1, min(workers, len(fleets)))


def finish(seconds: Sequence[float], workers: int, starting: float = STARTING) -> float:
    """When the last worker ends, if each takes the longest fleet that waits."""
    ends = [starting] * workers
    for each in sorted(seconds, reverse=True):
        heapq.heapreplace(ends, ends[0] + each)
    return max(ends)


class Processes(Executor):
    """Trains in worker processes, each with a fleet and a thread, on one copy of the data."""

    name = "processes"
    devices = ("cpu",)
    takes = ("fleet_timeout",)

    @classmethod
    def preference(cls, how: How, fleets: Sequence[FleetSpec]) -> int:
        """Where it is worth starting more than one, or a fleet may have to be ended from outside."""
        return 2 * (
            side_by_side(how.workers, fleets) > 1
            or (how.fleet_timeout is not None and len(fleets) > 0)
        )

    def lanes(self, fleets: Sequence[FleetSpec]) -> Lanes:
        """A lane for every process."""
        return Lanes(side_by_side(self.workers, fleets))

    def train(self, fleets: Sequence[FleetSpec], job: Job, news: News) -> Iterator[Ended]:
        """Train fleets, the longest first; every process prepares the job once."""
        hidden = {"CUDA_VISIBLE_DEVICES": ""}
        environments = [hidden] * side_by_side(self.workers, fleets)
        yield from Pool(
            environments, job, self.how, Inline, SharedDatasets.of(job.source.datasets)
        ).train(fleets, news)

    def duration(self, fleets: Sequence[FleetSpec], seconds: Sequence[float]) -> float:
        """Each worker takes the longest fleet that waits."""
        return finish(seconds, side_by_side(self.workers, fleets))
