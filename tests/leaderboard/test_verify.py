"""Submissions that a machine verifies: honest ones pass, tampered ones do not."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from puarena.errors import UserError
from puarena.experiments.plan import make_plan
from puarena.experiments.spec import load_plugins
from puarena.leaderboard import verify
from puarena.results.published import read_verdict

PATH = Path(__file__).parents[2] / "benchmarks" / "submissions.py"
SPEC = importlib.util.spec_from_file_location("submissions", PATH)
trials = importlib.util.module_from_spec(SPEC)
sys.modules[SPEC.name] = trials  # dataclasses look there
SPEC.loader.exec_module(trials)


@pytest.fixture
def no_contract(monkeypatch):
    """The contract has tests of its own, and takes seconds."""
    monkeypatch.setattr(verify, "check_contract", lambda *_: None)


def test_an_honest_submission(tmp_path, capsys):
    folder = trials.pack(tmp_path)
    target = tmp_path / "verdict.json"
    options = ["--seed", "3", "--device", "cpu", "--workers", "1", "--out", str(target)]
    assert verify.main([str(folder), *options]) == 0
    said = capsys.readouterr().out
    assert "contract: mine: ignores hidden labels" in said
    target.rename(folder / "verdict.json")
    verdict = read_verdict(folder / "summary.parquet")
    assert verdict is not None
    assert (verdict.row, verdict.seed, verdict.reproduced) == ("mine", 3, True)
    # Nobody brings a verdict along.
    assert verify.main([str(folder), *options]) == 2
    assert "verdict.json" in capsys.readouterr().out


@pytest.mark.parametrize(
    "trial, token",
    [
        ("csv edited, checksums made again", "results.csv"),
        ("accuracy + 20 points", ""),
        ("10 steps as 20", "ends at step 10, not 20"),
        ("another plugin, checksums made again", "plugin"),
        ("further module", "helper.py"),
        ("a split left out", "2 runs"),
    ],
)
def test_a_tampered_submission(tmp_path, no_contract, trial, token):
    folder = trials.TAMPERED[trial](tmp_path)
    if token:
        with pytest.raises(UserError) as error:
            verify.verify(folder, seed=1, device="cpu", workers=1)
        assert token in str(error.value)
    else:
        assert not verify.verify(folder, seed=1, device="cpu", workers=1).reproduced


def test_rows_of_ones_own_methods_are_drawn(tmp_path):
    (tmp_path / "mine.py").write_text(trials.PLUGIN.format(name="drawn", weight=0.5))
    load_plugins([str(tmp_path / "mine.py")])
    spec = trials.SUITE.override(algorithms=["drawn", "vpu"], cases=[1, 2])
    spec = spec.override(plugins=[str(tmp_path / "mine.py")])
    runs = make_plan(spec).runs
    drawn = {verify.draw_row(runs, seed).problem.case for seed in range(20)}
    assert drawn == {1, 2}
    assert {verify.draw_row(runs, seed).algorithm for seed in range(20)} == {"drawn"}
    assert verify.draw_row(runs, 5) == verify.draw_row(runs, 5)
