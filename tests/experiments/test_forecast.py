"""The time left that is shown is true: within a fifth from the first minute on, and never 0:00 while something is left.

Runs are played with a simulated clock: workers take the longest fleet that waits, and every fleet takes a while to
begin, to train (what that costs is known only roughly), and to store.
"""

from __future__ import annotations

import heapq
import io
import random
import re
from collections.abc import Iterator

import pytest

from puarena.experiments.executors import choose
from puarena.experiments.executors.base import longest_first
from puarena.experiments.forecast import Forecast, Lanes, costs
from puarena.experiments.plan import FleetSpec, Plan, group, make_plan
from puarena.experiments.progress import Lines, Live, Progress
from puarena.experiments.spec import ProblemSpec, Spec

STARTING = 5.0  # seconds until a worker is ready
OPENING, ENDING = (
    0.8,
    1.2,
)  # seconds until a fleet's first step, and from its last record to the stored shard
SAME, SECONDS = 0.2, 5.0  # by how much the time left may be wrong: a fifth, or a few seconds


def a_plan(steps: int = 2000, algorithms: str = "upu nnpu nnpu-c vpu pubn pan lbe dist-pu") -> Plan:
    """Two datasets of different width, methods of different cost."""
    problems = [
        ProblemSpec(dataset="digits", rates=[0.1, 0.3]),
        ProblemSpec(dataset="letter", rates=[0.3]),
    ]
    names = tuple(algorithms.split())
    return make_plan(
        Spec(
            problems=problems, algorithms=names, splits=3, configs=4, steps=steps, record_every=100
        )
    )


def long_and_short() -> tuple[Plan, list[FleetSpec]]:
    """Long fleets of several runs, and many small ones, which are trained at the end."""
    plan = a_plan()
    small = group(a_plan(100, "upu nnpu vpu").runs, 1, "cpu")
    return plan, [*group(plan.runs, None, "cpu"), *small]


class Played:
    """A run on so many workers: its events in order, and when it is over."""

    def __init__(
        self, plan: Plan, fleets: list[FleetSpec], workers: int, seconds: float, seed: int = 0
    ) -> None:
        known, chance = costs(plan, fleets), random.Random(seed)
        unit = seconds * workers / sum(known[fleet.fleet_id].work for fleet in fleets)
        surprise = {
            cell: chance.lognormvariate(0, 0.2)
            for cell in dict.fromkeys(known[f.fleet_id].cell for f in fleets)
        }
        self.events: list[tuple[float, str, FleetSpec, int]] = []
        lanes = [STARTING] * workers
        for fleet in longest_first(fleets):
            work, cell = known[fleet.fleet_id]
            began = heapq.heappop(lanes) + OPENING
            takes = work * unit * surprise[cell] * chance.uniform(0.95, 1.05)
            records = 20
            for record in range(records + 1):
                self.events.append(
                    (
                        began + takes * record / records,
                        "news",
                        fleet,
                        fleet.steps * record // records,
                    )
                )
            self.events.append((began + takes + ENDING, "ended", fleet, 0))
            heapq.heappush(lanes, began + takes + ENDING)
        self.over = max(lanes)
        self.events.sort(key=lambda event: event[0])

    def told(self, live: Progress, every: float = 1.0) -> Iterator[float]:
        """Tell what happens; yield the time now and then."""
        events, ticks = list(self.events), int(self.over / every)
        for now in (*(every * tick for tick in range(ticks + 1)), self.over):
            while events and events[0][0] <= now:
                time, kind, fleet, done = events.pop(0)
                live.now = lambda time=time: time
                live.news(fleet, done) if kind == "news" else live.fleet_ends(fleet)
            live.now = lambda now=now: now
            yield now


def watched(
    live: Progress, plan: Plan, fleets: list[FleetSpec], played: Played, lanes: Lanes
) -> Progress:
    """A progress that is told of a run from its start."""
    live.now = lambda: 0.0
    live.expect(costs(plan, fleets), lanes)
    live.start(fleets, {})
    return live


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("told", [True, False])
def test_the_time_left_is_true_from_the_first_minute_on(workers, told, seed):
    plan, fleets = long_and_short()
    played = Played(plan, fleets, workers, 400, seed)
    assert len(fleets) > 150
    live = watched(Progress(), plan, fleets, played, Lanes(workers if told else 0))
    wrong = []
    for now in played.told(live, every=2.0):
        left, true = live.left, played.over - now
        if now >= 60 and (left is None or abs(left - true) > max(SAME * true, SECONDS)):
            wrong.append((now, left, true))
    assert not wrong
    assert live.left == 0


def test_the_last_fleet_is_as_slow_as_ever():
    """Two workers, three equal fleets: the third has one of them, and the other is idle."""
    plan = a_plan(algorithms="nnpu")
    fleets = [
        fleet for fleet in group(plan.runs, 1, "cpu") if fleet.first.problem.dataset == "digits"
    ][:3]
    played = Played(plan, fleets, 2, 150)
    live = watched(Progress(), plan, fleets, played, Lanes(2))
    for now in played.told(live):
        if now > 20:
            assert live.left == pytest.approx(played.over - now, rel=SAME, abs=SECONDS), now


def test_nothing_shows_0_00_while_something_is_left():
    plan, fleets = long_and_short()
    played = Played(plan, fleets, 2, 200)
    live = watched(Lines(io.StringIO(), every=0.0), plan, fleets, played, Lanes(2))
    for _ in played.told(live):
        live.show()
    *lines, last = live.stream.getvalue().splitlines()
    shown = [line for line in lines if " left  " in line]
    assert len(shown) > 150
    assert not [line for line in shown if line.startswith("0:00")]
    assert re.match(r"took \d+:\d\d  runs (\d+)/\1  fleets (\d+)/\2", last)


def test_a_fleet_that_is_late_is_not_about_to_end():
    """No news for long, though it should have ended: the more is left the longer it is silent, and never nothing."""
    plan = a_plan(algorithms="nnpu")
    fleet = group(plan.runs, None, "cpu")[0]
    forecast = Forecast([fleet], {}, 0.0, costs(plan, [fleet]), Lanes(1))
    for record in range(10):
        forecast.news(fleet, fleet.steps * record // 10, 2.0 * record)
    assert forecast.left(18.0) == pytest.approx(2.0)
    assert 5 < forecast.left(60.0) < forecast.left(90.0)


def test_what_is_resumed_or_fails_or_is_elsewhere_counts_for_what_it_is():
    plan = a_plan(algorithms="nnpu")
    fleets = [fleet for fleet in group(plan.runs, 1, "cpu") if fleet.first.batch_size == 32][:4]
    first, second, third, fourth = longest_first(fleets)
    cell = costs(plan, fleets)[first.fleet_id]
    known = {fleet.fleet_id: cell for fleet in fleets}
    forecast = Forecast(fleets, {fourth.fleet_id: fourth.steps // 2}, 0.0, known, Lanes(1))
    forecast.news(first, 0, 0.0)
    forecast.news(first, first.steps // 2, 50.0)
    assert forecast.left(50.0) == pytest.approx(
        50 + 100 + 100 + 50
    )  # the fourth goes on from its half
    forecast.ended(first, 50.0, failed=True)
    forecast.news(second, 0, 50.0)
    forecast.news(second, second.steps // 2, 100.0)
    assert forecast.left(100.0) == pytest.approx(50 + 100 + 50)
    forecast.elsewhere(third, 100.0)
    assert forecast.left(100.0) == pytest.approx(100)  # the other process needs that long for it
    forecast.ended(second, 150.0)
    forecast.ended(fourth, 200.0)
    assert forecast.left(200.0) > 0
    forecast.ended(third, 200.0)
    assert forecast.left(200.0) == 0


def test_fleets_that_share_a_device_take_its_time_together():
    """Ten in flight are each a tenth as fast; that says nothing of how long the last one takes."""
    plan = a_plan(algorithms="nnpu")
    fleets = [fleet for fleet in group(plan.runs, 1, "cpu") if fleet.first.batch_size == 32][:4]
    known = dict.fromkeys(
        (fleet.fleet_id for fleet in fleets), costs(plan, fleets)[fleets[0].fleet_id]
    )
    forecast = Forecast(fleets, {}, 0.0, known, Lanes(1, shared=True))
    for time in (0.0, 10.0, 20.0):  # all four, a fifth of each in ten seconds
        for fleet in fleets:
            forecast.news(fleet, round(fleet.steps * time / 50), time)
    assert forecast.left(20.0) == pytest.approx(30.0, rel=0.05)
    for fleet in fleets[:3]:
        forecast.ended(fleet, 20.0)  # three are gone: the last has all of the device
    assert forecast.left(20.0) == pytest.approx(7.5, rel=0.1)


def test_a_fleet_that_was_halved_is_two(monkeypatch):
    plan = a_plan(algorithms="nnpu")
    whole = max(group(plan.runs, None, "cpu"), key=lambda fleet: len(fleet.runs))
    half = len(whole.runs) // 2
    parts = [FleetSpec(whole.runs[:half], whole.group), FleetSpec(whole.runs[half:], whole.group)]
    forecast = Forecast([whole], {}, 0.0, costs(plan, [whole]), Lanes(1))
    forecast.news(whole, 0, 0.0)
    forecast.news(parts[0], 0, 10.0)
    forecast.news(parts[0], parts[0].steps // 2, 20.0)
    second = 20 * parts[1].steps / parts[0].steps
    assert forecast.left(20.0) == pytest.approx(10 + second, rel=0.2)
    forecast.ended(parts[0], 30.0)
    forecast.ended(parts[1], 50.0)
    assert forecast.left(50.0) == 0


def test_every_engine_says_how_it_trains_side_by_side():
    fleets = group(a_plan(algorithms="nnpu").runs, None, "cpu")
    assert choose("cpu", 1, fleets, "inline").lanes(fleets) == Lanes(1)
    assert choose("cpu", 3, fleets, "processes").lanes(fleets) == Lanes(3)
    assert choose("cuda", 4, fleets, "streams").lanes(fleets) == Lanes(1, shared=True)
    assert choose("cpu", None, fleets, "slurm").lanes(fleets) == Lanes()  # seen when they do


def test_the_bar_goes_on_counting_between_two_news():
    from rich.console import Console

    plan = a_plan(algorithms="nnpu")
    fleets = group(plan.runs, None, "cpu")[:1]
    screen = io.StringIO()
    live = Live(Console(file=screen, force_terminal=True, width=100))
    watched(live, plan, fleets, None, Lanes(1))
    for time in (0.0, 100.0):
        live.now = lambda time=time: time
        live.news(fleets[0], round(fleets[0].steps * time / 200))
    with live:
        for time in (101.0, 140.0):
            live.now = lambda time=time: time
            live._bar.refresh()
    assert "1:39 left" in screen.getvalue()
    assert "1:00 left" in screen.getvalue()
