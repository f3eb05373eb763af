"""``reproduce`` trains what was published as it was trained, and can fail."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from typer.testing import CliRunner

import puarena
from puarena.algorithms.nnpu import NonNegativeRisk
from puarena.cli import app
from puarena.experiments.spec import ProblemSpec, Spec
from puarena.leaderboard.reproduce import (
    FALSE_ALARMS,
    MIN_RUNS,
    Reproduction,
    find_shifts,
    reproduce,
)
from puarena.results import Folder, open_results

SPEC = Spec(
    name="row",
    problems=[ProblemSpec(dataset="digits", cases=(1, 2))],
    algorithms=("nnpu", "nnpu-c", "vpu"),
    splits=3,
    configs=4,
    steps=100,
    record_every=50,
    hyper={"*": {"lr": 0.03, "batch_size": 64}},
)
NOISE = "({0} + 0.004 * (hash(run, step, '{0}') % 1000 / 999.0 - 0.5)) AS {0}"
METRICS = ("test_accuracy", "test_auc", "test_f1", "test_precision", "test_recall")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of three rows, two of which are trained in the same fleet."""
    out = tmp_path_factory.mktemp("made") / "results"
    assert not puarena.run(SPEC, out, device="cpu", workers=1, progress=False).failures
    return out


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "copy"))


def rewrite(folder: Path, *changes: str) -> None:
    """Change values of all shards with SQL, and keep their marks."""
    store = Folder(folder)
    for file in sorted(folder.glob("shards/*.parquet")):
        query = f"SELECT * REPLACE ({', '.join(changes)}) FROM read_parquet('{file}')"
        store.write_shard(file.stem, duckdb.sql(query).df())


def again(folder: Path, algorithm: str = "nnpu", **options: Any) -> Reproduction:
    return reproduce(folder, algorithm, device="cpu", workers=1, **options)


def alter(monkeypatch: pytest.MonkeyPatch, factor: float) -> None:
    """Give nnPU's positive risk another weight."""

    def objective(self: NonNegativeRisk, f_p: Any, f_u: Any) -> Any:
        positive, negative = self.risk_parts(f_p, f_u)
        return factor * positive + negative.clamp_min(-self.beta)

    monkeypatch.setattr(NonNegativeRisk, "objective", objective)


def read_fleets(folder: Path) -> set[tuple[str, str]]:
    rows = open_results(folder).relation().project("fleet, run").distinct().fetchall()
    return {(fleet, run) for fleet, run in rows}


def test_the_whole_published_fleet_is_trained(made: Path, tmp_path: Path) -> None:
    done = again(made, out=tmp_path / "again", split=1)
    assert done.identical
    assert done.runs == 8
    trained = read_fleets(tmp_path / "again")
    assert trained < read_fleets(made)  # the same fleets, and not that of vpu
    assert len(trained) == 48


def test_fleets_are_grouped_as_published(tmp_path: Path) -> None:
    """Fleets of five runs, which this machine would not choose."""
    puarena.run(
        SPEC, tmp_path / "five", device="cpu", workers=1, progress=False, fleet_size=5, splits=1
    )
    done = again(tmp_path / "five", out=tmp_path / "again")
    assert done.identical
    assert read_fleets(tmp_path / "again") <= read_fleets(tmp_path / "five")


def test_a_changed_method_fails_by_its_bits(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alter(monkeypatch, 1.001)
    done = again(made)
    assert done.must_be_identical
    assert not done.same
    command = ["reproduce", str(made), "nnpu", "--device", "cpu", "--workers", "1"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 1, result.output
    assert "Not the same" in result.stdout


def test_another_machine_that_rounds_differently_is_the_same(copy: Path) -> None:
    rewrite(copy, "'cuda' AS device", *(NOISE.format(name) for name in METRICS))
    done = again(copy)
    assert not done.identical
    assert not done.must_be_identical
    assert done.same, done.verdict
    assert "cuda" in done.verdict


def test_a_changed_method_fails_on_another_machine(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """24 short runs: a large change. ``benchmarks/power.py`` measures small ones in long rows."""
    rewrite(copy, "'cuda' AS device", *(NOISE.format(name) for name in METRICS))
    alter(monkeypatch, 3.0)
    done = again(copy)
    assert not done.must_be_identical
    assert done.p < FALSE_ALARMS
    assert not done.same


def test_a_shift_is_seen_where_each_run_moves_more_than_it() -> None:
    """What nnPU's positive risk times 1.15 does to 60 runs on Letter: .0022 of AUC, s.d. .0036."""
    random = np.random.default_rng(0)
    alarms = {0.0: 0, 0.0022: 0}
    for shift in alarms:
        for _ in range(200):
            gaps = {str(i): list(random.normal(0, 0.0036, 60)) for i in range(14)}
            gaps["auc"] = list(random.normal(shift, 0.0036, 60))
            shifts = find_shifts(gaps)
            alarms[shift] += len(shifts) * shifts[0].p < FALSE_ALARMS
    assert alarms[0.0] <= 6  # 2 are expected
    assert alarms[0.0022] >= 140


def test_numbers_that_were_raised_a_little_fail(copy: Path) -> None:
    raised = NOISE.format("test_accuracy").replace(" AS", " + 0.006 AS")
    others = [NOISE.format(name) for name in METRICS[1:]]
    rewrite(copy, "'cuda' AS device", raised, *others)
    done = again(copy)
    assert not done.same
    assert "test_accuracy" in done.verdict


def test_too_few_runs_show_nothing(tmp_path: Path) -> None:
    """A test that could not fail is not made."""
    out = tmp_path / "few"
    puarena.run(SPEC, out, device="cpu", workers=1, progress=False, splits=1, configs=1)
    rewrite(out, "'cuda' AS device", *(NOISE.format(name) for name in METRICS))
    done = again(out)
    assert done.shifts == ()
    assert not done.same
    assert str(MIN_RUNS) in done.verdict


@pytest.mark.parametrize("kept", [False, True])
def test_an_interruption_promises_what_is_true(kept, monkeypatch, tmp_path) -> None:
    def interrupt(*given: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("puarena.leaderboard.reproduce.reproduce", interrupt)
    out = ["--out", tmp_path / "again"] if kept else []
    done = CliRunner().invoke(app, ["reproduce", str(tmp_path), "nnpu", *map(str, out)])
    assert done.exit_code == 130
    assert ("nothing is kept" in done.stderr) == (not kept)
