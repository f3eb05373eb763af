"""Several GPUs of one machine: a process each, which sees its own alone and keeps several fleets in flight on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from puarena.errors import UserError
from puarena.experiments.executors.base import Ended, Executor, How, News
from puarena.experiments.executors.pool import Pool
from puarena.experiments.executors.processes import finish
from puarena.experiments.executors.streams import OVERLAP, STREAMS, Streams
from puarena.experiments.forecast import Lanes
from puarena.experiments.plan import FleetSpec
from puarena.experiments.shared_memory import SharedDatasets
from puarena.experiments.work import Job

STARTING = 15.0  # seconds until a process trains on a GPU
AHEAD = 3  # times as many fleets as fly at once are dealt to a GPU, where enough wait


def named(gpus: str | None, present: Sequence[str]) -> list[str]:
    """The GPUs that ``all``, ``0,2`` or ``""`` (None: all) names, of those that are present."""
    if gpus in (None, "all"):
        return list(present)
    assert gpus is not None
    chosen = list(dict.fromkeys(part.strip() for part in gpus.split(",") if part.strip()))
    for each in chosen:
        if each not in present:
            raise UserError(
                f"there is no GPU '{each}' here; choose all, or some of: {', '.join(present) or 'none'}"
            )
    if not chosen:
        raise UserError("--gpus names no GPU; give all, or a list such as 0,1")
    return chosen


def present() -> list[str]:
    """The GPUs that this process may use, by the names their own environment variable has for them."""
    import os

    import torch

    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    if given is not None:
        return [part.strip() for part in given.split(",") if part.strip()]
    return [str(number) for number in range(torch.cuda.device_count())]


class GPUs(Executor):
    """Trains on several GPUs of this machine."""

    name = "gpus"
    devices = ("cuda",)
    takes = ("gpus", "fleet_timeout")

    @classmethod
    def preference(cls, how: How, fleets: Sequence[FleetSpec]) -> int:
        """Where GPUs are named, or a fleet may have to be ended from outside."""
        return 3 * (how.gpus is not None or (how.fleet_timeout is not None and len(fleets) > 0))

    def lanes(self, fleets: Sequence[FleetSpec]) -> Lanes:
        """All that are in flight share the GPUs."""
        return Lanes(max(min(len(named(self.how.gpus, present())), len(fleets)), 1), shared=True)

    def train(self, fleets: Sequence[FleetSpec], job: Job, news: News) -> Iterator[Ended]:
        """Deal fleets to the GPUs, the longest first."""
        chosen = named(self.how.gpus, present())[: max(len(fleets), 1)]
        environments = [
            {"CUDA_VISIBLE_DEVICES": gpu, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"} for gpu in chosen
        ]
        pool = Pool(environments, job, self.how, Streams, SharedDatasets.of(job.source.datasets))
        at_once = self.workers or STREAMS
        pool.portion = lambda first, waiting: (
            1
            if first.fills_gpu
            else max(1, min(AHEAD * at_once, waiting // (2 * len(chosen)) or 1))
        )
        yield from pool.train(fleets, news)

    def duration(self, fleets: Sequence[FleetSpec], seconds: Sequence[float]) -> float:
        """As many GPUs as are named (a number will do for those of another machine), each with fleets in flight."""
        gpus = self.how.gpus or "all"
        count = int(gpus) if gpus.isdecimal() and int(gpus) > 0 else len(named(gpus, present()))
        pairs = zip(fleets, seconds, strict=True)
        return finish(
            [each if fleet.fills_gpu else each / OVERLAP for fleet, each in pairs],
            max(count, 1),
            STARTING,
        )
