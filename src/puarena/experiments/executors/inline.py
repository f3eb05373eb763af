"""Fleets one after the other, in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from puarena.experiments.executors.base import Ended, Executor, How, News, advance
from puarena.experiments.forecast import Lanes
from puarena.experiments.plan import FleetSpec
from puarena.experiments.work import Job


class Inline(Executor):
    """Trains in this process."""

    name = "inline"
    devices = ("cpu",)

    @classmethod
    def preference(cls, how: How, fleets: Sequence[FleetSpec]) -> int:
        """Where nothing else pays."""
        return 1

    def lanes(self, fleets: Sequence[FleetSpec]) -> Lanes:
        """One after the other."""
        return Lanes(1)

    def train(self, fleets: Sequence[FleetSpec], job: Job, news: News) -> Iterator[Ended]:
        """Train fleets in their order; small products gain little from a second thread, and lose much to it on a busy
        machine."""
        before = torch.get_num_threads()
        torch.set_num_threads(self.how.threads or 1)
        try:
            for fleet in fleets:
                work, ended = job.work(fleet), None
                try:
                    while ended is None:
                        ended = advance(work, fleet, news)
                finally:
                    work.close()  # keeps a last state
                yield ended
        finally:
            torch.set_num_threads(before)
