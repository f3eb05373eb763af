"""A PU sample as the prior estimators use it, with out-of-fold scores of P against U."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from puarena.errors import PUWarning, UserError
from puarena.priors.stacking import fit_stack
from puarena.pu import labeling
from puarena.pu.labeling import Setting

Floats: TypeAlias = npt.NDArray[np.float64]
Index: TypeAlias = npt.NDArray[np.int64]
# From resampled rows of P and of U (None: all rows) to the share of positives inside U.
Share: TypeAlias = Callable[[Index | None, Index | None], float]

FEW_LABELS = 100  # with fewer, the linear model is regularized more
MIN_PROBABILITY = 1e-6  # probabilities are kept this far from 0 and 1 before the logarithm


class PriorWarning(PUWarning):
    """The estimate of the class prior is unreliable."""


@dataclass(frozen=True)
class PriorMethod:
    """An estimator of the share of positives inside U.

    ``prepare`` does the expensive part once, and returns the estimate as a function of resampled
    rows of P and of U. ``bootstraps`` is the number of resamples it can afford by default.
    ``interval``, if given, computes the interval from the sample and its refitted parts.
    """

    name: str
    paper: str
    prepare: Callable[..., Share]
    bootstraps: int
    options: tuple[str, ...] = ()
    interval: Callable[[list[Sample]], tuple[float, float]] | None = None


@dataclass
class Sample:
    """Labeled positives and unlabeled rows; what several methods need is computed once.

    ``tree_p`` and ``tree_u`` are the same rows for trees, with missing values left in and
    categories as numbers. ``estimator`` separates P from U; None: a linear and a boosted model.
    ``rate`` is the share of labeled rows in the data, if the sample is only a part of them.
    ``bounds`` is the range in which the class prior is known to lie.
    """

    x_p: Floats
    x_u: Floats
    estimator: Any = None
    folds: int = 5
    random_state: int = 0
    notes: list[str] = field(default_factory=list)
    tree_p: Floats | None = None
    tree_u: Floats | None = None
    rate: float | None = None
    setting: Setting = field(default_factory=lambda: labeling.get_setting(labeling.DEFAULT_SETTING))
    bounds: tuple[float, float] = (0.0, 1.0)

    @property
    def data_rate(self) -> float:
        """The share of labeled rows in the data."""
        n_p, n_u = self.x_p.shape[0], self.x_u.shape[0]
        return n_p / (n_p + n_u) if self.rate is None else self.rate

    @property
    def rng(self) -> np.random.Generator:
        """A new generator, so that what a method draws does not depend on other methods."""
        return np.random.default_rng(self.random_state)

    @cached_property
    def model_scores(self) -> list[tuple[Floats, Floats]]:
        """Out-of-fold probabilities of being labeled, of P and of U, by every model."""
        rows = self.x_p, self.x_u
        if self.estimator is not None:
            return [score_out_of_fold(*rows, self.estimator, self.folds, self.random_state)]
        few = self.x_p.shape[0] < FEW_LABELS
        linear, boosted = make_linear(few), make_boosted(self.random_state)
        has_trees = self.tree_p is not None and self.tree_u is not None
        tree_rows = (self.tree_p, self.tree_u) if has_trees else rows
        return [
            score_out_of_fold(*rows, linear, self.folds, self.random_state),
            score_out_of_fold(*tree_rows, boosted, self.folds, self.random_state),
        ]

    @cached_property
    def scores(self) -> tuple[Floats, Floats]:
        """Out-of-fold probabilities of being labeled, of P and of U: the mean over the models."""
        p, u = (np.mean(side, axis=0) for side in zip(*self.model_scores, strict=True))
        return p, u

    @cached_property
    def logits(self) -> tuple[Floats, Floats]:
        """The scores as log-odds, kept finite."""
        return compute_log_odds(self.scores[0]), compute_log_odds(self.scores[1])

    @cached_property
    def ranking(self) -> tuple[Floats, Floats]:
        """The standardized log-odds of the models, weighted by what each tells of the labels."""
        n_p = self.x_p.shape[0]
        columns = []
        for scores in self.model_scores:
            z = compute_log_odds(np.concatenate(scores))
            columns.append((z - z.mean()) / (z.std() or 1.0))
        values = np.column_stack(columns)
        total = values @ fit_stack(values, np.arange(len(values)) < n_p)
        return total[:n_p], total[n_p:]

    @cached_property
    def scaled(self) -> tuple[Floats, Floats]:
        """The features with mean 0 and variance 1, without constant ones."""
        pooled = np.vstack([self.x_p, self.x_u])
        mean, spread = pooled.mean(0), pooled.std(0)
        keep = spread > 1e-12 * (1 + np.abs(mean))
        if not keep.any():
            raise UserError(
                "all features are constant, so no prior can be estimated", "missing-data"
            )
        scale = spread[keep]
        return (self.x_p[:, keep] - mean[keep]) / scale, (self.x_u[:, keep] - mean[keep]) / scale

    def scale_points(self, space: str) -> tuple[Floats, Floats]:
        """Return P and U for kernel methods: scaled features, or the log-odds as one feature."""
        if space not in ("scores", "features"):
            raise UserError(f"space is {space!r}; choose one of: scores, features", "invalid-value")
        if space == "features":
            return self.scaled
        p, u = self.logits
        scale = float(np.concatenate([p, u]).std()) or 1.0
        return p[:, None] / scale, u[:, None] / scale

    def estimate_by_model(self, prepare: Callable[..., Share]) -> list[float]:
        """Return the estimates of a method from the scores of each model alone."""
        estimates = []
        for scores in self.model_scores:
            alone = replace(self)
            alone.__dict__["model_scores"] = [scores]
            estimates.append(prepare(alone)(None, None))
        return estimates

    def draw_part(self, share: float, seed: int) -> Sample:
        """Return a random part of both sides, to be scored again with at most three folds."""
        rng = np.random.default_rng([self.random_state, seed])
        chosen = []
        for side in (self.x_p.shape[0], self.x_u.shape[0]):
            size = max(min(2, side), round(share * side))
            chosen.append(np.sort(rng.permutation(side)[:size]))
        rows_p, rows_u = chosen
        return replace(
            self,
            x_p=self.x_p[rows_p],
            x_u=self.x_u[rows_u],
            folds=min(self.folds, 3),
            random_state=seed,
            notes=[],
            tree_p=None if self.tree_p is None else self.tree_p[rows_p],
            tree_u=None if self.tree_u is None else self.tree_u[rows_u],
        )


def make_linear(few_labels: bool) -> Any:
    """Return a logistic regression, regularized more if labels are few."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    penalty = 0.1 if few_labels else 1.0
    return make_pipeline(StandardScaler(), LogisticRegression(C=penalty, max_iter=300))


def make_boosted(random_state: int = 0) -> Any:
    """Return the boosted trees that are combined with the linear model."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(
        learning_rate=0.06,
        max_iter=80,
        max_bins=64,
        max_leaf_nodes=8,
        min_samples_leaf=5,
        l2_regularization=3.0,
        max_features=0.5,
        early_stopping=False,
        random_state=random_state,
    )


def score_out_of_fold(
    x_p: Any, x_u: Any, estimator: Any, folds: int, random_state: int
) -> tuple[Floats, Floats]:
    """Score every row by a classifier of P against U that was not fitted to it.

    ``sklearn.model_selection.cross_val_predict`` does the same for one of ``predict_proba`` and
    ``decision_function``; here a classifier may have either.
    """
    from scipy.sparse import vstack
    from sklearn.base import clone
    from sklearn.model_selection import StratifiedKFold

    n_p, n_u = x_p.shape[0], x_u.shape[0]
    fewest = min(n_p, n_u)
    if fewest < 2:
        raise UserError(
            "a prior can be estimated from at least 2 labeled and 2 unlabeled rows", "missing-data"
        )
    x = np.vstack([x_p, x_u]) if isinstance(x_p, np.ndarray) else vstack([x_p, x_u]).tocsr()
    labeled = np.repeat([1, 0], [n_p, n_u])
    score = np.empty(n_p + n_u)
    splitter = StratifiedKFold(min(folds, fewest), shuffle=True, random_state=random_state)
    for train, held in splitter.split(x, labeled):
        model = clone(estimator).fit(x[train], labeled[train])
        if hasattr(model, "predict_proba"):
            score[held] = model.predict_proba(x[held])[:, list(model.classes_).index(1)]
        else:
            score[held] = 1 / (1 + np.exp(-np.asarray(model.decision_function(x[held]), float)))
    return score[:n_p], score[n_p:]


def compute_log_odds(p: Floats) -> Floats:
    """Return log-odds, kept finite."""
    p = np.clip(p, MIN_PROBABILITY, 1 - MIN_PROBABILITY)
    return np.asarray(np.log(p / (1 - p)))


def take_rows(values: Floats, index: Index | None) -> Floats:
    """Return the values of resampled rows, or all values."""
    return values if index is None else values[index]


def share_from_frequency(c: float, n_p: int, n_u: int) -> float:
    """Return the share of positives in U if a fraction ``c`` of all positives is in P."""
    rate = n_p / (n_p + n_u)
    return labeling.get_setting("one-sample").prior_in_u(rate / c, rate)
