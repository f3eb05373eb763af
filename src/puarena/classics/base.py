"""What the classics share: checked input, a wrapped classifier, and predictions from one probability."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import (
    _safe_indexing,
    check_consistent_length,
    check_random_state,
    column_or_1d,
    get_tags,
)
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    check_is_fitted,
    has_fit_parameter,
    validate_data,
)

from puarena.pu.labels import Labels, check_weights, read_labels

Floats = npt.NDArray[np.float64]
Index = npt.NDArray[np.int64]


class PUWrapper(ClassifierMixin, BaseEstimator):
    """A classifier of positives against negatives learned from positives and unlabeled rows.

    ``y``: 1 or True is a labeled positive, 0, -1 or False unlabeled; with all of 1, 0 and -1 (or the words positive,
    unlabeled and negative) the last are known negatives; other text needs ``positive_label``. ``X``: whatever the
    wrapped classifier takes: missing values, sparse matrices, data frames with text. Subclasses are dataclasses, whose
    fields are the parameters, and define ``_fit`` and ``_probability``.
    """

    estimator: Any
    positive_label: Any
    random_state: Any

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> PUWrapper:
        """Fit to features and labels; see the class for what the labels mean."""
        X, y = self._checked(X, y)
        check_classification_targets(y)
        labels = read_labels(y, self.positive_label)
        self.classes_ = labels.classes
        weight = (
            None
            if sample_weight is None
            else _check_sample_weight(sample_weight, X, dtype=np.float64)
        )
        check_weights(weight, labels.positive)
        self._fit(X, labels, weight, check_random_state(self.random_state))
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of the two classes, ``[n, 2]``."""
        check_is_fitted(self)
        p = np.clip(self._probability(self._checked(X)), 0.0, 1.0)
        return np.column_stack([1 - p, p])

    def decision_function(self, X: Any) -> Floats:
        """How far the probability of the positive class is above one half."""
        return np.asarray(self.predict_proba(X)[:, 1] - 0.5)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The more probable class."""
        positive = self.decision_function(X) > 0
        return np.asarray(self.classes_[positive.astype(int)])

    def __sklearn_tags__(self) -> Any:
        """Two classes only; input as the wrapped classifier has it."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        if hasattr(self, "estimator"):  # it wraps one
            inner = get_tags(self._base()).input_tags
            tags.input_tags.sparse, tags.input_tags.allow_nan = inner.sparse, inner.allow_nan
        return tags

    def _fit(
        self, X: Any, labels: Labels, weight: Floats | None, rng: np.random.RandomState
    ) -> None:
        raise NotImplementedError

    def _probability(self, X: Any) -> Floats:
        raise NotImplementedError

    def _checked(self, X: Any, y: Any = "no_validation") -> Any:
        """The input, checked as far as the wrapped classifier does not: a frame with text is handed on as it is."""
        reset = not isinstance(y, str)
        if hasattr(X, "columns") and not all(_is_number(kind) for kind in X.dtypes):
            validate_data(self, X, reset=reset, skip_check_array=True)
            if not reset:
                return X
            y = column_or_1d(y)
            check_consistent_length(X, y)
            return X, y
        tags = self.__sklearn_tags__().input_tags
        finite = "allow-nan" if tags.allow_nan else True
        return validate_data(
            self,
            X,
            y,
            reset=reset,
            dtype=np.float64,
            accept_sparse=["csr"] if tags.sparse else False,
            ensure_all_finite=finite,
        )

    def _base(self) -> Any:
        return self._default() if self.estimator is None else self.estimator

    def _fresh(self, rng: np.random.RandomState) -> Any:
        """A new copy of the wrapped classifier (logistic regression on scaled features if none is given)."""
        model = clone(self._base())
        seeds = {
            key
            for key in model.get_params()
            if key == "random_state" or key.endswith("__random_state")
        }
        return model.set_params(**{key: int(rng.randint(2**31 - 1)) for key in sorted(seeds)})

    def _default(self) -> Any:
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))


def _is_number(kind: Any) -> bool:
    """Is this the type of a column of numbers or bools, in pandas or polars?"""
    if hasattr(kind, "is_numeric"):
        return bool(kind.is_numeric())
    return isinstance(kind, np.dtype) and kind.kind in "iufb"


def rows(X: Any, index: Index) -> Any:
    """Rows of a matrix or a frame, each as often as it is named."""
    return _safe_indexing(X, index)


def fit_weighted(
    model: Any, X: Any, y: npt.NDArray[Any], weight: Floats | None, partly: bool = False
) -> Any:
    """Fit with sample weights, if there are any; the last step of a pipeline gets them.

    ``partly``: learn on, from rows of classes 0 and 1.
    """
    if partly and weight is None:
        return model.partial_fit(X, y, classes=np.array([0, 1]))
    if weight is None:
        return model.fit(X, y)
    steps = getattr(model, "steps", None)
    last = steps[-1][1] if steps else model
    if not has_fit_parameter(last, "sample_weight"):
        raise ValueError(
            f"{type(last).__name__} takes no sample_weight, which this method needs; use another estimator"
        )
    if partly:
        return model.partial_fit(X, y, classes=np.array([0, 1]), sample_weight=weight)
    name = f"{steps[-1][0]}__sample_weight" if steps else "sample_weight"
    return model.fit(X, y, **{name: weight})


def positive_probability(model: Any, X: Any) -> Floats:
    """A fitted classifier's probability of class 1 (True); a decision value is squashed into one."""
    if hasattr(model, "predict_proba"):
        where = np.flatnonzero(np.asarray(model.classes_) == 1)
        proba = model.predict_proba(X)
        return np.asarray(proba[:, where[0]] if len(where) else np.zeros(len(proba)), float)
    return np.asarray(1 / (1 + np.exp(-np.asarray(model.decision_function(X), float))))
