"""What an executor is, and the options that executors take. Imports nothing large."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from puarena.errors import unknown_name

if TYPE_CHECKING:
    from puarena.experiments.plan import FleetSpec
    from puarena.experiments.worker import FleetUpdate, Job

POLL_SECONDS = 0.2  # between two looks at what is in training
SAVE_SECONDS = 60.0  # for fleets in training to reach a record and save their checkpoints

Updates: TypeAlias = "Generator[FleetUpdate | None, None, None]"


@dataclass(frozen=True)
class ExecutorOptions:
    """Options of executors: keywords of ``puarena.run``, and ``--set`` of the command line.

    An executor lists the options that it takes in ``takes``, but for ``workers`` and ``threads``.
    """

    workers: int | None = None  # fleets trained in parallel (None: chosen automatically)
    threads: int | None = None  # of a process that trains on a CPU (None: 1)
    fleet_timeout: float | None = None  # seconds after which a fleet is given up
    gpus: str | None = None  # of this machine, a process each: all, or a list such as 0,1
    address: str | None = None  # of a Ray cluster (None: one on this machine)
    gpus_per_fleet: float | None = None  # share of a GPU
    cpus_per_fleet: float | None = None  # cores
    slurm_partition: str | None = None
    slurm_time: float | None = None  # seconds; the time limit of jobs, which are queued again then
    slurm: tuple[str, ...] | None = None  # any other parameters of jobs, such as account=me

    @classmethod
    def names(cls) -> list[str]:
        """Return the names of all options."""
        return [each.name for each in fields(cls)]

    @classmethod
    def of(cls, **options: Any) -> ExecutorOptions:
        """Return these options; an unknown name is refused."""
        for name in options:
            if name not in cls.names():
                raise unknown_name("option", name, cls.names())
        return cls(**options)


class Executor(ABC):
    """Trains fleets, up to ``options.workers`` of them in parallel (None: chosen automatically)."""

    name: ClassVar[str]
    devices: ClassVar[tuple[str, ...]]
    takes: ClassVar[tuple[str, ...]] = ()  # options, beyond ``workers`` and ``threads``
    start_seconds: ClassVar[float] = 0.0  # until the first fleet trains, for estimates
    overlap: ClassVar[float] = 1.0  # speed-up of fleets that share a device without filling it

    def __init__(self, options: ExecutorOptions | None = None) -> None:
        self.options = options or ExecutorOptions()

    @classmethod
    def preference(cls, options: ExecutorOptions, fleets: Sequence[FleetSpec]) -> int:
        """Return how well it suits; the executor with the highest value is the default."""
        return 0

    @classmethod
    def uses_other_machines(cls, options: ExecutorOptions) -> bool:
        """Return whether other machines train, which may have a GPU that this one lacks."""
        return False

    @abstractmethod
    def train(self, fleets: Sequence[FleetSpec], job: Job) -> Updates:
        """Have ``job.train`` run for every fleet; yield its updates, and None while waiting.

        None is yielded several times a second, so that the caller can stop the iteration: closing
        the iterator saves checkpoints. A fleet may end in parts; every run ends once.
        """

    def lanes(self, fleets: Sequence[FleetSpec]) -> int:
        """Return how many fleets are trained in parallel, for estimates."""
        return 1

    def estimate(self, fleets: Sequence[FleetSpec], seconds: Sequence[float]) -> float:
        """Return how long these fleets take, given how long each of them takes alone."""
        times = [
            each if fleet.fills_gpu else each / self.overlap
            for fleet, each in zip(fleets, seconds, strict=True)
        ]
        return self.start_seconds + max(sum(times) / self.lanes(fleets), *times, 0.0)


def sort_longest_first(fleets: Sequence[FleetSpec]) -> list[FleetSpec]:
    """Return the order in which no worker waits long for the last fleet."""
    return sorted(fleets, key=lambda fleet: -fleet.steps)


def split_fleet(fleet: FleetSpec) -> list[FleetSpec]:
    """Return a fleet in two halves, each claimed by itself; a single run stays as it is."""
    half = (len(fleet.runs) + 1) // 2
    parts = [fleet.runs[:half], fleet.runs[half:]]
    return [type(fleet)(runs, fleet.claim) for runs in parts if runs]
