"""Choosing without negatives: PUSearch, scorers and splitters."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import scipy.stats
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from practice_tables import quick, table
from puarena import PUSearch, PUShuffleSplit, PUStratifiedKFold, proxy_accuracy, proxy_auc
from puarena.algorithms import LogUniform

X, y, truth = table()


def test_a_search_is_a_few_fleets_and_its_winner_is_fitted(capsys):
    search = PUSearch(quick("dist-pu"), n_iter=5, random_state=0, verbose=1).fit(X, y)
    assert len(search.results_) == 5
    scores = [row["pa"] for row in search.results_]
    assert search.best_score_ == max(scores)
    assert search.best_index_ == int(np.argmax(scores))
    assert sorted(row["rank"] for row in search.results_) == [1, 2, 3, 4, 5]
    assert search.results_[0]["params"]["lr"] == 0.01  # the first is the estimator itself
    assert len({row["params"]["lr"] for row in search.results_}) == 5
    assert len({row["params"]["batch_size"] for row in search.results_}) > 1
    best = search.best_estimator_
    assert best.lr == search.best_params_["lr"]
    assert best.best_score_ == search.best_score_
    assert search.score(X, truth) > 0.7
    np.testing.assert_array_equal(search.predict(X), best.predict(X))
    np.testing.assert_array_equal(search.predict_proba(X), best.predict_proba(X))
    lines = capsys.readouterr().out.splitlines()
    told = [line for line in lines if line.startswith("PUClassifier: dist-pu-c (")]
    assert len(told) == 12  # two fleets of 60 steps, six records each
    lines = [line for line in lines if line not in told]
    assert len(lines) == 6
    assert lines[1].split()[0] == "1"


def test_the_winner_is_what_a_fit_with_its_parameters_gives():
    search = PUSearch(quick(), n_iter=3, random_state=1).fit(X, y)
    alone = clone(search.best_estimator_).fit(X, y)
    np.testing.assert_allclose(
        search.decision_function(X), alone.decision_function(X), rtol=1e-3, atol=1e-3
    )


def test_spaces_of_ones_own_and_several_algorithms():
    space = {
        "lr": scipy.stats.loguniform(1e-3, 1e-1),
        "batch_size": [16, 32],
        "beta": LogUniform(-3, -1),
    }
    search = PUSearch(quick(), n_iter=4, space=space, criterion="pauc", random_state=0).fit(X, y)
    for row in search.results_[1:]:
        assert 1e-3 <= row["params"]["lr"] <= 1e-1
        assert row["params"]["batch_size"] in (16, 32)
        assert 1e-3 <= row["params"]["hyper"]["beta"] <= 1e-1
    assert search.best_score_ == max(row["pauc"] for row in search.results_)
    both = PUSearch(quick(), algorithms=["nnpu", "vpu"], n_iter=2, random_state=0).fit(X, y)
    assert [row["algorithm"] for row in both.results_] == ["nnpu-c", "nnpu-c", "vpu-c", "vpu-c"]
    assert both.best_estimator_.algorithm in ("nnpu", "vpu")


def test_a_diverged_configuration_does_not_win():
    search = PUSearch(quick(), n_iter=4, space={"lr": [1e20]}, random_state=0).fit(X, y)
    assert search.best_index_ == 0
    assert "diverged" in search.results_[1]["status"]
    assert "diverged" in search.table()
    with pytest.raises(ValueError, match="every configuration diverged"):
        PUSearch(quick(lr=1e20), n_iter=1).fit(X, y)


def test_bad_searches():
    with pytest.raises(
        ValueError, match="space has no parameter 'betta' of nnpu; did you mean 'beta'"
    ):
        PUSearch(quick(), space={"betta": [1]}).fit(X, y)
    with pytest.raises(ValueError, match="'n_iter' parameter of PUSearch"):
        PUSearch(quick(), n_iter=0).fit(X, y)
    with pytest.raises(ValueError, match="algorithms is empty"):
        PUSearch(quick(), algorithms=[]).fit(X, y)
    with pytest.raises(NotFittedError):
        PUSearch(quick()).predict(X)
    assert clone(PUSearch(quick(), n_iter=3)).n_iter == 3


def test_proxy_accuracy_is_accuracy_and_prior():
    A, s, t = table(4000, prior=0.4, labeled=0.5, seed=3)
    model = LogisticRegression(class_weight="balanced").fit(A, s)
    found = proxy_accuracy(model, A, s, prior=0.4, setting="one-sample")
    assert found == pytest.approx(0.4 + (model.predict(A) == t).mean(), abs=0.03)
    clf = quick(prior=0.4).fit(A, s)
    assert proxy_accuracy(clf, A, s) == proxy_accuracy(clf, A, s, prior=0.4, setting="one-sample")
    assert proxy_auc(model, A, s) > 0.6
    assert proxy_accuracy(make_pipeline(StandardScaler(), clf).fit(A, s), A, s) > 1


def test_scorers_in_scikit_learn():
    score = partial(proxy_accuracy, prior=0.5, setting="one-sample")
    search = GridSearchCV(
        LogisticRegression(class_weight="balanced"), {"C": [1e-4, 1.0]}, scoring=score
    ).fit(X, y)
    assert np.isfinite(search.best_score_)
    splitter = PUStratifiedKFold(3, random_state=0)
    assert (cross_val_score(quick(), X, y, scoring=proxy_auc, cv=splitter) > 0.5).all()
    with pytest.raises(
        ValueError, match="pa needs the prior, and LogisticRegression has no 'prior_'"
    ):
        proxy_accuracy(LogisticRegression().fit(X, y), X, y, setting="one-sample")
    with pytest.raises(ValueError, match="unknown setting"):
        score(LogisticRegression().fit(X, y), X, y, setting="three")


@pytest.mark.parametrize(
    "splitter", [PUStratifiedKFold(4, random_state=0), PUShuffleSplit(4, random_state=0)]
)
@pytest.mark.parametrize("labels", [y.astype(int), 2 * y.astype(int) - 1, y])
def test_splitters_keep_the_proportions(splitter, labels):
    seen = []
    for train, test in splitter.split(X, labels):
        assert len(np.intersect1d(train, test)) == 0
        assert y[test].mean() == pytest.approx(y.mean(), abs=0.02)
        seen.append(test)
    assert len(seen) == 4 == splitter.get_n_splits()
    if isinstance(splitter, PUStratifiedKFold):
        assert np.array_equal(np.sort(np.concatenate(seen)), np.arange(len(X)))


def test_splitters_with_a_named_label_and_with_too_few_rows():
    labels = np.where(y, "p", np.where(truth, "a", "b"))
    for _, test in PUStratifiedKFold(3, random_state=0, positive_label="p").split(X, labels):
        assert y[test].mean() == pytest.approx(y.mean(), abs=0.02)
    with pytest.raises(
        ValueError, match="n_splits=5 cannot be greater than the number of labeled rows, 3"
    ):
        next(PUStratifiedKFold(5).split(np.zeros((20, 1)), np.arange(20) < 3))
    with pytest.raises(ValueError, match="y is needed"):
        next(PUStratifiedKFold(5).split(X))
