"""Fleets on a Ray cluster (``pip install 'puarena[ray]'``): long-lived actors, so that data and kernels stay warm.

Actors store what they train themselves, so the results folder and the data must lie where every node finds them. News
come as each call's own stream to the driver: nothing that could be lost with a node stands between. An actor that is
lost is replaced and its fleet tried again, from its last state; so are nodes, as actors are placed wherever Ray has
room.
"""

from __future__ import annotations

import os
import platform
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from typing import Any

from puarena.errors import UserError
from puarena.experiments.executors.base import Ended, Executor, How, News, advance, longest_first
from puarena.experiments.executors.gpus import STARTING as GPU_STARTING
from puarena.experiments.executors.pool import GRACE
from puarena.experiments.executors.processes import STARTING, finish
from puarena.experiments.executors.streams import halves, out_of_memory
from puarena.experiments.failures import Broken, Trouble
from puarena.experiments.plan import FleetSpec
from puarena.experiments.work import Job

ATTEMPTS = 4  # of a fleet whose actor was lost
OPENING = 120.0  # seconds to wait for a cluster that has no room for a single actor

Answer = tuple[str, Any]  # ("news", run-steps behind) or ("ended", error)


class Trainer:
    """What an actor is: it prepares a job once and trains one fleet after the other, in one of its two threads."""

    def __init__(self, job: Job, threads: int) -> None:
        job.prepare()
        self.job, self.threads, self.stopping = job, threads, False

    def train(self, fleet: FleetSpec) -> Iterator[Answer]:
        """Train a fleet; yield what happens."""
        import torch

        torch.set_num_threads(self.threads)
        work, news = self.job.work(fleet), deque[int]()
        while not self.stopping:
            ended = advance(work, fleet, lambda _, done: news.append(done))
            if ended is not None:
                yield "ended", ended.error
                return
            yield "news", news.pop()
        work.close()  # keeps a last state

    def stop(self) -> None:
        """Called by the driver meanwhile: end at the next record."""
        self.stopping = True


class Ray(Executor):
    """Trains in the actors of a Ray cluster: the one at an address, or one on this machine."""

    name = "ray"
    devices = ("cpu", "cuda")
    takes = ("gpus", "address", "gpus_per_fleet", "cpus_per_fleet", "fleet_timeout")

    @classmethod
    def trains_elsewhere(cls, how: How) -> bool:
        """Where the cluster is not on this machine."""
        return how.address is not None

    def train(self, fleets: Sequence[FleetSpec], job: Job, news: News) -> Iterator[Ended]:
        """Keep as many actors as there is room for, a fleet each; the longest fleets first."""
        if self.how.gpus is not None:
            raise UserError(
                "with --engine ray the cluster says which GPUs there are: leave --gpus away, or use --workers"
            )
        ray = _imported()
        mine = not ray.is_initialized()
        if mine:
            _connect(ray, self.how, job.device)
        crew = Crew(ray, self.how, job, self.workers)
        try:
            yield from crew.train(fleets, news)
        finally:
            crew.dismiss()
            if mine:
                ray.shutdown()

    def duration(self, fleets: Sequence[FleetSpec], seconds: Sequence[float]) -> float:
        """Each actor takes the longest fleet that waits."""
        gpus = self.how.gpus or ""
        count = (
            int(gpus) / (self.how.gpus_per_fleet or 1)
            if gpus.isdecimal()
            else self.workers or os.cpu_count() or 1
        )
        return finish(
            seconds, max(1, min(int(count), len(fleets))), GPU_STARTING if gpus else STARTING
        )


class Crew:
    """Actors, the fleets they have, and what is still to do."""

    def __init__(self, ray: Any, how: How, job: Job, workers: int | None) -> None:
        self.ray, self.how, self.workers = ray, how, workers
        threads = how.threads or 1
        cpus = how.cpus_per_fleet or threads
        gpus = (how.gpus_per_fleet or 1) if job.device == "cuda" else 0
        visible = {} if gpus else {"CUDA_VISIBLE_DEVICES": ""}
        hide = {"env_vars": visible | {"OMP_NUM_THREADS": str(threads)}}
        self.needs = {"CPU": cpus, "GPU": gpus}
        options = {
            "num_cpus": cpus,
            "num_gpus": gpus,
            "runtime_env": hide,
            "max_restarts": 0,
            "max_task_retries": 0,
        }
        options["max_concurrency"] = 2  # it trains, and can be told to stop
        self.kind = ray.remote(**options)(Trainer)
        self.job, self.threads = ray.put(job), threads
        self.idle: list[Any] = []
        self.busy: dict[
            Any, tuple[Any, FleetSpec, float]
        ] = {}  # stream of answers -> actor, fleet, since when
        self.lost: Counter[str] = Counter()

    def train(self, fleets: Sequence[FleetSpec], news: News) -> Iterator[Ended]:
        """Train fleets."""
        waiting, opened = deque(longest_first(fleets)), time.monotonic()
        while waiting or self.busy:
            self._hire(waiting)
            if not self.busy and time.monotonic() - opened > OPENING:
                raise UserError(
                    f"the Ray cluster has no room for an actor with {self.needs}; give it more, or ask less"
                )
            if not self.busy:
                time.sleep(0.2)
            for stream in self.ray.wait(list(self.busy), timeout=0.2)[0] if self.busy else ():
                yield from self._hear(stream, waiting, news)
            yield from self._give_up_late()
            self.how.stop.check()

    def _hire(self, waiting: deque[FleetSpec]) -> None:
        """Give fleets to idle actors, and to new ones while the cluster has room."""
        while waiting and (self.idle or self._has_room()):
            actor = self.idle.pop() if self.idle else self.kind.remote(self.job, self.threads)
            stream = actor.train.options(num_returns="streaming").remote(waiting[0])
            self.busy[stream] = actor, waiting.popleft(), time.monotonic()

    def _has_room(self) -> bool:
        if self.workers is not None and len(self.busy) >= self.workers:
            return False
        nodes = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        seats = sum(
            min(int(node.get(key, 0) / need + 1e-9) for key, need in self.needs.items() if need)
            for node in nodes
        )
        return len(self.busy) + len(self.idle) < seats

    def _hear(self, stream: Any, waiting: deque[FleetSpec], news: News) -> Iterator[Ended]:
        """Take in an actor's next answer, or that it is gone."""
        actor, fleet, since = self.busy[stream]
        try:
            kind, value = self.ray.get(next(stream))
        except (self.ray.exceptions.RayError, StopIteration) as error:
            if isinstance(error, self.ray.exceptions.RayTaskError) and isinstance(
                error.cause, UserError
            ):
                raise error.cause from None
            del self.busy[stream]
            self.lost[fleet.fleet_id] += 1
            memory = isinstance(error, self.ray.exceptions.OutOfMemoryError)
            if memory and len(fleet.runs) > 1:
                waiting.extend(halves(fleet))
            elif self.lost[fleet.fleet_id] < ATTEMPTS:
                waiting.append(fleet)
            else:
                words = f"its actor was lost {ATTEMPTS} times: {' '.join(str(error).split())[:300]}"
                trouble = Trouble(
                    "ActorLost", words, "", platform.node(), time.monotonic() - since, memory
                )
                yield Ended(fleet, Broken(trouble))
            self._dismiss(actor)
            return
        if kind == "news":
            news(fleet, value)
            return
        del self.busy[stream]
        self.idle.append(actor)
        if out_of_memory(value) and len(fleet.runs) > 1:
            waiting.extendleft(halves(fleet))
        else:
            yield Ended(fleet, value)

    def _give_up_late(self) -> Iterator[Ended]:
        """End actors whose fleets take too long."""
        limit = self.how.fleet_timeout or float("inf")
        for stream, (actor, fleet, since) in list(self.busy.items()):
            if time.monotonic() - since > limit:
                del self.busy[stream]
                self._dismiss(actor)
                words = f"not ended after {limit:g} seconds"
                yield Ended(
                    fleet,
                    Broken(
                        Trouble("Timeout", words, "", platform.node(), time.monotonic() - since)
                    ),
                )

    def _dismiss(self, actor: Any) -> None:
        self.ray.kill(actor, no_restart=True)

    def dismiss(self) -> None:
        """Have actors keep the states of what they train, and end them."""
        streams, until = list(self.busy), time.monotonic() + GRACE
        try:
            told = [self.busy[stream][0].stop.remote() for stream in streams]
            while streams and time.monotonic() < until:
                for stream in self.ray.wait(streams, timeout=0.2)[0]:
                    try:
                        next(stream)
                    except (StopIteration, self.ray.exceptions.RayError):
                        streams.remove(stream)
            del told
        finally:
            for actor in (*self.idle, *(actor for actor, _, _ in self.busy.values())):
                self._dismiss(actor)


def _imported() -> Any:
    try:
        import ray
        import ray.exceptions
    except ImportError:
        raise UserError(
            "the engine ray needs Ray; install it with: pip install 'puarena[ray]'"
        ) from None
    return ray


def _connect(ray: Any, how: How, device: str) -> None:
    """Connect to the cluster at the address, or start one here."""
    quiet = {"log_to_driver": False, "logging_level": "error", "include_dashboard": False}
    if how.address is None:
        gpus = None if device == "cuda" else 0
        ray.init(num_cpus=how.workers, num_gpus=gpus, **quiet)
        return
    try:
        ray.init(address=how.address, log_to_driver=False, logging_level="error")
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise UserError(
            f"there is no Ray cluster at '{how.address}': {' '.join(str(error).split())[:200]}"
        ) from None
