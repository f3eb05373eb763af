"""Runs with an estimated prior: planned next to the others, stored apart, estimated once."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import puarena
from puarena import datasets
from puarena.cli import app
from puarena.experiments import data_source
from puarena.experiments.plan import make_plan
from puarena.experiments.spec import Spec
from puarena.pu import Problem, draw_pu_data

GIVEN = {
    "problems": [{"dataset": "digits", "settings": ["os", "ts"], "rates": [0.2]}],
    "algorithms": ["nnpu", "vpu"],
    "splits": 1,
    "configs": 1,
    "steps": 20,
    "record_every": 10,
}
BOTH = ["true", "estimate:tice"]


def test_the_default_changes_nothing():
    before, named = Spec(**GIVEN), Spec(**GIVEN, prior_source="true")
    assert before.hash() == named.hash()
    assert make_plan(before).run_ids == make_plan(named).run_ids
    assert Spec(**GIVEN, prior_source=BOTH).hash() != before.hash()


def test_estimated_runs_stand_next_to_the_true_ones():
    plan, plain = make_plan(Spec(**GIVEN, prior_source=BOTH)), make_plan(Spec(**GIVEN))
    assert len(plan.runs) == 2 * len(plain.runs)
    assert set(plain.run_ids) < set(plan.run_ids)
    true, other = plan.runs[:2]
    assert (true.prior_source, other.prior_source) == tuple(BOTH)
    assert true.seed == other.seed  # only the prior differs
    assert true.run_id != other.run_id


def test_a_classic_is_told_every_prior_that_it_can_use():
    runs = make_plan(Spec(**GIVEN | {"algorithms": ["puet", "elkan-noto"]}, prior_source=BOTH)).runs
    assert [run.prior_source for run in runs if run.algorithm == "puet"] == BOTH * 2
    assert {run.prior_source for run in runs if run.algorithm == "elkan-noto"} == {"true"}


def test_the_prior_inside_u_follows():
    pu, _ = draw_pu_data(datasets.load("digits"), Problem("digits", 1, "os", 0.2, 0.5), 0)
    changed = data_source.replace_prior(pu, 0.6)
    assert changed.prior == 0.6
    assert changed.shifted_prior == pytest.approx((0.6 - pu.rate) / (1 - pu.rate))
    np.testing.assert_array_equal(changed.u_train, pu.u_train)
    two, _ = draw_pu_data(datasets.load("digits"), Problem("digits", 1, "ts", 0.2, 0.5), 0)
    assert data_source.replace_prior(two, 0.6).shifted_prior == 0.6


def test_run_and_store(tmp_path, monkeypatch):
    calls = []
    real = data_source.estimate_prior_of_draw
    monkeypatch.setattr(
        data_source, "estimate_prior_of_draw", lambda *given: calls.append(given[2]) or real(*given)
    )
    outcome = puarena.run(
        Spec(**GIVEN, prior_source=BOTH), out=tmp_path / "both", device="cpu", workers=1
    )
    assert not outcome.failures
    assert calls == ["tice"] * 2  # one per setting, shared by the algorithms
    frame = puarena.load(tmp_path / "both").df()
    assert set(frame["profile"]) == {"definition"}
    assert set(frame["prior_source"]) == {"true", "tice"}
    true, estimated_by = frame["prior_source"] == "true", frame["prior_source"] == "tice"
    assert set(frame["prior"]) == {0.5}  # of the problem: the rows are compared there
    assert set(frame["prior_used"][true]) == {0.5}
    estimates = frame["prior_used"][estimated_by]
    assert ((estimates > 0.2) & (estimates < 0.8)).all()
    assert estimates.nunique() == 2
    assert not frame["hyper"].str.contains("prior").any()

    puarena.run(Spec(**GIVEN), out=tmp_path / "plain", device="cpu", workers=1)
    plain = puarena.load(tmp_path / "plain").df().set_index(["run", "step"]).sort_index()
    same = frame[true].set_index(["run", "step"]).sort_index()
    for name in ("loss", "test_auc", "val_pa", "prior", "hyper"):
        assert plain[name].equals(same[name]) or np.allclose(
            plain[name], same[name], rtol=1e-4, atol=1e-5
        )
    other = frame[estimated_by]
    assert not np.allclose(other["val_pa"].to_numpy(), same["val_pa"].to_numpy())

    labels = [row.method.label for row in puarena.table(tmp_path / "both")[0].rows]
    assert labels == ["nnpu", "nnpu (prior by tice)", "vpu", "vpu (prior by tice)"]


def test_command_line():
    given = [
        "plan",
        "demo",
        "--algorithms",
        "nnpu",
        "--steps",
        "10",
        "--splits",
        "1",
        "--cases",
        "1",
        "--prior",
        "estimate:bbe",
        "--json",
    ]
    done = CliRunner().invoke(app, given)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["runs"] == 2
    assert CliRunner().invoke(app, [*given[:-2], "guess"]).exit_code == 2
