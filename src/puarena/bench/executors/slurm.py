"""Fleets in array jobs of a SLURM cluster, through submitit (``pip install 'puarena[slurm]'``).

Every job takes fleets that nobody has claimed and stores them in the results folder, which all machines must share. A
job that comes to its time limit is queued again and goes on from its fleets' states.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from platform import node
from typing import Any, ClassVar

from puarena.bench import executors
from puarena.bench.executors.base import Ended, Executor, How, News, longest_first
from puarena.bench.executors.processes import finish
from puarena.bench.failures import Broken, Elsewhere, Trouble
from puarena.bench.plan import FleetSpec
from puarena.bench.work import Job
from puarena.errors import UserError

JOBS = 100  # of one array, unless --workers says otherwise
STARTING = 30.0  # seconds until a job trains
LOOK = 2.0  # seconds between two looks at the jobs


class Errand:
    """What one job of the array does: it trains its share of the fleets, then what is left of the others'."""

    def __init__(self, job: Job, fleets: Sequence[FleetSpec], threads: int | None) -> None:
        self.job, self.fleets, self.threads = job, list(fleets), threads

    def __call__(self) -> list[Ended]:
        """Train what others have not: on a GPU several fleets in flight, on a CPU one after the other."""
        self.job.prepare()
        name = "streams" if self.job.device == "cuda" else "inline"
        executor = executors.choose(self.job.device, None, self.fleets, name, How(threads=self.threads))
        return list(executor.train(self.fleets, self.job, lambda fleet, done: None))

    def checkpoint(self) -> Any:
        """Called at the time limit: the same again, from the last states; what is stored is passed over."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)


class Slurm(Executor):
    """Trains in array jobs of a SLURM cluster."""

    name = "slurm"
    devices = ("cpu", "cuda")
    cluster: ClassVar[str | None] = None  # of submitit: its local one is for tests

    def train(self, fleets: Sequence[FleetSpec], job: Job, news: News) -> Iterator[Ended]:
        """Send jobs and wait for them; who ends this does not end the jobs, and may wait for them again."""
        submitit = _imported()
        shares = dealt(fleets, min(self.workers or JOBS, len(fleets)))
        try:
            sender = submitit.AutoExecutor(folder=str(job.store.path / "slurm"), cluster=self.cluster)
            sender.update_parameters(name="puarena", **parameters(self.how, job.device))
            with sender.batch():
                sent = [sender.submit(Errand(job, share, self.how.threads)) for share in shares]
        except (RuntimeError, OSError, TypeError, ValueError) as error:
            raise UserError(f"the jobs cannot be sent to SLURM: {' '.join(str(error).split())[:300]}") from None
        yield from self._collect(sent, list(fleets), job)

    def _collect(self, sent: list[Any], fleets: list[FleetSpec], job: Job) -> Iterator[Ended]:
        """Yield what ended jobs tell of their fleets, and in the end what no job told of."""
        reported: set[str] = set()
        lost = ""
        while sent:
            for each in [each for each in sent if each.done()]:
                sent.remove(each)
                if each.exception() is not None:
                    lost = " ".join(str(each.exception()).split())[-300:]
                    continue
                for ended in each.result():
                    runs = {run.run_id for run in ended.fleet.runs}
                    if not isinstance(ended.error, Elsewhere) and not runs <= reported:
                        reported |= runs
                        yield ended
            self.how.stop.check()
            time.sleep(LOOK if sent else 0)
        for fleet in fleets:
            if not {run.run_id for run in fleet.runs} <= reported:
                trouble = Trouble("JobLost", lost or "its job ended without a word of it", "", node(), 0.0)
                stored = job.store.has_shard(fleet.fleet_id) or not lost
                yield Ended(fleet, Elsewhere() if stored else Broken(trouble))

    def duration(self, fleets: Sequence[FleetSpec], seconds: Sequence[float]) -> float:
        """As many jobs as there may be, once the queue has let them in."""
        return finish(seconds, max(1, min(self.workers or JOBS, len(fleets))), STARTING)


def dealt(fleets: Sequence[FleetSpec], jobs: int) -> list[list[FleetSpec]]:
    """A list of fleets for each job: its own share, the longest first, then the others' in case these are late."""
    ordered = longest_first(fleets)
    shares = [ordered[job::jobs] for job in range(jobs)]
    return [
        [*share, *(f for other in (*shares[i + 1 :], *shares[:i]) for f in other)] for i, share in enumerate(shares)
    ]


def parameters(how: How, device: str) -> dict[str, Any]:
    """What submitit is told of a job."""
    given: dict[str, Any] = {f"slurm_{key}": value for key, value in how.slurm}
    minutes = given.pop("slurm_time", None)
    if minutes is not None:
        given["timeout_min"] = max(1, round(float(minutes) / 60))
    given["cpus_per_task"] = int(how.cpus_per_fleet or how.threads or 1)
    if device == "cuda":
        given["gpus_per_node"] = int(how.gpus_per_fleet or 1)
    return given


def _imported() -> Any:
    try:
        import submitit
    except ImportError:
        raise UserError("the engine slurm needs submitit; install it with: pip install 'puarena[slurm]'") from None
    return submitit
