"""Maxent as a logistic regression: quadratic and hinge features, penalized.

Phillips, Anderson, Dudík, Schapire, Blair: Opening the black box: an open-source release of Maxent.
Ecography 40, 2017.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.linear_model import LogisticRegression

from puarena.classics.wrapper import ClassicForm, Floats, PUWrapper, predict_positive
from puarena.pu.labels import Labels

MIN_SCALE = 1e-9  # a feature with a smaller deviation is constant


@dataclass(eq=False, repr=False)
class MaxentClassifier(PUWrapper):
    """Penalized logistic regression of P against U on the squares and hinges of every feature.

    A hinge is zero on one side of a knot and rises on the other; knots are quantiles of all rows.
    Both sides have the same total weight, so its probabilities are for a share of positives of one
    half. ``knots``: hinges in each direction. ``C``: the inverse of the penalty; the default was
    chosen on species of NCEAS in Australia.
    """

    paper: ClassVar[str] = (
        "Phillips, Anderson, Dudik, Schapire, Blair: Opening the black box: an open-source release "
        "of Maxent, Ecography 2017"
    )
    differs: ClassVar[str] = (
        "a squared penalty of one strength for all features instead of the tuned absolute one of "
        "maxnet, both sides with the same weight, and no products or thresholds of features"
    )
    forms: ClassVar[tuple[ClassicForm, ...]] = (
        ClassicForm(
            "maxent",
            "Maxent-like LR",
            "Logistic regression of P against U on quadratic and hinge features, penalized.",
            setting="two-sample",
        ),
    )

    knots: int = 8
    C: float = 0.003
    positive_label: Any = None
    random_state: Any = None

    def _get_estimator(self) -> Any:
        return LogisticRegression(C=self.C, solver="newton-cholesky", max_iter=50)

    def _fit(
        self, X: Any, labels: Labels, weight: Floats | None, rng: np.random.RandomState
    ) -> None:
        if self.knots < 1 or self.C <= 0:
            raise ValueError(
                f"knots must be 1 or more and C positive, and {self.knots!r} and {self.C!r} were "
                "given"
            )
        self._place_knots(X)
        values = self._expand(X)
        self.center_, self.scale_ = values.mean(0), values.std(0)
        labeled = labels.positive
        own = np.ones(len(labeled)) if weight is None else weight
        total = np.where(labeled, own[labeled].sum(), own[~labeled].sum())
        balanced = own * len(labeled) / (2 * total)
        self.estimator_ = self._get_estimator().fit(
            self._standardize(values), labeled.astype(int), balanced
        )

    def _place_knots(self, X: Floats) -> None:
        """Put the knots of every feature; one with two values only has none."""
        shares = np.linspace(0, 1, self.knots + 2)[:-1]
        self.columns_, self.knots_ = [], []
        for at, column in enumerate(X.T):
            if len(np.unique(column)) > 2:
                places = np.unique(np.quantile(column, shares))
                self.columns_.append(at)
                self.knots_.append(places)

    def _expand(self, X: Floats) -> Floats:
        """Return the features with their squares and hinges."""
        parts = [X]
        for at, places in zip(self.columns_, self.knots_, strict=True):
            column = X[:, [at]]
            parts += [column**2, np.maximum(column - places, 0), np.maximum(places[1:] - column, 0)]
        return np.concatenate(parts, axis=1)

    def _standardize(self, values: Floats) -> Floats:
        varies = self.scale_ > MIN_SCALE
        return np.asarray((values - self.center_) / np.where(varies, self.scale_, np.inf))

    def _predict_positive(self, X: Any) -> Floats:
        return predict_positive(self.estimator_, self._standardize(self._expand(X)))
