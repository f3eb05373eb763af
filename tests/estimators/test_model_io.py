"""Saving and loading without pickle, and the commands fit and predict."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import torch
from typer.testing import CliRunner

from practice_tables import quick, table
from puarena import UserError, load_model
from puarena.cli import app

X, y, truth = table(200)


@pytest.mark.parametrize(
    "algorithm, more",
    [
        ("nnpu", {}),
        ("vpu", {}),
        ("p3mix-e", {}),
        ("pan", {}),
        ("vpu", {"members": 3}),
        ("auto", {}),
        ("auto", {"threshold": "pa"}),
    ],
)
def test_a_loaded_model_predicts_the_same(algorithm, more, tmp_path):
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    frame.loc[::7, "b"] = np.nan
    clf = quick(algorithm, steps=40, **more).fit(frame, np.where(y, "positive", "unlabeled"))
    assert clf.save(tmp_path / "model") == tmp_path / "model"
    assert {p.name for p in (tmp_path / "model").iterdir()} == {"model.json", "weights.safetensors"}
    again = load_model(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(frame), clf.predict_proba(frame))
    np.testing.assert_array_equal(again.predict(frame), clf.predict(frame))
    assert again.get_params() == clf.get_params()
    for name in (
        "prior_",
        "prior_interval_",
        "threshold_",
        "best_step_",
        "best_score_",
        "curve_",
        "algorithm_",
        "learner_",
        "report_",
        "n_features_in_",
    ):
        assert getattr(again, name, None) == getattr(clf, name, None), name
    assert again.feature_names_in_.tolist() == ["a", "b", "c"]


def _network(features):
    return torch.nn.Linear(features, 1)


def test_a_network_of_ones_own_must_be_given_again(tmp_path):
    clf = quick(network=_network).fit(X, y)
    clf.save(tmp_path)
    with pytest.raises(UserError, match="fitted with a network of your own"):
        load_model(tmp_path)
    np.testing.assert_array_equal(load_model(tmp_path, network=_network).predict(X), clf.predict(X))
    with pytest.raises(UserError, match="damaged"):
        load_model(tmp_path, network=lambda n: torch.nn.Linear(n, 2))


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    return quick().fit(X, y).save(tmp_path_factory.mktemp("saved") / "model")


def _tampered(saved, tmp_path, change):
    about = json.loads((saved / "model.json").read_text())
    change(about)
    (tmp_path / "model.json").write_text(json.dumps(about))
    (tmp_path / "weights.safetensors").write_bytes((saved / "weights.safetensors").read_bytes())
    return tmp_path


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda a: a.update(format="other"), "does not describe a puarena model"),
        (lambda a: a.update(format_version=99), "has model format 99"),
        (lambda a: a.update(weights_sha256="0"), "its checksum differs"),
        (lambda a: a.pop("classes"), "is damaged: KeyError"),
        (lambda a: a["model"].update(algorithm="nope"), "unknown algorithm"),
        (lambda a: a["model"].update(algorithm="pan"), "weights are not those of pan"),
        (lambda a: a["params"].update(nonsense=1), "is damaged: TypeError"),
        (lambda a: a.update(features=4), "said to have 4 features"),
        (lambda a: a["encoder"].pop(), "said to have 3 features, and has 2"),
        (lambda a: a["model"].update(sizes={"n_p": 10**15, "n_u": 1}), "is damaged"),
        (lambda a: a.update(classes=[1]), "two classes"),
    ],
)
def test_tampered_models(saved, tmp_path, change, message):
    with pytest.raises(UserError, match=message):
        load_model(_tampered(saved, tmp_path, change))


def test_foreign_and_broken_files(saved, tmp_path):
    with pytest.raises(UserError, match=r"it has no model\.json"):
        load_model(tmp_path)
    (tmp_path / "model.json").write_text("{")
    with pytest.raises(UserError, match="it has no weights"):
        load_model(tmp_path)
    (tmp_path / "weights.safetensors").write_bytes(
        (saved / "weights.safetensors").read_bytes()[:-9]
    )
    with pytest.raises(UserError, match="is not JSON"):
        load_model(tmp_path)
    (tmp_path / "model.json").write_text((saved / "model.json").read_text())
    with pytest.raises(UserError, match="checksum differs"):
        load_model(tmp_path)
    with pytest.raises(UserError, match="is a file"):
        quick().fit(X, y).save(tmp_path / "model.json")


def _run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def csv(tmp_path):
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(s=y.astype(int), id=np.arange(200))
    frame.to_csv(tmp_path / "data.csv", index=False)
    return tmp_path / "data.csv"


def test_fit_and_predict_from_the_shell(csv, tmp_path):
    model = tmp_path / "model"
    done = _run(
        "fit", csv, "--label", "s", "--drop", "id", "--prior", 0.5, "--steps", 60, "--out", model
    )
    assert done.exit_code == 0, done.output
    assert (
        f"{int(y.sum())} labeled and {int((~y).sum())} unlabeled rows, 3 features, prior 0.500"
        in done.output
    )
    assert [line.split()[0].strip("*") for line in done.output.splitlines()[:3]] == [
        "linear",
        "trees",
        "network",
    ]
    new = pd.read_csv(csv)[["c", "id", "a", "b"]]  # another order, other columns
    new.to_csv(tmp_path / "new.csv", index=False)
    for out in (tmp_path / "scores.csv", tmp_path / "scores.parquet"):
        done = _run("predict", model, tmp_path / "new.csv", "--out", out, "--keep", "id")
        assert done.exit_code == 0, done.output
        assert done.output.startswith("200 rows")
    scores = pd.read_csv(tmp_path / "scores.csv")
    assert list(scores) == ["id", "probability", "predicted", "decision"]
    clf = load_model(model)
    frame = pd.read_csv(csv)[["a", "b", "c"]]
    np.testing.assert_allclose(scores["probability"], clf.predict_proba(frame)[:, 1])
    assert np.array_equal(scores["predicted"], clf.predict(frame).astype(int))
    again = _run("predict", model, tmp_path / "scores.parquet", "--out", out)
    assert again.exit_code == 2
    assert again.output.startswith("error: ")


def test_search_and_estimated_prior_from_the_shell(csv, tmp_path):
    words = (
        "fit",
        csv,
        "--label",
        "s",
        "--features",
        "a,b,c",
        "--steps",
        30,
        "--search",
        3,
        "--out",
        tmp_path / "m",
    )
    done = _run(*words)
    assert done.exit_code == 0, done.output
    assert "estimated prior" in done.output
    assert len([line for line in done.output.splitlines() if "nnpu-c" in line]) == 4


def test_labels_in_a_table(csv, tmp_path):
    frame = pd.read_csv(csv).drop(columns="id")
    for labels, words in (
        (frame["s"].map({1: "yes", 0: "no"}), ("--positive", "yes")),
        (frame["s"].map({1: "yes", 0: None}), ()),
        (frame["s"].astype(bool), ()),
        (frame["s"] + 0.0, ("--positive", "1")),
    ):
        frame.assign(s=labels).to_csv(tmp_path / "t.csv", index=False)
        words = ("--algorithm", "nnpu", "--steps", 10, "--prior", 0.5, *words)
        done = _run("fit", tmp_path / "t.csv", "--label", "s", "--out", "m", *words)
        assert done.exit_code == 0, done.output
        assert f"{int(y.sum())} labeled" in done.output


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "words, message",
    [
        (("--label", "t"), "there is no column 't'"),
        (("--label", "s", "--prior", "1.5"), "'prior' parameter"),
        (("--label", "s", "--prior", "0.01"), "contradicts setting='one-sample'"),
        (("--label", "s", "--prior", "maybe"), "neither a number nor 'estimate'"),
        (
            ("--label", "s", "--prior", "0.5", "--algorithm", "npu"),
            "unknown algorithm 'npu'; did you mean 'nnpu'",
        ),
        (("--label", "id"), "say which one marks labeled positives with --positive"),
        (("--label", "s", "--positive", "7", "--prior", "0.5"), "--positive is '7', and column"),
        (("--label", "s", "--features", "a,x"), "there is no column 'x'"),
        (("--label", "s", "--features", "a,s"), "cannot be a feature too"),
    ],
)
def test_bad_commands_say_one_sentence(csv, words, message):
    done = _run("fit", csv, *words, "--steps", 10, "--out", "model")
    assert done.exit_code == 2, done.output
    assert message in done.output
    assert len(done.output.strip().splitlines()) == 1


def test_bad_files(csv, saved, tmp_path):
    def error(*words):
        done = _run(*words)
        assert done.exit_code == 2, done.output
        return done.output

    assert "does not exist" in error("fit", "none.csv", "--label", "s", "--out", "m")
    (tmp_path / "t.txt").write_text("a")
    assert "neither a .csv nor a .parquet" in error("fit", "t.txt", "--label", "s", "--out", "m")
    (tmp_path / "dates.csv").write_text(
        "a,s\n2020-01-02,1\n2020-01-03,1\n2021-03-04,0\n2021-03-05,0\n"
    )
    assert "column 'a' holds dates" in error("fit", "dates.csv", "--label", "s", "--out", "m")
    assert "neither a .csv nor a .parquet" in error("priors", "estimate", "t.txt", "--label", "s")
    assert "is not a saved model" in error("predict", "nothing", csv, "--out", "o.csv")
    assert "neither a .csv nor a .parquet" in error("predict", saved, csv, "--out", "o.txt")
    assert "5 features, but PUClassifier is expecting 3" in error(
        "predict", saved, csv, "--out", "o.csv"
    )


def test_known_negatives_by_their_numbers_and_words_that_anybody_understands(csv, tmp_path):
    frame = pd.read_csv(csv)
    frame["s"] = frame["s"].where(truth | (frame.index % 3 > 0), -1)
    frame.to_csv(tmp_path / "marks.csv", index=False)
    done = _run(
        "fit",
        tmp_path / "marks.csv",
        "--label",
        "s",
        "--drop",
        "id",
        "--out",
        tmp_path / "m",
        "--verbose",
    )
    assert done.exit_code == 0, done.output
    assert f"{int((frame['s'] == 0).sum())} unlabeled rows" in done.stdout
    assert "of all rows are positive" in done.stdout
    assert "step" not in done.stdout  # many were kept, not one
    assert "PUClassifier: linear: PA" in done.stderr
    classic = _run("fit", csv, "--label", "s", "--out", tmp_path / "c", "--algorithm", "bagging-pu")
    assert classic.exit_code == 2
    assert "'bagging-pu'" in classic.output
    assert (
        "of positives in all rows"
        in _run("priors", "estimate", csv, "--label", "s", "--drop", "id").stdout
    )
    frame.to_csv(tmp_path / "comma.csv", index=False, sep=";", decimal=",")
    refused = _run("fit", tmp_path / "comma.csv", "--label", "s", "--out", tmp_path / "c")
    assert "separated by semicolons, not by commas; save it with commas" in refused.output
