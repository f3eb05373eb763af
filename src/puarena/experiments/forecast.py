"""How long what is left of a run takes: from what its fleets have taken so far, and from who trains beside whom.

A fleet takes a while to begin and to store, and in between a pace (seconds for a unit of work) that depends on its
algorithm and on its data. Paces are learned from the fleets in training and the finished ones; what nobody has seen yet
is expected to take what it costs relative to the others. Then the fleets are dealt to their lanes as they will be: near
the end of a run some lanes have nothing left to do, and the last fleet is as slow as ever.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, log, prod
from statistics import median
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from puarena.experiments.plan import FleetSpec, Plan

DOUBT = 5.0  # seconds of watching after which what was seen counts as much as what was expected
ROUNDS = 4  # of fitting paces
OVERDUE = 0.15  # of the time since the last news is left at least, however late a fleet is
WINDOW = 25  # fleets whose beginnings and endings are remembered
FIXED_BATCH, FIXED_FEATURES = (
    8,
    40,
)  # what a step costs whatever its batch, and whatever the width of its data


Cell: TypeAlias = tuple[str, object]


class Lanes(NamedTuple):
    """How fleets are trained side by side: on so many lanes (0: as many as are seen), or sharing so many devices."""

    number: int = 0
    shared: bool = False


class Cost(NamedTuple):
    """What a fleet costs relative to others, and what its pace depends on: the algorithm, and the data."""

    work: float
    cell: Cell


def costs(plan: Plan, fleets: Sequence[FleetSpec]) -> dict[str, Cost]:
    """What is known of the cost of fleets before they are trained."""
    from puarena import catalog, datasets

    width = {name: prod(datasets.info(source).shape) for name, source in plan.sources.items()}
    known = {}
    for fleet in fleets:
        first, entry = fleet.first, catalog.get(fleet.first.algorithm)
        step = (first.batch_size + FIXED_BATCH) * (width[first.problem.dataset] + FIXED_FEATURES)
        cell = entry.base, (first.problem.dataset, first.network, first.batch_size)
        known[fleet.fleet_id] = Cost(fleet.steps * step * (entry.cost or 1.0), cell)
    return known


@dataclass
class Flight:
    """A fleet in training: on the clock, when it began, its first and its last news, and the share done at these."""

    fleet: FleetSpec
    work: float
    cell: Cell
    began: float
    first: float
    last: float
    first_share: float
    share: float
    fresh: bool = True  # it began on a lane that had trained before: no process had to start, and all of it was seen

    @property
    def seen(self) -> float:
        """For how long it was watched."""
        return self.last - self.first

    @property
    def pace(self) -> float | None:
        """Seconds for a unit of work, as far as was seen."""
        share = self.share - self.first_share
        return self.seen / (share * self.work) if share > 0 and self.seen > 0 else None


class Forecast:
    """Told what happens, with the time it happens at; says how many seconds are left."""

    def __init__(
        self,
        fleets: Sequence[FleetSpec],
        begun: Mapping[str, int],
        now: float,
        known: Mapping[str, Cost] | None = None,
        lanes: Lanes | None = None,
    ) -> None:
        self.lanes, self.known = lanes or Lanes(), dict(known or {})
        for fleet in fleets:
            plain = Cost(float(fleet.steps), (fleet.first.algorithm, fleet.first.problem.dataset))
            self.known.setdefault(fleet.fleet_id, plain)
        self.waiting = {
            fleet.fleet_id: fleet for fleet in sorted(fleets, key=lambda fleet: -fleet.steps)
        }
        self.begun = {
            name: begun[name] / fleet.steps for name, fleet in self.waiting.items() if name in begun
        }
        self.flying: dict[str, Flight] = {}
        self.others: dict[str, Flight] = {}  # with other processes
        self.idle = (
            [] if self.lanes.shared else [now] * self.lanes.number
        )  # lanes, by the time since when
        self.openings: list[float] = []  # seconds until the first step
        self.endings: list[float] = []  # seconds from the last record to the end
        self.cells: dict[Cell, list[float]] = {}  # seconds and work of finished fleets
        self.started, self.time, self.clock = now, now, 0.0
        self.done = 0.0

    # -- what happens ----------------------------------------------------------------------------------------------

    def news(self, fleet: FleetSpec, done: int, now: float) -> None:
        """So many run-steps of a fleet are behind."""
        self._tick(now)
        share = min(done / fleet.steps, 1.0)
        flight = self.flying.get(fleet.fleet_id)
        if flight is None:
            self.others.pop(fleet.fleet_id, None)  # who had it gave it up
            self._take(fleet)
            since = heapq.heappop(self.idle) if self.idle else self.started
            began = self.clock if self.lanes.shared else self.clock - (self.time - since)
            fresh = since > self.started and fleet.fleet_id not in self.begun
            times = (began, self.clock, self.clock)
            self.flying[fleet.fleet_id] = Flight(
                fleet, *self.known[fleet.fleet_id], *times, share, share, fresh
            )
        else:
            flight.last, flight.share = self.clock, share

    def ended(self, fleet: FleetSpec, now: float, failed: bool = False) -> None:
        """A fleet was stored, or failed."""
        self._tick(now)
        flight = self.flying.pop(fleet.fleet_id, None)
        if self.others.pop(fleet.fleet_id, None) is not None:
            return
        if flight is None:
            self._take(fleet)
        else:
            heapq.heappush(self.idle, now)
        self.done += self.known[fleet.fleet_id].work
        if flight is not None and not failed:
            self._learn(flight)

    def elsewhere(self, fleet: FleetSpec, now: float) -> None:
        """Another process has it."""
        self._tick(now)
        self._take(fleet)
        times = (self.clock, self.clock, self.clock)
        self.others[fleet.fleet_id] = Flight(fleet, *self.known[fleet.fleet_id], *times, 0.0, 0.0)

    def _learn(self, flight: Flight) -> None:
        """Remember what a finished fleet took."""
        pace, seconds = flight.pace, self.clock - flight.began
        if pace is not None:
            self.endings = [*self.endings, self.clock - flight.last][-WINDOW:]
            seconds = pace * flight.work
            if flight.fresh:
                opening = flight.first - flight.began - seconds * flight.first_share
                self.openings = [*self.openings, max(opening, 0.0)][-WINDOW:]
        if (
            pace is not None or flight.fresh
        ):  # else its first news were its last, and a process may have been started
            sums = self.cells.setdefault(flight.cell, [0.0, 0.0])
            sums[0] += seconds
            sums[1] += flight.work

    def _take(self, fleet: FleetSpec) -> None:
        """A fleet waits no longer; it may be a part of one that did, or that was in training and did not fit."""
        if self.waiting.pop(fleet.fleet_id, None) is not None:
            return
        runs = {run.run_id for run in fleet.runs}
        there = {**self.waiting, **{name: flight.fleet for name, flight in self.flying.items()}}
        for name, whole in there.items():
            rest = tuple(run for run in whole.runs if run.run_id not in runs)
            if len(rest) == len(whole.runs):
                continue
            self.waiting.pop(name, None)
            self.flying.pop(name, None)
            cost = self.known[name]
            parts = [fleet, *([type(whole)(rest, whole.group)] if rest else [])]
            self.known |= {
                part.fleet_id: cost._replace(work=cost.work * part.steps / whole.steps)
                for part in parts
            }
            self.waiting |= {part.fleet_id: part for part in parts[1:]}
            return
        self.known.setdefault(fleet.fleet_id, Cost(0.0, ("", None)))  # nobody spoke of it

    def _tick(self, now: float) -> None:
        """Let the clock go on: where fleets share devices, each has its part of the time."""
        crowd = max(len(self.flying) / max(self.lanes.number, 1), 1.0) if self.lanes.shared else 1.0
        self.clock += max(now - self.time, 0.0) / crowd
        self.time = max(now, self.time)

    # -- what is left ----------------------------------------------------------------------------------------------

    def left(self, now: float) -> float | None:
        """Seconds until the last fleet has ended; unknown until something was seen."""
        self._tick(now)
        if not (self.waiting or self.flying or self.others):
            return 0.0
        paces = self._paces()
        if paces is None:
            total = sum(self.known[name].work for name in self.waiting)
            return (
                total * (now - self.started) / self.done
                if self.done and now > self.started
                else None
            )
        opening, ending = (
            median(values) if values else 0.0 for values in (self.openings, self.endings)
        )
        seconds = []
        for name in self.waiting:
            work, cell = self.known[name]
            seconds.append(opening + paces[cell] * work * (1 - self.begun.get(name, 0.0)) + ending)
        ends = [self._rest(flight, paces) for flight in self.flying.values()]
        away = [self._rest(flight, paces) for flight in self.others.values()]
        if self.lanes.shared:
            return max([sum(ends + seconds) / max(self.lanes.number, 1), *away])
        lanes = [*ends, *(since - now for since in self.idle)] or [0.0]
        heapq.heapify(lanes)
        for each in seconds:
            heapq.heapreplace(lanes, max(lanes[0] + each, -OVERDUE * lanes[0]))
        return max([*lanes, *away])

    def _rest(self, flight: Flight, paces: _Paces) -> float:
        """What a fleet in training still takes: at its own pace, the more the longer it was watched."""
        pace, own = paces[flight.cell], flight.pace
        if own is not None:
            trust = flight.seen / (flight.seen + DOUBT)
            pace = exp(trust * log(own) + (1 - trust) * log(pace))
        ending = median(self.endings) if self.endings else 0.0
        silence = self.clock - flight.last
        return max(pace * flight.work * (1 - flight.share) + ending - silence, OVERDUE * silence)

    def _paces(self) -> _Paces | None:
        """The paces that are known, in the finished fleets and in those in training."""
        cells = {cell: list(sums) for cell, sums in self.cells.items()}
        for flight in self.flying.values():
            if flight.pace is not None:
                sums = cells.setdefault(flight.cell, [0.0, 0.0])
                sums[0] += flight.seen
                sums[1] += flight.seen / flight.pace
        cells = {cell: sums for cell, sums in cells.items() if sums[0] > 0 and sums[1] > 0}
        return _Paces(cells) if cells else None


class _Paces:
    """Paces by algorithm and data: a common one, a factor of each, and what a pair has of its own.

    Every factor is drawn towards one, the less the longer it was seen at work.
    """

    def __init__(self, cells: Mapping[Cell, Sequence[float]]) -> None:
        seconds = {cell: sums[0] for cell, sums in cells.items()}
        total = sum(seconds.values())
        rest = {cell: log(sums[0] / sums[1]) for cell, sums in cells.items()}
        self.common = sum(seconds[cell] * rest[cell] for cell in cells) / total
        rest = {cell: value - self.common for cell, value in rest.items()}
        self.factors: list[dict[object, float]] = [{}, {}]
        for _ in range(ROUNDS):
            for side in (1, 0):  # data differ more than algorithms, whose costs are known
                for name in {cell[side] for cell in cells}:
                    mine = [cell for cell in cells if cell[side] == name]
                    weight = sum(seconds[cell] for cell in mine)
                    change = sum(seconds[cell] * rest[cell] for cell in mine) / (weight + DOUBT)
                    self.factors[side][name] = self.factors[side].get(name, 0.0) + change
                    for cell in mine:
                        rest[cell] -= change
        self.own = {cell: rest[cell] * seconds[cell] / (seconds[cell] + DOUBT) for cell in cells}

    def __getitem__(self, cell: Cell) -> float:
        factors = (self.factors[side].get(cell[side], 0.0) for side in (0, 1))
        return exp(self.common + sum(factors) + self.own.get(cell, 0.0))
