"""Bagging PU.

Mordelet, Vert: A bagging SVM to learn from positive and unlabeled examples. Pattern Recognition Letters 37, 2014.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from puarena.classics.base import Flags, Floats, PUWrapper, positive_probability


class BaggingPUClassifier(PUWrapper):
    """The mean of many classifiers, each of all positives against a random part of the unlabeled rows.

    ``sample_size``: rows of each part, drawn with replacement (None: as many as there are positives).
    ``oob_score_``: for every training row the mean over the classifiers that did not see it as negative; NaN for rows
    that all of them saw, and for the labeled ones.
    """

    def __init__(
        self,
        estimator: Any = None,
        n_estimators: int = 50,
        sample_size: int | None = None,
        positive_label: Any = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.n_estimators = n_estimators
        self.sample_size = sample_size
        self.positive_label = positive_label
        self.random_state = random_state

    def _default(self) -> Any:
        from sklearn.tree import DecisionTreeClassifier

        return DecisionTreeClassifier(min_samples_leaf=2)

    def _fit(self, X: Floats, labeled: Flags, rng: np.random.RandomState) -> None:
        if self.n_estimators < 1:
            raise ValueError(f"n_estimators must be 1 or more, and {self.n_estimators!r} was given")
        x_p, unlabeled = X[labeled], np.flatnonzero(~labeled)
        size = self.sample_size or len(x_p)
        target = np.repeat([1, 0], [len(x_p), size])
        total, times = np.zeros(len(X)), np.zeros(len(X))
        self.estimators_ = []
        for _ in range(self.n_estimators):
            taken = rng.choice(unlabeled, size)
            model = self._fresh(rng).fit(np.vstack([x_p, X[taken]]), target)
            out = np.setdiff1d(unlabeled, taken)
            if len(out):
                total[out] += positive_probability(model, X[out])
                times[out] += 1
            self.estimators_.append(model)
        self.oob_score_ = np.divide(total, times, out=np.full(len(X), np.nan), where=times > 0)

    def _probability(self, X: Floats) -> Floats:
        return np.asarray(np.mean([positive_probability(model, X) for model in self.estimators_], axis=0))
