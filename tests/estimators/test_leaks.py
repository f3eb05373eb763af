"""Warnings about features that know the label, and labels that are not what they seem."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

from puarena import PUClassifier
from puarena.datasets.encoding import TableWarning
from puarena.errors import UserError
from puarena.estimators.model_selection import MisuseWarning

RNG = np.random.default_rng(0)
N = 400
TRUTH = RNG.random(N) < 0.4
LABELED = TRUTH & (RNG.random(N) < 0.5)
TABLE = pd.DataFrame(RNG.normal(size=(N, 3)) + 2 * TRUTH[:, None], columns=list("abc"))


def fit(X=TABLE, y=LABELED, **params):
    return PUClassifier(LogisticRegression(), prior=0.4, random_state=0, **params).fit(X, y)


@pytest.mark.parametrize("kind", ["number", "text", "gap", "matrix"])
def test_a_feature_that_is_the_label_is_named(kind):
    column = {
        "number": LABELED.astype(int),
        "text": np.where(LABELED, "yes", "no"),
        "gap": np.where(LABELED, 1.0, np.nan),
        "matrix": LABELED.astype(float),
    }[kind]
    X = TABLE.assign(diagnosed=column)
    name = "column 3" if kind == "matrix" else "diagnosed"
    with pytest.warns(TableWarning, match=name):
        fit(X.to_numpy(float) if kind == "matrix" else X)


def test_honest_features_raise_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clf = fit()
        clf.score(TABLE, TRUTH)


def test_labels_that_had_to_be_guessed():
    with pytest.warns(TableWarning, match="2"):
        guessed = fit(y=np.where(LABELED, 2, 1))
    assert guessed.classes_.tolist() == [1, 2]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fit(y=np.where(LABELED, 1, 2), positive_label=1).classes_.tolist() == [2, 1]


@pytest.mark.parametrize(
    ("value", "gap"),
    [("yes", ""), ("yes", " "), ("yes", None), ("yes", np.nan), (1.0, None), (1.0, np.nan)],
    ids=repr,
)
def test_missing_labels_are_unlabeled(value, gap):
    y = np.array([value if flag else gap for flag in LABELED], object)
    for labels in (y, pd.Series(y)):
        clf = fit(y=labels)
        assert clf.classes_[1] == value
        np.testing.assert_array_equal(clf.predict(TABLE) == value, fit().predict(TABLE))


def test_a_prior_at_the_share_of_labels():
    rate = float(LABELED.mean())
    with pytest.warns(TableWarning, match=f"{rate:.3g}"):
        PUClassifier(LogisticRegression(), prior=rate + 0.002).fit(TABLE, LABELED)


def test_scores_on_labels_are_announced():
    with pytest.warns(MisuseWarning, match="PUScorer"):
        fit().score(TABLE, LABELED)
    search = GridSearchCV(fit(), {"threshold": ["model", "pa"]}, cv=2)
    with pytest.warns(MisuseWarning, match="PUScorer") as caught:
        search.fit(TABLE, LABELED)
    assert sum(item.category is MisuseWarning for item in caught) == 1
    with pytest.raises(UserError, match="proxy_accuracy"):
        fit().score(TABLE, np.where(LABELED, 1.0, np.nan))


def test_rows_of_one_customer():
    X = TABLE.assign(customer_id=RNG.integers(0, N // 4, N), order_id=RNG.permutation(10 * N)[:N])
    with pytest.warns(TableWarning, match=r"same 'customer_id': .*--groups"):
        fit(X)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*belong together")
        model = PUClassifier(LogisticRegression(), prior=0.4)
        model.fit(X, LABELED, groups=X["customer_id"])


@pytest.mark.parametrize("polars", [False, True])
def test_new_values_of_a_category(polars):
    frames = [TABLE.assign(city=np.resize([*cities], N)) for cities in ("pqr", "pqs")]
    if polars:
        pl = pytest.importorskip("polars")
        frames = [pl.DataFrame(frame.to_dict("list")) for frame in frames]
    clf = fit(frames[0])
    with pytest.warns(TableWarning, match=r"'city' .*: s$"):
        clf.predict(frames[1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clf.predict(frames[0])


def test_negative_weights():
    weight = np.ones(N)
    weight[7] = -2
    with pytest.raises(UserError, match="-2") as caught:
        PUClassifier(LogisticRegression(), prior=0.4).fit(TABLE, LABELED, sample_weight=weight)
    assert caught.value.code == "invalid-value"
    assert "7" in str(caught.value)


def test_arrow_tables():
    arrow = pytest.importorskip("pyarrow")
    table = arrow.Table.from_pandas(TABLE)
    np.testing.assert_array_equal(fit(table).predict(table), fit().predict(TABLE))


def test_wide_tables_are_fitted_without_networks():
    X = np.random.default_rng(0).normal(size=(60, 1001)) + TRUTH[:60, None]
    clf = PUClassifier(prior=0.4, random_state=0).fit(X, LABELED[:60])
    why = {line["learner"]: line["why"] for line in clf.report_}
    assert "1,000" in why["network"]
