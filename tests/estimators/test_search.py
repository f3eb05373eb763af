"""PUSearch: many configurations as a few fleets, chosen without negatives."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pu_tables import quick, table
from puarena import PUClassifier, PUNetClassifier, PUSearch, UserError
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
    progress = [line for line in lines if line.startswith("PUNetClassifier: dist-pu-c (")]
    assert len(progress) == 12  # two fleets of 60 steps, six records each
    results = [line for line in lines if line not in progress]
    assert len(results) == 6
    assert results[1].split()[0] == "1"


def test_the_winner_is_what_a_fit_with_its_parameters_gives():
    search = PUSearch(quick(), n_iter=3, random_state=1).fit(X, y)
    alone = clone(search.best_estimator_).fit(X, y)
    found, expected = search.decision_function(X), alone.decision_function(X)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)


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
    with pytest.raises(UserError) as error:
        PUSearch(quick(lr=1e20), n_iter=1).fit(X, y)
    assert error.value.code == "no-results"


def test_a_pipeline_is_searched_as_a_whole():
    base = PUNetClassifier("nnpu", prior=0.4, steps=40, random_state=0)
    search = PUSearch(make_pipeline(StandardScaler(), base), n_iter=2, random_state=0).fit(X, y)
    assert search.prior_ == 0.4
    assert search.score(X, truth) > 0.8


def test_with_few_labels_the_winner_is_an_ensemble():
    few = np.isin(np.arange(len(y)), np.flatnonzero(y)[:60])
    base = PUNetClassifier("nnpu", prior=0.4, steps=60, batch_size=32, random_state=0)
    search = PUSearch(base, n_iter=2, random_state=0).fit(X, few)
    assert len(search.best_estimator_.model_.parts[0].models) == 5
    assert abs(search.predict_proba(X)[:, 1].mean() - 0.4) < 0.1
    same = PUNetClassifier(**search.best_estimator_.get_params()).fit(X, few)
    np.testing.assert_array_equal(same.predict_proba(X), search.predict_proba(X))
    single = PUSearch(quick(prior=0.4), n_iter=2).fit(X, few).best_estimator_  # members=1
    assert len(single.model_.parts[0].models) == 1


def test_a_search_takes_weights():
    heavy = np.where(X[:, 0] > X[:, 0].mean(), 1.0, 0.01)
    one, two = (PUSearch(quick(), n_iter=1, random_state=0).fit(X, y, w) for w in (heavy, None))
    assert not np.array_equal(one.decision_function(X), two.decision_function(X))


@pytest.mark.parametrize(
    "search, code",
    [
        (PUSearch(quick(), space={"betta": [1]}), "unknown-name"),
        (PUSearch(quick(), algorithms=[]), "invalid-value"),
        (PUSearch(quick(), algorithms=["bagging-pu"]), "not-supported"),
        (PUSearch(PUClassifier("nnpu")), "invalid-value"),
        (PUSearch(LogisticRegression()), "invalid-value"),
    ],
)
def test_bad_searches(search, code):
    with pytest.raises(UserError) as error:
        search.fit(X, y)
    assert error.value.code == code


def test_parameters_and_state():
    with pytest.raises(ValueError, match="'n_iter' parameter of PUSearch"):
        PUSearch(quick(), n_iter=0).fit(X, y)
    with pytest.raises(NotFittedError):
        PUSearch(quick()).predict(X)
    assert clone(PUSearch(quick(), n_iter=3)).n_iter == 3
