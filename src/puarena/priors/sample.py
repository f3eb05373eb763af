"""A PU sample as the prior estimators see it: positives, unlabeled rows, and out-of-fold scores of P against U."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from puarena.pu import labeling

Floats: TypeAlias = npt.NDArray[np.float64]
Index: TypeAlias = npt.NDArray[np.int64]
# From a resample of the positives and of the unlabeled rows (None: all of them) to the share of positives inside U.
Share: TypeAlias = Callable[[Index | None, Index | None], float]


FEW = 100  # labels


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
    interval: Callable[[list[Sample]], tuple[float, float]] | None = (
        None  # its own, of the sample and refitted ones
    )


@dataclass
class Sample:
    """Labeled positives and unlabeled rows; whatever several methods need is computed once.

    ``tree_p`` and ``tree_u`` are the same rows as trees like them: missing values left in, categories as numbers.
    """

    x_p: Floats
    x_u: Floats
    estimator: Any = (
        None  # a scikit-learn classifier, told P from U; None: a linear and a boosted one
    )
    folds: int = 5
    random_state: int = 0
    notes: list[str] = field(default_factory=list)
    tree_p: Floats | None = None
    tree_u: Floats | None = None
    rate: float | None = None  # share of labeled rows, where the sample is only a part

    @property
    def fitted(self) -> bool:
        """Have the models been fitted?"""
        return "models" in self.__dict__

    def apart(self, prepare: Callable[..., Share]) -> list[float]:
        """What a method answers on the scores of each model alone."""
        answers = []
        for scores in self.models:
            alone = replace(self)
            alone.__dict__["models"] = [scores]
            answers.append(prepare(alone)(None, None))
        return answers

    @cached_property
    def models(self) -> list[tuple[Floats, Floats]]:
        """Out-of-fold probabilities of being labeled, of P and of U, by every model."""
        given = [(self.estimator, (self.x_p, self.x_u))]
        if self.estimator is None:
            few = self.x_p.shape[0] < FEW
            trees = (
                (self.x_p, self.x_u)
                if self.tree_p is None or self.tree_u is None
                else (self.tree_p, self.tree_u)
            )
            given = [
                (linear(few), (self.x_p, self.x_u)),
                (default_estimator(self.random_state), trees),
            ]
        return [out_of_fold(p, u, model, self.folds, self.random_state) for model, (p, u) in given]

    @cached_property
    def scores(self) -> tuple[Floats, Floats]:
        """Out-of-fold probabilities of being labeled, of P and of U: the mean over the models."""
        p, u = (np.mean(side, axis=0) for side in zip(*self.models, strict=True))
        return p, u

    @cached_property
    def logits(self) -> tuple[Floats, Floats]:
        """The scores as log-odds, kept finite."""
        return _logit(self.scores[0]), _logit(self.scores[1])

    @cached_property
    def ranking(self) -> tuple[Floats, Floats]:
        """The mean over the models of their log-odds, each in units of its own deviation."""
        total = np.zeros(self.x_p.shape[0] + self.x_u.shape[0])
        for scores in self.models:
            z = _logit(np.concatenate(scores))
            total += (z - z.mean()) / (z.std() or 1.0)
        return total[: self.x_p.shape[0]], total[self.x_p.shape[0] :]

    def part(self, share: float, seed: int) -> Sample:
        """A random part of both sides, to be fitted again."""
        rng = np.random.default_rng([self.random_state, seed])
        i_p, i_u = (
            np.sort(rng.permutation(side)[: max(min(2, side), round(share * side))])
            for side in (self.x_p.shape[0], self.x_u.shape[0])
        )
        trees = [
            side if side is None else side[i]
            for side, i in ((self.tree_p, i_p), (self.tree_u, i_u))
        ]
        return replace(
            self,
            x_p=self.x_p[i_p],
            x_u=self.x_u[i_u],
            folds=min(self.folds, 3),
            random_state=seed,
            notes=[],
            tree_p=trees[0],
            tree_u=trees[1],
        )

    @cached_property
    def scaled(self) -> tuple[Floats, Floats]:
        """The features with mean 0 and variance 1, constant ones left out."""
        everything = np.vstack([self.x_p, self.x_u])
        mean, spread = everything.mean(0), everything.std(0)
        keep = spread > 1e-12 * (1 + np.abs(mean))
        if not keep.any():
            raise ValueError(
                "all features are constant, so nothing tells positive rows from unlabeled ones"
            )
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


def linear(few: bool) -> Any:
    """A logistic regression, held back more where labels are few."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression(C=0.1 if few else 1.0, max_iter=300))


def default_estimator(random_state: int = 0) -> Any:
    """The boosted trees beside the linear model."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(
        max_iter=60,
        max_bins=64,
        max_leaf_nodes=15,
        min_samples_leaf=10,
        l2_regularization=1.0,
        random_state=random_state,
    )


def _logit(p: Floats) -> Floats:
    p = np.clip(p, 1e-6, 1 - 1e-6)
    return np.asarray(np.log(p / (1 - p)))


def out_of_fold(
    x_p: Floats, x_u: Floats, estimator: Any, folds: int, random_state: int
) -> tuple[Floats, Floats]:
    """Score every row by a classifier of P against U that has not seen it (stratified K folds)."""
    from scipy.sparse import vstack
    from sklearn.base import clone
    from sklearn.model_selection import StratifiedKFold

    n_p, n_u = x_p.shape[0], x_u.shape[0]
    fewest = min(n_p, n_u)
    if fewest < 2:
        raise ValueError("out-of-fold scores need at least 2 labeled positive and 2 unlabeled rows")
    x = np.vstack([x_p, x_u]) if isinstance(x_p, np.ndarray) else vstack([x_p, x_u]).tocsr()
    s = np.repeat([1, 0], [n_p, n_u])
    score = np.empty(n_p + n_u)
    for train, held in StratifiedKFold(
        min(folds, fewest), shuffle=True, random_state=random_state
    ).split(x, s):
        fitted = clone(estimator).fit(x[train], s[train])
        if hasattr(fitted, "predict_proba"):
            score[held] = fitted.predict_proba(x[held])[:, list(fitted.classes_).index(1)]
        else:
            score[held] = 1 / (1 + np.exp(-np.asarray(fitted.decision_function(x[held]), float)))
    return score[:n_p], score[n_p:]


def take(values: Floats, index: Index | None) -> Floats:
    """The values of a resample; all of them without one."""
    return values if index is None else values[index]


def share_from_c(c: float, n_p: int, n_u: int) -> float:
    """The share of positives in U if a fraction c of all positives of P and U together is in P."""
    rate = n_p / (n_p + n_u)
    return labeling.get("one-sample").prior_in_u(rate / c, rate)
