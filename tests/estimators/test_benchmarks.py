"""benchmarks/practice.py and benchmarks/priors.py: methods and prior estimators on known tables."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sklearn.datasets

from puarena import UserError

FOLDER = Path(__file__).parents[2] / "benchmarks"
CHEAP = ["naive boosting", "bagging-pu", "oracle boosting"]


@pytest.fixture(scope="module")
def practice():
    return import_script("practice")


@pytest.fixture(scope="module")
def priors(practice):
    return import_script("priors")


def import_script(name: str):
    """Import a script as Python does when it runs one: its folder is on the path."""
    sys.path.insert(0, str(FOLDER))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(FOLDER))


def test_results_of_a_comparison(practice):
    lines = list(practice.compare(["wine"], ["0.5", "20"], methods=[*CHEAP, "puarena"]))
    assert len(lines) == 8
    assert {line["method"] for line in lines} == {*CHEAP, "puarena"}
    for line in lines:
        assert not line["note"], line
        assert 0.4 < line["accuracy"] <= 1
        assert 0 <= line["brier"] < 0.5
        assert (line["covered"] is not None) == (line["method"] == "puarena")
    assert np.mean([line["prior_error"] for line in lines if line["method"] == "puarena"]) < 0.2


def test_a_method_that_fails_is_a_result(practice, monkeypatch):
    def fail(draw):
        raise RuntimeError("no")

    monkeypatch.setitem(practice.METHODS, "naive boosting", fail)
    (line,) = practice.compare(["wine"], ["0.5"], methods=["naive boosting"])
    assert line["note"] == "RuntimeError: no"
    assert np.isnan(line["accuracy"])


@pytest.mark.parametrize("labeling", ["0.1", "0.3", "0.5", "biased", "20"])
def test_labels_are_positives(practice, labeling):
    rng = np.random.default_rng(0)
    truth = rng.random(2000) < 0.3
    labeled = practice.give_labels(truth, rng.normal(size=(2000, 3)), labeling, rng)
    assert not (labeled & ~truth).any()
    share = {"20": 20 / truth.sum(), "biased": 0.3}.get(labeling) or float(labeling)
    assert labeled[truth].mean() == pytest.approx(share, abs=0.05)


def test_tables_by_name_file_and_openml(practice, tmp_path, monkeypatch):
    frame, truth = practice.load_table("breast-cancer")
    assert frame.shape == (569, 30)
    assert truth.sum() == 212
    assert not set(practice.list_tables(tuned_on=True)) & set(practice.list_tables(tuned_on=False))
    csv = tmp_path / "t.csv"
    pd.DataFrame({"a": [1, 2, 3], "left": ["yes", "no", None]}).to_csv(csv, index=False)
    frame, truth = practice.load_table(f"{csv}:left=yes")
    assert truth.tolist() == [True, False]  # a row without a class is dropped
    fetched = pd.DataFrame({"x": [31, 0], "class": ["bad", "good"]})
    bunch = type("Bunch", (), {"frame": fetched})
    monkeypatch.setattr(sklearn.datasets, "fetch_openml", lambda **options: bunch)
    assert practice.load_table("openml:31:class=bad")[0]["x"].tolist() == [31, 0]


@pytest.mark.parametrize(
    "name, code",
    [("wnie", "unknown-name"), ("none.csv:a=b", "missing-file"), ("t.csv:left", "invalid-value")],
)
def test_bad_tables(practice, name, code):
    with pytest.raises(UserError) as error:
        practice.load_table(name)
    assert error.value.code == code


def test_what_is_printed(practice, tmp_path, capsys):
    words = ["--tables", "wine,breast-cancer", "--labelings", "0.3,0.5", "--seeds", "2"]
    words += ["--rows", "300", "--methods", ",".join(CHEAP), "--out", str(tmp_path / "all.csv")]
    practice.main(words)
    printed = capsys.readouterr().out
    assert "8 cells (2 tables)" in printed
    results = pd.read_csv(tmp_path / "all.csv")
    assert len(results) == 24
    # What was interrupted continues.
    results[:13].to_csv(tmp_path / "all.csv", index=False)
    practice.main(words)
    again = capsys.readouterr()
    assert len(again.err.splitlines()) == 11
    assert len(pd.read_csv(tmp_path / "all.csv")) == 24
    assert again.out.split()[:20] == printed.split()[:20]
    for wrong in (["--tables", "wine", "--methods", "bagging"], ["--speed", "5000"]):
        with pytest.raises(SystemExit):
            practice.main(wrong)


def test_speed(practice, capsys):
    practice.main(["--speed", "200x6"])
    assert capsys.readouterr().out.startswith("200 x 6: fit ")


def test_errors_of_prior_estimators(priors, capsys):
    words = ["--data", "digits,breast-cancer", "--priors", "0.4", "--labelings", "0.3,20"]
    words += ["--methods", "elkan-noto,saturation"]
    priors.main(words)
    rows = capsys.readouterr().out.splitlines()[-4:]
    assert all(0 <= float(row.split()[-3]) < 0.3 for row in rows)  # mean absolute error
    assert sum("saturation" in row for row in rows) == 2
    with pytest.raises(SystemExit):
        priors.main(["--methods", "bb"])
