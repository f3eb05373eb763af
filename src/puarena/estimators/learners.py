"""Learners that rank rows, how they are cross-fitted, and how they are stacked.

A learner is fitted once per fold. The fits of all folds together are its model (their mean), and
every row has a score from a fit that has not seen it. So nothing is fitted twice, and learners,
thresholds and probabilities are judged on held-out rows. Networks are in
:mod:`puarena.estimators.network`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedGroupKFold
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import get_tags
from sklearn.utils.parallel import Parallel, delayed

from puarena.classics.wrapper import PUWrapper, fit_weighted, predict_positive
from puarena.errors import UserError
from puarena.estimators.calibration import PosteriorCalibration, fit_posterior
from puarena.estimators.model_selection import PU_CRITERIA, PUStratifiedKFold, compute_criterion
from puarena.priors.estimate import limit_threads
from puarena.priors.sample import FEW_LABELS, compute_log_odds, make_boosted
from puarena.priors.stacking import fit_stack
from puarena.pu.labeling import Setting
from puarena.pu.labels import Labels

Floats = npt.NDArray[np.float64]
Index = npt.NDArray[np.int64]

FOLDS = 5
TREES_PER_FOLD = 10
MAX_BAG_ROWS = 2_000  # rows of P, and of U, in the bag of a tree
LARGE_BAG_ROWS = 500  # with more in its bag, a tree splits by one of half of the columns
MANY_ROWS = 100_000  # with more, trees have larger leaves
NEGATIVE_WEIGHT = 3.0  # of a known negative, relative to an unlabeled row

BLEND = "all together"


@dataclass(frozen=True)
class EncodedRows:
    """Rows of a table as numbers.

    ``dense``, for linear models and networks, has no missing values and may be sparse. ``tree``,
    for trees, has missing values and codes of categories; it is None if ``dense`` is sparse.
    ``words``, for linear models, is sparse and there only if the table has text.
    """

    dense: Any
    tree: Any = None
    words: Any = None

    def __len__(self) -> int:
        return int(self.dense.shape[0])

    def __getitem__(self, index: Any) -> EncodedRows:
        more = (None if rows is None else rows[index] for rows in (self.tree, self.words))
        return EncodedRows(self.dense[index], *more)

    @property
    def linear(self) -> Any:
        """The form for linear models."""
        return self.dense if self.words is None else self.words


@dataclass(frozen=True)
class PUTable:
    """A table ready for learners: encoded rows, labels and the prior."""

    rows: EncodedRows
    labels: Labels
    weight: Floats | None
    prior: float
    setting: Setting
    seed: int
    rate: float  # share of labeled rows in the data, of which this table may be a part
    data_rows: int  # number of rows of the data
    propensity: Floats | None = None  # chance of a label of every row, if it is positive
    groups: npt.NDArray[Any] | None = None  # rows of one group are in one fold
    bounds: tuple[float, float] = (0.0, 1.0)  # where the prior lies
    learns_prior: bool = False  # whether it is estimated from the learners' held-out scores

    @property
    def target(self) -> npt.NDArray[np.int64]:
        """1 for labeled positives, 0 for all others."""
        return self.labels.positive.astype(np.int64)

    def compute_weights(self, rows: Index) -> Floats | None:
        """Return the weights of rows; None if all rows of the table weigh the same."""
        if self.weight is None and not self.labels.negative.any():
            return None
        own = np.ones(len(rows)) if self.weight is None else self.weight[rows]
        return own * np.where(self.labels.negative[rows], NEGATIVE_WEIGHT, 1.0)


# -- fitted models ---------------------------------------------------------------------------------


class FittedModel(Protocol):
    """A model that scores rows: larger for rows that look more positive."""

    def score(self, rows: EncodedRows) -> Floats: ...


@dataclass(frozen=True)
class FittedLinear:
    """A linear function of the form for linear models."""

    coef: Floats
    intercept: float

    def score(self, rows: EncodedRows) -> Floats:
        """Return the value of the linear function."""
        return np.asarray(rows.linear @ self.coef + self.intercept, float)


@dataclass(frozen=True)
class FittedTrees:
    """Decision trees of labeled against other rows."""

    trees: list[DecisionTreeClassifier]

    def score(self, rows: EncodedRows) -> Floats:
        """Return the log-odds of the mean probability.

        One tree's worth of one half is added, so that the log-odds stay moderate.
        """
        x = np.ascontiguousarray(rows.tree, np.float32)
        total = np.zeros(len(x))
        for tree in self.trees:
            chance = tree.predict_proba(x, check_input=False)
            total += chance[:, 1] / (chance[:, 0] + chance[:, 1])
        return compute_log_odds((total + 0.5) / (len(self.trees) + 1))


@dataclass(frozen=True)
class FittedClassifier:
    """A scikit-learn classifier."""

    estimator: Any
    takes_gaps: bool  # whether it is given the form with missing values

    def score(self, rows: EncodedRows) -> Floats:
        """Return its decision, or the log-odds of its probability."""
        x = rows.tree if self.takes_gaps else rows.dense
        if isinstance(self.estimator, HistGradientBoostingClassifier):
            # Every tree reads a few columns of all rows: side by side they are read much faster.
            x = np.asfortranarray(x)
        if hasattr(self.estimator, "decision_function") and not isinstance(
            self.estimator, PUWrapper
        ):
            return np.asarray(self.estimator.decision_function(x), float)
        return compute_log_odds(predict_positive(self.estimator, x))


@dataclass(frozen=True)
class EnsemblePart:
    """The fitted models of one learner, its weight, and the scale of its held-out scores."""

    name: str
    models: list[Any]
    center: float = 0.0
    scale: float = 1.0
    weight: float = 1.0


@dataclass(frozen=True)
class Ensemble:
    """The weighted mean over learners of the mean over their models, calibrated to log-odds."""

    parts: list[EnsemblePart]
    posterior: PosteriorCalibration | None = None  # None: the mean itself is the log-odds

    def decide(self, rows: EncodedRows, fold: Index | None = None) -> Floats:
        """Return the log-odds of being positive.

        With the ``fold`` of every row, each is scored by the models that have not seen it.
        """
        score = np.zeros(len(rows))
        for part in self.parts:
            if fold is None or len(part.models) == 1:
                mean = np.mean([model.score(rows) for model in part.models], axis=0)
            else:
                mean = np.zeros(len(rows))
                for k in np.unique(fold):
                    held = np.flatnonzero(fold == k)
                    mean[held] = part.models[k].score(rows[held])
            score += part.weight * (mean - part.center) / part.scale
        return score if self.posterior is None else self.posterior(score)


# -- learners --------------------------------------------------------------------------------------


class Learner:
    """A way to rank rows."""

    name: ClassVar[str]

    def find_obstacle(self, table: PUTable) -> str:
        """Return why this learner cannot be fitted to a table; empty if it can."""
        return ""

    def cross_fit(self, table: PUTable, fold: Index) -> tuple[Floats, list[Any]]:
        """Return the score of every row by a fit that did not see it, and the fitted models."""
        if fold.max() == 0:
            raise UserError("at least 2 labeled and 2 unlabeled rows are needed", "missing-data")
        score, models = np.zeros(len(fold)), []
        for k in range(int(fold.max()) + 1):
            rows, held = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
            model = self.fit(table, rows, np.random.RandomState((table.seed + k) % 2**31))
            score[held] = model.score(table.rows[held])
            models.append(model)
        return score, models

    def fit(self, table: PUTable, rows: Index, rng: np.random.RandomState) -> FittedModel:
        """Fit to some rows of a table."""
        raise NotImplementedError


class LinearLearner(Learner):
    """Logistic regression of P against U on scaled features."""

    name = "linear"

    def fit(self, table: PUTable, rows: Index, rng: np.random.RandomState) -> FittedModel:
        """Fit to some rows of a table."""
        x, y = table.rows.linear[rows], table.target[rows]
        model = LogisticRegression(C=0.1 if y.sum() < FEW_LABELS else 1.0, max_iter=300)
        if isinstance(x, np.ndarray):
            center, scale = x.mean(0), x.std(0)
            scale = np.where(scale > 1e-12 * np.maximum(1.0, np.abs(center)), scale, 1.0)
            x = (x - center) / scale
        else:
            center, scale = np.zeros(x.shape[1]), np.ones(x.shape[1])
        weight = table.compute_weights(rows)
        model.fit(x, y, sample_weight=np.ones(len(rows)) if weight is None else weight)
        coef = model.coef_[0] / scale
        return FittedLinear(coef, float(model.intercept_[0] - coef @ center))


class TreeLearner(Learner):
    """Bagging PU: every tree separates the positives from as many randomly drawn unlabeled rows."""

    name = "trees"

    def __init__(self, n_jobs: int | None = None) -> None:
        self.n_jobs = n_jobs

    def find_obstacle(self, table: PUTable) -> str:
        """Return a reason if the matrix is sparse."""
        return "trees take no sparse matrix" if table.rows.tree is None else ""

    def fit(self, table: PUTable, rows: Index, rng: np.random.RandomState) -> FittedModel:
        """Fit to some rows of a table."""
        bags = []
        for _ in range(TREES_PER_FOLD):
            bag = self._draw_bag(table.labels, rows, rng)
            bags.append((bag, int(rng.randint(2**31 - 1))))
        run = Parallel(self.n_jobs, prefer="threads")
        return FittedTrees(run(delayed(self._fit_tree)(table, *bag) for bag in bags))

    def _draw_bag(self, labels: Labels, rows: Index, rng: np.random.RandomState) -> Index:
        positive, negative = rows[labels.positive[rows]], rows[labels.negative[rows]]
        size = min(len(positive), MAX_BAG_ROWS)
        if len(positive) > MAX_BAG_ROWS:
            positive = rng.choice(positive, MAX_BAG_ROWS, replace=False)
        unlabeled = rng.choice(rows[labels.unlabeled[rows]], size)
        return np.concatenate([positive, negative[:MAX_BAG_ROWS], unlabeled])

    def _fit_tree(self, table: PUTable, bag: Index, seed: int) -> DecisionTreeClassifier:
        # Large bags: fewer features per split and larger leaves keep the time and the model small.
        options: dict[str, Any] = {"min_samples_leaf": 2}
        if len(bag) > LARGE_BAG_ROWS:
            options["max_features"] = 0.5
        if len(bag) > MAX_BAG_ROWS:
            leaf = 20 if table.data_rows > MANY_ROWS else 5
            options = {"min_samples_leaf": leaf, "max_features": "sqrt"}
        model = DecisionTreeClassifier(random_state=seed, **options)
        return model.fit(table.rows.tree[bag], table.target[bag], table.compute_weights(bag))


class BoostedLearner(Learner):
    """Gradient boosting of labeled against other rows."""

    name = "boosted"

    def find_obstacle(self, table: PUTable) -> str:
        """Return a reason if the matrix is sparse."""
        return "boosting takes no sparse matrix" if table.rows.tree is None else ""

    def fit(self, table: PUTable, rows: Index, rng: np.random.RandomState) -> FittedModel:
        """Fit to some rows of a table."""
        model = make_boosted(int(rng.randint(2**31 - 1)))
        model.fit(table.rows.tree[rows], table.target[rows], table.compute_weights(rows))
        return FittedClassifier(model, takes_gaps=True)


class ClassifierLearner(Learner):
    """A scikit-learn classifier that is fitted to P against U, or a classic."""

    def __init__(self, estimator: Any, name: str = "") -> None:
        self.estimator = estimator
        self.name = name or type(estimator).__name__.lower()  # type: ignore[misc]

    def find_obstacle(self, table: PUTable) -> str:
        """Return a reason if the matrix is sparse and the classifier cannot use it."""
        if table.rows.tree is None and not get_tags(self.estimator).input_tags.sparse:
            return f"{type(self.estimator).__name__} takes no sparse matrix"
        return ""

    def cross_fit(self, table: PUTable, fold: Index) -> tuple[Floats, list[Any]]:
        """Return held-out scores, and one model fitted to all rows.

        A user who passes a classifier expects one fit of it, not an ensemble.
        """
        score, _ = super().cross_fit(table, fold)
        return score, [self.fit(table, np.arange(len(fold)), np.random.RandomState(table.seed))]

    def fit(self, table: PUTable, rows: Index, rng: np.random.RandomState) -> FittedModel:
        """Fit to some rows of a table."""
        fitted = self.make_model(table, rng)
        x, model = (table.rows.tree if fitted.takes_gaps else table.rows.dense), fitted.estimator
        if isinstance(model, PUWrapper):
            known = table.target[rows] - table.labels.negative[rows]
            model.fit(x[rows], known, None if table.weight is None else table.weight[rows])
        else:
            fit_weighted(model, x[rows], table.target[rows], table.compute_weights(rows))
        return fitted

    def make_model(self, table: PUTable, rng: np.random.RandomState) -> FittedClassifier:
        """Return a copy of the classifier that is not fitted yet."""
        model = clone(self.estimator)
        params = model.get_params()
        seeds = sorted(key for key in params if key.split("__")[-1] == "random_state")
        model.set_params(**{key: int(rng.randint(2**31 - 1)) for key in seeds})
        if isinstance(model, PUWrapper) and "prior" in params:
            model.set_params(prior=table.prior, setting=table.setting.title)
        takes_gaps = table.rows.tree is not None and get_tags(model).input_tags.allow_nan
        return FittedClassifier(model, takes_gaps)


# -- choosing --------------------------------------------------------------------------------------


@dataclass
class TriedLearner:
    """A fitted learner, or the stack of all, with held-out scores and what they are worth."""

    name: str
    parts: list[EnsemblePart]
    score: Floats  # held-out scores of all rows, as the ensemble computes them before calibration
    seconds: float
    why: str = ""
    chosen: bool = False
    posterior: PosteriorCalibration | None = None
    criteria: dict[str, float] = field(default_factory=dict)

    @property
    def ensemble(self) -> Ensemble:
        """The parts with their calibration."""
        return Ensemble(self.parts, self.posterior)

    def judge(self, table: PUTable, posterior: PosteriorCalibration | None = None) -> None:
        """Calibrate the scores for the prior of the table, or as given, and compute criteria."""
        p, u = self.split_score(table)
        if posterior is None:
            posterior = fit_posterior(p, u, table.prior, table.setting, table.rate)
        self.posterior = posterior
        p, u = posterior(p), posterior(u)
        for name in PU_CRITERIA:
            self.criteria[name] = compute_criterion(
                name, p, u, table.prior, table.setting.one_sample, table.rate
            )

    def split_score(self, table: PUTable) -> tuple[Floats, Floats]:
        """Return the held-out scores of labeled and of other rows."""
        return self.score[table.labels.positive], self.score[~table.labels.positive]

    def report(self) -> dict[str, Any]:
        """Return a line of ``report_``."""
        return {
            "learner": self.name,
            **self.criteria,
            "seconds": round(self.seconds, 3),
            "chosen": self.chosen,
            "why": self.why,
        }


def assign_folds(table: PUTable) -> Index:
    """Return the fold of every row; labeled and unlabeled rows are in proportion.

    Rows of one group are in one fold.
    """
    labeled = int(table.target.sum())
    fold = np.zeros(len(table.target), np.int64)
    parts = min(FOLDS, labeled, len(fold) - labeled)
    if parts < 2:
        return fold
    splitter: Any = PUStratifiedKFold(parts, random_state=table.seed % 2**31)
    if table.groups is not None:
        parts = min(parts, len(np.unique(table.groups[table.labels.positive])))
        if parts < 2:
            raise UserError(
                "all labeled rows are of one group; at least two groups need labels", "missing-data"
            )
        splitter = StratifiedGroupKFold(parts, shuffle=True, random_state=table.seed % 2**31)
    for k, (_, held) in enumerate(splitter.split(fold, table.target, table.groups)):
        fold[held] = k
    return fold


def fit_learners(
    table: PUTable, learners: Sequence[Learner], log: Callable[[str], None] = lambda text: None
) -> tuple[list[TriedLearner], dict[str, str]]:
    """Cross-fit learners; return them, and why others cannot be fitted.

    If there are several, the last one is their stack, and the one to use: the sum of their
    held-out scores with the weights of :mod:`puarena.priors.stacking`. Choosing one of them by PA
    instead was tried, and it is worse on average (docs/practice.md).
    """
    fold = assign_folds(table)
    obstacles = {learner.name: learner.find_obstacle(table) for learner in learners}
    refused = {name: why for name, why in obstacles.items() if why}
    if len(refused) == len(learners):
        raise UserError("; ".join(refused.values()), "not-supported")
    tried: list[TriedLearner] = []
    for learner in learners:
        if learner.name in refused:
            continue
        began = time.perf_counter()
        with limit_threads(len(fold)):
            score, models = learner.cross_fit(table, fold)
        tried.append(standardize_scores(learner.name, models, score, began))
        log(f"{learner.name}: {tried[-1].seconds:.1f} s")
    if len(tried) > 1:
        began = time.perf_counter()
        scores = np.column_stack([each.score for each in tried])
        weights = fit_stack(scores, table.labels.positive)
        parts = []
        for each, weight in zip(tried, weights.tolist(), strict=True):
            each.why = f"weight {weight:.2f}"
            parts.append(replace(each.parts[0], weight=weight))
        tried.append(TriedLearner(BLEND, parts, scores @ weights, time.perf_counter() - began))
    return tried, refused


def choose_learner(
    table: PUTable,
    learners: Sequence[Learner],
    log: Callable[[str], None] = lambda text: None,
) -> tuple[TriedLearner, list[dict[str, Any]]]:
    """Cross-fit learners and judge them for a known prior; return the one to use and a report."""
    tried, refused = fit_learners(table, learners, log)
    for each in tried:
        each.judge(table)
    return tried[-1], report_learners(tried, refused)


def report_learners(
    tried: Sequence[TriedLearner], refused: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return the lines of ``report_``; the last learner is the one that is used."""
    tried[-1].chosen = True
    tried[-1].why = "weighted by held-out scores" if len(tried) > 1 else "the only one"
    lines = [each.report() for each in tried]
    return lines + [{"learner": n, "chosen": False, "why": why} for n, why in refused.items()]


def standardize_scores(name: str, models: list[Any], score: Floats, began: float) -> TriedLearner:
    """Return a learner whose held-out scores have mean 0 and deviation 1.

    ``began`` is when fitting began, by ``time.perf_counter``.
    """
    part = EnsemblePart(name, models, float(score.mean()), float(score.std()) or 1.0)
    score = (score - part.center) / part.scale
    return TriedLearner(name, [part], score, time.perf_counter() - began)


def describe_report(report: Sequence[dict[str, Any]]) -> str:
    """Return ``report_`` as text; a star marks the learner that was chosen."""
    shown = {name: c.title for name, c in PU_CRITERIA.items() if c.default}
    lines = []
    for line in report:
        values = ", ".join(f"{shown[name]} {line[name]:.4f}" for name in shown if name in line)
        mark = "*" if line["chosen"] else " "
        lines.append(f"{mark} {line['learner']:<14} {values:<28} {line['why']}".rstrip())
    return "\n".join(lines)
