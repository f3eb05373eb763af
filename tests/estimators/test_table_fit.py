"""Fitting a table in one call, and the commands fit and predict."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score
from typer.testing import CliRunner

from pu_tables import needs_embeddings, notes, quick, table
from puarena import load_model
from puarena.cli import app
from puarena.estimators.table_fit import fit_table

X, y, truth = table(200)
FRAME = pd.DataFrame(X, columns=["a", "b", "c"])


@pytest.mark.parametrize(
    "options, found",
    [
        ({}, ["linear", "trees", "boosted", "network", "all together"]),
        ({"algorithm": "vpu", "steps": 30}, ["network"]),
        ({"algorithm": "bagging-pu"}, ["bagging-pu"]),
        ({"search": 2, "steps": 30}, ["network"]),
    ],
)
def test_a_table_is_fitted_and_described(options, found):
    fitted = fit_table(FRAME, y.astype(int), prior=0.5, **options)
    assert [line["learner"] for line in fitted.model.report_] == found
    about = fitted.to_dict()
    assert json.loads(json.dumps(about)) == about
    assert (about["labeled"], about["unlabeled"]) == (int(y.sum()), int((~y).sum()))
    text = fitted.describe()
    assert "prior 0.500" in text
    assert f"{fitted.model.best_score_:.4f}" in text
    assert (fitted.search is not None) == ("search" in options)


@pytest.fixture
def csv(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    FRAME.assign(s=y.astype(int), id=np.arange(200)).to_csv("data.csv", index=False)
    return tmp_path / "data.csv"


def run(*words, code=0):
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == code, done.output
    return done


def test_fit_and_predict_from_the_shell(csv, tmp_path):
    words = ["--label", "s", "--drop", "id", "--prior", 0.5, "--steps", 60]
    done = run("fit", csv, *words, "--out", "model")
    assert f"{int(y.sum())} labeled and {int((~y).sum())} unlabeled rows" in done.output
    first = [line.split()[0].strip("*") for line in done.output.splitlines()[:4]]
    assert first == ["linear", "trees", "boosted", "network"]
    new = pd.read_csv(csv)[["c", "id", "a", "b"]]  # another order, other columns
    new.to_csv("new.csv", index=False)
    for out in ("scores.csv", "scores.parquet"):
        assert run("predict", "model", "new.csv", "--out", out, "--keep", "id").stdout
    scores = pd.read_csv("scores.csv")
    assert list(scores) == ["id", "probability", "predicted", "decision"]
    clf = load_model("model")
    frame = pd.read_csv(csv)[["a", "b", "c"]]
    np.testing.assert_allclose(scores["probability"], clf.predict_proba(frame)[:, 1])
    assert np.array_equal(scores["predicted"], clf.predict(frame).astype(int))
    run("predict", "model", "scores.parquet", "--out", "again.csv", code=2)


def test_other_tables_from_the_shell(csv, monkeypatch):
    frame = pd.read_csv(csv)
    frame.to_csv("semicolons.csv", index=False, sep=";", decimal=",")
    frame.to_csv("tabs.tsv", index=False, sep="\t")
    frame.to_excel("sheet.xlsx", index=False)
    words = ["--label", "s", "--features", "a,b,c", "--algorithm", "bagging-pu", "--prior", 0.5]
    run("fit", csv, *words, "--out", "model")
    run("predict", "model", csv, "--out", "scores.csv")
    expected = pd.read_csv("scores.csv")
    duckdb.from_df(pd.concat([frame] * 30)).write_parquet("long.parquet")
    run("predict", "model", "long.parquet", "--out", "long.csv")
    monkeypatch.setattr("puarena.datasets.tables.CHUNK_ROWS", 2048)  # in parts
    run("predict", "model", "long.parquet", "--out", "parts.csv")
    assert Path("parts.csv").read_bytes() == Path("long.csv").read_bytes()
    monkeypatch.setattr("puarena.datasets.tables.CHUNK_ROWS", 50)
    for file in (csv, "semicolons.csv", "tabs.tsv", "sheet.xlsx"):
        run("predict", "model", file, "--out", "other.csv")
        np.testing.assert_allclose(pd.read_csv("other.csv"), expected)


def test_missing_columns_are_named_at_once(csv):
    words = ["--label", "s", "--features", "a,b,c", "--algorithm", "bagging-pu", "--prior", 0.5]
    run("fit", csv, *words, "--out", "model")
    pd.read_csv(csv)[["b"]].to_csv("few.csv", index=False)
    refused = run("predict", "model", "few.csv", "--out", "scores.csv", code=2).output
    assert "'a'" in refused
    assert "'c'" in refused
    run("predict", "model", "few.csv", "--out", "s.csv", "--missing-columns", "as-missing")
    assert len(pd.read_csv("s.csv")) == len(pd.read_csv(csv))


def test_what_fit_left_out_is_not_needed(csv):
    frame = pd.read_csv(csv).assign(customer_id=np.arange(len(y)) * 7 % 5000)
    frame.to_csv("ids.csv", index=False)
    done = run("fit", "ids.csv", "--label", "s", "--prior", 0.5, "--out", "m")
    assert "customer_id" in done.output
    run("predict", "m", csv, "--out", "s.csv")
    assert load_model("m").encoder_.dropped == ["id", "customer_id"]


@needs_embeddings
def test_texts_by_an_embedding_from_the_shell(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (old, cars), (new, answers) = notes(), notes(new=True)
    old.assign(s=(cars & (np.arange(len(old)) % 2 == 0)).astype(int)).to_csv("old.csv", index=False)
    new.to_csv("new.csv", index=False)
    words = ["fit", "old.csv", "--label", "s", "--prior", 0.5, "--text", "embeddings"]
    words += ["--algorithm", "nnpu", "--steps", 60]
    assert "wordllama" in run(*words, "--out", "model", "--html", "fit.html").stdout
    assert "wordllama" in Path("fit.html").read_text(encoding="utf-8")
    predict = ["predict", "model", "new.csv", "--out", "scores.csv"]
    run(*predict)
    assert roc_auc_score(answers, pd.read_csv("scores.csv")["probability"]) > 0.9
    monkeypatch.setitem(sys.modules, "wordllama", None)
    for line in ([*words, "--out", "other"], predict):
        done = run(*line, code=2)
        assert "puarena[text]" in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
    assert not Path("other").exists()


def test_search_and_estimated_prior_from_the_shell(csv):
    words = ["--label", "s", "--features", "a,b,c", "--steps", 30, "--search", 3]
    done = run("fit", csv, *words, "--out", "model")
    assert "where one number is needed" in done.output
    assert len([line for line in done.output.splitlines() if "nnpu-c" in line]) == 4


def test_classics_from_the_shell(csv):
    run("fit", csv, "--label", "s", "--algorithm", "bagging-pu", "--prior", 0.5, "--out", "model")
    assert load_model("model").algorithm_ == "bagging-pu"


@pytest.mark.parametrize(
    "labels, words",
    [
        (np.where(y, "yes", "no"), ("--positive", "yes")),
        (np.where(y, "yes", None), ()),
        (y, ()),
        (y + 0.0, ("--positive", "1")),
    ],
)
def test_labels_in_a_table(csv, labels, words):
    FRAME.assign(s=labels).to_csv("t.csv", index=False)
    words = ("--algorithm", "nnpu", "--steps", 10, "--prior", 0.5, *words)
    done = run("fit", "t.csv", "--label", "s", "--out", "m", *words)
    assert f"{int(y.sum())} labeled" in done.output


def test_known_negatives_by_their_numbers(csv):
    frame = pd.read_csv(csv)
    frame["s"] = frame["s"].where(truth | (frame.index % 3 > 0), -1)
    frame.to_csv("marks.csv", index=False)
    words = ["--label", "s", "--drop", "id", "--out", "m", "--verbose"]
    done = run("fit", "marks.csv", *words)
    assert f"{int((frame['s'] == 0).sum())} unlabeled rows" in done.stdout
    assert "step" not in done.stdout  # an ensemble has no single step that was kept
    assert "PUClassifier: linear: " in done.stderr
    priors = run("priors", "estimate", csv, "--label", "s", "--drop", "id")
    assert "positives in all rows" in priors.stdout


@pytest.mark.parametrize(
    "words, token",
    [
        (("--label", "t"), "'t'"),
        (("--label", "s", "--prior", "1.5"), "'prior'"),
        (("--label", "s", "--prior", "0.01"), "setting='one-sample'"),
        (("--label", "s", "--prior", "maybe"), "maybe"),
        (("--label", "s", "--prior", "0.5", "--algorithm", "npu"), "'nnpu'"),
        (("--label", "id"), "--positive"),
        (("--label", "s", "--positive", "7", "--prior", "0.5"), "'7'"),
        (("--label", "s", "--features", "a,x"), "'x'"),
        (("--label", "s", "--features", "a,s"), "'s'"),
        (("--label", "s", "--algorithm", "spies", "--search", "2"), "'spies'"),
    ],
)
def test_bad_commands_end_in_one_line(csv, words, token):
    done = run("fit", csv, *words, "--steps", 10, "--out", "model", code=2)
    assert token in done.output
    assert len(done.output.strip().splitlines()) == 1


@pytest.mark.parametrize(
    "words, token",
    [
        (("fit", "none.csv", "--label", "s", "--out", "m"), "none.csv"),
        (("fit", "t.txt", "--label", "s", "--out", "m"), "t.txt"),
        (("priors", "estimate", "t.txt", "--label", "s"), "t.txt"),
        (("predict", "nothing", "data.csv", "--out", "o.csv"), "nothing"),
        (("predict", "model", "data.csv", "--out", "o.txt"), "o.txt"),
        (("predict", "model", "data.csv", "--out", "o.csv"), "expecting 3"),
    ],
)
def test_bad_files(csv, words, token, tmp_path):
    (tmp_path / "t.txt").write_text("a")
    quick(steps=5).fit(X, y).save("model")
    assert token in run(*words, code=2).output
