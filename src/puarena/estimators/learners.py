"""Learners that rank rows by how positive they look: linear, bagged trees, a network ensemble, any classifier.

Each is fitted once per fold; the fits of all folds together are the model (their mean), and every row has a score of a
fit that has not seen it. So nothing is fitted twice, and thresholds and probabilities are judged on held-out rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import get_tags

from puarena.classics.wrapper import PUWrapper, fit_weighted
from puarena.estimators.members import (
    ForestMember,
    GivenMember,
    LinearMember,
    Member,
    NetworkMember,
)
from puarena.pu.labeling import Setting
from puarena.pu.labels import Labels

Floats = npt.NDArray[np.float64]
Index = npt.NDArray[np.int64]

FEW = 100  # labels, below which the linear model is held back more
BAG = 2_000  # rows of P and of U in a bag of trees, at most
MANY = 100_000  # rows
TREES = 50  # in all folds together
NEGATIVE_WEIGHT = 3.0  # of a known negative, against an unlabeled row


@dataclass(frozen=True)
class PUTable:
    """A table ready for learners: both forms of its rows, the labels, the prior."""

    dense: Any  # also a sparse matrix
    tree: Any
    labels: Labels
    weight: Floats | None
    prior: float
    setting: Setting
    seed: int
    rate: float  # share of labeled rows in the data, of which this may be a part
    rows: int  # of the data
    n_jobs: int | None = None
    propensity: Floats | None = None  # chance of a label of every row, were it positive

    @property
    def target(self) -> npt.NDArray[np.int64]:
        """1 for labeled positives, 0 for all others."""
        return self.labels.positive.astype(np.int64)

    def weights(self, rows: Index) -> Floats:
        """Weights of rows; a known negative counts more than an unlabeled row."""
        own = np.ones(len(rows)) if self.weight is None else self.weight[rows]
        return own * np.where(self.labels.negative[rows], NEGATIVE_WEIGHT, 1.0)

    @property
    def plain(self) -> bool:
        """Do all rows weigh the same?"""
        return self.weight is None and not self.labels.negative.any()


class Learner:
    """A way to rank rows."""

    name: ClassVar[str]

    def refusal(self, table: PUTable) -> str:
        """Why this learner cannot take a table, in words; nothing if it can."""
        return ""

    def cross_fit(self, table: PUTable, fold: Index) -> tuple[Floats, list[Member]]:
        """The score of every row by a fit that did not see it, and the fits."""
        score, members = np.zeros(len(fold)), []
        for k in range(int(fold.max()) + 1):
            rows, held = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
            member = self.fit(table, rows, np.random.RandomState((table.seed + k) % 2**31))
            score[held] = member.score(
                table.dense[held], None if table.tree is None else table.tree[held]
            )
            members.append(member)
        return score, members

    def fit(self, table: PUTable, rows: Index, rng: np.random.RandomState) -> Member:
        """Fit to some rows."""
        raise NotImplementedError


class Linear(Learner):
    """Logistic regression of P against U on scaled features."""

    name = "linear"

    def fit(self, table: PUTable, rows: Index, rng: np.random.RandomState) -> Member:
        """Fit to some rows."""
        x, y = table.dense[rows], table.target[rows]
        model = LogisticRegression(C=0.1 if y.sum() < FEW else 1.0, max_iter=300)
        if isinstance(x, np.ndarray):
            center, scale = x.mean(0), x.std(0)
            scale = np.where(scale > 1e-12 * np.maximum(1.0, np.abs(center)), scale, 1.0)
            x = (x - center) / scale
        else:
            center, scale = np.zeros(x.shape[1]), np.ones(x.shape[1])
        model.fit(x, y, sample_weight=table.weights(rows))
        coef = model.coef_[0] / scale
        return LinearMember(coef, float(model.intercept_[0] - coef @ center))


class Trees(Learner):
    """Bagging PU: trees of the positives against as many unlabeled rows, drawn anew for each."""

    name = "trees"

    def refusal(self, table: PUTable) -> str:
        """Sparse matrices and very wide tables are left to the linear learner."""
        return "trees take no sparse matrix" if table.tree is None else ""

    def fit(self, table: PUTable, rows: Index, rng: np.random.RandomState) -> Member:
        """Fit to some rows."""
        from sklearn.utils.parallel import Parallel, delayed

        labels = table.labels
        positive, negative = rows[labels.positive[rows]], rows[labels.negative[rows]]
        unlabeled = rows[labels.unlabeled[rows]]
        size = min(len(positive), BAG)
        bags = []
        for _ in range(TREES // 5):
            drawn = positive if len(positive) <= BAG else rng.choice(positive, BAG, replace=False)
            bag = np.concatenate([drawn, negative[:BAG], rng.choice(unlabeled, size)])
            bags.append((bag, int(rng.randint(2**31 - 1))))

        def tree(bag: Index, seed: int) -> Any:
            wide = len(bag) > BAG
            leaf = 2 if not wide else 20 if table.rows > MANY else 5
            model = DecisionTreeClassifier(
                min_samples_leaf=leaf, max_features="sqrt" if wide else None, random_state=seed
            )
            return model.fit(
                table.tree[bag], table.target[bag], None if table.plain else table.weights(bag)
            )

        return ForestMember.of(
            Parallel(table.n_jobs, prefer="threads")(delayed(tree)(*bag) for bag in bags)
        )


class Given(Learner):
    """Any scikit-learn classifier, told P from U; or a classic around one."""

    name = "given"

    def __init__(self, estimator: Any, name: str = "") -> None:
        self.estimator = estimator
        self.name = name or type(estimator).__name__.lower()  # type: ignore[misc]

    def refusal(self, table: PUTable) -> str:
        """A sparse matrix needs a classifier that takes one."""
        if table.tree is None and not get_tags(self.estimator).input_tags.sparse:
            return f"{type(self.estimator).__name__} takes no sparse matrix"
        return ""

    def cross_fit(self, table: PUTable, fold: Index) -> tuple[Floats, list[Member]]:
        """Fit once more to all rows: someone who hands in a classifier wants one of it."""
        score, _ = super().cross_fit(table, fold)
        return score, [self.fit(table, np.arange(len(fold)), np.random.RandomState(table.seed))]

    def fit(self, table: PUTable, rows: Index, rng: np.random.RandomState) -> Member:
        """Fit to some rows."""
        member = self.fresh(table, rng)
        x, model = (table.tree if member.trees else table.dense)[rows], member.estimator
        if isinstance(model, PUWrapper):
            known = table.target[rows] - table.labels.negative[rows]
            model.fit(x, known, None if table.weight is None else table.weight[rows])
        else:
            fit_weighted(model, x, table.target[rows], None if table.plain else table.weights(rows))
        return member

    def fresh(self, table: PUTable, rng: np.random.RandomState) -> GivenMember:
        """A copy of the classifier that has learned nothing yet."""
        model = clone(self.estimator)
        seeds = sorted(
            k for k in model.get_params() if k == "random_state" or k.endswith("__random_state")
        )
        model.set_params(**{key: int(rng.randint(2**31 - 1)) for key in seeds})
        if isinstance(model, PUWrapper) and "prior" in model.get_params():
            model.set_params(prior=table.prior, setting=table.setting.title)
        return GivenMember(model, table.tree is not None and get_tags(model).input_tags.allow_nan)


class Networks(Learner):
    """Networks by a registered algorithm, a member per fold, all trained as one fleet."""

    name = "network"

    def __init__(self, train: Any, most: int | None = None) -> None:
        self.train = train  # folds of rows to models: see ``PUClassifier``
        self.most = most  # rows, of more they are left out

    def refusal(self, table: PUTable) -> str:
        """Networks need a dense matrix, and predict large tables slowly."""
        if table.tree is None:
            return "networks take no sparse matrix"
        many = self.most is not None and table.rows > self.most
        return f"left out of tables with more than {self.most:,} rows" if many else ""

    def cross_fit(self, table: PUTable, fold: Index) -> tuple[Floats, list[Member]]:
        """All folds at once."""
        members: list[Member] = [NetworkMember(model) for model in self.train(table, fold)]
        score = np.zeros(len(fold))
        for k, member in enumerate(members):
            held = np.flatnonzero(fold == k)
            score[held] = member.score(table.dense[held], None)
        return score, members
