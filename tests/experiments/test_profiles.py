"""The released profile runs the published code's choices; the definition's has none of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import puarena
from puarena import algorithms, catalog, datasets
from puarena.experiments import suites
from puarena.experiments.data_source import DataSource
from puarena.experiments.plan import make_plan
from puarena.experiments.spec import PROFILES, Spec
from puarena.experiments.worker import make_row
from puarena.pu import Problem, draw_pu_data

SPEC = Spec(
    problems=[{"dataset": "digits"}], splits=2, configs=2, steps=20, record_every=10, warmup=10
)


def test_every_algorithm_of_the_paper_has_a_released_variant():
    plain = [
        n
        for n in catalog.names("puarena")
        if catalog.get(n).in_paper and not catalog.get(n).baseline
    ]
    assert len(plain) == 23
    released = {name for name in catalog.names("released") if catalog.get(name).in_paper}
    assert {catalog.find_form(name, "released") for name in plain} == released
    assert all(catalog.get(name).variant == "released" for name in catalog.names("released"))


def test_default_code_knows_nothing_of_the_released_variants():
    folder = Path(algorithms.__file__).parent
    files = [file for file in folder.glob("[a-z]*.py") if file.name != "released.py"]
    assert len(files) > 20
    for file in files:
        assert "released" not in file.read_text(), file.name


def test_what_the_profile_changes():
    definition, released = (
        make_plan(SPEC.override(algorithms=["nnpu-c", "pn-naive"], profile=p)) for p in PROFILES
    )
    assert {run.algorithm for run in definition.runs} == {"nnpu-c", "pn-naive"}
    assert {run.algorithm for run in released.runs} == {"nnpu-c@released", "pn-naive"}
    assert {run.calibration for run in definition.runs} == {"weighted", "none"}
    assert {run.calibration for run in released.runs} == {"batch-union", "none"}
    assert {run.batch_size for run in definition.runs if run.config == 0} == {128}
    assert {run.batch_size for run in released.runs if run.config == 0} == {64}
    for plan in (
        definition,
        released,
    ):  # configurations are drawn anew for every split, as the paper says
        lr = {(run.split, run.config): run.lr for run in plan.runs}
        assert lr[0, 1] != lr[1, 1]
        assert lr[0, 0] == lr[1, 0] == 1e-3
    shared = make_plan(SPEC.override(algorithms=["nnpu-c"], draws="shared"))
    lr = {(run.split, run.config): run.lr for run in shared.runs}
    assert lr[0, 1] == lr[1, 1]


def test_data_per_trial_or_per_run():
    for profile, shared in (("definition", True), ("released", False)):
        plan = make_plan(SPEC.override(algorithms=["upu", "nnpu"], profile=profile))
        source = DataSource(plan)
        drawn = {
            (run.algorithm, run.config): make_row(run, source).data.p_train
            for run in plan.runs
            if run.split == 0
        }
        first, *others = drawn.values()
        assert all(np.array_equal(first, other) for other in others) == shared


def test_usps_is_mirrored_in_the_released_profile_alone():
    plans = {
        p: make_plan(suites.load("tabular").override(algorithms=["nnpu"], configs=1, profile=p))
        for p in PROFILES
    }
    views = {
        p: {(r.problem.dataset, r.views.weak, r.views.strong) for r in plan.runs}
        for p, plan in plans.items()
    }
    assert views["definition"] == {("letter", None, None), ("usps", None, None)}
    mirrored = datasets.views_of("usps", "released")
    assert views["released"] == {("letter", None, None), ("usps", mirrored.weak, mirrored.strong)}


def test_a_released_run_end_to_end(tmp_path):
    spec = SPEC.override(
        algorithms=["nnpu", "pusb", "pue"], splits=1, configs=1, profile="released"
    )
    puarena.run(spec, out=tmp_path, device="cpu")
    frame = puarena.load(tmp_path).df()
    assert set(frame["profile"]) == {"released"}
    pue = frame[frame["algorithm"] == "pue@released"]
    assert pue[pue["step"] <= 10]["selectable"].all(), (
        "the published code lets warm-up checkpoints compete"
    )
    hard = frame[frame["algorithm"] == "pusb@released"]
    balanced = (hard["test_recall"] + _specificity(hard)) / 2
    np.testing.assert_allclose(hard["test_auc"], balanced, atol=1e-9)
    (table,) = puarena.table(tmp_path)
    assert {column.criterion for column in table.columns} == {"pa-released", "pauc", "oa"}
    assert [row.method.label for row in table.rows] == [
        "nnpu@released",
        "pusb@released",
        "pue@released",
    ]


def _specificity(frame):
    """Work out the true negative rate from accuracy, recall and the draw's test labels."""
    salt = f"{frame['algorithm'].iloc[0]}:0"
    _, hidden = draw_pu_data(datasets.load("digits"), Problem("digits", 1, "os", 0.3, 0.5), 0, salt)
    n, positives = len(hidden.test), hidden.test.sum()
    return (frame["test_accuracy"] * n - frame["test_recall"] * positives) / (n - positives)


def test_warm_up_checkpoints_are_marked_and_not_selectable(tmp_path):
    puarena.run(
        SPEC.override(algorithms=["pue", "lbe"], splits=1, configs=1), out=tmp_path, device="cpu"
    )
    frame = puarena.load(tmp_path).df()
    assert sorted(set(frame["step"])) == [10, 20, 30]
    assert not frame[frame["step"] <= 10]["selectable"].any()
    assert frame[frame["step"] > 10]["selectable"].all()


@pytest.mark.parametrize("name", ["cvir", "count-loss", "glws"])
def test_the_prior_inside_the_unlabeled_set_is_an_option(name, tmp_path):
    spec = SPEC.override(algorithms=[name], splits=1, configs=1)
    puarena.run(spec, out=tmp_path / "pi", device="cpu")
    puarena.run(
        spec.model_copy(update={"hyper": {name: {"unlabeled_prior": "pi-bar"}}}),
        out=tmp_path / "bar",
        device="cpu",
    )
    losses = [puarena.load(tmp_path / folder).df()["loss"].to_numpy() for folder in ("pi", "bar")]
    assert not np.allclose(*losses)
