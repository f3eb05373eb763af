"""A PU sample as the prior estimators see it: positives, unlabeled rows, and out-of-fold scores of P against U."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from puarena.data import labelling

Floats: TypeAlias = npt.NDArray[np.float64]
Index: TypeAlias = npt.NDArray[np.int64]
# From a resample of the positives and of the unlabeled rows (None: all of them) to the share of positives inside U.
Share: TypeAlias = Callable[[Index | None, Index | None], float]


class PriorWarning(UserWarning):
    """An estimate of the class prior that should not be trusted as it stands."""


@dataclass(frozen=True)
class Method:
    """An estimator of the share of positives inside U: its name, where it is from, and how it is prepared.

    ``prepare`` does the expensive part once and returns the estimate as a function of a resample of P and of U;
    ``bootstraps`` is the number of resamples it can afford by default.
    """

    name: str
    paper: str
    prepare: Callable[..., Share]
    bootstraps: int
    options: tuple[str, ...] = ()


@dataclass
class Sample:
    """Labeled positives and unlabeled rows; whatever several methods need is computed once."""

    x_p: Floats
    x_u: Floats
    estimator: Any = None  # a scikit-learn classifier, told P from U; None: ``default_estimator``
    folds: int = 5
    random_state: int = 0
    notes: list[str] = field(default_factory=list)

    @cached_property
    def scores(self) -> tuple[Floats, Floats]:
        """Out-of-fold probabilities of being labeled, of P and of U."""
        return out_of_fold(self.x_p, self.x_u, self.estimator, self.folds, self.random_state)

    @cached_property
    def logits(self) -> tuple[Floats, Floats]:
        """The scores as log-odds, kept finite."""
        p, u = (np.clip(s, 1e-6, 1 - 1e-6) for s in self.scores)
        return np.log(p / (1 - p)), np.log(u / (1 - u))

    @cached_property
    def scaled(self) -> tuple[Floats, Floats]:
        """The features with mean 0 and variance 1, constant ones left out."""
        everything = np.vstack([self.x_p, self.x_u])
        mean, spread = everything.mean(0), everything.std(0)
        keep = spread > 1e-12 * (1 + np.abs(mean))
        if not keep.any():
            raise ValueError("all features are constant, so nothing tells positive rows from unlabeled ones")
        scale = spread[keep]
        return (self.x_p[:, keep] - mean[keep]) / scale, (self.x_u[:, keep] - mean[keep]) / scale

    def points(self, space: str) -> tuple[Floats, Floats]:
        """P and U as the kernel methods see them: scaled features, or the log-odds as the one feature."""
        if space not in ("scores", "features"):
            raise ValueError(f"space is {space!r}; choose one of: scores, features")
        if space == "features":
            return self.scaled
        p, u = self.logits
        scale = float(np.concatenate([p, u]).std()) or 1.0
        return p[:, None] / scale, u[:, None] / scale

    @property
    def rng(self) -> np.random.Generator:
        """A fresh generator: what a method draws does not depend on which ran before it."""
        return np.random.default_rng(self.random_state)


def default_estimator(random_state: int = 0) -> Any:
    """The classifier of P against U when none is given.

    Chosen on Letter, where extra trees were as near the true priors and slower, and scikit-learn's network and
    logistic regression far off.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(
        max_iter=100, max_bins=64, min_samples_leaf=10, l2_regularization=1.0, random_state=random_state
    )


def out_of_fold(x_p: Floats, x_u: Floats, estimator: Any, folds: int, random_state: int) -> tuple[Floats, Floats]:
    """Score every row by a classifier of P against U that has not seen it (stratified K folds)."""
    from sklearn.base import clone
    from sklearn.model_selection import StratifiedKFold

    fewest = min(len(x_p), len(x_u))
    if fewest < 2:
        raise ValueError("out-of-fold scores need at least 2 labeled positive and 2 unlabeled rows")
    x = np.vstack([x_p, x_u])
    s = np.repeat([1, 0], [len(x_p), len(x_u)])
    model = default_estimator(random_state) if estimator is None else estimator
    score = np.empty(len(x))
    for train, held in StratifiedKFold(min(folds, fewest), shuffle=True, random_state=random_state).split(x, s):
        fitted = clone(model).fit(x[train], s[train])
        if hasattr(fitted, "predict_proba"):
            score[held] = fitted.predict_proba(x[held])[:, list(fitted.classes_).index(1)]
        else:
            score[held] = 1 / (1 + np.exp(-np.asarray(fitted.decision_function(x[held]), float)))
    return score[: len(x_p)], score[len(x_p) :]


def take(values: Floats, index: Index | None) -> Floats:
    """The values of a resample; all of them without one."""
    return values if index is None else values[index]


def share_from_c(c: float, n_p: int, n_u: int) -> float:
    """The share of positives in U if a fraction c of all positives of P and U together is in P."""
    rate = n_p / (n_p + n_u)
    return labelling.get("one-sample").prior_in_u(rate / c, rate)
