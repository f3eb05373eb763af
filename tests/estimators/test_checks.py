"""scikit-learn's own checks, and the errors for bad input."""

from __future__ import annotations

import os
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import check_estimator, estimator_checks_generator

from pu_tables import EXPECTED, quick, table
from puarena import PUClassifier, PUNetClassifier, PUSearch, catalog
from puarena.estimators import classifier

X, y, _ = table(200)

SHORT = {"steps": 30, "batch_size": 16, "lr": 0.02, "members": 1}
TWO_SAMPLE = {"prior": 0.1, "setting": "two-sample"}
CHECKED = {
    **{
        name: PUNetClassifier(name, **TWO_SAMPLE, **SHORT)
        for name in ("nnpu", "upu", "vpu", "dist-pu", "count-loss")
    },
    "an estimated prior": PUNetClassifier(**SHORT),
    "auto": PUClassifier(**TWO_SAMPLE),
    "a classifier": PUClassifier(LogisticRegression(), **TWO_SAMPLE),
    "a search": PUSearch(PUNetClassifier(random_state=0, **TWO_SAMPLE, **SHORT), n_iter=2),
}


@pytest.mark.parametrize("clf", CHECKED.values(), ids=CHECKED)
def test_scikit_learn_checks(clf, monkeypatch):
    # Faster parts: of what separates P from U to estimate the prior, and of the networks of "auto".
    tree = DecisionTreeClassifier(max_depth=3, random_state=0)
    monkeypatch.setattr("puarena.priors.sample.make_boosted", lambda *args: tree)
    monkeypatch.setitem(classifier.AUTO_NETWORK, "steps", 10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(clf, on_skip=None, expected_failed_checks=EXPECTED)
    skipped = {r["check_name"] for r in results if r["status"] == "skipped"}
    assert skipped <= {"check_array_api_input"}  # needs SCIPY_ARRAY_API in the environment
    assert sum(r["status"] == "passed" for r in results) > 50


# The calibrated forms are trained in place of the plain ones, since the data are one sample.
NAMES = [
    name
    for name in catalog.names("puarena")
    if "@" not in name and not catalog.get(name).supervised and not catalog.get(name).calibrated
]
STEPS = int(os.environ.get("PUARENA_CHECK_STEPS", "0"))  # 2000, the default, takes 90 s each


@pytest.mark.parametrize("name", NAMES)
def test_every_algorithm_learns_what_scikit_learn_asks(name):
    """Run the check that asks for learning; with PUARENA_CHECK_STEPS all, at as many steps."""
    clf = PUNetClassifier(name, steps=STEPS or 200)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if STEPS:
            check_estimator(clf, on_skip=None, expected_failed_checks=EXPECTED)
            return
        for _, check in estimator_checks_generator(clf):
            if check.func.__name__ == "check_classifiers_train" and not check.keywords:
                check(clf)


@pytest.mark.parametrize(
    "X, y, message",
    [
        (X, np.zeros(200), "there are no labeled positives"),
        (X, np.ones(200), "there are no unlabeled rows"),
        (X, np.arange(200) % 3, "3 classes"),
        (X, np.where(y, "fraud", "unknown"), "positive_label"),
        (np.where(X > 3, np.inf, X), y, "infinity"),
        (X, y[:-1], "inconsistent numbers of samples"),
        (X[:, 0], y, "Expected 2D array, got 1D array"),
        (X[:, :, None], y, "Found array with dim 3"),
        (X[:, :0], y, "0 feature"),
        (X, None, "requires y to be passed"),
        (np.full(X.shape, np.nan), y, "no column"),
        (1e300 * X, y, "column 0"),
    ],
)
def test_bad_tables(X, y, message):
    with pytest.raises(ValueError, match=message):
        quick().fit(X, y)


def test_sparse_input_is_refused_by_networks():
    with pytest.raises(TypeError, match="Sparse data was passed"):
        quick().fit(sparse.csr_matrix(X), y)


@pytest.mark.parametrize(
    "params, message",
    [
        ({"prior": 0.0}, r"'prior' parameter of PUNetClassifier must be .* \(0.0, 1.0\)"),
        ({"prior": "guess"}, "'guess'"),
        ({"prior": ""}, "''"),
        ({"prior": "estimate:bbee"}, "'bbee'.*'bbe'"),
        ({"prior": 0.1}, r"prior=0.1 contradicts setting='one-sample': 0\.2\d* of the rows"),
        ({"setting": "oss"}, "'setting' parameter"),
        ({"selection": "oa"}, "'selection' parameter"),
        ({"steps": 0}, "'steps' parameter"),
        ({"validation_fraction": 1.0}, "'validation_fraction' parameter"),
        ({"algorithm": "nnpuu"}, "'nnpuu'.*'nnpu'"),
        ({"algorithm": "pn-oracle"}, "'pn-oracle'"),
        ({"algorithm": "lbe", "calibrated": True}, "'lbe' has no calibrated form"),
        ({"hyper": {"betta": 1}}, "'betta'.*'beta'"),
        ({"network": "mpl"}, "unknown network"),
        ({"device": "gpuu"}, "'gpuu'"),
        ({"positive_label": 7}, "positive_label=7"),
        ({"lr": 1e20}, "training diverged"),
    ],
)
def test_bad_parameters(params, message):
    with pytest.raises(ValueError, match=message):
        quick(**params).fit(X, y)


def test_before_fit_and_with_another_number_of_features():
    for use in (
        lambda clf: clf.predict(X),
        lambda clf: clf.predict_proba(X),
        lambda clf: clf.decision_function(X),
        lambda clf: clf.save("nowhere"),
        lambda clf: clf.sensitivity(X, y),
    ):
        with pytest.raises(NotFittedError):
            use(quick())
    clf = quick().fit(X, y)
    with pytest.raises(ValueError, match="X has 2 features, but PUNetClassifier is expecting 3"):
        clf.predict(X[:, :2])


def test_very_few_rows():
    clf = quick(prior=0.6, steps=20).fit(X[:3], [1, 0, 0])
    assert clf.predict(X).shape == (200,)
    with pytest.raises(ValueError, match="at least 2 labeled"):
        PUClassifier(prior=0.6).fit(X[:3], [1, 0, 0])
