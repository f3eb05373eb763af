"""PUNetClassifier: what it learns, and its place among scikit-learn's tools."""

from __future__ import annotations

import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pu_tables import quick, table
from puarena import PUClassifier, PUNetClassifier, UserError, catalog, proxy_accuracy
from puarena.algorithms import Algorithm, logistic
from puarena.estimators.model_selection import PU_CRITERIA
from puarena.estimators.network import SettingWarning
from puarena.pu import HiddenLabels, PUData
from puarena.training import Fleet, FleetConfig, Row
from toys import toy
from user_errors import raises_user_error

X, y, truth = table()
REGISTERED = [name for name in catalog.names("puarena") if not catalog.get(name).supervised]


def test_it_learns_and_records_its_training():
    clf = quick(steps=200).fit(X, y)
    assert clf.score(X, truth) > 0.9
    assert clf.algorithm_ == "nnpu-c"  # one-sample: the calibrated form
    assert clf.prior_ == 0.5
    assert clf.n_features_in_ == 3
    assert clf.classes_.tolist() == [False, True]
    steps = [record["step"] for record in clf.curve_]
    assert steps == list(range(10, 201, 10))
    assert clf.best_step_ in steps
    assert clf.best_score_ == max(record["pa"] for record in clf.curve_)
    assert set(clf.curve_[0]) == {"step", "phase", "selectable", "loss", *PU_CRITERIA}


def test_a_name_in_puclassifier_is_short_for_it():
    options = {"prior": 0.5, "random_state": 0, "threshold": "pa"}
    net = PUNetClassifier("vpu", steps=2000, **options).fit(X, y)
    short = PUClassifier("vpu", **options).fit(X, y)
    np.testing.assert_array_equal(short.predict_proba(X), net.predict_proba(X))
    for name in ("algorithm_", "curve_", "best_step_", "threshold_", "n_features_in_"):
        assert getattr(short, name) == getattr(net, name)


def test_the_kept_checkpoint_is_the_best_and_predicts_as_it_did():
    x, data, hidden = toy()
    config = FleetConfig(batch_size=16, steps=80, record_every=20, keep="pa")
    rows = [Row("vpu", data, hidden, seed=3, lr=lr) for lr in (3e-2, 1e30, 1e-3)]
    fleet = Fleet(rows, config, x)
    curves = fleet.train()
    assert fleet.best is not None
    assert fleet.best.step[1] == -1  # a diverged row has no best state
    fleet.best.restore()
    again = fleet.evaluate()
    for run in (0, 2):
        at = int(np.argmax(curves.values["val_pa"][:, run]))
        assert fleet.best.step[run] == curves.step[at]
        for column in ("val_pa", "val_pauc", "test_accuracy"):
            expected = pytest.approx(curves.values[column][at, run], abs=1e-9)
            assert again[column][run].item() == expected


def test_a_fleet_without_test_points_has_no_test_metrics():
    x, data, hidden = toy()
    indices = data.p_train, data.u_train, data.p_val, data.u_val, data.test[:0]
    empty = PUData(*indices, 0.4, 0.2, 0.25, "os")
    none = HiddenLabels(hidden.u_train, hidden.u_val, hidden.test[:0])
    config = FleetConfig(batch_size=16, steps=10, record_every=10)
    curves = Fleet([Row("nnpu", empty, none, 1)], config, x).train()
    assert not any(name.startswith("test_") for name in curves.values)
    assert np.isfinite(curves.values["val_pa"]).all()


@pytest.mark.parametrize("name", REGISTERED)
def test_every_algorithm_of_the_registry(name):
    clf = quick(name, calibrated=False, steps=40, lr=0.02).fit(X, y)
    assert clf.algorithm_ == name
    probability = clf.predict_proba(X)
    assert probability.shape == (len(X), 2)
    assert ((probability >= 0) & (probability <= 1)).all()
    np.testing.assert_allclose(probability.sum(1), 1)
    assert np.array_equal(clf.predict(X), probability[:, 1] > 0.5)
    assert np.array_equal(clf.predict(X), clf.decision_function(X) > 0)


@pytest.mark.parametrize(
    "algorithm, setting, calibrated, found",
    [
        ("nnpu", "one-sample", "auto", "nnpu-c"),
        ("nnpu", "two-sample", "auto", "nnpu"),
        ("nnpu", "one-sample", False, "nnpu"),
        ("nnpu", "two-sample", True, "nnpu-c"),
        ("nnpu-c", "one-sample", "auto", "nnpu-c"),
        ("lbe", "one-sample", "auto", "lbe"),
        ("pan", "two-sample", "auto", "pan"),
        ("cvir", "two-sample", "auto", "cvir"),
    ],
)
def test_calibrated_forms(algorithm, setting, calibrated, found):
    clf = quick(algorithm, setting=setting, calibrated=calibrated, steps=10)
    with warnings.catch_warnings():
        warnings.simplefilter("error", SettingWarning)
        assert clf.fit(X, y).algorithm_ == found


@pytest.mark.parametrize("algorithm, setting", [("nnpu-c", "two-sample"), ("lbe", "two-sample")])
def test_a_method_for_the_other_setting_warns(algorithm, setting):
    with pytest.warns(SettingWarning):
        quick(algorithm, setting=setting, steps=10).fit(X, y)


def test_a_plugin_without_a_calibrated_form_warns_on_one_sample():
    class TwoSample(Algorithm):
        """``mean_P l+``."""

        name, title, paper, setting = "two-sample-only", "Two", "none", "two-sample"

        def objective(self, f_p, f_u):
            return logistic(f_p, +1).mean(-1) + logistic(f_u, -1).mean(-1)

    catalog.register(TwoSample)
    with pytest.warns(SettingWarning, match="no calibrated form"):
        quick("two-sample-only", setting="one-sample", steps=10).fit(X, y)


def test_two_sample_data_and_the_ways_to_write_labels():
    rng = np.random.default_rng(1)
    hidden = rng.random(300) < 0.3
    both = np.r_[np.ones(100, bool), hidden]
    A = rng.normal(size=(400, 2)) + 3 * both[:, None]
    s = np.r_[np.ones(100, int), np.zeros(300, int)]
    options = {"setting": "two-sample", "prior": 0.3, "steps": 150}
    clf = quick(**options).fit(A, s)
    assert clf.score(A, both.astype(int)) > 0.9
    decision = clf.decision_function(A)
    for labels, positive in (
        (2 * s - 1, 1),
        (s.astype(bool), True),
        (np.where(s, "positive", "unlabeled"), "positive"),
    ):
        other = quick(**options).fit(A, labels)
        np.testing.assert_array_equal(other.decision_function(A), decision)
        assert set(other.predict(A)) <= set(labels)
        assert other.classes_[1] == positive
    three = np.where(s, "a", np.where(rng.random(400) < 0.1, "b", "c"))
    named = quick(**options, positive_label="a").fit(A, three)
    np.testing.assert_array_equal(named.decision_function(A), decision)
    assert named.classes_.tolist() == ["c", "a"]


def test_estimated_prior():
    clf = quick(prior="estimate", steps=100).fit(X, y)
    assert y.mean() < clf.prior_ < 1
    assert abs(clf.prior_ - 0.5) < 0.2
    # If every positive is labeled, the least possible prior is used.
    assert quick(prior="estimate").fit(X, truth).prior_ > truth.mean()


def test_pipeline_grid_search_cross_validation_clone_and_pickle():
    pipe = make_pipeline(StandardScaler(), quick(standardize=False))
    grid = {"punetclassifier__lr": [1e-3, 2e-2]}
    search = GridSearchCV(pipe, grid, scoring=proxy_accuracy, cv=2).fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    found = cross_val_predict(quick(), X, y, cv=2, method="predict_proba")
    assert found.shape == (len(X), 2)
    clf = quick().fit(X, y)
    again, fresh = pickle.loads(pickle.dumps(clf)), clone(clf)
    assert fresh.get_params() == clf.get_params()
    for other in (again, fresh.fit(X, y)):
        np.testing.assert_array_equal(other.decision_function(X), clf.decision_function(X))


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_keep_their_names(library):
    module = pytest.importorskip(library)
    frame = module.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2]})
    clf = quick().fit(frame, module.Series(y))
    assert clf.feature_names_in_.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(clf.predict(frame), quick().fit(X, y).predict(X))
    with pytest.raises(ValueError, match="feature names"):
        clf.predict(frame[["b", "a", "c"]])


def make_network(features):
    return torch.nn.Sequential(
        torch.nn.Linear(features, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)
    )


def test_a_network_of_ones_own():
    clf = quick(network=make_network, steps=200, lr=0.05).fit(X, y)
    assert clf.score(X, truth) > 0.85
    assert clf.model_.parts[0].models[0].weights["f.p0"].shape == (1, 16, 3)
    again = pickle.loads(pickle.dumps(clf))
    np.testing.assert_array_equal(again.decision_function(X), clf.decision_function(X))
    layers = torch.nn.Linear(3, 1), torch.nn.BatchNorm1d(1)
    with pytest.raises(ValueError, match="LayerNorm"):
        quick(network=lambda n: torch.nn.Sequential(*layers)).fit(X, y)
    with pytest.raises(ValueError, match="one or two outputs"):
        quick(network=lambda n: torch.nn.Linear(n, 3)).fit(X, y)


def test_random_state_decides():
    decisions = []
    for state in (np.random.RandomState(0), np.random.RandomState(0), 1):
        decisions.append(quick(random_state=state).fit(X, y).decision_function(X))
    np.testing.assert_array_equal(decisions[0], decisions[1])
    assert not np.array_equal(decisions[0], decisions[2])


def test_selection_of_checkpoints():
    assert quick(selection=None).fit(X, y).best_step_ == 60
    clf = quick(selection="pauc").fit(X, y)
    assert clf.best_score_ == max(record["pauc"] for record in clf.curve_)


def test_threshold_of_the_best_proxy_accuracy():
    options = {"validation_fraction": 0.3, "steps": 10, "lr": 1e-3}
    clf, plain = quick(threshold="pa", **options).fit(X, y), quick(**options).fit(X, y)
    shift = clf.threshold_ - plain.threshold_
    expected = plain.decision_function(X) - shift
    np.testing.assert_allclose(clf.decision_function(X), expected, atol=1e-12)
    assert proxy_accuracy(clf, X, y) >= proxy_accuracy(plain, X, y) - 0.05


def test_few_labels_are_an_ensemble():
    A, s, t = table(600, prior=0.4, labeled=0.4, seed=1)
    clf = PUNetClassifier(prior=0.4, steps=80, random_state=0).fit(A, s)
    assert len(clf.model_.parts[0].models) == 5
    assert clf.algorithm_ == "nnpu-c"
    assert clf.score(A, t) > 0.85
    assert abs(clf.predict_proba(A)[:, 1].mean() - 0.4) < 0.08


@pytest.mark.parametrize("clf", [quick(steps=100), PUClassifier("biased-lr", prior=0.5)])
def test_sensitivity_to_the_prior(clf):
    report = clf.set_params(random_state=0).fit(X, y).sensitivity(X, y)
    assert report[0]["prior"] == 0.5
    assert report[0]["changed"] == 0
    assert report[2]["positive"] <= report[3]["positive"]
    assert all(np.isfinite(list(row.values())).all() for row in report)
    with raises_user_error("conflict", "priors=(0.05,)", "greater prior"):
        clf.sensitivity(X, y, priors=(0.05,))  # less than the labeled share


def test_sensitivity_of_a_part_of_the_rows_is_that_of_all():
    clf = quick(steps=100, max_samples=60).fit(X, y)
    whole = quick(steps=100).fit(X, y)
    for report in (clf.sensitivity(X, y), whole.sensitivity(X, y)):
        assert report[0]["pa"] > 1.1  # 1.5 at best; .5 + chance if rows are confused


def test_progress_is_printed(capsys):
    quick(steps=100, verbose=1).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("PUNetClassifier: prior 0.5")
    expected = [f"PUNetClassifier: nnpu-c: step {step} of 100" for step in range(10, 101, 10)]
    assert lines[1:] == expected
    quick(steps=20).fit(X, y)
    assert capsys.readouterr().out == ""


def test_classics_are_not_networks():
    with pytest.raises(UserError) as error:
        PUNetClassifier("bagging-pu").fit(X, y)
    assert error.value.code == "not-supported"
    assert "bagging-pu" in str(error.value)


def test_importing_puarena_imports_neither_torch_nor_sklearn():
    code = (
        "import sys, puarena, puarena.cli; print({'torch', 'sklearn', 'pandas'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "set()"
