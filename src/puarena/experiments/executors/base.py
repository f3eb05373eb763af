"""What an executor is: it is given fleets and a job, and has each of them trained and stored, somewhere and somehow.

Imports nothing large, as not every process computes.
"""

from __future__ import annotations

import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from puarena.errors import unknown_name
from puarena.experiments.forecast import Lanes
from puarena.experiments.stop import Stop

if TYPE_CHECKING:
    from puarena.experiments.plan import FleetSpec
    from puarena.experiments.work import Job, Work

News: TypeAlias = (
    "Callable[[FleetSpec, int], None]"  # so many run-steps of a fleet in training are behind
)


@dataclass(frozen=True)
class Ended:
    """A fleet whose shard is stored, or that broke off."""

    fleet: FleetSpec
    error: Exception | None = None


def option(
    words: str, metavar: str, low: float | None = None, time: bool = False, everybody: bool = False
) -> Any:
    """A field of :class:`How` that is an option of ``puarena run``, too; a ``time`` is in seconds.

    One that not ``everybody`` listens to is refused by executors that do not name it in ``takes``.
    """
    shown = {"help": words, "metavar": metavar, "min": low}
    return field(default=None, metadata={"shown": shown, "time": time, "everybody": everybody})


@dataclass(frozen=True)
class How:
    """What executors may be told; each looks at what concerns it. One more option is one more line here."""

    workers: int | None = None
    threads: int | None = option(
        "threads of a process that trains on a CPU (default 1)", "N", everybody=True
    )
    fleet_timeout: float | None = option("give up a fleet that takes longer", "30m", time=True)
    gpus: str | None = option("GPUs of this machine to use, a process each", "all|0,1")
    address: str | None = option("of a Ray cluster (default: one on this machine)", "A")
    gpus_per_fleet: float | None = option("share of a GPU for a fleet", "F", 0)
    cpus_per_fleet: float | None = option("cores for a fleet", "N", 0)
    slurm_partition: str | None = option("partition of SLURM jobs", "P")
    slurm_time: float | None = option(
        "time limit of SLURM jobs, which are then queued again", "4h", time=True
    )
    slurm: tuple[str, ...] | None = option(
        "any other parameter of SLURM jobs, such as account=me", "KEY=VALUE"
    )
    stop: Stop = field(default_factory=Stop)

    @classmethod
    def options(cls) -> dict[str, Mapping[str, Any]]:
        """What can be told, by name, as :func:`option` describes it."""
        return {each.name: each.metadata for each in fields(cls) if each.metadata}

    @classmethod
    def of(cls, **options: Any) -> How:
        """The options that somebody named; an unknown one is refused."""
        for name in options:
            if name not in cls.options():
                raise unknown_name("option", name, cls.options())
        return cls(**options)


class Executor(ABC):
    """Has fleets trained; ``workers`` of them side by side (None: what pays)."""

    name: ClassVar[str]
    devices: ClassVar[tuple[str, ...]]
    takes: ClassVar[tuple[str, ...]] = ()  # of ``How``, beyond what everybody is told

    def __init__(self, workers: int | None = None, how: How | None = None) -> None:
        self.workers, self.how = workers, how or How(workers)

    @classmethod
    def preference(cls, how: How, fleets: Sequence[FleetSpec]) -> int:
        """How much speaks for it where nobody names an executor; the one for which most speaks is chosen."""
        return 0

    @classmethod
    def trains_elsewhere(cls, how: How) -> bool:
        """Is it other machines that need the device?"""
        return False

    @abstractmethod
    def train(self, fleets: Sequence[FleetSpec], job: Job, news: News) -> Iterator[Ended]:
        """Have every fleet do ``job.work``, call ``news`` on the way, yield each when it ends.

        A fleet may end in parts, as several smaller ones; every run ends once.
        """

    def duration(self, fleets: Sequence[FleetSpec], seconds: Sequence[float]) -> float:
        """How long these fleets take together, from the ``seconds`` each of them takes alone."""
        return sum(seconds)

    def lanes(self, fleets: Sequence[FleetSpec]) -> Lanes:
        """How it trains fleets side by side, as far as it can tell beforehand."""
        return Lanes()


def advance(work: Work, fleet: FleetSpec, news: News) -> Ended | None:
    """Go on with a fleet to its next record; say how it ended if it did."""
    try:
        news(fleet, next(work))
    except StopIteration:
        return Ended(fleet)
    except Exception as error:
        work.close()
        traceback.clear_frames(
            error.__traceback__
        )  # an error that is kept would keep the fleet in memory
        return Ended(fleet, error)
    return None


def longest_first(fleets: Sequence[FleetSpec]) -> list[FleetSpec]:
    """The order in which workers have little to wait for at the end."""
    return sorted(fleets, key=lambda fleet: -fleet.steps)
