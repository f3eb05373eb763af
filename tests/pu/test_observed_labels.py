"""Observed labels: nothing is drawn but rows, and the truth reaches no algorithm."""

from dataclasses import fields, replace

import numpy as np
import pytest

from puarena import datasets
from puarena.datasets.base import DatasetInfo, ObservedLabels, make_observed
from puarena.errors import UserError
from puarena.pu import Problem, PUData, draw_pu_data, labeling
from puarena.pu.problem import PROBLEM_COLUMNS

INFO = DatasetInfo(
    name="seen",
    title="Seen",
    description="Made up.",
    examples=400,
    class_names=("no", "yes"),
    shape=(2,),
    cases={1: (1,)},
    size=300,
    test_fraction=0.25,
    balanced=False,
    observed_setting="os",
)


def make(truth="all", setting="os", n=400):
    """Labels on every fifth row; every third of the others is positive, too."""
    rng = np.random.default_rng(0)
    labeled = np.arange(n) % 5 == 0
    positive = labeled | (np.arange(n) % 3 == 0)
    known = positive.astype(np.int8)
    test = None
    if truth != "all":
        known[: 3 * n // 4] = -1
        test = np.arange(3 * n // 4, n) if truth == "test" else np.zeros(0, np.int64)
    if truth == "none":
        known[:] = -1
    inside = np.ones(n, bool) if test is None else np.arange(n) < 3 * n // 4
    labels = ObservedLabels(
        np.flatnonzero(labeled & inside), np.flatnonzero(~labeled & inside), known, test
    )
    info = replace(INFO, truth=truth, observed_setting=setting)
    return make_observed(info, rng.normal(size=(n, 2)), {1: labels})


def problem_of(data):
    labels = data.observed[1]
    return Problem(
        "seen", 1, data.observed_setting, labels.rate, data.prior_of(1), labeling.OBSERVED
    )


def test_labels_are_those_of_the_data():
    data = make()
    pu, hidden = draw_pu_data(data, problem_of(data), 0)
    labeled = np.arange(400) % 5 == 0
    assert labeled[np.concatenate([pu.p_train, pu.p_val])].all()
    assert not labeled[np.concatenate([pu.u_train, pu.u_val])].any()
    rows = np.concatenate([pu.p_train, pu.p_val, pu.u_train, pu.u_val, pu.test])
    assert sorted(rows) == list(range(400))
    truth = data.observed[1].truth
    assert (hidden.u_train == truth[pu.u_train]).all()
    assert (hidden.test_labeled == labeled[pu.test]).all()
    assert pu.prior == pytest.approx(truth.mean())
    assert pu.shifted_prior == pytest.approx(truth[~labeled].mean())
    assert hidden.propensity_train is None
    assert hidden.bias is None


def test_splits_differ_in_rows_and_not_in_sizes():
    data = make()
    draws = [draw_pu_data(data, problem_of(data), split)[0] for split in (0, 1)]
    sizes = [[len(getattr(pu, part)) for part in ("p_train", "u_train", "test")] for pu in draws]
    assert sizes[0] == sizes[1] == [54, 216, 100]
    assert set(draws[0].test) != set(draws[1].test)
    again, _ = draw_pu_data(data, problem_of(data), 0)
    assert (again.p_train == draws[0].p_train).all()


def test_the_truth_decides_about_no_split():
    data = make()
    labels = data.observed[1]
    other = replace(data, observed={1: replace(labels, truth=1 - labels.truth)}, revision="")
    pu, _ = draw_pu_data(data, problem_of(data), 0)
    changed, hidden = draw_pu_data(other, problem_of(data), 0)
    for field in fields(PUData):
        assert np.array_equal(getattr(pu, field.name), getattr(changed, field.name))
    assert hidden.u_train.mean() > 0.5


def test_truth_on_test_rows_only():
    data = make("test", "ts")
    problem = problem_of(data)
    assert np.isnan(problem.prior)
    pu, hidden = draw_pu_data(data, problem, 0)
    assert hidden.u_train is None
    assert hidden.u_val is None
    assert hidden.test.sum() == data.observed[1].truth[300:].sum()
    assert list(pu.test) == list(range(300, 400))
    assert np.isnan(pu.prior)


def test_truth_nowhere():
    data = make("none")
    pu, hidden = draw_pu_data(data, problem_of(data), 0)
    assert len(pu.test) == 0
    assert hidden.u_val is None


def test_an_unknown_prior_has_an_identity():
    data = make("test", "ts")
    problem = problem_of(data)
    assert problem == problem_of(data)
    assert problem.identity()["prior"] is None
    row = {name: getattr(problem, name) for name in PROBLEM_COLUMNS}
    assert Problem.from_columns(row) == problem
    with pytest.raises(UserError):
        Problem("digits", prior=float("nan"))


def test_nothing_is_simulated_on_observed_labels_and_the_other_way():
    data = make()
    with pytest.raises(UserError) as error:
        draw_pu_data(data, replace(problem_of(data), labeling="scar"), 0)
    assert error.value.code == "conflict"
    assert "scar" in str(error.value)
    with pytest.raises(UserError) as error:
        draw_pu_data(datasets.load("digits"), Problem("digits", labeling="observed"), 0)
    assert error.value.code == "conflict"
    assert "'digits'" in str(error.value)
    assert labeling.OBSERVED not in labeling.list_mechanisms()


def test_few_labels_and_one_sided_tests_are_refused():
    data = make(n=40)
    with pytest.raises(UserError) as error:
        draw_pu_data(data, problem_of(data), 0)
    assert error.value.code == "missing-data"
    assert "6 labeled" in str(error.value)
    sure = make("test")
    labels = replace(sure.observed[1], truth=np.ones(400, np.int8))
    with pytest.raises(UserError) as error:
        draw_pu_data(replace(sure, observed={1: labels}), problem_of(sure), 0)
    assert error.value.code == "missing-data"


def test_nhanes_is_embedded_and_what_was_published():
    data = datasets.load("nhanes-diabetes")
    labels = data.observed[1]
    told, positive = np.isin(np.arange(5014), labels.labeled), labels.truth == 1
    assert (told.sum(), positive.sum()) == (804, 994)
    assert data.prior_of(1) == pytest.approx(0.198, abs=5e-4)
    assert (told & positive).sum() / positive.sum() == pytest.approx(0.809, abs=5e-4)
    assert data.features.shape[1:] == datasets.info("nhanes-diabetes").shape
    assert np.isfinite(data.features).all()
    # Neither the label nor the laboratory's value is a feature.
    for flags in (told, positive):
        correlation = np.corrcoef(data.features.T, flags)[-1, :-1]
        assert np.nanmax(np.abs(correlation)) < 0.5
