"""What the classics share: checked input, a wrapped classifier, predictions from a probability."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

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


@dataclass(frozen=True)
class ClassicForm:
    """A form of a classic that experiments run under a registered name.

    Attributes:
        parameters: the parameters of the estimator; ``prior`` is added if it is needed.
        setting: the setting it assumes: "one-sample" or "two-sample".
        calibrates: the name of the plain form, if this is its calibrated one.
    """

    name: str
    title: str
    description: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    setting: str = "one-sample"
    needs_prior: bool = False
    calibrates: str = ""


class PUWrapper(ClassifierMixin, BaseEstimator):
    """Base of classifiers of positives against negatives from positive and unlabeled rows.

    ``y``: 1 or True is a labeled positive; 0, -1 or False is unlabeled. With all of 1, 0 and -1 (or
    the words positive, unlabeled and negative), -1 is a known negative. Other text needs
    ``positive_label``. ``X``: what the wrapped classifier accepts, such as missing values, sparse
    matrices and data frames with text.

    Subclasses are dataclasses whose fields are the parameters, and define ``_fit`` and
    ``_predict_positive``.

    Attributes:
        paper: authors, title, venue and year.
        differs: how it differs from the published code.
        forms: the forms that experiments run.
        minutes_on_images: minutes of one core for one run on images, if they are many.
    """

    paper: ClassVar[str] = ""
    differs: ClassVar[str] = ""
    forms: ClassVar[tuple[ClassicForm, ...]] = ()
    minutes_on_images: ClassVar[int] = 0

    estimator: Any
    positive_label: Any
    random_state: Any

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> PUWrapper:
        """Fit to features and labels; the class docstring says what the labels mean."""
        X, y = self._check_input(X, y)
        check_classification_targets(y)
        labels = read_labels(y, self.positive_label)
        self.classes_ = labels.classes
        weight = None
        if sample_weight is not None:
            weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
        check_weights(weight, labels.positive)
        self._fit(X, labels, weight, check_random_state(self.random_state))
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Return the probabilities of the two classes, ``[n, 2]``."""
        check_is_fitted(self)
        p = np.clip(self._predict_positive(self._check_input(X)), 0.0, 1.0)
        return np.column_stack([1 - p, p])

    def decision_function(self, X: Any) -> Floats:
        """Return how far the probability of the positive class is above one half."""
        return np.asarray(self.predict_proba(X)[:, 1] - 0.5)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the more probable class."""
        positive = self.decision_function(X) > 0
        return np.asarray(self.classes_[positive.astype(int)])

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags: two classes, and the input of the wrapped classifier."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        if hasattr(self, "estimator"):
            inner = get_tags(self._get_estimator()).input_tags
            tags.input_tags.sparse, tags.input_tags.allow_nan = inner.sparse, inner.allow_nan
        return tags

    def _fit(
        self, X: Any, labels: Labels, weight: Floats | None, rng: np.random.RandomState
    ) -> None:
        raise NotImplementedError

    def _predict_positive(self, X: Any) -> Floats:
        """Return the probability of the positive class; values outside 0 to 1 are clipped."""
        raise NotImplementedError

    def _check_input(self, X: Any, y: Any = "no_validation") -> Any:
        """Check the input as far as the wrapped classifier does not.

        A frame with text is passed on unchanged.
        """
        is_fit = not isinstance(y, str)
        if hasattr(X, "columns") and not all(_is_number(kind) for kind in X.dtypes):
            validate_data(self, X, reset=is_fit, skip_check_array=True)
            if not is_fit:
                return X
            y = column_or_1d(y)
            check_consistent_length(X, y)
            return X, y
        tags = self.__sklearn_tags__().input_tags
        return validate_data(
            self,
            X,
            y,
            reset=is_fit,
            dtype=np.float64,
            accept_sparse=["csr"] if tags.sparse else False,
            ensure_all_finite="allow-nan" if tags.allow_nan else True,
        )

    def _get_estimator(self) -> Any:
        return self._make_default() if self.estimator is None else self.estimator

    def _clone_estimator(self, rng: np.random.RandomState) -> Any:
        """Return an unfitted copy of the wrapped classifier with seeds from ``rng``."""
        model = clone(self._get_estimator())
        seeds = set()
        for key in model.get_params():
            if key == "random_state" or key.endswith("__random_state"):
                seeds.add(key)
        return model.set_params(**{key: int(rng.randint(2**31 - 1)) for key in sorted(seeds)})

    def _make_default(self) -> Any:
        """Return the classifier that is wrapped by default: logistic regression, scaled."""
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))


def _is_number(kind: Any) -> bool:
    """Return whether a column type of pandas or polars is numbers or bools."""
    if hasattr(kind, "is_numeric"):
        return bool(kind.is_numeric())
    return isinstance(kind, np.dtype) and kind.kind in "iufb"


def take_rows(X: Any, index: Index) -> Any:
    """Return rows of a matrix or a frame, each as often as ``index`` names it."""
    return _safe_indexing(X, index)


def fit_weighted(
    model: Any, X: Any, y: npt.NDArray[Any], weight: Floats | None, partly: bool = False
) -> Any:
    """Fit with sample weights, if there are any; in a pipeline, the last step receives them.

    With ``partly`` the model continues to learn from rows of the classes 0 and 1.
    """
    if partly and weight is None:
        return model.partial_fit(X, y, classes=np.array([0, 1]))
    if weight is None:
        return model.fit(X, y)
    steps = getattr(model, "steps", None)
    last = steps[-1][1] if steps else model
    if not has_fit_parameter(last, "sample_weight"):
        raise ValueError(
            f"{type(last).__name__} takes no sample_weight, which this method needs; use another "
            "estimator"
        )
    if partly:
        return model.partial_fit(X, y, classes=np.array([0, 1]), sample_weight=weight)
    name = f"{steps[-1][0]}__sample_weight" if steps else "sample_weight"
    return model.fit(X, y, **{name: weight})


def predict_positive(model: Any, X: Any) -> Floats:
    """Return a fitted classifier's probability of class 1 (True).

    Without ``predict_proba``, it is the logistic function of the decision value.
    """
    if hasattr(model, "predict_proba"):
        where = np.flatnonzero(np.asarray(model.classes_) == 1)
        proba = model.predict_proba(X)
        return np.asarray(proba[:, where[0]] if len(where) else np.zeros(len(proba)), float)
    return np.asarray(1 / (1 + np.exp(-np.asarray(model.decision_function(X), float))))
