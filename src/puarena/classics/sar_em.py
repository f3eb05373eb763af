"""SAR-EM with any scikit-learn classifier.

Bekker, Robberechts, Davis: Beyond the selected completely at random assumption for learning from positive and unlabeled
data. ECML PKDD 2019.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, log_expit, logit
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from puarena.classics.base import Floats, PUWrapper, fit_weighted, positive_probability, rows
from puarena.pu.labels import Flags, Labels

WINDOW, FIRST = 10, 12  # iterations that the rule for stopping looks at, and when it is first asked
EDGE = 1e-15  # probabilities are kept this far from 0 and 1


@dataclass(eq=False, repr=False)
class SarEMClassifier(PUWrapper):
    """``p(labeled|x) = e(x) h(x)`` by EM, then h once more by inverse propensities (``refit``).

    ``estimator`` is h, ``propensity`` is e (both logistic regression by default) on the columns ``propensity_features``
    (all by default; the method can only tell e from h apart if they differ in what they see or can express).
    M-steps: e of labeled or not with weights y, h of positive or not, every row twice, y the expected label
    ``s + (1-s) h(1-e)/(1-he)``. It stops when over ten iterations e on the unlabeled rows and the expected likelihood
    change by less than ``tol``. Refit: labeled rows as positives with weight ``1/e`` and as negatives with ``1 - 1/e``,
    which is below 0: the classifier must take that (logistic regression does). Text and gaps pass through to both
    classifiers, which must take them then. For one-sample data.
    """

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
        X, labeled = _dense(X), labels.positive
        if self.max_iter < 1:
            raise ValueError(f"max_iter must be at least 1, and {self.max_iter!r} was given")
        x_e, s = self._columns(X), labeled.astype(int)
        own = np.ones(len(labeled)) if weight is None else weight
        share = float(np.average(labeled, weights=own))
        h = self._fitted_h(X, s, own * np.where(labeled, 1 - share, share), rng)
        first = np.where(labels.negative, 0.0, positive_probability(h, X))
        e = self._fitted_e(x_e, s, own * np.where(labeled, 1.0, first), rng)
        f, g = _logits(h, X), _logits(e, x_e)
        twice, sides = rows(X, np.tile(np.arange(len(labeled)), 2)), np.repeat([1, 0], len(labeled))
        history: list[tuple[Floats, float]] = []
        self.n_iter_ = 0
        while self.n_iter_ < self.max_iter and not self._settled(history):
            y = np.where(labeled, 1.0, np.where(labels.negative, 0.0, posterior(f, g)))
            e = self._fitted_e(x_e, s, own * y, rng)
            h = self._fitted_h(twice, sides, np.concatenate([own * y, own * (1 - y)]), rng)
            f, g = _logits(h, X), _logits(e, x_e)
            history = [*history, (expit(g[~labeled]), expected_likelihood(f, g, labeled, weight))]
            self.n_iter_ += 1
        self.propensity_, self.estimator_, self.likelihood_ = e, h, history[-1][1]
        if self.refit:
            self.estimator_ = self._refitted(X, labeled, expit(g[labeled]), own, rng)

    def predict_propensity(self, X: Any) -> Floats:
        """The probability of a label, were the rows positive."""
        return expit(_logits(self.propensity_, self._columns(_dense(X))))

    def _probability(self, X: Any) -> Floats:
        return positive_probability(self.estimator_, _dense(X))

    def _columns(self, X: Any) -> Any:
        if self.propensity_features is None:
            return X
        columns = list(self.propensity_features)
        wrong = [c for c in columns if not -X.shape[1] <= c < X.shape[1]]
        if wrong or not columns:
            raise ValueError(
                f"propensity_features is {columns}, and the table has {X.shape[1]} columns, counted from 0"
            )
        return _safe_indexing(X, columns, axis=1)

    def _fitted_h(self, X: Any, y: Any, weight: Floats, rng: np.random.RandomState) -> Any:
        return fit_weighted(self._fresh(rng), X, y, weight)

    def _fitted_e(self, x: Any, s: Any, weight: Floats, rng: np.random.RandomState) -> Any:
        if self.propensity is None:
            return fit_weighted(self._default(), x, s, weight)
        return fit_weighted(clone(self.propensity), x, s, weight)

    def _refitted(
        self, X: Any, labeled: Flags, e: Floats, own: Floats, rng: np.random.RandomState
    ) -> Any:
        p, u = np.flatnonzero(labeled), np.flatnonzero(~labeled)
        inverse = 1 / np.maximum(e, EDGE)
        weight = np.concatenate(
            [own[labeled] * inverse, own[labeled] * (1 - inverse), own[~labeled]]
        )
        target = np.repeat([1, 0, 0], [len(p), len(p), len(u)])
        return fit_weighted(self._fresh(rng), rows(X, np.concatenate([p, p, u])), target, weight)

    def _settled(self, history: list[tuple[Floats, float]]) -> bool:
        if len(history) < FIRST:
            return False
        e, likelihood = zip(*history[-WINDOW:], strict=True)
        at = np.arange(WINDOW) - (WINDOW - 1) / 2
        slope = at @ np.array(e) / (at @ at)
        return bool(np.abs(slope).mean() < self.tol and max(likelihood) - likelihood[0] < self.tol)


def posterior(f: Floats, g: Floats) -> Floats:
    """``h(1-e)/(1-he)`` of the logits of h and e: the probability that an unlabeled row is positive."""
    return expit(f + log_expit(-g))


def expected_likelihood(
    f: Floats, g: Floats, labeled: Flags, weight: Floats | None = None
) -> float:
    """The mean expected log likelihood, of the logits of h and e."""
    q = posterior(f, g)
    hidden = q * (log_expit(f) + log_expit(-g)) + (1 - q) * log_expit(-f)
    return float(np.average(np.where(labeled, log_expit(f) + log_expit(g), hidden), weights=weight))


def _logits(model: Any, X: Any) -> Floats:
    return np.asarray(logit(np.clip(positive_probability(model, X), EDGE, 1 - EDGE)))


def _dense(X: Any) -> Any:
    """A matrix as an array of numbers; a frame with text is what the classifiers were chosen for."""
    if hasattr(X, "columns") and hasattr(X, "dtypes"):
        return X
    return np.asarray(X.toarray() if hasattr(X, "toarray") else X, float)
