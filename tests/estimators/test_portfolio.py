"""Any learner on any table: the portfolio, trees, classics and classifiers of others, and tables as they are."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from practice_tables import EXPECTED, table
from puarena import PUClassifier, PUSearch, UserError, catalog, load_model
from puarena.datasets.encoding import TableEncoder, TableWarning
from puarena.estimators import network_fit
from puarena.estimators.portfolio import summary
from puarena.priors import PriorWarning

X, y, truth = table(600, prior=0.4, labeled=0.4, seed=1)


@pytest.fixture(autouse=True)
def _short_networks(monkeypatch):
    monkeypatch.setitem(network_fit.SHORT, "steps", 60)


def mixed(n=400, seed=0):
    """A table with numbers, text, a category, bools, gaps, and a column of names."""
    rng = np.random.default_rng(seed)
    truth = rng.random(n) < 0.4
    frame = pd.DataFrame(
        {
            "amount": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n) + 2 * truth),
            "city": np.where(
                rng.random(n) < 0.1, None, np.where(rng.random(n) < 0.8, truth, ~truth)
            ),
            "size": pd.Categorical(
                np.where(truth, rng.choice(["s", "m"], n), rng.choice(["m", "l"], n))
            ),
            "member": rng.random(n) < 0.3 + 0.3 * truth,
            "row": [f"name {at}" for at in range(n)],
        }
    )
    frame["city"] = frame["city"].map({True: "Rome", False: "Oslo"})
    return frame, truth & (rng.random(n) < 0.4), truth


def test_the_portfolio_says_what_it_tried_and_why(capsys):
    clf = PUClassifier(prior=0.4, random_state=0, verbose=1).fit(X, y)
    assert clf.score(X, truth) > 0.85
    names = [line["learner"] for line in clf.report_]
    assert names == ["linear", "trees", "network", "all together"]
    assert sum(line["chosen"] for line in clf.report_) == 1
    chosen = next(line for line in clf.report_ if line["chosen"])
    assert chosen["learner"] == clf.learner_
    assert "standard error" in chosen["why"]
    assert clf.best_score_ == chosen["pa"]
    shown = summary(clf.report_)
    assert shown.count("*") == 1
    assert len(shown.splitlines()) == 4
    assert "PUClassifier: linear: PA " in capsys.readouterr().out
    assert f"learner: {clf.learner_}" in clf._repr_html_()
    np.testing.assert_array_equal(
        clf.predict(X), PUClassifier(prior=0.4, random_state=0).fit(X, y).predict(X)
    )


def test_an_estimated_prior_comes_with_an_interval_and_doubts():
    clf = PUClassifier(random_state=0).fit(X, y)
    low, high = clf.prior_interval_
    assert low < 0.4 < high
    assert low < clf.prior_ < high
    few = np.flatnonzero(y)[:12]
    with pytest.warns(PriorWarning, match="rests on 12 labeled positives"):
        clf = PUClassifier(LogisticRegression(), random_state=0).fit(
            X, np.isin(np.arange(len(X)), few)
        )
    assert clf.prior_interval_[1] - clf.prior_interval_[0] > high - low


@pytest.mark.parametrize("name", catalog.names("classic"))
def test_every_classic_works_through_the_classifier(name):
    base = LogisticRegression() if name == "bagging-pu" else None
    clf = PUClassifier(name, prior=0.4, base=base, random_state=0).fit(X, y)
    assert clf.algorithm_ == name
    assert clf.score(X, truth) > 0.8, name
    assert np.array_equal(clf.predict(X), clf.predict_proba(X)[:, 1] > 0.5)


@pytest.mark.parametrize(
    "base", [GaussianNB(), RandomForestClassifier(20), HistGradientBoostingClassifier(max_iter=20)]
)
@pytest.mark.parametrize("threshold", ["model", "pa"])
def test_any_classifier_shares_prior_threshold_and_probabilities(base, threshold):
    clf = PUClassifier(base, prior=0.4, threshold=threshold, random_state=0).fit(X, y)
    new, _, label = table(600, prior=0.4, seed=2)
    assert clf.score(new, label) > 0.8
    assert abs(clf.predict_proba(new)[:, 1].mean() - 0.4) < 0.1
    with pytest.raises(UserError, match="cannot be written without pickle"):
        clf.save("nowhere")


def test_tables_as_they_are(tmp_path):
    frame, labeled, label = mixed()
    with pytest.warns(TableWarning, match="left out: 'row'"):
        clf = PUClassifier(prior=0.4, random_state=0).fit(frame, labeled)
    assert clf.score(frame, label) > 0.8
    assert list(clf.feature_names_in_) == list(frame.columns)
    other = frame.assign(city="Lima")  # a value that was never seen
    assert np.isfinite(clf.predict_proba(other)).all()
    again = load_model(clf.save(tmp_path / "model"))
    np.testing.assert_array_equal(again.predict_proba(frame), clf.predict_proba(frame))
    with pytest.raises(ValueError, match="column 'amount' was of numbers"):
        clf.predict(frame.assign(amount="much"))
    with pytest.raises(ValueError, match="column 'day' holds dates"):
        PUClassifier().fit(frame.assign(day=pd.Timestamp("2020-01-01")), labeled)
    with pytest.raises(ValueError, match="column 'day' holds dates"):
        PUClassifier().fit(frame.assign(day="2020-01-01"), labeled)


def test_polars_gives_what_pandas_gives():
    polars = pytest.importorskip("polars")
    frame, labeled, _ = mixed()
    frame = frame.drop(columns="row").assign(size=frame["size"].astype(str))
    same = polars.DataFrame({name: [None if v != v else v for v in frame[name]] for name in frame})
    encoder = TableEncoder().fit(frame)
    np.testing.assert_array_equal(encoder.dense(frame), TableEncoder().fit(same).dense(same))
    np.testing.assert_array_equal(encoder.tree(frame), encoder.tree(same))
    params = {"prior": 0.4, "random_state": 0}
    ours, theirs = (
        PUClassifier(LogisticRegression(), **params).fit(f, labeled) for f in (frame, same)
    )
    np.testing.assert_array_equal(ours.predict(frame), theirs.predict(same))


def test_sparse_matrices_where_the_learner_can():
    wide = sparse.hstack(
        [sparse.csr_matrix(X), sparse.random(len(X), 2000, 0.001, format="csr", random_state=0)]
    ).tocsr()
    clf = PUClassifier(prior=0.4, random_state=0).fit(wide, y)
    assert clf.learner_ == "linear"
    assert clf.score(wide, truth) > 0.8
    assert {line["why"] for line in clf.report_[1:]} == {
        "trees take no sparse matrix",
        "networks take no sparse matrix",
    }
    with pytest.raises(ValueError, match="takes no sparse matrix"):
        PUClassifier(GaussianNB(), prior=0.4).fit(wide, y)
    assert PUClassifier(LogisticRegression(), random_state=0).fit(wide, y).score(wide, truth) > 0.7


def test_known_negatives_and_weights():
    rng = np.random.default_rng(0)
    marks = y.astype(int) - (~truth & (rng.random(len(y)) < 0.5))
    clf = PUClassifier(prior=0.4, random_state=0).fit(X, marks)
    assert clf.classes_.tolist() == [-1, 1]
    assert clf.score(X, np.where(truth, 1, -1)) > 0.88
    words = np.array(["negative", "unlabeled", "positive"])[marks + 1]
    assert set(PUClassifier("biased-lr", prior=0.4).fit(X, words).predict(X)) == {
        "negative",
        "positive",
    }
    heavy = np.where(X[:, 0] > X[:, 0].mean(), 1.0, 0.0)  # half of the rows count
    for algorithm in (LogisticRegression(), "auto"):
        one, two = (
            PUClassifier(algorithm, prior=0.4, random_state=0).fit(X, y, w)
            for w in (heavy, np.ones(len(X)))
        )
        assert not np.allclose(one.decision_function(X), two.decision_function(X))
    with pytest.raises(ValueError, match="leaves only one class"):
        PUClassifier(prior=0.4).fit(X, y, sample_weight=(~y).astype(float))


def test_a_part_of_many_rows_is_enough():
    A, s, t = table(4000, prior=0.4, labeled=0.1, seed=3)
    clf = PUClassifier(LogisticRegression(), prior=0.4, max_samples=500, random_state=0).fit(A, s)
    assert clf.score(A, t) > 0.88  # the labeled ones are kept, the rate stays that of all rows
    assert abs(clf.predict_proba(A)[:, 1].mean() - 0.4) < 0.05


def test_a_two_sample_method_on_one_sample_data_warns():
    with pytest.warns(
        network_fit.SettingWarning, match="made for two samples and has no calibrated form"
    ):
        PUClassifier("pubn")._registered()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert PUClassifier("nnpu")._registered() == "nnpu-c"
        assert PUClassifier("cvir", setting="two-sample")._registered() == "cvir"


def test_few_labels_are_an_ensemble_of_networks():
    clf = PUClassifier("nnpu", prior=0.4, steps=80, random_state=0).fit(X, y)
    assert len(clf.ensemble_.parts[0].members) == 5
    assert clf.algorithm_ == "nnpu-c"
    assert clf.score(X, truth) > 0.85
    assert abs(clf.predict_proba(X)[:, 1].mean() - 0.4) < 0.08


def test_a_search_over_a_pipeline(tmp_path):
    base = PUClassifier("nnpu", prior=0.4, steps=40, random_state=0)
    search = PUSearch(make_pipeline(StandardScaler(), base), n_iter=2, random_state=0).fit(X, y)
    assert search.prior_ == 0.4
    assert search.score(X, truth) > 0.8
    np.testing.assert_array_equal(
        load_model(search.save(tmp_path / "whole")).predict(X), search.predict(X)
    )
    alone = PUSearch(base, n_iter=2, random_state=0).fit(X, y)
    np.testing.assert_array_equal(
        load_model(alone.save(tmp_path / "alone")).predict(X), alone.predict(X)
    )
    with pytest.raises(ValueError, match="needs a PUClassifier"):
        PUSearch(LogisticRegression()).fit(X, y)


def test_text_labels_need_a_name():
    with pytest.raises(
        ValueError, match="name the value that marks labeled positives with positive_label"
    ):
        PUClassifier().fit(X, np.where(y, "fraud", "unknown"))
    clf = PUClassifier(LogisticRegression(), prior=0.4).fit(X, np.where(y, "positive", "unlabeled"))
    assert (clf.predict(X) == "positive").mean() < 0.6


@pytest.mark.parametrize(
    "clf",
    [
        PUClassifier(prior=0.1, setting="two-sample"),
        PUClassifier(LogisticRegression(), prior=0.1, setting="two-sample"),
    ],
    ids=["portfolio", "a classifier"],
)
def test_scikit_learns_own_checks(clf, monkeypatch):
    monkeypatch.setitem(network_fit.SHORT, "steps", 10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(clf, on_skip=None, expected_failed_checks=EXPECTED)
    assert sum(r["status"] == "passed" for r in results) > 50


def test_the_default_on_a_real_table():
    frame, target = load_breast_cancer(return_X_y=True, as_frame=True)
    malignant = (target == 0).to_numpy()
    labeled = malignant & (np.random.default_rng(0).random(len(frame)) < 0.3)
    clf = PUClassifier(random_state=0).fit(frame, labeled)
    assert abs(clf.prior_ - malignant.mean()) < 0.1
    assert clf.prior_interval_[0] < malignant.mean() < clf.prior_interval_[1]
    assert clf.score(frame, malignant) > 0.9
