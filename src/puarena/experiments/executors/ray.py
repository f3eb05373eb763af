"""Fleets as plain tasks of a Ray cluster (``pip install 'puarena[ray]'``).

A task stores what it trains, so the results folder and the data must lie where every node finds
them. Ray repeats a task whose process or node is lost; it continues from the fleet's checkpoint.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from puarena.errors import UserError
from puarena.experiments.executors import train_here
from puarena.experiments.executors.base import (
    POLL_SECONDS,
    SAVE_SECONDS,
    Executor,
    ExecutorOptions,
    Updates,
    sort_longest_first,
    split_fleet,
)
from puarena.experiments.plan import FleetSpec
from puarena.experiments.stop import Stop
from puarena.experiments.worker import FleetUpdate, Job, failed

RETRIES = 3  # of a fleet whose process or node is lost
ROOM_SECONDS = 120.0  # to wait for a node that is large enough for a task
ANSWER_SECONDS = 30.0  # for a cluster to answer
LOOPBACK_VARIABLE = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"

_prepared: dict[str, Job] = {}  # in a process of Ray: the jobs whose data it has loaded


class Ray(Executor):
    """Trains on a Ray cluster: the one at an address, one running here, or one it starts here."""

    name = "ray"
    devices = ("cpu", "cuda")
    takes = ("gpus", "address", "gpus_per_fleet", "cpus_per_fleet", "fleet_timeout")
    start_seconds = 15.0

    @classmethod
    def uses_other_machines(cls, options: ExecutorOptions) -> bool:
        """Return whether the cluster may be elsewhere."""
        return options.address is not None

    def train(self, fleets: Sequence[FleetSpec], job: Job) -> Updates:
        """Train fleets, the longest first; Ray starts as many tasks as it has room for."""
        if self.options.gpus is not None:
            raise UserError(
                "the option gpus has no meaning for the engine ray, as the cluster knows its GPUs; "
                "use workers or gpus_per_fleet",
                "conflict",
            )
        ray = import_ray()
        with _connected(ray, self.options, job.device):
            yield from RayTasks(ray, self.options, job).train(fleets)

    def lanes(self, fleets: Sequence[FleetSpec]) -> int:
        """Return how many tasks run at once if the cluster has so many GPUs or cores."""
        gpus = self.options.gpus or ""
        if gpus.isdecimal():
            count = int(int(gpus) / (self.options.gpus_per_fleet or 1))
        else:
            count = self.options.workers or os.cpu_count() or 1
        return max(1, min(count, len(fleets)))


class RayTasks:
    """The tasks of a run: at most ``workers`` at once, or all that Ray has room for."""

    def __init__(self, ray: Any, options: ExecutorOptions, job: Job) -> None:
        self.ray, self.options = ray, options
        threads = options.threads or 1
        gpus = (options.gpus_per_fleet or 1) if job.device == "cuda" else 0
        self.needs = {"CPU": options.cpus_per_fleet or threads, "GPU": gpus}
        variables = {"OMP_NUM_THREADS": str(threads)}
        if not gpus:
            variables["CUDA_VISIBLE_DEVICES"] = ""
        task_options = {
            "num_cpus": self.needs["CPU"],
            "num_gpus": gpus,
            "max_retries": RETRIES,
            "runtime_env": {"env_vars": variables},
        }
        self.task = ray.remote(**task_options)(train_in_task)
        inner = ExecutorOptions(1, threads, options.fleet_timeout)
        # In a list, so that a process that has the job already need not fetch it again.
        self.arguments = ([ray.put(job)], uuid.uuid4().hex, inner)
        self.running: dict[Any, tuple[FleetSpec, float]] = {}  # by task: fleet, when submitted
        self.waiting: deque[FleetSpec] = deque()
        self.had_room = time.monotonic()

    def train(self, fleets: Sequence[FleetSpec]) -> Updates:
        """Train fleets."""
        self.waiting.extend(sort_longest_first(fleets))
        limit = self.options.workers or len(fleets)
        try:
            while self.waiting or self.running:
                while self.waiting and len(self.running) < limit:
                    fleet = self.waiting.popleft()
                    reference = self.task.remote(*self.arguments, fleet)
                    self.running[reference] = fleet, time.monotonic()
                ended, _ = self.ray.wait(list(self.running), timeout=POLL_SECONDS)
                yield None
                for reference in ended:
                    yield from self._collect(reference)
                self._check_room()
        finally:
            self._stop()

    def _collect(self, reference: Any) -> Iterator[FleetUpdate]:
        """Yield the endings of a task; a fleet that did not fit in memory is split."""
        fleet, since = self.running.pop(reference)
        errors = self.ray.exceptions
        try:
            updates = self.ray.get(reference)
        except errors.RayTaskError as error:
            if isinstance(error.cause, UserError):
                raise error.cause from None
            updates = [self._lost(fleet, error, since)]
        except errors.RayError as error:
            memory = isinstance(error, errors.OutOfMemoryError)
            updates = [self._lost(fleet, error, since, out_of_memory=memory)]
        for update in updates:
            out_of_memory = update.failure is not None and update.failure.out_of_memory
            if out_of_memory and len(update.fleet.runs) > 1:
                self.waiting.extend(split_fleet(update.fleet))
            else:
                yield update

    def _lost(self, fleet: FleetSpec, error: Exception, since: float, **facts: Any) -> FleetUpdate:
        message = f"its task was lost {RETRIES + 1} times: {error}"
        return failed(fleet, "TaskLost", message, time.monotonic() - since, **facts)

    def _check_room(self) -> None:
        """Raise an error if no node has been large enough for a task for a while."""
        nodes = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        needs = {name: need for name, need in self.needs.items() if need}
        for node in nodes:
            if all(node.get(name, 0) >= need for name, need in needs.items()):
                self.had_room = time.monotonic()
        if time.monotonic() - self.had_room > ROOM_SECONDS:
            text = ", ".join(f"{need:g} {name}" for name, need in needs.items())
            message = f"no node of the Ray cluster has room for a fleet, which takes {text}"
            raise UserError(f"{message}; ask for less, or add a node", "out-of-resources")

    def _stop(self) -> None:
        """Cancel tasks: one that trains saves a checkpoint at the next record."""
        left = list(self.running)
        for reference in left:
            self.ray.cancel(reference)
        if left:
            _, left = self.ray.wait(left, num_returns=len(left), timeout=SAVE_SECONDS)
        for reference in left:
            self.ray.cancel(reference, force=True)
        self.running.clear()


def train_in_task(
    job_reference: list[Any], job_id: str, options: ExecutorOptions, fleet: FleetSpec
) -> list[FleetUpdate]:
    """Train one fleet in a process of Ray; return its endings."""
    import ray

    if job_id not in _prepared:
        _prepared.clear()
        _prepared[job_id] = ray.get(job_reference[0])
    # Ray cancels a task by the signal SIGINT, which is noted here and obeyed at the next record.
    with Stop() as stop:
        return train_here(_prepared[job_id], [fleet], options, lambda: stop.asked)


def import_ray() -> Any:
    """Return the module ``ray``."""
    try:
        import ray
        import ray.exceptions
    except ImportError:
        message = "the engine ray needs Ray; install it with: pip install 'puarena[ray]'"
        raise UserError(message, "missing-dependency") from None
    return ray


@contextmanager
def _connected(ray: Any, options: ExecutorOptions, device: str) -> Iterator[None]:
    """Connect to a cluster: an open connection, the address, one running here, or a new one."""
    if ray.is_initialized():
        yield
        return
    quiet = {"log_to_driver": False, "logging_level": "error"}
    # Otherwise Ray repeats a task without end that the node's memory monitor has ended.
    os.environ.setdefault("RAY_task_oom_retries", str(RETRIES))
    with ExitStack() as stack:
        stack.callback(ray.shutdown)
        address = options.address or "auto"
        if _answers(address):
            ray.init(address=address, **quiet)
        elif options.address is not None:
            message = f"there is no Ray cluster at '{options.address}'; is the address right?"
            raise UserError(message, "invalid-value")
        else:
            stack.enter_context(_on_loopback())
            gpus = None if device == "cuda" else 0
            own = {"num_cpus": options.workers, "num_gpus": gpus, "include_dashboard": False}
            ray.init(address="local", **own, **quiet)
        yield


def _answers(address: str) -> bool:
    """Return whether a cluster answers at an address.

    ``ray.init`` would wait a quarter of an hour for one that was killed, so another process tries.
    """
    script = "import sys, ray; ray.init(address=sys.argv[1], log_to_driver=False)"
    command = [sys.executable, "-c", script, address]
    try:
        done = subprocess.run(command, capture_output=True, timeout=ANSWER_SECONDS)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


@contextmanager
def _on_loopback() -> Iterator[None]:
    """Have a new Ray listen on 127.0.0.1 only: whoever reaches its ports can run code.

    Ray ignores that address in ``ray.init`` but uses it where it does not support clusters of
    several machines, which a variable of the environment decides when ray is imported.
    """
    from ray._private import ray_constants

    before = ray_constants.ENABLE_RAY_CLUSTER, os.environ.get(LOOPBACK_VARIABLE)
    ray_constants.ENABLE_RAY_CLUSTER = False
    os.environ[LOOPBACK_VARIABLE] = "0"
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before[0]
        if before[1] is None:
            del os.environ[LOOPBACK_VARIABLE]
        else:
            os.environ[LOOPBACK_VARIABLE] = before[1]
