"""scikit-learn's own checks, and what it says to bad input."""

from __future__ import annotations

import os
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import check_estimator, estimator_checks_generator

from practice_tables import EXPECTED, quick, table
from puarena import PUClassifier, PUSearch, catalog
from puarena.estimators import network_fit

X, y, _ = table(200)

FIVE = ["nnpu", "upu", "vpu", "dist-pu", "count-loss"]


@pytest.mark.parametrize(
    "clf",
    [
        PUClassifier(
            name, prior=0.1, setting="two-sample", steps=30, batch_size=16, lr=0.02, members=1
        )
        for name in FIVE
    ]
    + [PUClassifier(steps=30, batch_size=16, lr=0.02, members=1)]
    + [
        PUSearch(
            PUClassifier(
                prior=0.1, setting="two-sample", steps=20, batch_size=16, lr=0.02, random_state=0
            ),
            n_iter=2,
        )
    ],
    ids=[*FIVE, "defaults with an estimated prior", "PUSearch"],
)
def test_scikit_learn_checks(clf, monkeypatch):
    quickly = "puarena.priors.sample.make_boosted"  # what tells P from U to estimate the prior
    monkeypatch.setattr(
        quickly, lambda *args, **kwargs: DecisionTreeClassifier(max_depth=3, random_state=0)
    )
    monkeypatch.setitem(network_fit.SHORT, "steps", 10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(clf, on_skip=None, expected_failed_checks=EXPECTED)
    skipped = {r["check_name"] for r in results if r["status"] == "skipped"}
    assert skipped <= {"check_array_api_input"}  # needs SCIPY_ARRAY_API in the environment
    assert sum(r["status"] == "passed" for r in results) > 50


NAMES = [n for n in catalog.names("puarena") if "@" not in n and not catalog.get(n).supervised]
STEPS = int(
    os.environ.get("PUARENA_CHECK_STEPS", "0")
)  # 2000, the default, takes a minute and a half for each


@pytest.mark.parametrize(
    "name", [n for n in NAMES if not catalog.get(n).calibrated]
)  # used in their place
def test_every_registered_algorithm_learns_what_scikit_learn_asks(name):
    """Of all checks the one that asks for learning; with ``PUARENA_CHECK_STEPS`` all, at as many steps."""
    clf = PUClassifier(name, steps=STEPS or 200)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if STEPS:
            check_estimator(clf, on_skip=None, expected_failed_checks=EXPECTED)
            return
        checks = estimator_checks_generator(clf)
        (learns,) = (
            c for _, c in checks if c.func.__name__ == "check_classifiers_train" and not c.keywords
        )
        learns(clf)


def _with(X, at, value):
    X = X.astype(object if isinstance(value, str) else float)
    X[at] = value
    return X


@pytest.mark.parametrize(
    "X, y, message",
    [
        (X, np.zeros(200), "only one class, 0.0: there are no labeled positives"),
        (X, np.ones(200), "only one class, 1.0: there are no unlabeled rows"),
        (X, np.arange(200) % 3, "Only binary classification is supported.*3 classes"),
        (X, np.linspace(0, 1, 200), "Unknown label type"),
        (_with(X, (3, 1), np.inf), y, "Input X contains infinity"),
        (_with(X, (3, 1), "a"), y, "could not convert string to float"),
        (X, y[:-1], "inconsistent numbers of samples"),
        (X[:, 0], y, "Expected 2D array, got 1D array"),
        (X[:, :, None], y, "Found array with dim 3"),
        (X[:, :0], y, "0 feature"),
        (X, None, "requires y to be passed"),
    ],
)
def test_bad_tables(X, y, message):
    with pytest.raises(ValueError, match=message):
        quick().fit(X, y)


def test_sparse_input_is_refused():
    with pytest.raises(TypeError, match="Sparse data was passed"):
        quick().fit(sparse.csr_matrix(X), y)


@pytest.mark.parametrize(
    "params, message",
    [
        (
            {"prior": 0.0},
            r"'prior' parameter of PUClassifier must be a float in the range \(0.0, 1.0\)",
        ),
        ({"prior": 1.2}, "'prior' parameter of PUClassifier"),
        ({"prior": "guess"}, "neither a number nor 'estimate'"),
        ({"prior": "estimate:bbee"}, "bbe"),
        (
            {"prior": 0.1},
            r"prior=0.1 contradicts setting='one-sample': 0\.2\d* of the rows are labeled",
        ),
        ({"setting": "oss"}, "'setting' parameter of PUClassifier must be a str among"),
        ({"selection": "oa"}, "'selection' parameter"),
        ({"steps": 0}, "'steps' parameter"),
        ({"validation_fraction": 1.0}, "'validation_fraction' parameter"),
        ({"algorithm": "nnpuu"}, "unknown algorithm 'nnpuu'; did you mean 'nnpu'"),
        ({"algorithm": "pn-oracle"}, "trained with true labels"),
        ({"algorithm": "lbe", "calibrated": True}, "no calibrated form"),
        ({"hyper": {"betta": 1}}, "no hyperparameter 'betta'; did you mean 'beta'"),
        ({"network": "mpl"}, "unknown network"),
        ({"device": "gpuu"}, "device='gpuu' is not one"),
        ({"positive_label": 7}, "positive_label=7 is not a valid label"),
        ({"lr": 1e20}, "training diverged"),
    ],
)
def test_bad_parameters(params, message):
    with pytest.raises(ValueError, match=message):
        quick(**params).fit(X, y)


def test_before_fit_and_with_another_number_of_features():
    for method in ("predict", "predict_proba", "decision_function"):
        with pytest.raises(NotFittedError):
            getattr(quick(), method)(X)
    with pytest.raises(NotFittedError):
        quick().save("nowhere")
    with pytest.raises(NotFittedError):
        quick().sensitivity(X, y)
    clf = quick().fit(X, y)
    with pytest.raises(
        ValueError, match="X has 2 features, but PUClassifier is expecting 3 features"
    ):
        clf.predict(X[:, :2])


def test_very_few_rows():
    clf = quick(prior=0.6, steps=20).fit(X[:3], [1, 0, 0])
    assert clf.predict(X).shape == (200,)
