"""Executors for GPUs of this machine: fleets on streams of one GPU, and a process per GPU."""

from __future__ import annotations

import gc
import os
from collections import deque
from collections.abc import Generator, Sequence

import torch

from puarena.errors import UserError
from puarena.experiments.executors.base import (
    Executor,
    ExecutorOptions,
    Updates,
    sort_longest_first,
    split_fleet,
)
from puarena.experiments.executors.local import WorkerPool
from puarena.experiments.plan import FleetSpec
from puarena.experiments.worker import FleetUpdate, Job

STREAMS = 10  # fleets in flight, of those that do not fill a GPU alone
OVERLAP = 2.0  # speed-up of fleets in flight over one after the other
DEALT_FACTOR = 3  # a GPU is given up to so many times the fleets that it has in flight


class Streams(Executor):
    """Keeps several fleets in flight on one GPU, from this process."""

    name = "streams"
    devices = ("cuda",)
    overlap = OVERLAP

    @classmethod
    def preference(cls, options: ExecutorOptions, fleets: Sequence[FleetSpec]) -> int:
        """Suit everything on one GPU."""
        return 2

    def train(self, fleets: Sequence[FleetSpec], job: Job) -> Updates:
        """Train the fleets that leave room for others, then those that fill the GPU alone."""
        for fills, at_once in ((False, STREAMS), (True, 1)):
            part = [fleet for fleet in fleets if fleet.fills_gpu is fills]
            if part:
                at_once = min(self.options.workers or at_once, len(part))
                yield from self._train_in_flight(part, job, at_once)

    def _train_in_flight(
        self, fleets: Sequence[FleetSpec], job: Job, at_once: int
    ) -> Generator[FleetUpdate, None, None]:
        """Train fleets, ``at_once`` in flight; one that does not fit in memory is split."""
        in_flight = at_once
        waiting = deque(sort_longest_first(fleets))
        # Memory is kept per stream, so streams are reused.
        streams = [torch.cuda.Stream() for _ in range(at_once)]
        flying: deque[tuple[FleetSpec, torch.cuda.Stream, Generator[FleetUpdate, None, None]]] = (
            deque()
        )
        try:
            while waiting or flying:
                while waiting and len(flying) < at_once:
                    fleet = waiting.popleft()
                    flying.append((fleet, streams.pop(), job.train(fleet, in_flight)))
                fleet, stream, training = flying[0]
                with torch.cuda.stream(stream):
                    update = next(training)
                flying.rotate(-1)
                if not update.ending:
                    yield update
                    continue
                flying.pop()
                del training
                streams.append(stream)
                # A fleet refers to itself, and its graphs give their memory back only here.
                gc.collect()
                torch.cuda.empty_cache()
                failure = update.failure
                can_shrink = len(fleet.runs) > 1 or flying
                if failure is not None and failure.out_of_memory and can_shrink:
                    at_once = max(1, at_once // 2)
                    waiting.extendleft(split_fleet(fleet))
                else:
                    yield update
        finally:
            for _, stream, training in flying:
                with torch.cuda.stream(stream):
                    training.close()  # saves a checkpoint


class GPUs(Executor):
    """Trains on several GPUs of this machine, with a process for each."""

    name = "gpus"
    devices = ("cuda",)
    takes = ("gpus", "fleet_timeout")
    start_seconds = 15.0
    overlap = OVERLAP

    @classmethod
    def preference(cls, options: ExecutorOptions, fleets: Sequence[FleetSpec]) -> int:
        """Suit named GPUs, and fleets with a time limit."""
        return 3 if options.gpus is not None or options.fleet_timeout is not None else 0

    def lanes(self, fleets: Sequence[FleetSpec]) -> int:
        """Return the number of GPUs; for a plan, ``gpus`` may be the number of another machine."""
        gpus = self.options.gpus or ""
        if gpus.isdecimal() and int(gpus) > 0:
            return int(gpus)
        return max(1, len(choose_gpus(self.options.gpus, list_gpus())))

    def train(self, fleets: Sequence[FleetSpec], job: Job) -> Updates:
        """Deal fleets to the GPUs, the longest first."""
        chosen = choose_gpus(self.options.gpus, list_gpus())[: max(len(fleets), 1)]
        environments = [
            {"CUDA_VISIBLE_DEVICES": gpu, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"} for gpu in chosen
        ]
        most = DEALT_FACTOR * (self.options.workers or STREAMS)

        def portion(first: FleetSpec, waiting: int) -> int:
            """Deal several fleets at once, but leave enough for the other GPUs."""
            return 1 if first.fills_gpu else max(1, min(most, waiting // (2 * len(chosen))))

        yield from WorkerPool(environments, job, Streams, self.options, portion).train(fleets)


def choose_gpus(gpus: str | None, present: Sequence[str]) -> list[str]:
    """Return the GPUs that ``all``, ``0,2`` or None (all) stand for."""
    if gpus is None or gpus == "all":
        return list(present)
    chosen = list(dict.fromkeys(part.strip() for part in gpus.split(",") if part.strip()))
    for gpu in chosen:
        if gpu not in present:
            known = ", ".join(present) or "none"
            message = f"there is no GPU '{gpu}' here; choose all, or some of: {known}"
            raise UserError(message, "unknown-name")
    if not chosen:
        raise UserError(f"gpus is '{gpus}'; give all, or a list such as 0,1", "invalid-value")
    return chosen


def list_gpus() -> list[str]:
    """Return the GPUs that this process may use, as ``CUDA_VISIBLE_DEVICES`` names them."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return [str(number) for number in range(torch.cuda.device_count())]
    return [part.strip() for part in visible.split(",") if part.strip()]
