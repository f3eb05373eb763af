"""Progress, batches, weights, threads, notebooks, and pipelines kept without pickle."""

from __future__ import annotations

import json
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_selection import VarianceThreshold
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.metrics import precision_score
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    PolynomialFeatures,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)

from practice_tables import quick, table
from puarena import PUClassifier, PUScorer, PUSearch, UserError, load_model, save_model
from puarena.estimators import choosing, learners
from puarena.estimators.network_fit import SettingWarning

X, y, truth = table(1200, prior=0.4, labeled=0.5, seed=1)
SGD = SGDClassifier(loss="log_loss", random_state=0)


def batches(n=4):
    return zip(np.array_split(X, n), np.array_split(y, n), strict=True)


@pytest.mark.parametrize("base", [SGD, GaussianNB()], ids=["sgd", "bayes"])
def test_batch_by_batch(base):
    clf = PUClassifier(base, prior=0.4, random_state=0)
    for part, labels in batches():
        assert clf.partial_fit(part, labels) is clf
    new, _, label = table(1200, prior=0.4, seed=2)
    assert clf.score(new, label) > 0.9
    assert abs(clf.predict_proba(new)[:, 1].mean() - 0.4) < 0.08
    assert clf.stream_.rows == 1200
    assert clf.report_[0]["learner"] == type(base).__name__.lower()
    held = sum(side.shape[0] for side in clf.stream_.held)
    assert held == pytest.approx(120, abs=8)  # a tenth was never learned from
    before = clf.decision_function(new)
    clf.partial_fit(X[~y][:50], np.zeros(50))  # unlabeled rows only
    assert not np.array_equal(before, clf.decision_function(new))


def test_batches_after_a_fit_in_frames_and_sparse():
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(town=np.where(truth, "A", "B"))
    words = np.where(y, "positive", "unlabeled")
    clf = PUClassifier(SGD, prior=0.4, random_state=0).fit(frame[:600], words[:600])
    first = clf.predict_proba(frame)
    clf.partial_fit(
        frame[600:].assign(town="C"), words[600:], sample_weight=np.ones(600)
    )  # an unseen value
    assert not np.array_equal(first, clf.predict_proba(frame))
    assert set(clf.predict(frame)) == {"positive", "unlabeled"}
    with pytest.raises(ValueError, match="y has the value 'maybe', which no earlier batch has"):
        clf.partial_fit(frame[:2], ["maybe", "positive"])
    wide = sparse.csr_matrix(X)
    thin = PUClassifier(SGD, prior=0.4, random_state=0)
    for part in (slice(0, 600), slice(600, 1200)):
        thin.partial_fit(wide[part], y[part])
    assert thin.score(wide, truth) > 0.85
    marks = y.astype(int) - (~truth & (np.arange(len(y)) % 4 == 0))
    known = PUClassifier(SGD, prior=0.4, random_state=0).partial_fit(X, marks).partial_fit(X, marks)
    assert known.classes_.tolist() == [-1, 1]


def test_no_batches_where_the_learner_has_none():
    for algorithm in ("auto", "nnpu", LogisticRegression()):
        assert not hasattr(PUClassifier(algorithm), "partial_fit")
    with pytest.raises(ValueError, match="there are no labeled positives"):
        PUClassifier(SGD).partial_fit(X, np.zeros(len(X)))


def test_progress_of_networks_is_told(capsys):
    quick(steps=100, verbose=1).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("PUClassifier: prior 0.5")
    assert lines[1:] == [f"PUClassifier: nnpu-c: step {step} of 100" for step in range(10, 101, 10)]
    quick(steps=20).fit(X, y)
    PUClassifier("bagging-pu", prior=0.4, random_state=0).fit(X, y)
    assert capsys.readouterr().out == ""


def test_threads_reach_the_classic():
    classic = PUClassifier("bagging-pu", n_jobs=2, verbose=3)._learners()[0].estimator
    assert (classic.n_jobs, classic.verbose) == (2, 3)
    assert PUClassifier("spies", n_jobs=2)._learners()[0].name == "spies"


def test_notebooks_show_prior_and_learner():
    clf = PUClassifier(LogisticRegression(), prior=0.4)
    assert "prior 0.4" not in clf._repr_mimebundle_()["text/html"]
    clf.fit(X, y)
    for html in (
        clf._repr_html_(),
        clf._repr_mimebundle_()["text/html"],
    ):  # a notebook asks for the second
        assert "prior 0.400 (0.400 to 0.400); learner: logisticregression" in html
    search = PUSearch(quick(prior=0.4, steps=20), n_iter=2, random_state=0).fit(X, y)
    assert "Chosen by PA; prior 0.400" in search._repr_mimebundle_()["text/html"]
    with sklearn.config_context(display="text"):
        assert set(clf._repr_mimebundle_()) == {"text/plain"}


def test_a_base_that_nothing_wraps_is_refused():
    for algorithm in ("nnpu", "auto", "puet", LogisticRegression()):
        with pytest.raises(ValueError, match="base=RandomForestClassifier has no use with"):
            PUClassifier(algorithm, base=RandomForestClassifier()).fit(X, y)


def test_a_one_sample_method_on_two_samples_warns():
    for name, words in (("nnpu-c", "use the plain form"), ("lbe", "it may be biased")):
        with pytest.warns(SettingWarning, match=words):
            PUClassifier(name, setting="two-sample")._registered()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert PUClassifier("nnpu-c")._registered() == "nnpu-c"
        assert PUClassifier("pan", setting="two-sample")._registered() == "pan"


def test_a_named_network_takes_a_large_table_with_few_labels(monkeypatch):
    for room in (learners, choosing):
        monkeypatch.setattr(room, "MANY", 1000)
    few = np.isin(np.arange(len(y)), np.flatnonzero(y)[:40])
    clf = PUClassifier("nnpu", prior=0.4, steps=30, random_state=0).fit(X, few)
    assert len(clf.ensemble_.parts[0].members) == 5
    auto = PUClassifier(prior=0.4, random_state=0).fit(X, y)
    assert auto.report_[-1]["why"] == "left out of tables with more than 1,000 rows"


def test_a_search_with_few_labels_is_calibrated_on_held_out_rows():
    few = np.isin(np.arange(len(y)), np.flatnonzero(y)[:60])
    base = PUClassifier("nnpu", prior=0.4, steps=60, batch_size=32, random_state=0)
    search = PUSearch(base, n_iter=2, random_state=0).fit(X, few)
    assert len(search.best_estimator_.ensemble_.parts[0].members) == 5
    assert abs(search.predict_proba(X)[:, 1].mean() - 0.4) < 0.1
    same = PUClassifier(**search.best_estimator_.get_params()).fit(X, few)
    np.testing.assert_array_equal(same.predict_proba(X), search.predict_proba(X))
    assert hasattr(
        PUSearch(quick(prior=0.4), n_iter=2).fit(X, few).best_estimator_, "model_"
    )  # members=1


def test_a_search_takes_weights_and_only_networks():
    base = PUClassifier("nnpu", prior=0.4, steps=30, batch_size=32, members=1, random_state=0)
    heavy = np.where(X[:, 0] > X[:, 0].mean(), 1.0, 0.01)
    one, two = (PUSearch(base, n_iter=1, random_state=0).fit(X, y, w) for w in (heavy, None))
    assert not np.array_equal(one.decision_function(X), two.decision_function(X))
    for other in (PUClassifier(LogisticRegression()), PUClassifier("bagging-pu")):
        with pytest.raises(ValueError, match="tries configurations of networks"):
            PUSearch(other).fit(X, y)


def test_metadata_is_routed():
    weight = np.where(X[:, 0] > X[:, 0].mean(), 1.0, 0.01)
    with sklearn.config_context(enable_metadata_routing=True):
        clf = PUClassifier(LogisticRegression(), prior=0.4, random_state=0)
        grid = {"threshold": ["model", "pa"]}
        asked = GridSearchCV(
            clf.set_fit_request(sample_weight=True), grid, scoring=PUScorer("f1"), cv=2
        )
        asked.fit(X, y, sample_weight=weight)
        plain = GridSearchCV(
            PUClassifier(**clf.get_params(deep=False)), grid, scoring=PUScorer("f1"), cv=2
        ).fit(X, y)
        assert not np.array_equal(asked.decision_function(X), plain.decision_function(X))
        search = PUSearch(quick(steps=10), n_iter=1).set_fit_request(sample_weight=True)
        inside = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), search)
        assert inside.fit(X, y, sample_weight=weight).predict(X).shape == y.shape
        assert PUClassifier(SGD).set_partial_fit_request(sample_weight=True) is not None


def test_known_negatives_count_in_scores_of_one_sample():
    rng = np.random.default_rng(0)
    score = rng.normal(size=60_000) + 1.5 * (label := rng.random(60_000) < 0.3) - 1
    marks = (label & (rng.random(60_000) < 0.3)).astype(int) - (~label & (rng.random(60_000) < 0.5))
    clf = LogisticRegression().fit(score[:, None], label.astype(int) * 2 - 1)
    value = PUScorer("precision", prior=0.3, setting="one-sample")(clf, score[:, None], marks)
    assert value == pytest.approx(
        precision_score(label, clf.predict(score[:, None]) == 1), abs=0.02
    )


STEPS = [
    StandardScaler(),
    MinMaxScaler((0, 2)),
    MaxAbsScaler(),
    RobustScaler(),
    Normalizer(),
    PCA(2),
    SimpleImputer(),
    QuantileTransformer(n_quantiles=20, random_state=0),
    VarianceThreshold(),
    "passthrough",
]


@pytest.mark.parametrize("step", STEPS, ids=str)
def test_a_pipeline_is_kept_without_pickle(step, tmp_path):
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    if isinstance(step, SimpleImputer):
        frame.loc[::9, "a"] = np.nan
    whole = make_pipeline(step, quick(prior=0.4, steps=20)).fit(frame, y)
    again = load_model(save_model(whole, tmp_path))
    np.testing.assert_allclose(again.predict_proba(frame), whole.predict_proba(frame), rtol=1e-12)
    assert [name for name, _ in again.steps] == [name for name, _ in whole.steps]


def test_steps_that_cannot_be_kept(tmp_path):
    search = PUSearch(
        make_pipeline(PolynomialFeatures(), quick(prior=0.4, steps=20)), n_iter=1
    ).fit(X, y)
    with pytest.raises(UserError, match=r"\(PolynomialFeatures\) cannot be written without pickle"):
        search.save(tmp_path / "a")
    filled = make_pipeline(SimpleImputer(add_indicator=True), quick(prior=0.4, steps=20)).fit(X, y)
    with pytest.raises(UserError, match="MissingIndicator"):
        save_model(filled, tmp_path / "a")
    assert not (tmp_path / "a").exists()
    folder = save_model(
        make_pipeline(StandardScaler(), quick(prior=0.4, steps=20)).fit(X, y), tmp_path / "b"
    )
    about = json.loads((folder / "model.json").read_text())
    assert about["format_version"] == 3
    for change, words in (
        ({"kind": "Popen"}, "is a Popen"),
        ({"values": {"__class__": 1}}, "attributes that are none"),
    ):
        first, last = about["steps"]
        (folder / "model.json").write_text(
            json.dumps({**about, "steps": [{**first, **change}, last]})
        )
        with pytest.raises(UserError, match=words):
            load_model(folder)


def test_trees_walk_as_their_nodes_are_written():
    gaps = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X)
    own = PUClassifier(prior=0.4, random_state=0)._table(gaps, y)
    forest = learners.Trees().fit(own, np.arange(len(y)), np.random.RandomState(0))
    again = pickle.loads(pickle.dumps(forest))
    np.testing.assert_array_equal(again.score(None, gaps), forest.score(None, gaps))
    slow = np.zeros(len(gaps))
    for start in forest.start:
        for at, row in enumerate(gaps.astype(np.float32)):
            node = start
            while forest.left[node] >= 0:
                value = row[forest.feature[node]]
                left = (
                    forest.missing_left[node]
                    if np.isnan(value)
                    else value <= forest.threshold[node]
                )
                node = forest.left[node] if left else forest.right[node]
            slow[at] += forest.value[node]
    chance = (slow + 0.5) / (len(forest.start) + 1)
    np.testing.assert_allclose(forest.score(None, gaps), np.log(chance / (1 - chance)))
    with pytest.raises(ValueError, match="its trees ask for feature"):
        forest.score(None, gaps[:, :1])
