"""Where an experiment stands: the tree, what is running, and watching it."""

from __future__ import annotations

import io
import json
import platform
import re
import threading
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

import puarena
from puarena.cli import app
from puarena.experiments import status
from puarena.experiments.machine import describe_environment
from puarena.experiments.plan import Plan, group, make_plan, to_planned
from puarena.experiments.progress import Progress
from puarena.experiments.spec import Spec
from puarena.results import Folder, Results
from puarena.results.planned import Planned
from sample_results import curves

SPEC = Spec(
    problems=[{"dataset": "digits", "cases": [1, 2]}],
    algorithms=["upu", "nnpu"],
    splits=2,
    configs=2,
    steps=20,
)


@pytest.fixture
def plan() -> Plan:
    return make_plan(SPEC)


@pytest.fixture
def store(tmp_path: Path, plan: Plan) -> Results:
    store = Folder.create(tmp_path / "out", plan.spec.to_dict(), plan.spec.hash())
    rows = to_planned(group(plan.runs, 1))
    store.keep_planned(Planned({run: row | {"fleet": fleet_of(row)} for run, row in rows.items()}))
    return store


def fleet_of(row: dict[str, Any]) -> str:
    """In these tests, the runs of one algorithm on one case but the last one are a fleet."""
    alone = (row["split"], row["config"]) == (1, 1)
    return f"{row['algorithm']}-{row['case']}{'-alone' if alone else ''}"


def runs_of(plan: Plan, algorithm: str, case: int) -> list[str]:
    return [
        run.run_id for run in plan.runs if (run.algorithm, run.problem.case) == (algorithm, case)
    ]


def write(store: Results, fleet: str, runs: list[str], **fixed: Any) -> None:
    frame = curves(fleet, runs=len(runs), **fixed)
    store.write_shard(
        fleet, frame.assign(run=[runs[int(run.split("-")[1])] for run in frame["run"]])
    )


def text_of(store: Results) -> str:
    out = io.StringIO()
    status.show(store, Console(file=out, width=100))
    return out.getvalue()


def test_tree(store: Results, plan: Plan) -> None:
    upu, nnpu = runs_of(plan, "upu", 1), runs_of(plan, "nnpu", 1)
    write(store, "a", upu)
    write(store, "b", nnpu[:1], status="diverged at step 300")
    write(store, "c", nnpu[1:2], status="diverged at step 100")
    store.write_failure("d", nnpu[2:3], "RuntimeError: [red]boom[/red]")
    claim = store.claim("upu-2")
    assert claim is not None
    current = status.read_status(store)
    assert current.counts == {"planned": 16, "done": 6, "diverged": 2, "failed": 1, "missing": 9}
    assert (current.count("running"), current.count("missing"), current.is_over) == (3, 6, False)
    lines = text_of(store).splitlines()
    assert lines[0] == "planned 16  done 6 (2 diverged)  failed 1  missing 9 (3 of them running)"
    assert lines[1].endswith("digits, case 1, OS 30%, prior 0.5: 6 of 8 done")
    assert lines[2].endswith("upu   4 of 4 done")
    assert lines[3].endswith(
        "nnpu  2 of 4 done (2 diverged at steps 100 to 300), 1 failed, 1 missing"
    )
    assert lines[4].endswith("failed: RuntimeError: [red]boom[/red]")
    assert lines[5].endswith("digits, case 2, OS 30%, prior 0.5: 0 of 8 done")
    assert lines[6].endswith("upu   0 of 4 done, 3 running, 1 missing")
    assert lines[7].endswith("nnpu  0 of 4 done, 4 missing")
    assert len(lines) == 8
    claim.release()
    assert status.read_status(store).count("running") == 0


def test_a_diverged_run_is_done(store: Results, plan: Plan) -> None:
    write(store, "a", plan.run_ids[:1], status="diverged at step 300")
    write(store, "b", plan.run_ids[1:])
    current = status.read_status(store)
    assert current.counts == {"planned": 16, "done": 16, "diverged": 1, "failed": 0, "missing": 0}
    assert current.is_over
    assert "(1 diverged at step 300)" in text_of(store)
    assert "failed 0" in text_of(store)
    out = io.StringIO()
    status.show(store, Console(file=out, width=100, force_terminal=True))
    assert "\x1b[35m (1 diverged" in out.getvalue()


def test_a_second_attempt_that_is_stored_is_done(store: Results, plan: Plan) -> None:
    store.write_failure("old", plan.run_ids[:2], "boom")
    write(store, "new", plan.run_ids[:1])
    assert status.read_status(store).counts == {
        "planned": 16,
        "done": 1,
        "diverged": 0,
        "failed": 1,
        "missing": 14,
    }


def test_reasons() -> None:
    assert status.count_reasons(["b", "a", "b"]) == ["2 x b", "a"]
    assert status.count_reasons([]) == []
    assert status.count_reasons(list("aabcdefg")) == ["2 x a", "b", "c", "d", "e", "2 more reasons"]


def test_a_failed_fleet_that_is_tried_again_is_running(store: Results, plan: Plan) -> None:
    runs = runs_of(plan, "upu", 1)
    store.write_failure("d", runs, "boom")
    claim = store.claim("upu-1")
    assert claim is not None
    current = status.read_status(store)
    assert (current.count("failed"), current.count("running")) == (1, 3)
    claim.release()


def test_what_a_process_trains_is_running(tmp_path: Path) -> None:
    """Its claims say so, until it ends."""
    seen = []

    class Watch(Progress):
        def record(self, fleet: Any, steps: int) -> None:
            super().record(fleet, steps)
            if steps < fleet.steps:
                seen.append((len(fleet.runs), status.read_status(store).count("running")))

    spec = SPEC.override(algorithms=["upu"], cases=[1], record_every=10)
    store = Folder.create(tmp_path, (plan := make_plan(spec)).spec.to_dict(), plan.spec.hash())
    puarena.run(spec, out=tmp_path, device="cpu", workers=1, progress=Watch())
    assert seen
    assert all(running == runs for runs, running in seen)
    assert status.read_status(store).count("running") == 0
    assert not list(tmp_path.glob(".*"))


def test_watch_ends_when_all_is_done(store: Results, plan: Plan) -> None:
    write(store, "a", plan.run_ids[:10])
    out = io.StringIO()
    later = threading.Timer(0.3, lambda: write(store, "b", plan.run_ids[10:]))
    later.start()
    current = status.watch(
        store, seconds=0.05, console=Console(file=out, width=100, force_terminal=True)
    )
    later.join()
    assert current.is_over
    assert current.counts == {"planned": 16, "done": 16, "diverged": 0, "failed": 0, "missing": 0}
    assert "done 10" in out.getvalue()
    assert "done 16" in out.getvalue()


def test_watch_ends_on_an_interrupt(store: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(status.time, "sleep", interrupted)
    done = CliRunner().invoke(app, ["status", str(store.path), "--watch"])
    assert done.exit_code == 0, done.output
    assert "missing 16" in done.stdout


def test_command(store: Results, plan: Plan) -> None:
    write(store, "a", plan.run_ids[:10])
    done = CliRunner().invoke(app, ["status", str(store.path), "--json"])
    assert json.loads(done.stdout) == {
        "planned": 16,
        "done": 10,
        "diverged": 0,
        "failed": 0,
        "missing": 6,
    }
    assert "planned 16  done 10" in CliRunner().invoke(app, ["status", str(store.path)]).stdout
    wrong = CliRunner().invoke(app, ["status", str(store.path / "no")])
    assert (wrong.exit_code, "there is no results folder" in wrong.stderr) == (2, True)


def test_a_folder_says_which_machine_and_commit_made_it():
    facts = describe_environment("cpu")
    assert re.fullmatch(r".+, \d+ cores?", facts["machine"])
    assert platform.node() not in facts.values()
    assert re.fullmatch(r"[0-9a-f]{40}", facts.get("commit", "0" * 40))
