"""Tables of positives and unlabeled rows, and quick estimators, for the tests of estimators."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest

from puarena import PUNetClassifier

# What scikit-learn's checks require and these estimators refuse by design.
EXPECTED = {
    "check_classifiers_classes": "labels that are text need positive_label",
    "check_sample_weight_equivalence_on_dense_data": "a weight of 2 is not a row twice",
    "check_sample_weight_equivalence_on_sparse_data": "a weight of 2 is not a row twice",
}


needs_embeddings = pytest.mark.skipif(
    find_spec("wordllama") is None, reason="needs wordllama (pip install 'puarena[text]')"
)

# Words about cars and about food: those of new rows are none of those that were fitted to.
CARS = (
    "automobile engine brake tire gearbox diesel motor wheel",
    "car truck vehicle sedan highway garage fuel driver",
)
FOOD = (
    "soup onion oven butter recipe garlic bread pepper",
    "cake salad cheese kitchen chef sauce dinner tomato",
)


def notes(n: int = 300, new: bool = False) -> tuple[pd.DataFrame, np.ndarray]:
    """Return a table with texts about cars and about food, and which are about cars."""
    rng = np.random.default_rng(new)
    about = rng.random(n) < 0.5
    words = [(CARS if car else FOOD)[new].split() for car in about]
    texts = [" ".join(rng.choice(each, 6)) for each in words]
    return pd.DataFrame({"note": texts, "x": rng.normal(size=n)}), about


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
