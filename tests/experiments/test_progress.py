"""The progress of a run: weighted by work, shown in a terminal, a notebook, or as lines."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

import puarena
from puarena.experiments import progress
from puarena.experiments.executors.base import split_fleet
from puarena.experiments.plan import FleetSpec, group, make_plan
from puarena.experiments.progress import (
    ConsoleProgress,
    Progress,
    choose_progress,
    format_clock,
    format_duration,
    step_cost,
)
from puarena.experiments.spec import Spec

SPEC = Spec(
    problems=[{"dataset": "digits"}],
    algorithms=["nnpu", "lbe"],
    splits=2,
    configs=2,
    steps=1000,
    record_every=100,
    hyper={"*": {"batch_size": 64}},  # so that fleets have two runs
)


@pytest.fixture
def fleets() -> list[FleetSpec]:
    return group(make_plan(SPEC).runs, 2)


def lines_of(text: io.StringIO) -> list[str]:
    return text.getvalue().splitlines()


def test_what_is_done_is_weighted_by_its_cost(fleets):
    live = Progress()
    live.start(fleets, {fleets[0].fleet_id: 500})
    assert live.steps == sum(fleet.steps for fleet in fleets)
    assert live.steps_done == 500
    done = 500 * step_cost(fleets[0])
    for fleet in fleets[1:]:
        live.record(fleet, fleet.steps // 2)
        done += fleet.steps // 2 * step_cost(fleet)
    assert live.share_done == pytest.approx(done / live.work)
    for fleet in fleets:
        live.end(fleet, "broken" if fleet is fleets[0] else None)
    assert (live.runs_done, live.runs_failed) == (len(SPEC.algorithms) * 4 - 2, 2)
    assert (live.is_over, live.share_done, live.steps_done) == (True, 1.0, live.steps)


def test_the_parts_of_a_fleet_count_once(fleets):
    live, (whole, *rest) = Progress(), fleets
    live.start(fleets, {})
    live.record(whole, whole.steps // 2)
    for part in split_fleet(whole):
        live.record(part, part.steps)
        live.end(part)
    assert live.steps_done == whole.steps
    for fleet in rest:
        live.end(fleet)
    assert live.is_over


def test_the_time_left_follows_the_work_done(fleets, monkeypatch):
    clock = [0.0]
    text = io.StringIO()
    live = ConsoleProgress(Console(file=text))
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    # A quarter was done before: that took no time now.
    quarter = {fleet.fleet_id: fleet.steps // 4 for fleet in fleets}
    live.start(fleets, quarter)
    for second in range(1, 26):
        clock[0] = float(second)
        for fleet in fleets:
            live.record(fleet, round(fleet.steps * (0.25 + second / 100)))
    assert "50%  0:50 left" in live.line
    assert "0:00 left" not in text.getvalue()
    for fleet in fleets:
        live.end(fleet)
    assert re.match(r"100%  took 0:25  8/8 runs", live.line)


def test_the_first_classic_does_not_make_a_run_look_endless(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    names = ["elkan-noto", "naive-lr", "nnpu"]
    first, *rest = group(make_plan(SPEC.override(algorithms=names, configs=1)).runs)
    live = Progress()
    live.start([first, *rest], {})
    clock[0] = 4.0
    live.end(first)
    assert live.seconds_left is not None
    assert live.seconds_left < 60


def test_lines_in_a_log(fleets):
    text = io.StringIO()
    live = ConsoleProgress(Console(file=text, width=40), verbose=True)
    with live:
        live.start(fleets, {})
        for fleet in fleets:
            live.record(fleet, 10)
            live.end(fleet, "RuntimeError: [boom]" if fleet is fleets[0] else None)
    first, failed, *stored, last = lines_of(text)
    assert first == "0%  0/8 runs"
    assert failed == f"{fleets[0].label} failed: RuntimeError: [boom]"
    assert stored[0] == f"stored: {fleets[1].label}, 2 runs"
    assert len(stored) == len(fleets) - 1, "a line every few seconds, and one for every fleet"
    assert last.startswith("100%  took 0:00  6/8 runs")


def test_the_bar_of_a_terminal_fits_80_columns(fleets):
    text = io.StringIO()
    live = ConsoleProgress(Console(file=text, width=80, force_terminal=True, color_system=None))
    with live:
        live.start(fleets, {})
        live.record(fleets[0], fleets[0].steps)
        live.end(fleets[0])
        live.message("a line above the bar")
        live._bar.refresh()
    drawn = [line for line in re.split(r"[\r\n]", text.getvalue()) if "2/8 runs" in line]
    assert drawn
    assert set("━╸") & set(drawn[-1])
    assert "%" in drawn[-1]
    assert len(drawn[-1].split("\x1b")[0].rstrip()) <= 80
    assert "a line above the bar" in text.getvalue()


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), ValueError("closed")])
def test_a_display_that_breaks_does_not_end_training(tmp_path, error):
    class Broken(io.StringIO):
        def write(self, text: str) -> int:
            raise error

    spec = SPEC.override(algorithms=["nnpu"], splits=1, configs=1, steps=10)
    live = ConsoleProgress(Console(file=Broken()))
    assert puarena.run(spec, tmp_path, device="cpu", workers=1, progress=live).computed == 1


def test_which_progress_a_run_has():
    assert type(choose_progress(False)) is Progress
    assert isinstance(choose_progress(True), ConsoleProgress)
    mine = Progress()
    assert choose_progress(mine) is mine


def test_times_in_words():
    assert [format_clock(s) for s in (7, 187, 3765)] == ["0:07", "3:07", "1:02:45"]
    times = (40, 7 * 60, 3.5 * 3600, 2.1 * 86400)
    words = ["40 seconds", "7.0 minutes", "3.5 hours", "2.1 days"]
    assert [format_duration(s) for s in times] == words
    ranges = [(38, 58), (50 * 60, 80 * 60), (1.2 * 3600, 1.8 * 3600), (7 * 3600, 11 * 3600)]
    words = ["38 to 58 seconds", "50 to 80 minutes", "1.2 to 1.8 hours", "7 to 11 hours"]
    assert [format_duration(*each) for each in ranges] == words
    assert format_duration(0.3 * 86400, 3 * 86400) == "0.3 to 3.0 days"
    assert format_duration(6369 * 86400) == "17 years"
    assert format_duration(3601, 3602) == "60 minutes"
    assert format_duration(400 * 86400, 900 * 86400) == "1.1 to 2.5 years"
