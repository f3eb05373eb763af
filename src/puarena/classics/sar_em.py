"""SAR-EM with any scikit-learn classifier.

Bekker, Robberechts, Davis: Beyond the selected completely at random assumption for learning from
positive and unlabeled data. ECML PKDD 2019.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, log_expit, logit
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from puarena.classics.wrapper import (
    ClassicForm,
    Floats,
    PUWrapper,
    fit_weighted,
    predict_positive,
    take_rows,
)
from puarena.pu.labels import Flags, Labels

WINDOW_ITERATIONS = 10  # that the stopping rule looks at
MIN_ITERATIONS = 12  # before the stopping rule applies
EDGE = 1e-15  # probabilities are kept this far from 0 and 1


@dataclass(eq=False, repr=False)
class SarEMClassifier(PUWrapper):
    """``p(labeled|x) = e(x) h(x)`` by EM, then h once more by inverse propensities (``refit``).

    ``estimator`` is h, ``propensity`` is e (both logistic regression by default) on the columns
    ``propensity_features`` (all by default). The method can only separate e from h if they differ
    in the columns they see or in what they can express. M-steps: e of labeled or not with weights
    y, h of positive or not, every row twice, y the expected label ``s + (1-s) h(1-e)/(1-he)``. It
    stops when e on the unlabeled rows and the expected likelihood change by less than ``tol`` over
    ten iterations. Refit: labeled rows as positives with weight ``1/e`` and as negatives with
    ``1 - 1/e``, which is negative; the classifier must accept that (logistic regression does).
    Text and missing values are passed on to both classifiers. For one-sample data.
    """

    paper: ClassVar[str] = (
        "Bekker, Robberechts, Davis: Beyond the selected completely at random assumption for "
        "learning from positive and unlabeled data, ECML PKDD 2019"
    )
    minutes_on_images: ClassVar[int] = 60
    forms: ClassVar[tuple[ClassicForm, ...]] = (
        ClassicForm(
            "sar-em-lr",
            "SAR-EM LR",
            "EM for ``p(s=1|x) = e(x) h(x)``, e and h logistic regressions; then h by inverse "
            "propensities.",
            {"max_iter": 30},
        ),
    )

    estimator: Any = None
    propensity: Any = None
    propensity_features: Sequence[int] | None = None
    refit: bool = True
    max_iter: int = 500
    tol: float = 1e-4
    positive_label: Any = None
    random_state: Any = None

    def _fit(
        self, X: Any, labels: Labels, weight: Floats | None, rng: np.random.RandomState
    ) -> None:
        X, labeled = _to_dense(X), labels.positive
        if self.max_iter < 1:
            raise ValueError(f"max_iter must be at least 1, and {self.max_iter!r} was given")
        x_e, s = self._take_columns(X), labeled.astype(int)
        own = np.ones(len(labeled)) if weight is None else weight
        share = float(np.average(labeled, weights=own))
        h = self._fit_h(X, s, own * np.where(labeled, 1 - share, share), rng)
        first = np.where(labels.negative, 0.0, predict_positive(h, X))
        e = self._fit_e(x_e, s, own * np.where(labeled, 1.0, first), rng)
        f, g = _clipped_logits(h, X), _clipped_logits(e, x_e)
        twice, sides = (
            take_rows(X, np.tile(np.arange(len(labeled)), 2)),
            np.repeat([1, 0], len(labeled)),
        )
        history: list[tuple[Floats, float]] = []
        self.n_iter_ = 0
        while self.n_iter_ < self.max_iter and not self._has_settled(history):
            y = np.where(labeled, 1.0, np.where(labels.negative, 0.0, posterior(f, g)))
            e = self._fit_e(x_e, s, own * y, rng)
            h = self._fit_h(twice, sides, np.concatenate([own * y, own * (1 - y)]), rng)
            f, g = _clipped_logits(h, X), _clipped_logits(e, x_e)
            history = [*history, (expit(g[~labeled]), expected_likelihood(f, g, labeled, weight))]
            self.n_iter_ += 1
        self.propensity_, self.estimator_, self.likelihood_ = e, h, history[-1][1]
        if self.refit:
            self.estimator_ = self._refit(X, labeled, expit(g[labeled]), own, rng)

    def predict_propensity(self, X: Any) -> Floats:
        """Return the probability of a label if the rows are positive."""
        return expit(_clipped_logits(self.propensity_, self._take_columns(_to_dense(X))))

    def _predict_positive(self, X: Any) -> Floats:
        return predict_positive(self.estimator_, _to_dense(X))

    def _take_columns(self, X: Any) -> Any:
        if self.propensity_features is None:
            return X
        columns = list(self.propensity_features)
        wrong = [c for c in columns if not -X.shape[1] <= c < X.shape[1]]
        if wrong or not columns:
            raise ValueError(
                f"propensity_features is {columns}, and the table has {X.shape[1]} columns, "
                "counted from 0"
            )
        return _safe_indexing(X, columns, axis=1)

    def _fit_h(self, X: Any, y: Any, weight: Floats, rng: np.random.RandomState) -> Any:
        return fit_weighted(self._clone_estimator(rng), X, y, weight)

    def _fit_e(self, x: Any, s: Any, weight: Floats, rng: np.random.RandomState) -> Any:
        if self.propensity is None:
            return fit_weighted(self._make_default(), x, s, weight)
        return fit_weighted(clone(self.propensity), x, s, weight)

    def _refit(
        self, X: Any, labeled: Flags, e: Floats, own: Floats, rng: np.random.RandomState
    ) -> Any:
        p, u = np.flatnonzero(labeled), np.flatnonzero(~labeled)
        inverse = 1 / np.maximum(e, EDGE)
        weight = np.concatenate(
            [own[labeled] * inverse, own[labeled] * (1 - inverse), own[~labeled]]
        )
        target = np.repeat([1, 0, 0], [len(p), len(p), len(u)])
        return fit_weighted(
            self._clone_estimator(rng), take_rows(X, np.concatenate([p, p, u])), target, weight
        )

    def _has_settled(self, history: list[tuple[Floats, float]]) -> bool:
        if len(history) < MIN_ITERATIONS:
            return False
        e, likelihood = zip(*history[-WINDOW_ITERATIONS:], strict=True)
        at = np.arange(WINDOW_ITERATIONS) - (WINDOW_ITERATIONS - 1) / 2
        slope = at @ np.array(e) / (at @ at)
        return bool(np.abs(slope).mean() < self.tol and max(likelihood) - likelihood[0] < self.tol)


def posterior(f: Floats, g: Floats) -> Floats:
    """Return ``h(1-e)/(1-he)``, the probability that an unlabeled row is positive, from logits."""
    return expit(f + log_expit(-g))


def expected_likelihood(
    f: Floats, g: Floats, labeled: Flags, weight: Floats | None = None
) -> float:
    """Return the mean expected log likelihood from the logits of h and e."""
    q = posterior(f, g)
    hidden = q * (log_expit(f) + log_expit(-g)) + (1 - q) * log_expit(-f)
    return float(np.average(np.where(labeled, log_expit(f) + log_expit(g), hidden), weights=weight))


def _clipped_logits(model: Any, X: Any) -> Floats:
    return np.asarray(logit(np.clip(predict_positive(model, X), EDGE, 1 - EDGE)))


def _to_dense(X: Any) -> Any:
    """Return a matrix as an array of numbers; a frame is returned unchanged."""
    if hasattr(X, "columns") and hasattr(X, "dtypes"):
        return X
    return np.asarray(X.toarray() if hasattr(X, "toarray") else X, float)
