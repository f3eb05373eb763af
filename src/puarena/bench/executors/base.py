"""What an executor is: it is given fleets and a job, and has each of them trained and stored, somewhere and somehow.

Imports nothing large, as not every process computes.
"""

from __future__ import annotations

import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from puarena.bench.stop import Stop

if TYPE_CHECKING:
    from puarena.bench.plan import FleetSpec
    from puarena.bench.work import Job, Work

News: TypeAlias = "Callable[[FleetSpec, int], None]"  # so many run-steps of a fleet in training are behind


@dataclass(frozen=True)
class Ended:
    """A fleet whose shard is stored, or that broke off."""

    fleet: FleetSpec
    error: Exception | None = None


@dataclass(frozen=True)
class How:
    """What else an executor may be told; each looks at what concerns it."""

    workers: int | None = None
    threads: int | None = None  # of torch, in every process that trains on a CPU (None: one)
    gpus: str | None = None  # "all", a number of them, or a list such as "0,2"
    address: str | None = None  # of a cluster
    gpus_per_fleet: float | None = None
    cpus_per_fleet: float | None = None
    slurm: tuple[tuple[str, str], ...] = ()  # parameters of jobs
    fleet_timeout: float | None = None  # seconds after which a fleet is given up
    stop: Stop = field(default_factory=Stop)


class Executor(ABC):
    """Has fleets trained; ``workers`` of them side by side (None: what pays)."""

    name: ClassVar[str]
    devices: ClassVar[tuple[str, ...]]
    summary: ClassVar[str] = ""
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


def advance(work: Work, fleet: FleetSpec, news: News) -> Ended | None:
    """Go on with a fleet to its next record; say how it ended if it did."""
    try:
        news(fleet, next(work))
    except StopIteration:
        return Ended(fleet)
    except Exception as error:
        work.close()
        traceback.clear_frames(error.__traceback__)  # an error that is kept would keep the fleet in memory
        return Ended(fleet, error)
    return None


def longest_first(fleets: Sequence[FleetSpec]) -> list[FleetSpec]:
    """The order in which workers have little to wait for at the end."""
    return sorted(fleets, key=lambda fleet: -fleet.steps)
