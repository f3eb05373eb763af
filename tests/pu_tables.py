"""Tables of positives and unlabeled rows, and quick estimators, for the tests of estimators."""

from __future__ import annotations

import numpy as np

from puarena import PUNetClassifier

# What scikit-learn's checks require and these estimators refuse by design.
EXPECTED = {
    "check_classifiers_classes": "labels that are text need positive_label",
    "check_sample_weight_equivalence_on_dense_data": "a weight of 2 is not a row twice",
    "check_sample_weight_equivalence_on_sparse_data": "a weight of 2 is not a row twice",
}


def table(n: int = 400, prior: float = 0.5, labeled: float = 0.5, seed: int = 0, gap: float = 3.0):
    """Return features, which rows are labeled, and the truth (one-sample)."""
    rng = np.random.default_rng(seed)
    truth = np.arange(n) < round(prior * n)
    rng.shuffle(truth)
    X = rng.normal(size=(n, 3)) + gap * truth[:, None] / np.sqrt(3)
    return X, truth & (rng.random(n) < labeled), truth


def quick(algorithm: str = "nnpu", **params) -> PUNetClassifier:
    """Return a network classifier that trains in a moment."""
    given = {"prior": 0.5, "steps": 60, "batch_size": 32, "members": 1, "random_state": 0, **params}
    return PUNetClassifier(algorithm, **given)
