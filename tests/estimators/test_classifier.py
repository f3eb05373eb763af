"""PUClassifier: any learner on any table, chosen and calibrated without negatives."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils._param_validation import InvalidParameterError

from pu_tables import notes, table
from puarena import PUClassifier, PUNetClassifier, PUScorer, PUSearch, catalog, classics
from puarena.datasets.encoding import TableEncoder, TableWarning
from puarena.estimators import classifier
from puarena.estimators.learners import describe_report
from puarena.priors import PriorWarning, estimate_prior

X, y, truth = table(600, prior=0.4, labeled=0.4, seed=1)
SGD = SGDClassifier(loss="log_loss", random_state=0)


@pytest.fixture(autouse=True)
def _short_networks(monkeypatch):
    monkeypatch.setitem(classifier.AUTO_NETWORK, "steps", 60)


def mixed(n=400, seed=0):
    """Return a table with numbers, text, a category, bools, gaps, and a column of names."""
    rng = np.random.default_rng(seed)
    truth = rng.random(n) < 0.4
    sizes = np.where(truth, rng.choice(["s", "m"], n), rng.choice(["m", "l"], n))
    city = np.where(rng.random(n) < 0.8, truth, ~truth)
    frame = pd.DataFrame(
        {
            "amount": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n) + 2 * truth),
            "city": pd.Series(np.where(city, "Rome", "Oslo")).where(rng.random(n) > 0.1, None),
            "size": pd.Categorical(sizes),
            "member": rng.random(n) < 0.3 + 0.3 * truth,
            "row": [f"name {at}" for at in range(n)],
        }
    )
    return frame, truth & (rng.random(n) < 0.4), truth


def test_the_portfolio_reports_what_it_tried_and_why(capsys):
    clf = PUClassifier(prior=0.4, random_state=0, verbose=1).fit(X, y)
    assert clf.score(X, truth) > 0.85
    names = [line["learner"] for line in clf.report_]
    assert names == ["linear", "trees", "boosted", "network", "all together"]
    (chosen,) = [line for line in clf.report_ if line["chosen"]]
    assert chosen["learner"] == clf.learner_
    assert sum(part.weight for part in clf.model_.parts) == pytest.approx(1.0)
    assert clf.best_score_ == chosen["pa"]
    text = describe_report(clf.report_)
    assert text.count("*") == 1
    assert len(text.splitlines()) == 5
    assert "PUClassifier: linear: " in capsys.readouterr().out
    again = PUClassifier(prior=0.4, random_state=0).fit(X, y)
    np.testing.assert_array_equal(clf.predict(X), again.predict(X))


def test_an_estimated_prior_comes_with_an_interval_and_doubts():
    clf = PUClassifier(random_state=0).fit(X, y)
    low, high = clf.prior_interval_
    assert low < 0.4 < high
    assert low < clf.prior_ < high
    few = np.isin(np.arange(len(X)), np.flatnonzero(y)[:12])
    with pytest.warns(PriorWarning, match="12 labeled positives"):
        clf = PUClassifier(LogisticRegression(), random_state=0).fit(X, few)
    assert clf.prior_interval_[1] - clf.prior_interval_[0] > high - low


def test_the_encoder_is_fitted_once(monkeypatch):
    fits = []
    fit = TableEncoder.fit
    monkeypatch.setattr(TableEncoder, "fit", lambda self, X: fits.append(1) or fit(self, X))
    PUClassifier(LogisticRegression(), random_state=0).fit(X, y)
    assert len(fits) == 1


@pytest.mark.parametrize("name", catalog.names("classic"))
def test_every_classic_by_its_name(name):
    clf = PUClassifier(name, prior=0.4, random_state=0).fit(X, y)
    assert clf.algorithm_ == name
    assert clf.score(X, truth) > 0.8, name
    assert np.array_equal(clf.predict(X), clf.predict_proba(X)[:, 1] > 0.5)


@pytest.mark.parametrize(
    "base",
    [
        GaussianNB(),
        RandomForestClassifier(20),
        HistGradientBoostingClassifier(max_iter=20),
        classics.BaggingPUClassifier(LogisticRegression()),
    ],
)
@pytest.mark.parametrize("threshold", ["model", "pa"])
def test_any_classifier_shares_prior_threshold_and_probabilities(base, threshold):
    clf = PUClassifier(base, prior=0.4, threshold=threshold, random_state=0).fit(X, y)
    new, _, label = table(600, prior=0.4, seed=2)
    assert clf.score(new, label) > 0.8
    assert abs(clf.predict_proba(new)[:, 1].mean() - 0.4) < 0.1


def test_threads_reach_the_classic():
    (learner,) = PUClassifier("bagging-pu", n_jobs=2, verbose=3)._make_learners()
    assert (learner.estimator.n_jobs, learner.estimator.verbose) == (2, 3)


def test_tables_as_they_are():
    frame, labeled, label = mixed()
    with pytest.warns(TableWarning, match="'row'") as caught:
        clf = PUClassifier(prior=0.4, random_state=0).fit(frame, labeled)
    assert len(caught) == 1
    assert clf.score(frame, label) > 0.8
    assert list(clf.feature_names_in_) == list(frame.columns)
    other = frame.assign(city="Lima")  # a value that was never seen
    assert np.isfinite(clf.predict_proba(other)).all()
    with pytest.raises(ValueError, match="column 'amount'"):
        clf.predict(frame.assign(amount="much"))
    # What was left out is not needed again.
    np.testing.assert_array_equal(clf.predict(frame.drop(columns="row")), clf.predict(frame))
    with pytest.raises(ValueError, match="city"):
        clf.predict(frame.drop(columns="city"))


def test_polars_gives_what_pandas_gives():
    polars = pytest.importorskip("polars")
    frame, labeled, _ = mixed()
    frame = frame.drop(columns="row").assign(size=frame["size"].astype(str))
    columns = {name: [None if v != v else v for v in frame[name]] for name in frame}
    same = polars.DataFrame(columns)
    encoder = TableEncoder().fit(frame)
    np.testing.assert_array_equal(encoder.dense(frame), TableEncoder().fit(same).dense(same))
    np.testing.assert_array_equal(encoder.tree(frame), encoder.tree(same))
    ours, theirs = (
        PUClassifier(LogisticRegression(), prior=0.4, random_state=0).fit(each, labeled)
        for each in (frame, same)
    )
    np.testing.assert_array_equal(ours.predict(frame), theirs.predict(same))


def test_sparse_matrices_if_the_learner_can():
    noise = sparse.random(len(X), 2000, 0.001, format="csr", random_state=0)
    wide = sparse.hstack([sparse.csr_matrix(X), noise]).tocsr()
    clf = PUClassifier(prior=0.4, random_state=0).fit(wide, y)
    assert clf.learner_ == "linear"
    assert clf.score(wide, truth) > 0.8
    assert all("no sparse matrix" in line["why"] for line in clf.report_[1:])
    with pytest.raises(ValueError, match="GaussianNB takes no sparse matrix"):
        PUClassifier(GaussianNB(), prior=0.4).fit(wide, y)
    assert PUClassifier(LogisticRegression(), random_state=0).fit(wide, y).score(wide, truth) > 0.7


def test_networks_are_left_out_of_large_tables(monkeypatch):
    monkeypatch.setattr(classifier, "MAX_NETWORK_ROWS", 500)
    clf = PUClassifier(prior=0.4, random_state=0).fit(X, y)
    assert clf.report_[-1]["learner"] == "network"
    assert "500" in clf.report_[-1]["why"]
    few = np.isin(np.arange(len(y)), np.flatnonzero(y)[:40])
    assert PUClassifier("nnpu", prior=0.4, random_state=0).fit(X, few).algorithm_ == "nnpu-c"


def test_known_negatives_and_weights():
    rng = np.random.default_rng(0)
    marks = y.astype(int) - (~truth & (rng.random(len(y)) < 0.5))
    clf = PUClassifier(prior=0.4, random_state=0).fit(X, marks)
    assert clf.classes_.tolist() == [-1, 1]
    assert clf.score(X, np.where(truth, 1, -1)) > 0.88
    words = np.array(["negative", "unlabeled", "positive"])[marks + 1]
    predicted = PUClassifier("biased-lr", prior=0.4).fit(X, words).predict(X)
    assert set(predicted) == {"negative", "positive"}
    heavy = np.where(X[:, 0] > X[:, 0].mean(), 1.0, 0.0)  # half of the rows count
    for algorithm in (LogisticRegression(), "auto"):
        one, two = (
            PUClassifier(algorithm, prior=0.4, random_state=0).fit(X, y, w)
            for w in (heavy, np.ones(len(X)))
        )
        assert not np.allclose(one.decision_function(X), two.decision_function(X))
    with pytest.raises(ValueError, match="leaves only one class"):
        PUClassifier(prior=0.4).fit(X, y, sample_weight=(~y).astype(float))


def test_a_part_of_many_rows_is_used():
    A, s, t = table(4000, prior=0.4, labeled=0.1, seed=3)
    clf = PUClassifier(LogisticRegression(), prior=0.4, max_samples=500, random_state=0).fit(A, s)
    assert clf.score(A, t) > 0.88  # the labeled ones are kept, the rate stays that of all rows
    assert abs(clf.predict_proba(A)[:, 1].mean() - 0.4) < 0.05
    report = clf.sensitivity(A, s)
    assert report[0]["pa"] == pytest.approx(PUScorer("pa")(clf, A, s), abs=0.05)


def test_the_default_on_a_real_table():
    frame, target = load_breast_cancer(return_X_y=True, as_frame=True)
    malignant = (target == 0).to_numpy()
    labeled = malignant & (np.random.default_rng(0).random(len(frame)) < 0.3)
    clf = PUClassifier(random_state=0).fit(frame, labeled)
    assert abs(clf.prior_ - malignant.mean()) < 0.1
    assert clf.prior_interval_[0] < malignant.mean() < clf.prior_interval_[1]
    assert clf.score(frame, malignant) > 0.9


# -- batch by batch --------------------------------------------------------------------------------

BX, by, btruth = table(1200, prior=0.4, labeled=0.5, seed=1)


@pytest.mark.parametrize("base", [SGD, GaussianNB()], ids=["sgd", "bayes"])
def test_batch_by_batch(base):
    clf = PUClassifier(base, prior=0.4, random_state=0)
    for part, labels in zip(np.array_split(BX, 4), np.array_split(by, 4), strict=True):
        assert clf.partial_fit(part, labels) is clf
    new, _, label = table(1200, prior=0.4, seed=2)
    assert clf.score(new, label) > 0.9
    assert abs(clf.predict_proba(new)[:, 1].mean() - 0.4) < 0.08
    assert clf.batches_.rows == 1200
    assert clf.report_[0]["learner"] == type(base).__name__.lower()
    assert sum(map(len, clf.batches_.kept)) == pytest.approx(120, abs=8)  # never fitted to
    before = clf.decision_function(new)
    clf.partial_fit(BX[~by][:50], np.zeros(50))  # unlabeled rows only
    assert not np.array_equal(before, clf.decision_function(new))


def test_batches_after_a_fit_in_frames_and_sparse():
    frame = pd.DataFrame(BX, columns=["a", "b", "c"]).assign(town=np.where(btruth, "A", "B"))
    words = np.where(by, "positive", "unlabeled")
    clf = PUClassifier(SGD, prior=0.4, random_state=0).fit(frame[:600], words[:600])
    first = clf.predict_proba(frame)
    unseen = frame[600:].assign(town="C")
    clf.partial_fit(unseen, words[600:], sample_weight=np.ones(600))
    assert not np.array_equal(first, clf.predict_proba(frame))
    assert set(clf.predict(frame)) == {"positive", "unlabeled"}
    with pytest.raises(ValueError, match="'maybe'"):
        clf.partial_fit(frame[:2], ["maybe", "positive"])
    wide = sparse.csr_matrix(BX)
    thin = PUClassifier(SGD, prior=0.4, random_state=0)
    for part in (slice(0, 600), slice(600, 1200)):
        thin.partial_fit(wide[part], by[part])
    assert thin.score(wide, btruth) > 0.85
    marks = by.astype(int) - (~btruth & (np.arange(len(by)) % 4 == 0))
    known = PUClassifier(SGD, prior=0.4, random_state=0)
    assert known.partial_fit(BX, marks).partial_fit(BX, marks).classes_.tolist() == [-1, 1]


def test_a_batch_of_one_kind_after_a_fit_keeps_threshold_and_probabilities():
    clf = PUClassifier(SGD, prior=0.4, random_state=0).fit(BX, by)
    before = clf.model_.posterior
    clf.partial_fit(BX[~by][:50], np.zeros(50))
    assert clf.model_.posterior is before


def test_no_batches_if_the_learner_has_none():
    for algorithm in ("auto", "nnpu", LogisticRegression()):
        assert not hasattr(PUClassifier(algorithm), "partial_fit")
    with pytest.raises(ValueError, match="there are no labeled positives"):
        PUClassifier(SGD).partial_fit(BX, np.zeros(len(BX)))


def test_metadata_is_routed():
    weight = np.where(BX[:, 0] > BX[:, 0].mean(), 1.0, 0.01)
    grid = {"threshold": ["model", "pa"]}
    with sklearn.config_context(enable_metadata_routing=True):
        clf = PUClassifier(LogisticRegression(), prior=0.4, random_state=0)
        plain = GridSearchCV(clf, grid, scoring=PUScorer("f1"), cv=2).fit(BX, by)
        asking = PUClassifier(**clf.get_params(deep=False)).set_fit_request(sample_weight=True)
        asked = GridSearchCV(asking, grid, scoring=PUScorer("f1"), cv=2)
        asked.fit(BX, by, sample_weight=weight)
        assert not np.array_equal(asked.decision_function(BX), plain.decision_function(BX))
        network = {"prior": 0.4, "steps": 10, "members": 1}
        from puarena import PUNetClassifier

        search = PUSearch(PUNetClassifier(**network), n_iter=1).set_fit_request(sample_weight=True)
        inside = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), search)
        assert inside.fit(BX, by, sample_weight=weight).predict(BX).shape == by.shape
        assert PUClassifier(SGD).set_partial_fit_request(sample_weight=True) is not None


@pytest.mark.parametrize("estimator", [PUClassifier, PUNetClassifier])
def test_ways_to_read_text(estimator):
    with pytest.raises(InvalidParameterError, match="nonsense"):
        estimator(text="nonsense").fit(X, y)


def test_a_table_of_nothing_but_text():
    frame, cars = notes()
    labeled = cars & (np.arange(len(frame)) % 2 == 0)
    assert estimate_prior(frame[["note"]], labeled).value == pytest.approx(cars.mean(), abs=0.1)
    clf = PUClassifier("elkan-noto", random_state=0).fit(frame[["note"]], labeled)
    assert (clf.predict(frame[["note"]]) == cars).mean() > 0.9
