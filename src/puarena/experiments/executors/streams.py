"""Several fleets in flight on one GPU, a stream each."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Iterator, Sequence

import torch

from puarena.experiments.executors.base import Ended, Executor, How, News, advance, longest_first
from puarena.experiments.failures import Broken
from puarena.experiments.forecast import Lanes
from puarena.experiments.plan import FleetSpec
from puarena.experiments.work import Job, Work

STREAMS = 10  # fleets in flight, of those that do not fill a GPU on their own
OVERLAP = 2.0  # what several fleets in flight gain over one after the other


def out_of_memory(error: Exception | None) -> bool:
    """Did a fleet break off as it did not fit?"""
    return isinstance(error, torch.cuda.OutOfMemoryError) or (
        isinstance(error, Broken) and error.trouble.memory
    )


def halves(fleet: FleetSpec) -> list[FleetSpec]:
    """A fleet in two parts; one run alone as it is."""
    half = (len(fleet.runs) + 1) // 2
    return [FleetSpec(part, fleet.claim) for part in (fleet.runs[:half], fleet.runs[half:]) if part]


class Streams(Executor):
    """Keeps several fleets in flight on a GPU, from this process."""

    name = "streams"
    devices = ("cuda",)

    @classmethod
    def preference(cls, how: How, fleets: Sequence[FleetSpec]) -> int:
        """Always: with one worker it is one fleet after the other."""
        return 2

    def lanes(self, fleets: Sequence[FleetSpec]) -> Lanes:
        """All that are in flight share one device."""
        return Lanes(1, shared=True)

    def train(self, fleets: Sequence[FleetSpec], job: Job, news: News) -> Iterator[Ended]:
        """Train fleets that leave room for others, then those that fill the device on their own."""
        for fills, at_once in ((False, STREAMS), (True, 1)):
            part = [fleet for fleet in fleets if fleet.fills_gpu is fills]
            yield from self._fly(part, job, news, min(self.workers or at_once, max(len(part), 1)))

    def _fly(
        self, fleets: Sequence[FleetSpec], job: Job, news: News, at_once: int
    ) -> Iterator[Ended]:
        """Train fleets, ``at_once`` in flight; one that does not fit in memory is halved and tried again."""
        in_flight = at_once
        waiting = deque(longest_first(fleets))
        streams = [
            torch.cuda.Stream() for _ in range(at_once)
        ]  # memory is kept per stream: used again and again
        flying: deque[tuple[FleetSpec, torch.cuda.Stream, Work]] = deque()
        try:
            while waiting or flying:
                while waiting and len(flying) < at_once:
                    fleet = waiting.popleft()
                    flying.append((fleet, streams.pop(), job.work(fleet, in_flight)))
                fleet, stream, work = flying[0]
                with torch.cuda.stream(stream):
                    ended = advance(work, fleet, news)
                flying.rotate(-1)
                if ended is None:
                    continue
                flying.pop()
                del work
                streams.append(stream)
                gc.collect()  # a fleet refers to itself
                torch.cuda.empty_cache()  # what a fleet's graphs held is given back only here
                if out_of_memory(ended.error) and (len(fleet.runs) > 1 or flying):
                    at_once = max(1, at_once // 2)
                    waiting.extendleft(halves(fleet))
                else:
                    yield ended
        finally:
            for _, stream, work in flying:
                with torch.cuda.stream(stream):
                    work.close()  # keeps a last state

    def duration(self, fleets: Sequence[FleetSpec], seconds: Sequence[float]) -> float:
        """What fills the device on its own has nothing from being in flight with others."""
        alone = sum(each for fleet, each in zip(fleets, seconds, strict=True) if fleet.fills_gpu)
        return alone + (sum(seconds) - alone) / (OVERLAP if len(fleets) > 1 else 1)
