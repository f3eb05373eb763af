"""Naive classifiers: unlabeled rows are taken for negatives, as is often done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from puarena.classics.wrapper import ClassicForm, Floats, PUWrapper, fit_weighted, predict_positive
from puarena.pu.labels import Labels


@dataclass(eq=False, repr=False)
class NaiveClassifier(PUWrapper):
    """A classifier of labeled against unlabeled rows, and nothing more.

    ``boosting``: gradient boosting with scikit-learn's defaults instead of logistic regression, if
    no ``estimator`` is given.
    """

    paper: ClassVar[str] = "What is done where PU learning is not known; no paper"
    forms: ClassVar[tuple[ClassicForm, ...]] = (
        ClassicForm(
            "naive-lr", "Naive LR", "Logistic regression of labeled against unlabeled rows."
        ),
        ClassicForm(
            "naive-boosting",
            "Naive boosting",
            "Gradient boosting of labeled against unlabeled rows.",
            {"boosting": True},
        ),
    )

    estimator: Any = None
    boosting: bool = False
    positive_label: Any = None
    random_state: Any = None

    def _make_default(self) -> Any:
        from sklearn.ensemble import HistGradientBoostingClassifier

        return HistGradientBoostingClassifier() if self.boosting else super()._make_default()

    def _fit(
        self, X: Any, labels: Labels, weight: Floats | None, rng: np.random.RandomState
    ) -> None:
        target = labels.positive.astype(int)
        self.estimator_ = fit_weighted(self._clone_estimator(rng), X, target, weight)

    def _predict_positive(self, X: Any) -> Floats:
        return predict_positive(self.estimator_, X)
