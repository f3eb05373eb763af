"""What the classics share: checked input, a wrapped classifier, and predictions from one probability."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, has_fit_parameter, validate_data

from puarena.practice.labels import labeled_rows

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


class PUWrapper(ClassifierMixin, BaseEstimator):
    """A classifier of positives against negatives learned from positives and unlabeled rows.

    ``y``: 1 or True is a labeled positive, 0, -1 or False unlabeled; or any two values, of which the greater (or
    ``positive_label``) marks labeled positives. Subclasses define ``_fit`` and ``_probability``.
    """

    estimator: Any
    positive_label: Any
    random_state: Any

    def fit(self, X: Any, y: Any) -> PUWrapper:
        """Fit to features and labels; see the class for what the labels mean."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        labeled, self.classes_ = labeled_rows(y, self.positive_label)
        self._fit(X, labeled, check_random_state(self.random_state))
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of the two classes, ``[n, 2]``."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        p = np.clip(self._probability(X), 0.0, 1.0)
        return np.column_stack([1 - p, p])

    def decision_function(self, X: Any) -> Floats:
        """How far the probability of the positive class is above one half."""
        return np.asarray(self.predict_proba(X)[:, 1] - 0.5)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The more probable class."""
        positive = self.decision_function(X) > 0
        return np.asarray(self.classes_[positive.astype(int)])

    def __sklearn_tags__(self) -> Any:
        """Two classes only."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def _fit(self, X: Floats, labeled: Flags, rng: np.random.RandomState) -> None:
        raise NotImplementedError

    def _probability(self, X: Floats) -> Floats:
        raise NotImplementedError

    def _fresh(self, rng: np.random.RandomState) -> Any:
        """A new copy of the wrapped classifier (logistic regression on scaled features if none is given)."""
        model = self._default() if self.estimator is None else clone(self.estimator)
        seeds = {key for key in model.get_params() if key == "random_state" or key.endswith("__random_state")}
        return model.set_params(**{key: int(rng.randint(2**31 - 1)) for key in sorted(seeds)})

    def _default(self) -> Any:
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))


def fit_weighted(model: Any, X: Floats, y: npt.NDArray[Any], weight: Floats) -> Any:
    """Fit with sample weights; the last step of a pipeline gets them."""
    steps = getattr(model, "steps", None)
    last = steps[-1][1] if steps else model
    if not has_fit_parameter(last, "sample_weight"):
        raise ValueError(
            f"{type(last).__name__} takes no sample_weight, which this method needs; use another estimator"
        )
    name = f"{steps[-1][0]}__sample_weight" if steps else "sample_weight"
    return model.fit(X, y, **{name: weight})


def positive_probability(model: Any, X: Floats) -> Floats:
    """A fitted classifier's probability of class 1 (True); a decision value is squashed into one."""
    if hasattr(model, "predict_proba"):
        where = np.flatnonzero(np.asarray(model.classes_) == 1)
        return np.asarray(model.predict_proba(X)[:, where[0]] if len(where) else np.zeros(len(X)), float)
    return np.asarray(1 / (1 + np.exp(-np.asarray(model.decision_function(X), float))))
