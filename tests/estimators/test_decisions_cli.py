"""The commands evaluate and hand-checks, and the options of fit for priors and cuts."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from pu_tables import table
from puarena.cli import app
from puarena.estimators.hand_checks import Checks, update_with_checks

X, s, truth = table(400, prior=0.3, labeled=0.5, seed=2)


def run(*words, code=0):
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == code, done.output
    return done


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("decisions")
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(s=s.astype(int))
    frame.to_csv(folder / "data.csv", index=False)
    words = ["--label", "s", "--prior", "0.2,0.5", "--threshold", "cost", "--costs", "1,4"]
    done = run("fit", folder / "data.csv", *words, "--out", folder / "model", "--json")
    low, high = json.loads(done.stdout)["prior_interval"]
    assert 0.2 <= low < high <= 0.5
    return folder


def test_a_model_is_evaluated(folder):
    held = json.loads(run("evaluate", folder / "model", "--json").stdout)
    low, high = held["recall"]["interval"]
    assert low < held["recall"]["value"] < high
    given = run("evaluate", folder / "model", folder / "data.csv", "--label", "s", "--json")
    assert json.loads(given.stdout)["labeled"] == s.sum()
    error = run("evaluate", folder / "model", folder / "data.csv", code=2)
    assert "--label" in error.stderr


def test_columns_that_fit_left_out_and_groups(folder):
    customer = np.arange(400) // 3
    frame = pd.read_csv(folder / "data.csv").assign(order_id=np.arange(400), who=customer)
    frame.to_csv(folder / "more.csv", index=False)
    words = [folder / "more.csv", "--label", "s", "--out", folder / "grouped"]
    fitted = json.loads(run("fit", *words, "--groups", "who", "--json").stdout)
    assert fitted["features"] == 4
    run("evaluate", folder / "grouped", folder / "data.csv", "--label", "s")
    plan = [folder / "grouped", folder / "data.csv", "--label", "s", "--out", folder / "few.csv"]
    run("hand-checks", "choose", *plan)
    assert "whom" in run("fit", *words, "--groups", "whom", code=2).stderr
    assert "nnpu" in run("fit", *words, "--groups", "who", "--algorithm", "nnpu", code=2).stderr


def test_rows_are_chosen_checked_and_used(folder):
    file = folder / "checks.csv"
    run(
        "hand-checks",
        "choose",
        folder / "model",
        folder / "data.csv",
        "--label",
        "s",
        "-n",
        30,
        "--out",
        file,
    )
    frame = pd.read_csv(file)
    assert not s[frame["row"]].any()
    np.testing.assert_allclose(frame["a"], X[frame["row"], 0])
    assert "30 of 30 rows" in run("hand-checks", "update", file, code=2).stderr
    frame["answer"] = np.where(truth[frame["row"]], "yes", "no")
    frame.sort_values("row").to_csv(file, index=False)
    found = json.loads(run("hand-checks", "update", file, "--json").stdout)
    assert found["checked"] == 30
    plan = folder / "checks.csv.json"
    checks = Checks.from_dict(json.loads(plan.read_text()))
    # The file is sorted, and every answer is still that of its row.
    assert found == update_with_checks(checks, truth[checks.rows]).to_dict()
    plan.unlink()
    assert "checks.csv.json" in run("hand-checks", "update", file, code=2).stderr
