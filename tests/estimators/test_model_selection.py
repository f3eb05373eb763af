"""Model selection without negatives: corrected metrics against the truth, scorers, splitters."""

from __future__ import annotations

from functools import partial

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
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pu_tables import quick, table
from puarena import (
    PUScorer,
    PUShuffleSplit,
    PUStratifiedKFold,
    UserError,
    proxy_accuracy,
    proxy_auc,
)
from puarena.estimators.model_selection import PU_CRITERIA, compute_criterion

X, y, truth = table()
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
    """Return scores, PU labels, and scores and truth of a marginal sample."""
    rng = np.random.default_rng(seed)
    label = rng.random(n) < prior
    score = rng.normal(size=n) + 1.5 * label - 1
    if one_sample:
        return score[:, None], (label & (rng.random(n) < 0.3)).astype(int), score, label
    labeled = rng.normal(size=n // 4) + 0.5
    marks = np.r_[np.ones(n // 4, int), np.zeros(n, int)]
    return np.r_[labeled, score][:, None], marks, score, label


# -- corrected metrics -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", TRUE)
@pytest.mark.parametrize("prior", [0.15, 0.6])
@pytest.mark.parametrize("setting", ["one-sample", "two-sample"])
def test_corrected_metrics_are_near_the_truth(name, prior, setting):
    A, s, score, label = sample(setting == "one-sample", prior)
    value = PUScorer(name, prior=prior, setting=setting)(Fixed(), A, s)
    assert value == pytest.approx(TRUE[name](label, score), abs=0.02)
    naive = TRUE[name](s, A[:, 0])  # unlabeled rows taken as negative
    if name != "recall" and prior > 0.5:
        assert abs(naive - TRUE[name](label, score)) > 0.03


def test_a_prior_that_is_too_high_flatters():
    A, s, score, label = sample(True, 0.15)
    for name in ("precision", "f1", "average-precision", "auc"):
        right, high = (
            PUScorer(name, prior=p, setting="one-sample")(Fixed(), A, s) for p in (0.15, 0.3)
        )
        assert high > right + 0.01
    recall = pytest.approx(recall_score(label, score > 0), abs=0.02)
    assert PUScorer("recall")(Fixed(), A, s) == recall


def test_known_negatives_count_in_scores_of_one_sample():
    rng = np.random.default_rng(0)
    score = rng.normal(size=60_000) + 1.5 * (label := rng.random(60_000) < 0.3) - 1
    marks = (label & (rng.random(60_000) < 0.3)).astype(int) - (~label & (rng.random(60_000) < 0.5))
    clf = LogisticRegression().fit(score[:, None], label.astype(int) * 2 - 1)
    value = PUScorer("precision", prior=0.3, setting="one-sample")(clf, score[:, None], marks)
    expected = precision_score(label, clf.predict(score[:, None]) == 1)
    assert value == pytest.approx(expected, abs=0.02)


# -- scorers ---------------------------------------------------------------------------------------


def test_every_criterion_without_true_labels_is_a_scorer():
    A, s, _, _ = sample(True, 0.3, n=2000)
    for name in PU_CRITERIA:
        assert np.isfinite(PUScorer(name, prior=0.3, setting="one-sample")(Fixed(), A, s))
    for name, options, code in (
        ("oa", {"prior": 0.3}, "unknown-name"),
        ("f1", {"prior": 1.5}, "invalid-value"),
        ("pa", {}, "missing-data"),
    ):
        with pytest.raises(UserError) as error:
            PUScorer(name, setting="one-sample", **options)(Fixed(), A, s)
        assert error.value.code == code


def test_proxy_accuracy_is_accuracy_and_prior():
    A, s, t = table(4000, prior=0.4, labeled=0.5, seed=3)
    model = LogisticRegression(class_weight="balanced").fit(A, s)
    found = proxy_accuracy(model, A, s, prior=0.4, setting="one-sample")
    assert found == pytest.approx(0.4 + (model.predict(A) == t).mean(), abs=0.03)
    clf = quick(prior=0.4).fit(A, s)
    assert proxy_accuracy(clf, A, s) == proxy_accuracy(clf, A, s, prior=0.4, setting="one-sample")
    assert proxy_auc(model, A, s) > 0.6
    assert proxy_accuracy(make_pipeline(StandardScaler(), clf).fit(A, s), A, s) > 1


def test_proxy_auc_by_hand():
    p, u = np.array([1.0, 2.0]), np.array([1.0, 0.0])
    assert compute_criterion("pauc", p, u, 0.5, True) == pytest.approx(7 / 8)


@pytest.mark.parametrize(
    "scorer",
    [
        PUScorer("f1", prior=0.5, setting="one-sample"),
        partial(proxy_accuracy, prior=0.5, setting="one-sample"),
        proxy_auc,
    ],
)
def test_scorers_in_searches_of_scikit_learn(scorer):
    grid = {"C": [1e-4, 1.0]}
    search = GridSearchCV(LogisticRegression(class_weight="balanced"), grid, scoring=scorer)
    assert 0.3 < search.fit(X, y).best_score_ <= 1.5
    splitter = PUStratifiedKFold(3, random_state=0)
    assert (cross_val_score(quick(), X, y, scoring=scorer, cv=splitter) > 0.5).all()


# -- splitters -------------------------------------------------------------------------------------


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
    with pytest.raises(ValueError, match="labeled rows, 3"):
        next(PUStratifiedKFold(5).split(np.zeros((20, 1)), np.arange(20) < 3))
    with pytest.raises(ValueError, match="y is needed"):
        next(PUStratifiedKFold(5).split(X))
