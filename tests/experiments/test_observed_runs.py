"""Observed labels from the spec to the store and the table: what cannot be known is absent."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bad_inputs import call
from puarena import report
from puarena.errors import UserError
from puarena.experiments import run as bench
from puarena.experiments.plan import make_plan
from puarena.experiments.spec import Spec

SHORT = {
    "splits": 2,
    "configs": 1,
    "steps": 20,
    "record_every": 10,
    "warmup": 10,
    "hyper": {"*": {"lr": 0.03, "batch_size": 32}},
}


def make_table(folder, truth):
    """Write a table of 300 rows, half of whose positives are labeled, and its YAML file."""
    rng = np.random.default_rng(0)
    ill = rng.random(300) < 0.4
    frame = pd.DataFrame(rng.normal(size=(300, 3)) + 2 * ill[:, None], columns=list("abc"))
    frame["seen"] = (ill & (rng.random(300) < 0.5)).astype(int)
    survey = frame.drop(columns="seen").assign(ill=ill.astype(int)).iloc[200:]
    text = {"none": "", "test": "truth: ill\ntest: survey.csv\n", "all": "truth: ill\n"}[truth]
    if truth == "all":
        frame["ill"] = ill.astype(int)
    frame.to_csv(folder / "places.csv", index=False)
    survey.to_csv(folder / "survey.csv", index=False)
    path = folder / "places.yaml"
    path.write_text(f"file: places.csv\nobserved: seen\n{text}")
    return str(path)


def run(path, out, **changes):
    algorithms = ["nnpu", "nnpu-c", "pn-naive", "pn-oracle", "sar-oracle", "biased-lr"]
    spec = Spec(problems=[{"dataset": path}], **{"algorithms": algorithms, **SHORT, **changes})
    outcome = bench.run(spec, out, device="cpu", workers=1, progress=False)
    assert not outcome.failures
    return outcome, report.load(out).df()


def test_truth_on_all_rows(tmp_path):
    outcome, frame = run(make_table(tmp_path, "all"), tmp_path / "out")
    assert set(frame["labeling"]) == {"observed"}
    assert set(frame["setting"]) == {"os"}
    assert set(frame["algorithm"]) == {"nnpu", "nnpu-c", "pn-naive", "pn-oracle", "biased-lr"}
    assert any("sar-oracle" in note for note in outcome.notes)
    known = pd.read_csv(tmp_path / "places.csv")
    assert frame["prior"].unique() == pytest.approx([known["ill"].mean()])
    assert frame["rate"].unique() == pytest.approx([known["seen"].mean()])
    assert (frame["prior_used"] == frame["prior"]).all()
    for column in ("val_pa", "val_pauc", "val_oa", "test_auc", "test_auc_unlabeled"):
        assert frame[column].notna().all()
    assert "val_pa_ipw" not in frame
    oracle = frame[(frame["algorithm"] == "pn-oracle")]["test_auc"]
    assert oracle.mean() > 0.8


def test_truth_on_test_rows_only(tmp_path):
    outcome, frame = run(make_table(tmp_path, "test"), tmp_path / "out")
    assert set(frame["algorithm"]) == {"nnpu", "nnpu-c", "pn-naive", "biased-lr"}
    assert any("pn-oracle" in note for note in outcome.notes)
    assert frame["prior"].isna().all()
    assert frame["prior_used"].between(0.05, 0.95).all()
    # The classic needs no prior, so its row says nothing about one.
    trained = frame[frame["algorithm"] != "biased-lr"]
    assert set(trained["prior_source"]) == {"saturation"}
    assert "val_oa" not in frame
    assert frame[["val_pa", "test_auc"]].notna().all(axis=None)
    table = call("report {out}", out=tmp_path / "out").stdout
    assert "observed labels" in table
    assert "OA" not in table.split()


def test_truth_nowhere_and_a_given_prior(tmp_path):
    path = make_table(tmp_path, "none")
    outcome, frame = run(path, tmp_path / "out", prior_source="given:0.4")
    assert any("truth" in note for note in outcome.notes)
    tests = frame[[name for name in frame if name.startswith("test_")]]
    assert tests.isna().all(axis=None)
    assert "val_oa" not in frame
    assert frame["val_pa"].notna().all()
    assert set(frame["prior_source"]) == {"given:0.4"}
    assert set(frame["prior_used"]) == {0.4}
    table = call("report {out}", out=tmp_path / "out").stdout
    assert "PA" in table
    assert "nnpu-c" in table
    assert "Accuracy" not in table
    assert "Test results" not in table
    page = tmp_path / "page.html"
    assert call("report {out} --html {page}", out=tmp_path / "out", page=page).exit_code == 0
    assert "nnpu-c" in page.read_text()


def test_the_truth_reaches_no_algorithm(tmp_path):
    path = make_table(tmp_path, "all")
    algorithms = ["nnpu-c", "vpu", "pusb", "p3mix-c", "lbe", "pn-naive", "biased-lr", "naive-lr"]
    frames = []
    for name in ("once", "again"):
        changes = {"algorithms": algorithms, "prior_source": "estimate"}
        frames.append(run(path, tmp_path / name, **changes)[1].sort_values(["run", "step"]))
        table = pd.read_csv(tmp_path / "places.csv")
        unlabeled = table["seen"] == 0
        # The same share of positives, but others.
        table.loc[unlabeled, "ill"] = np.random.default_rng(1).permutation(table["ill"][unlabeled])
        table.to_csv(tmp_path / "places.csv", index=False)
    known = [name for name in frames[0] if name.startswith("val_") and name != "val_oa"]
    for name in [*known, "loss", "prior_used", "seed"]:
        assert np.array_equal(frames[0][name], frames[1][name], equal_nan=True), name
    assert (frames[0]["test_auc"].to_numpy() != frames[1]["test_auc"].to_numpy()).all()


def test_a_table_says_what_is_not_known_beside_one_that_knows(tmp_path):
    paths = []
    for truth in ("none", "test", "all"):
        (tmp_path / truth).mkdir()
        path = tmp_path / truth / f"{truth}.yaml"
        Path(make_table(tmp_path / truth, truth)).rename(path)
        paths.append(str(path))
    spec = Spec(problems=[{"dataset": path} for path in paths], algorithms="nnpu", **SHORT)
    bench.run(spec, tmp_path / "out", device="cpu", workers=1, progress=False)
    captions = {item.problem.dataset: item.caption() for item in report.table(tmp_path / "out")}
    assert "nothing was tested" in captions["none"]
    assert "truth that OA needs" in captions["test"]
    assert "not known" not in captions["all"]
    assert not any("NaN" in text for text in captions.values())


def test_a_spec_that_names_observed_problems_is_the_same_plan(tmp_path):
    spec = Spec(problems=[{"dataset": make_table(tmp_path, "test")}], algorithms="nnpu", **SHORT)
    plan = make_plan(spec)
    (problem,) = {run.problem for run in plan.runs}
    assert problem.labeling == "observed"
    assert math.isnan(problem.prior)
    assert make_plan(plan.spec).run_ids == plan.run_ids
    given = make_plan(spec.override(labeling="observed", settings="ts", rates=0.3))
    assert given.run_ids == plan.run_ids


@pytest.mark.parametrize(
    ("source", "code", "word"),
    [
        ("given:0.1", "conflict", "0.1"),
        ("given:1.5", "invalid-value", "given:1.5"),
        ("given:much", "invalid-value", "given:much"),
    ],
)
def test_impossible_given_priors_are_refused(tmp_path, source, code, word):
    with pytest.raises(UserError) as error:
        run(make_table(tmp_path, "none"), tmp_path / "out", prior_source=source)
    assert error.value.code == code
    assert word in str(error.value)
    assert not (tmp_path / "out").exists()


def test_observed_labels_need_a_dataset_that_has_them(tmp_path):
    spec = Spec(problems=[{"dataset": "digits", "labeling": "observed"}], **SHORT)
    with pytest.raises(UserError) as error:
        bench.run(spec, tmp_path / "out", progress=False)
    assert error.value.code == "conflict"
    assert "'digits'" in str(error.value)
