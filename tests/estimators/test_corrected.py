"""Metrics corrected for PU data, against the truth by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import (
    average_precision_score,
    f1_score,
    precision_score,
    recall_score,
    roc_auc_score,
)
from sklearn.model_selection import GridSearchCV

from puarena import PUScorer
from puarena.estimators import scoring
from puarena.estimators.scoring import PRACTICAL, pu_f1

TRUE = {
    "precision": lambda label, score: precision_score(label, score > 0),
    "recall": lambda label, score: recall_score(label, score > 0),
    "f1": lambda label, score: f1_score(label, score > 0),
    "average-precision": average_precision_score,
    "auc": roc_auc_score,
}


class Fixed:
    """A classifier whose score is the one feature."""

    classes_ = np.array([0, 1])

    def decision_function(self, X):
        return X[:, 0]

    def predict(self, X):
        return (X[:, 0] > 0).astype(int)


def sample(one_sample, prior, n=60_000, seed=0):
    """Scores, PU labels, and scores and truth of a marginal sample."""
    rng = np.random.default_rng(seed)
    label = rng.random(n) < prior
    score = rng.normal(size=n) + 1.5 * label - 1
    if one_sample:
        return score[:, None], (label & (rng.random(n) < 0.3)).astype(int), score, label
    labeled = rng.normal(size=n // 4) + 0.5
    return (
        np.r_[labeled, score][:, None],
        np.r_[np.ones(n // 4, int), np.zeros(n, int)],
        score,
        label,
    )


@pytest.mark.parametrize("name", TRUE)
@pytest.mark.parametrize("prior", [0.15, 0.6])
@pytest.mark.parametrize("setting", ["one-sample", "two-sample"])
def test_corrected_metrics_are_near_the_truth(name, prior, setting):
    X, s, score, label = sample(setting == "one-sample", prior)
    value = PUScorer(name, prior=prior, setting=setting)(Fixed(), X, s)
    assert value == pytest.approx(TRUE[name](label, score), abs=0.02)
    naive = TRUE[name](s, X[:, 0])  # unlabeled rows taken as negative
    if name != "recall" and prior > 0.5:
        assert abs(naive - TRUE[name](label, score)) > 0.03


def test_a_prior_that_is_too_high_flatters():
    X, s, score, label = sample(True, 0.15)
    for name in ("precision", "f1", "average-precision", "auc"):
        right, high = (PUScorer(name, prior=p, setting="os")(Fixed(), X, s) for p in (0.15, 0.3))
        assert high > right + 0.01
    assert PUScorer("recall")(Fixed(), X, s) == pytest.approx(
        recall_score(label, score > 0), abs=0.02
    )


def test_every_practical_criterion_is_a_scorer():
    X, s, _, _ = sample(True, 0.3, n=2000)
    for name in PRACTICAL:
        assert np.isfinite(PUScorer(name, prior=0.3, setting="one-sample")(Fixed(), X, s))
    with pytest.raises(ValueError, match="works without true labels"):
        PUScorer("oa", prior=0.3, setting="one-sample")(Fixed(), X, s)
    with pytest.raises(ValueError, match="prior must be in"):
        PUScorer("f1", prior=1.5, setting="one-sample")(Fixed(), X, s)


def test_in_a_search_of_scikit_learn():
    X, s, _, _ = sample(True, 0.3, n=1000)
    scorer = PUScorer("f1", prior=0.3, setting="one-sample")
    search = GridSearchCV(
        LogisticRegression(class_weight="balanced"), {"C": [1e-3, 1.0]}, scoring=scorer
    ).fit(X, s)
    assert 0.3 < search.best_score_ <= 1
    assert pu_f1(search, X, s, prior=0.3, setting="one-sample") == scorer(search, X, s)
    assert all(
        getattr(scoring, f"pu_{n.replace('-', '_')}").__doc__.startswith("The") for n in TRUE
    )
