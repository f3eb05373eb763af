"""PUET: PU extra trees.

Wilton, Koay, Ko, Xu, Ye: Positive-unlabeled learning using random forests via recursive greedy risk minimization.
NeurIPS 2022.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from puarena.classics.base import Floats, PUWrapper
from puarena.classics.trees import PAIRS, Array, Risk, Table, extra_random, grow
from puarena.pu import labeling
from puarena.pu.labels import Labels, resampled

SETTINGS = tuple(setting.title for setting in labeling.settings())
ABOVE = 1e-9  # how far above one half the probability of a row is that the trees call positive


@dataclass(eq=False, repr=False)
class PUExtraTreesClassifier(PUWrapper):
    """Extremely randomized trees whose splits and leaves minimize the PU risk.

    A node's share of positives is ``v = prior (its share of P) / (its share of the marginal sample)``, the marginal
    sample being U in the two-sample setting, P and U in the one-sample setting. A split is the best of one random cut
    in ``ceil(sqrt(d))`` features that vary in the node. ``predict_proba``: the mean over trees of v, held inside 0 and
    1, on the side of one half where most leaves are (v > 1/2), which is what ``predict`` says.

    ``prior``: share of positives in the marginal sample, ``"estimate"`` or ``"estimate:<method>"``
    (:func:`puarena.priors.estimate_prior`). ``risk``: ``"nnpu"`` (a node of more positive than any mass is pure) or
    ``"upu"``. ``loss``: ``"quadratic"`` (twice Gini's impurity) or ``"logistic"`` (entropy). ``cuts``: ``"full"``, from
    the lowest to the highest value of the node, or ``"inner"``, not within 0.4 of its outermost gaps, as the authors'.
    ``feature_importances_``: how much of the reduction of risk each feature brought; sums to 1.

    Differs from the authors' code: default cuts, the probabilities (they have votes only), the one-sample form, and
    all trees grow together in array code instead of recursively.
    """

    prior: float | str = "estimate"
    setting: str = "one-sample"
    n_estimators: int = 100
    risk: str = "nnpu"
    loss: str = "quadratic"
    max_depth: int | None = None
    min_samples_leaf: int = 1
    cuts: str = "full"
    positive_label: Any = None
    random_state: Any = None

    def _fit(
        self, X: Floats, labels: Labels, weight: Floats | None, rng: np.random.RandomState
    ) -> None:
        self._check()
        labeled = labels.positive
        p, u = (resampled(np.flatnonzero(side), weight, rng) for side in (labeled, ~labeled))
        table = Table(np.concatenate([X[p], X[u]]), len(p))
        n_p, n_u = table.n_p, table.n - table.n_p
        self.prior_ = self._prior(X, labeled, int(rng.randint(2**31 - 1)))
        risk = Risk(
            self.prior_, n_p, n_u, labeling.get(self.setting).one_sample, self.risk, self.loss
        )
        dice = np.random.default_rng(int(rng.randint(2**31 - 1)))
        choose = extra_random(dice, self.cuts == "inner")
        self.forests_ = [
            grow(table, risk, trees, choose, self.max_depth, self.min_samples_leaf)
            for trees in _blocks(self.n_estimators, table.n)
        ]
        self._votes = [
            (f.v > 0.5) | ((f.v == 0.5) & (dice.random(len(f.v)) < 0.5)) for f in self.forests_
        ]
        total = np.sum([forest.importances(X.shape[1]) for forest in self.forests_], axis=0)
        self.feature_importances_ = total / total.sum() if total.sum() > 0 else np.zeros(X.shape[1])

    def _check(self) -> None:
        choices = {
            "setting": SETTINGS,
            "risk": ("nnpu", "upu"),
            "loss": ("quadratic", "logistic"),
            "cuts": ("full", "inner"),
        }
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise ValueError(
                    f"{name} is {getattr(self, name)!r}; choose one of: {', '.join(allowed)}"
                )
        for name in ("n_estimators", "min_samples_leaf"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be 1 or more, and {getattr(self, name)!r} was given")
        if self.max_depth is not None and self.max_depth < 1:
            raise ValueError(
                f"max_depth must be 1 or more, or None, and {self.max_depth!r} was given"
            )
        if isinstance(self.prior, str):
            if self.prior.partition(":")[0] != "estimate":
                raise ValueError(
                    f"prior is {self.prior!r}; give a number between 0 and 1, or 'estimate'"
                )
        elif not 0 < self.prior < 1:
            raise ValueError(
                f"prior must lie strictly between 0 and 1, and {self.prior!r} was given"
            )

    def _prior(self, X: Floats, labeled: Any, seed: int) -> float:
        if not isinstance(self.prior, str):
            return float(self.prior)
        from puarena.priors import DEFAULT, estimate_prior

        method = self.prior.partition(":")[2] or DEFAULT
        estimate = estimate_prior(X, labeled.astype(int), self.setting, method, seed, n_bootstrap=0)
        return float(np.clip(estimate.value, 0.01, 0.99))

    def _means(self, X: Floats) -> tuple[Array, Array]:
        """The mean over trees of the leaves' posteriors, held inside 0 and 1, and of their votes."""
        score, vote = np.zeros(len(X)), np.zeros(len(X))
        step = max(1, PAIRS // max(forest.trees for forest in self.forests_))
        for a in range(0, len(X), step):
            for forest, votes in zip(self.forests_, self._votes, strict=True):
                leaf = forest.leaves(X[a : a + step])
                score[a : a + step] += np.clip(forest.v, 0, 1)[leaf].sum(0)
                vote[a : a + step] += votes[leaf].sum(0)
        return score / self.n_estimators, vote / self.n_estimators

    def _probability(self, X: Floats) -> Floats:
        score, vote = self._means(X)
        return np.where(vote >= 0.5, np.maximum(score, 0.5 + ABOVE), np.minimum(score, 0.5))


def _blocks(trees: int, rows: int) -> Iterator[int]:
    """How many trees grow together, block after block."""
    step = max(1, PAIRS // rows)
    for a in range(0, trees, step):
        yield min(step, trees - a)
