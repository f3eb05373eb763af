"""Fleets one after the other, in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from puarena.bench.executors.base import Ended, Executor, News, advance
from puarena.bench.plan import FleetSpec
from puarena.bench.work import Job


class Inline(Executor):
    """Trains in this process."""

    name = "inline"
    devices = ("cpu",)

    @classmethod
    def preference(cls, workers: int | None, fleets: Sequence[FleetSpec]) -> int:
        """Where nothing else pays."""
        return 1

    def train(self, fleets: Sequence[FleetSpec], job: Job, news: News) -> Iterator[Ended]:
        """Train fleets in their order."""
        for fleet in fleets:
            work, ended = job.work(fleet), None
            while ended is None:
                ended = advance(work, fleet, news)
            yield ended
