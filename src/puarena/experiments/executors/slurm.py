"""Fleets in array jobs of a SLURM cluster, through submitit (``pip install 'puarena[slurm]'``).

Every job takes fleets that nobody has claimed and stores them in the results folder, which all machines must share. A
job that comes to its time limit is queued again and goes on from its fleets' states.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from platform import node
from typing import Any, ClassVar

from puarena.errors import UserError
from puarena.experiments import executors
from puarena.experiments.executors.base import Ended, Executor, How, News, longest_first
from puarena.experiments.executors.processes import finish
from puarena.experiments.failures import Broken, Elsewhere, Trouble
from puarena.experiments.plan import FleetSpec
from puarena.experiments.stop import Stopped
from puarena.experiments.work import Job

JOBS = 100  # of one array, unless --workers says otherwise
STARTING = 30.0  # seconds until a job trains
TIME = 60  # minutes of a job, unless --slurm-time says otherwise
ENDLESS = 100_000  # times that a job may come to its limit
GRACE = 60.0  # seconds to come to a record; SLURM ends a job 90 seconds after its signal
LOOK = 2.0  # seconds between two looks at the jobs


class Errand:
    """What one job of the array does: it trains its share of the fleets, then what is left of the others'."""

    def __init__(self, job: Job, fleets: Sequence[FleetSpec], how: How) -> None:
        self.job, self.fleets = job, list(fleets)
        self.how = How(threads=how.threads, fleet_timeout=how.fleet_timeout)
        self.training: threading.Thread | None = None
        self.stopping = False

    def __call__(self) -> list[Ended]:
        """Train what others have not: on a GPU several fleets in flight, on a CPU one after the other.

        A thread trains: the main one is for the signal that comes at the time limit, which ends it wherever it stands.
        """
        self.job.prepare()
        ended: list[Ended] = []
        errors: list[BaseException] = []

        def train() -> None:
            try:
                ended.extend(self._executor().train(self.fleets, self.job, self._news))
            except BaseException as error:
                errors.append(error)

        self.training = threading.Thread(target=train, daemon=True)
        self.training.start()
        self.training.join()
        if errors:
            raise errors[0]
        return ended

    def _executor(self) -> Executor:
        here = "streams" if self.job.device == "cuda" else "inline"
        name = here if self.how.fleet_timeout is None else None  # a process of its own can be ended
        return executors.choose(self.job.device, None, self.fleets, name, self.how)

    def _news(self, fleet: FleetSpec, done: int) -> None:
        if self.stopping:
            raise Stopped("the time limit", 0)

    def checkpoint(self) -> Any:
        """Called at the time limit: keep last states, and do the same again; what is stored is passed over."""
        from submitit.helpers import DelayedSubmission

        self.stopping = True
        if self.training is not None:
            self.training.join(GRACE)
        return DelayedSubmission(Errand(self.job, self.fleets, self.how))


class Slurm(Executor):
    """Trains in array jobs of a SLURM cluster."""

    name = "slurm"
    devices = ("cpu", "cuda")
    takes = (
        "cpus_per_fleet",
        "gpus_per_fleet",
        "slurm_partition",
        "slurm_time",
        "slurm",
        "fleet_timeout",
    )
    cluster: ClassVar[str | None] = None  # of submitit: its local one is for tests

    def __init__(self, workers: int | None = None, how: How | None = None) -> None:
        super().__init__(workers, how)
        parameters(self.how, "cpu")  # a mistake in them is said before anything is planned

    @classmethod
    def trains_elsewhere(cls, how: How) -> bool:
        """The machine that sends jobs need not have what they ask for."""
        return True

    def train(self, fleets: Sequence[FleetSpec], job: Job, news: News) -> Iterator[Ended]:
        """Send jobs and wait for them; who ends this does not end the jobs, and may wait for them again."""
        submitit = _imported()
        if self.cluster is None and shutil.which("srun") is None:
            raise UserError(
                "the engine slurm needs a SLURM cluster, and there is no srun on this machine"
            )
        shares = dealt(fleets, min(self.workers or JOBS, len(fleets)))
        try:
            sender = submitit.AutoExecutor(
                folder=str(job.store.path / "slurm"),
                cluster=self.cluster,
                slurm_max_num_timeout=ENDLESS,
            )
            sender.update_parameters(name="puarena", **parameters(self.how, job.device))
            with sender.batch():
                sent = [sender.submit(Errand(job, share, self.how)) for share in shares]
        except (RuntimeError, OSError, TypeError, ValueError) as error:
            raise UserError(
                f"the jobs cannot be sent to SLURM: {' '.join(str(error).split())[:300]}"
            ) from None
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
                trouble = Trouble(
                    "JobLost", lost or "its job ended without a word of it", "", node(), 0.0
                )
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
        [*share, *(f for other in (*shares[i + 1 :], *shares[:i]) for f in other)]
        for i, share in enumerate(shares)
    ]


def parameters(how: How, device: str) -> dict[str, Any]:
    """What submitit is told of a job."""
    given: dict[str, Any] = {}
    for text in how.slurm or ():
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise UserError(f"--slurm takes KEY=VALUE, and '{text}' was given")
        given[f"slurm_{key.strip().replace('-', '_')}"] = value
    if how.slurm_partition is not None:
        given["slurm_partition"] = how.slurm_partition
    given["timeout_min"] = TIME if how.slurm_time is None else max(1, round(how.slurm_time / 60))
    given["cpus_per_task"] = int(how.cpus_per_fleet or how.threads or 1)
    if device == "cuda":
        given["gpus_per_node"] = int(how.gpus_per_fleet or 1)
    return given


def _imported() -> Any:
    try:
        import submitit
    except ImportError:
        raise UserError(
            "the engine slurm needs submitit; install it with: pip install 'puarena[slurm]'"
        ) from None
    return submitit
