"""Fleets in array jobs of a SLURM cluster, through submitit (``pip install 'puarena[slurm]'``).

Every job trains fleets that no other process has claimed and stores them in the results folder,
which all machines must share. A job that reaches its time limit is queued again and continues from
the checkpoints of its fleets.
"""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from collections.abc import Sequence
from typing import Any, ClassVar

from puarena.errors import UserError
from puarena.experiments.executors import train_here
from puarena.experiments.executors.base import (
    SAVE_SECONDS,
    Executor,
    ExecutorOptions,
    Updates,
    sort_longest_first,
)
from puarena.experiments.plan import FleetSpec
from puarena.experiments.worker import FleetUpdate, Job, failed
from puarena.results import Folder

MAX_JOBS = 100  # of one array, unless ``workers`` says otherwise
JOB_MINUTES = 60  # time limit of a job, unless ``slurm_time`` says otherwise
MIN_JOB_MINUTES = 5  # SLURM sends its signal up to a minute early, and queues a job for two more
SIGNAL_SECONDS = 90  # before the time limit, for a job to reach a record and save checkpoints
MAX_REQUEUES = 100_000  # times that a job may reach its time limit
QUEUE_SECONDS = 2.0  # between two looks at the queue
LOST_SECONDS = 30.0  # that a job is not in the queue and has no result, after which it is lost


class SlurmJob:
    """What one job of the array runs: its share of the fleets, then what the others have left."""

    def __init__(self, job: Job, fleets: Sequence[FleetSpec], options: ExecutorOptions) -> None:
        self.job, self.fleets = job, list(fleets)
        self.options = ExecutorOptions(threads=options.threads, fleet_timeout=options.fleet_timeout)
        self.training: threading.Thread | None = None
        self.stopping = False

    def __call__(self) -> list[FleetUpdate]:
        """Train; return the endings of the fleets.

        A thread trains, because submitit handles the signal at the time limit in the main thread.
        """
        endings: list[FleetUpdate] = []
        errors: list[BaseException] = []

        def is_stopping() -> bool:
            return self.stopping

        def train() -> None:
            try:
                endings.extend(train_here(self.job, self.fleets, self.options, is_stopping))
            except BaseException as error:
                errors.append(error)

        self.training = threading.Thread(target=train, daemon=True)
        self.training.start()
        self.training.join()
        if errors:
            raise errors[0]
        return endings

    def checkpoint(self) -> Any:
        """Save checkpoints at the time limit and queue the job again; submitit calls this."""
        from submitit.helpers import DelayedSubmission

        self.stopping = True
        if self.training is not None:
            self.training.join(SAVE_SECONDS)
        return DelayedSubmission(SlurmJob(self.job, self.fleets, self.options))


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
    start_seconds = 30.0
    cluster: ClassVar[str | None] = None  # of submitit; tests use its local one

    def __init__(self, options: ExecutorOptions | None = None) -> None:
        super().__init__(options)
        job_parameters(self.options, "cpu")  # refuses wrong ones before anything is planned

    @classmethod
    def uses_other_machines(cls, options: ExecutorOptions) -> bool:
        """Return True: the machine that submits jobs need not have a GPU."""
        return True

    def lanes(self, fleets: Sequence[FleetSpec]) -> int:
        """Return the number of jobs."""
        return max(1, min(self.options.workers or MAX_JOBS, len(fleets)))

    def train(self, fleets: Sequence[FleetSpec], job: Job) -> Updates:
        """Submit jobs and wait for them. They continue if the caller stops waiting."""
        submitit = _import_submitit()
        if self.cluster is None and shutil.which("srun") is None:
            message = "the engine slurm needs a SLURM cluster, and there is no srun on this machine"
            raise UserError(message, "missing-dependency")
        if not fleets:
            return
        try:
            submitter = submitit.AutoExecutor(
                folder=str(job.store.path / "slurm"),
                cluster=self.cluster,
                slurm_max_num_timeout=MAX_REQUEUES,
            )
            submitter.update_parameters(name="puarena", **job_parameters(self.options, job.device))
            with submitter.batch():
                jobs = [
                    submitter.submit(SlurmJob(job, share, self.options))
                    for share in share_fleets(fleets, self.lanes(fleets))
                ]
        except (RuntimeError, OSError, TypeError, ValueError) as error:
            message = f"the jobs cannot be sent to SLURM: {error}"
            raise UserError(" ".join(message.split())[:300], "not-supported") from None
        yield from self._collect(jobs, fleets, job)

    def _collect(self, jobs: list[Any], fleets: Sequence[FleetSpec], job: Job) -> Updates:
        """Yield what the jobs report, until all have ended or every fleet is stored."""
        reported: set[str] = set()
        error = "its job ended without reporting it"
        queue = JobQueue(self.cluster)
        while jobs and not all(job.store.has_shard(fleet.fleet_id) for fleet in fleets):
            for each in [each for each in jobs if each.done() or queue.has_lost(each.job_id)]:
                jobs.remove(each)
                updates, fault = _read_result(each)
                error = fault or error
                for update in updates:
                    runs = _list_runs(update.fleet)
                    if update.ending != "taken" and not runs <= reported:
                        reported |= runs
                        yield update
            yield None
            if jobs:
                time.sleep(QUEUE_SECONDS)
        for fleet in fleets:
            if not _list_runs(fleet) <= reported:
                yield _conclude(fleet, job.store, error)


def _list_runs(fleet: FleetSpec) -> set[str]:
    return {run.run_id for run in fleet.runs}


def _read_result(job: Any) -> tuple[list[FleetUpdate], str]:
    """Return what a job that ended reports, or why there is nothing."""
    if not job.done():
        return [], f"its job {job.job_id} left the queue without a result"
    if job.exception() is not None:
        return [], str(job.exception())[-300:]
    return job.result(), ""


def _conclude(fleet: FleetSpec, store: Folder, error: str) -> FleetUpdate:
    """Return what the results folder shows of a fleet that no job reported."""
    if store.has_shard(fleet.fleet_id):
        return FleetUpdate(fleet, fleet.steps, "stored")
    if fleet.claim in store.claimed():
        return FleetUpdate(fleet, ending="taken")
    return failed(fleet, "JobLost", error)


class JobQueue:
    """Which jobs are queued or running, by ``squeue``.

    Without accounting, submitit never learns that a job was killed.
    """

    def __init__(self, cluster: str | None) -> None:
        self.asks = cluster is None
        self._looked_at = float("-inf")
        self._queued: set[str] | None = None  # unknown
        self._missing_since: dict[str, float] = {}

    def has_lost(self, job_id: str) -> bool:
        """Return whether a job has not been in the queue for a while."""
        if not self.asks:
            return False
        now = time.monotonic()
        if now - self._looked_at > QUEUE_SECONDS:
            self._looked_at, self._queued = now, self._read()
        if self._queued is None or job_id in self._queued:
            self._missing_since.pop(job_id, None)
            return False
        return now - self._missing_since.setdefault(job_id, now) > LOST_SECONDS

    def _read(self) -> set[str] | None:
        """Return the user's jobs in the queue; None if squeue does not answer."""
        command = ["squeue", "--me", "--noheader", "--array", "--format=%i"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=30)
        except (OSError, subprocess.SubprocessError):
            return None
        return set(done.stdout.split()) if done.returncode == 0 else None


def share_fleets(fleets: Sequence[FleetSpec], jobs: int) -> list[list[FleetSpec]]:
    """Return a list of fleets for each job: its own share first, then those of the others."""
    ordered = sort_longest_first(fleets)
    shares = [ordered[number::jobs] for number in range(jobs)]
    lists = []
    for number in range(jobs):
        turned = [*shares[number:], *shares[:number]]
        lists.append([fleet for share in turned for fleet in share])
    return lists


def job_parameters(options: ExecutorOptions, device: str) -> dict[str, Any]:
    """Return the parameters of a job as submitit takes them."""
    given: dict[str, Any] = {"slurm_signal_delay_s": SIGNAL_SECONDS}
    for text in options.slurm or ():
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise UserError(f"slurm takes KEY=VALUE, and '{text}' was given", "invalid-value")
        given[f"slurm_{key.strip().replace('-', '_')}"] = value
    if options.slurm_partition is not None:
        given["slurm_partition"] = options.slurm_partition
    minutes = JOB_MINUTES if options.slurm_time is None else round(options.slurm_time / 60)
    if minutes < MIN_JOB_MINUTES:
        raise UserError(
            f"slurm_time is {minutes} minutes, and most of that would be spent on saving and "
            f"queueing; give at least {MIN_JOB_MINUTES}m",
            "invalid-value",
        )
    given["timeout_min"] = minutes
    given["cpus_per_task"] = int(options.cpus_per_fleet or options.threads or 1)
    if device == "cuda":
        given["gpus_per_node"] = int(options.gpus_per_fleet or 1)
    return given


def _import_submitit() -> Any:
    try:
        import submitit
    except ImportError:
        message = "the engine slurm needs submitit; install it with: pip install 'puarena[slurm]'"
        raise UserError(message, "missing-dependency") from None
    return submitit
