"""PUClassifier: what it learns, what it says about itself, and its place among scikit-learn's tools."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from practice_tables import quick, table
from puarena import PUClassifier, catalog, proxy_accuracy
from puarena.estimators.corrected import proxy_auc as proxy_auc_of
from puarena.estimators.probability import PUScores, fit_probability, fit_threshold
from puarena.estimators.scoring import PRACTICAL, criterion_value
from puarena.pu import HiddenLabels, PUData
from puarena.pu.labels import read_labels
from puarena.training import Fleet, FleetConfig, Row
from toys import toy

X, y, truth = table()
REGISTERED = [name for name in catalog.names("puarena") if not catalog.get(name).supervised]


def test_it_learns_and_says_what_it_did():
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
    assert set(clf.curve_[0]) == {"step", "phase", "selectable", "loss", *PRACTICAL}


def test_the_kept_checkpoint_is_the_best_and_predicts_as_it_did():
    x, data, hidden = toy()
    config = FleetConfig(batch_size=16, steps=80, record_every=20, keep="pa")
    rows = [Row("vpu", data, hidden, seed=3, lr=lr) for lr in (3e-2, 1e30, 1e-3)]
    fleet = Fleet(rows, config, x)
    curves = fleet.train()
    assert fleet.best is not None
    assert fleet.best.step[1] == -1  # a lost row has no best state
    fleet.best.restore()
    again = fleet.evaluate()
    for run in (0, 2):
        at = int(np.argmax(curves.values["val_pa"][:, run]))
        assert fleet.best.step[run] == curves.step[at]
        for column in ("val_pa", "val_pauc", "test_accuracy"):
            assert again[column][run].item() == pytest.approx(
                curves.values[column][at, run], abs=1e-9
            )


def test_a_fleet_without_test_points_has_no_test_metrics():
    x, data, hidden = toy()
    empty = PUData(
        data.p_train, data.u_train, data.p_val, data.u_val, data.test[:0], 0.4, 0.2, 0.25, "os"
    )
    none = HiddenLabels(hidden.u_train, hidden.u_val, hidden.test[:0])
    curves = Fleet(
        [Row("nnpu", empty, none, 1)], FleetConfig(batch_size=16, steps=10, record_every=10), x
    ).train()
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
        ("nnpu-c", "two-sample", "auto", "nnpu-c"),
        ("lbe", "one-sample", "auto", "lbe"),
    ],
)
def test_calibrated_forms(algorithm, setting, calibrated, found):
    assert quick(algorithm, setting=setting, calibrated=calibrated)._registered() == found


def test_two_sample_data_and_the_ways_to_write_labels():
    rng = np.random.default_rng(1)
    hidden = rng.random(300) < 0.3
    both = np.r_[np.ones(100, bool), hidden]
    A = rng.normal(size=(400, 2)) + 3 * both[:, None]
    s = np.r_[np.ones(100, int), np.zeros(300, int)]
    made = {"setting": "two-sample", "prior": 0.3, "steps": 150}
    clf = quick(**made).fit(A, s)
    assert clf.score(A, both.astype(int)) > 0.9
    decision = clf.decision_function(A)
    for labels, positive in (
        (2 * s - 1, 1),
        (s.astype(bool), True),
        (np.where(s, "positive", "unlabeled"), "positive"),
    ):
        other = quick(**made).fit(A, labels)
        np.testing.assert_array_equal(other.decision_function(A), decision)
        assert set(other.predict(A)) <= set(labels)
        assert other.classes_[1] == positive
    named = quick(**made, positive_label="a").fit(
        A, np.where(s, "a", np.where(rng.random(400) < 0.1, "b", "c"))
    )
    np.testing.assert_array_equal(named.decision_function(A), decision)
    assert named.classes_.tolist() == ["c", "a"]


def test_estimated_prior():
    clf = quick(prior="estimate", steps=100).fit(X, y)
    assert y.mean() < clf.prior_ < 1
    assert abs(clf.prior_ - 0.5) < 0.2
    all_labeled = quick(prior="estimate").fit(
        X, truth
    )  # every positive is labeled: the least possible prior
    assert all_labeled.prior_ > truth.mean()


def test_pipeline_grid_search_cross_validation_clone_and_pickle():
    pipe = make_pipeline(StandardScaler(), quick(standardize=False))
    search = GridSearchCV(
        pipe, {"puclassifier__lr": [1e-3, 2e-2]}, scoring=proxy_accuracy, cv=2
    ).fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    found = cross_val_predict(quick(), X, y, cv=2, method="predict_proba")
    assert found.shape == (len(X), 2)
    clf = quick().fit(X, y)
    again = pickle.loads(pickle.dumps(clf))
    np.testing.assert_array_equal(again.decision_function(X), clf.decision_function(X))
    assert clone(clf).get_params() == clf.get_params()
    np.testing.assert_array_equal(
        clone(clf).fit(X, y).decision_function(X), clf.decision_function(X)
    )


def test_frames_keep_their_names():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    clf = quick().fit(frame, pd.Series(y))
    assert clf.feature_names_in_.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(clf.predict(frame), quick().fit(X, y).predict(X))
    with pytest.raises(ValueError, match="feature names"):
        clf.predict(frame[["b", "a", "c"]])


def test_polars_frames():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2]})
    clf = quick().fit(frame, polars.Series(y))
    assert clf.feature_names_in_.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(clf.predict(frame), quick().fit(X, y).predict(X))


def _network(features):
    return torch.nn.Sequential(
        torch.nn.Linear(features, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)
    )


def test_a_network_of_ones_own():
    clf = quick(network=_network, steps=200, lr=0.05).fit(X, y)
    assert clf.score(X, truth) > 0.85
    assert clf.model_.weights["f.p0"].shape == (1, 16, 3)
    again = pickle.loads(pickle.dumps(clf))
    np.testing.assert_array_equal(again.decision_function(X), clf.decision_function(X))
    with pytest.raises(ValueError, match="LayerNorm"):
        quick(
            network=lambda n: torch.nn.Sequential(torch.nn.Linear(n, 1), torch.nn.BatchNorm1d(1))
        ).fit(X, y)
    with pytest.raises(ValueError, match="one or two outputs"):
        quick(network=lambda n: torch.nn.Linear(n, 3)).fit(X, y)


def test_random_state_decides():
    first, second = (
        quick(random_state=np.random.RandomState(s)).fit(X, y).decision_function(X) for s in (0, 0)
    )
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, quick(random_state=1).fit(X, y).decision_function(X))


def test_last_checkpoint_and_proxy_auc():
    assert quick(selection=None).fit(X, y).best_step_ == 60
    clf = quick(selection="pauc").fit(X, y)
    assert clf.best_score_ == max(record["pauc"] for record in clf.curve_)


def test_threshold_of_the_best_proxy_accuracy():
    clf = quick(threshold="pa", validation_fraction=0.3, steps=10, lr=1e-3).fit(X, y)
    plain = quick(validation_fraction=0.3, steps=10, lr=1e-3).fit(X, y)
    np.testing.assert_allclose(
        clf.decision_function(X), plain.decision_function(X) - clf.shift_, atol=1e-12
    )
    assert proxy_accuracy(clf, X, y) >= proxy_accuracy(plain, X, y) - 0.05


def test_thresholds_and_proxies_by_hand():
    scores = PUScores(
        np.array([1.0, 2.0, 3.0, -1.0]), np.array([2.5, -2.0, -3.0, -4.0, 0.5, -0.5]), 0.4, False
    )

    def pa(cut):
        return criterion_value(
            "pa", scores.p - cut, scores.u - cut, scores.prior, scores.one_sample
        )

    assert pa(fit_threshold(scores)) == pytest.approx(
        max(pa(cut) for cut in np.linspace(-5, 4, 1000))
    )
    assert proxy_auc_of(np.array([1.0, 2.0]), np.array([1.0, 0.0])) == pytest.approx(7 / 8)


@pytest.mark.parametrize("one_sample", [True, False])
def test_probabilities_recover_a_known_posterior(one_sample):
    rng = np.random.default_rng(0)
    n, prior = 20_000, 0.3
    label = rng.random(n) < prior
    s = rng.normal(size=n) + 2 * label  # log odds: 2 s - 2 + logit(prior)
    truth_q = 1 / (1 + np.exp(-(2 * s - 2 + np.log(prior / (1 - prior)))))
    raw = 0.3 * (2 * s - 2 + np.log(prior / (1 - prior)))  # the right threshold, the wrong scale
    if one_sample:
        labeled = label & (rng.random(n) < 0.4)
        scores = PUScores(raw[labeled], raw[~labeled], prior, True)
    else:
        scores = PUScores(raw[label][:2000], raw[n // 2 :], prior, False)
    q = fit_probability(scores)(raw)
    assert abs(q.mean() - prior) < 0.02
    assert np.abs(q - truth_q).mean() < 0.02


def test_sensitivity_to_the_prior():
    clf = quick(steps=100).fit(X, y)
    report = clf.sensitivity(X, y)
    assert [row["shift"] for row in report] == pytest.approx([0, -0.1, 0.1])
    assert report[0]["changed"] == 0
    assert report[1]["positive"] <= report[2]["positive"]
    assert all(np.isfinite(list(row.values())).all() for row in report)
    assert (
        clf.sensitivity(X, y, shifts=(-0.45,))[1]["prior"] > y.mean()
    )  # what the data do not allow is moved


def test_labels_in_words():
    labels = read_labels([3, 1, 1, 2], positive_label=3)
    assert labels.positive.tolist() == [True, False, False, False]
    assert labels.classes.tolist() == [1, 3]
    words = read_labels(
        ["positive", "unlabeled", "negative", "unlabeled"]
    )  # the alphabet's last is not positive
    assert words.positive.tolist() == [True, False, False, False]
    assert words.negative.tolist() == [False, False, True, False]
    assert words.classes.tolist() == ["negative", "positive"]
    numbers = read_labels([1, 0, -1, 0])
    assert numbers.positive.tolist() == words.positive.tolist()
    assert numbers.unlabeled.tolist() == words.unlabeled.tolist()
    with pytest.raises(
        ValueError, match="name the value that marks labeled positives with positive_label"
    ):
        read_labels(["fraud", "unknown"])


def test_importing_puarena_imports_neither_torch_nor_sklearn():
    code = "import sys, puarena, puarena.cli; print([m for m in ('torch', 'sklearn', 'pandas') if m in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip()
        == "[]"
    )
    assert PUClassifier.__module__ == "puarena.estimators.estimator"
