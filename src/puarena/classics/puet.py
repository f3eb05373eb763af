"""PUET: PU extra trees. All trees of a block grow together as arrays, level by level.

Wilton, Koay, Ko, Xu, Ye: Positive-unlabeled learning using random forests via recursive greedy risk
minimization. NeurIPS 2022.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from math import ceil, sqrt
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from puarena.classics.wrapper import ClassicForm, Floats, PUWrapper
from puarena.pu import labeling
from puarena.pu.labels import Labels, resample_by_weight

Array = npt.NDArray[Any]
SETTINGS = tuple(setting.title for setting in labeling.list_settings())
MAX_PAIRS = 1 << 20  # (tree, row) pairs that grow or are evaluated at once
MAX_ENTRIES = 1 << 24  # (node, feature) entries that are considered at once
ROUNDING = 1e-12  # relative, below which a mass counts as zero
TIE_MARGIN = 1e-9  # how far a positive prediction's probability is above one half

# Counts of labeled rows are kept in the upper half of one 64-bit number, those of all rows in the
# lower half, so that one cumulative sum counts both.
LABELED = 1 << 32

# -- the estimator ---------------------------------------------------------------------------------


@dataclass(eq=False, repr=False)
class PUExtraTreesClassifier(PUWrapper):
    """Extremely randomized trees whose splits and leaves minimize the PU risk.

    A node's share of positives is ``v = prior (its share of P) / (its share of the marginal
    sample)``; the marginal sample is U in the two-sample setting, P and U in the one-sample
    setting. A split is the best of one random cut in ``ceil(sqrt(d))`` features that vary in the
    node. ``predict_proba`` is the mean of v over the trees, clipped to 0 to 1 and kept on the side
    of one half where most leaves are (v > 1/2), which is what ``predict`` returns.

    ``prior``: share of positives in the marginal sample, ``"estimate"`` or ``"estimate:<method>"``
    (:func:`puarena.priors.estimate_prior`). ``risk``: ``"nnpu"`` (a node with more positive than
    total mass is pure) or ``"upu"``. ``loss``: ``"quadratic"`` (twice Gini's impurity) or
    ``"logistic"`` (entropy). ``cuts``: ``"full"``, from the lowest to the highest value of the
    node, or ``"inner"``, not within 0.4 of its outermost gaps, as in the authors' code.
    ``feature_importances_``: how much of the reduction of risk each feature brought; sums to 1.

    Differs from the authors' code: default cuts, the probabilities (they have votes only), the
    one-sample form, and all trees grow together in array code instead of recursively.
    """

    paper: ClassVar[str] = (
        "Wilton, Koay, Ko, Xu, Ye: Positive-unlabeled learning using random forests via recursive "
        "greedy risk minimization, NeurIPS 2022"
    )
    differs: ClassVar[str] = (
        "Cuts are uniform between a node's lowest and highest value, where the authors' keep away "
        "from its outermost gaps; trees rank by their mean posterior, where the authors have votes "
        "only; the calibrated form is ours."
    )
    minutes_on_images: ClassVar[int] = 10
    forms: ClassVar[tuple[ClassicForm, ...]] = (
        ClassicForm(
            "puet",
            "PUET",
            "100 extremely randomized trees whose splits minimize ``sum of 4 W v (1-v)`` over the "
            "children, ``v = W_p / W``, ``W_p = prior p/n_P``, ``W = u/n_U``; a node with v > 1 is "
            "pure.",
            {"setting": "two-sample"},
            setting="two-sample",
            needs_prior=True,
        ),
        ClassicForm(
            "puet-c",
            "PUET-c",
            "PUET with ``W = (p+u)/(n_P+n_U)``: the marginal sample is P and U together.",
            {"setting": "one-sample"},
            needs_prior=True,
            calibrates="puet",
        ),
    )

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
        self._check_parameters()
        labeled = labels.positive
        p, u = (
            resample_by_weight(np.flatnonzero(side), weight, rng) for side in (labeled, ~labeled)
        )
        table = TreeTable(np.concatenate([X[p], X[u]]), len(p))
        n_p, n_u = table.n_p, table.n - table.n_p
        self.prior_ = self._find_prior(X, labeled, int(rng.randint(2**31 - 1)))
        risk = TreeRisk(
            self.prior_,
            n_p,
            n_u,
            labeling.get_setting(self.setting).one_sample,
            self.risk,
            self.loss,
        )
        dice = np.random.default_rng(int(rng.randint(2**31 - 1)))
        choose = make_random_chooser(dice, self.cuts == "inner")
        self.forests_ = [
            grow(table, risk, trees, choose, self.max_depth, self.min_samples_leaf)
            for trees in _split_into_blocks(self.n_estimators, table.n)
        ]
        self._votes = [
            (f.v > 0.5) | ((f.v == 0.5) & (dice.random(len(f.v)) < 0.5)) for f in self.forests_
        ]
        total = np.sum([forest.importances(X.shape[1]) for forest in self.forests_], axis=0)
        self.feature_importances_ = total / total.sum() if total.sum() > 0 else np.zeros(X.shape[1])

    def _check_parameters(self) -> None:
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

    def _find_prior(self, X: Floats, labeled: Any, seed: int) -> float:
        if not isinstance(self.prior, str):
            return float(self.prior)
        from puarena.priors import DEFAULT, estimate_prior

        method = self.prior.partition(":")[2] or DEFAULT
        estimate = estimate_prior(X, labeled.astype(int), self.setting, method, seed, n_bootstrap=0)
        return float(np.clip(estimate.value, 0.01, 0.99))

    def _average(self, X: Floats) -> tuple[Array, Array]:
        """Return the means over trees of the leaves' posteriors, clipped to 0 to 1, and votes."""
        score, vote = np.zeros(len(X)), np.zeros(len(X))
        step = max(1, MAX_PAIRS // max(forest.trees for forest in self.forests_))
        for a in range(0, len(X), step):
            for forest, votes in zip(self.forests_, self._votes, strict=True):
                leaf = forest.leaves(X[a : a + step])
                score[a : a + step] += np.clip(forest.v, 0, 1)[leaf].sum(0)
                vote[a : a + step] += votes[leaf].sum(0)
        return score / self.n_estimators, vote / self.n_estimators

    def _predict_positive(self, X: Floats) -> Floats:
        score, vote = self._average(X)
        return np.where(vote >= 0.5, np.maximum(score, 0.5 + TIE_MARGIN), np.minimum(score, 0.5))


def _split_into_blocks(trees: int, rows: int) -> Iterator[int]:
    """Yield how many trees grow together, block after block."""
    step = max(1, MAX_PAIRS // rows)
    for a in range(0, trees, step):
        yield min(step, trees - a)


# -- trees as arrays -------------------------------------------------------------------------------


@dataclass(frozen=True)
class TreeRisk:
    """The PU risk of a node with ``p`` of ``n_p`` labeled and ``u`` of ``n_u`` unlabeled rows.

    Masses: ``W_p = prior p/n_p`` of positives and ``W`` of everything, which is ``u/n_u``, or
    ``(p+u)/(n_p+n_u)`` with ``one_sample``. ``kind``: "nnpu" or "upu". ``loss``: "quadratic" or
    "logistic".
    """

    prior: float
    n_p: int
    n_u: int
    one_sample: bool = False
    kind: str = "nnpu"
    loss: str = "quadratic"

    def masses(self, p: Array, u: Array) -> tuple[Array, Array]:
        """Return the mass of positives and of everything in a node."""
        everything = (p + u) / (self.n_p + self.n_u) if self.one_sample else u / self.n_u
        return self.prior * (p / self.n_p), np.asarray(everything)

    def posterior(self, p: Array, u: Array) -> Array:
        """Return ``v = W_p / W``, infinite in a node without mass."""
        mine, all_of_it = self.masses(p, u)
        v = np.divide(mine, all_of_it, out=np.full(np.shape(mine), np.inf), where=all_of_it > 0)
        return np.where(
            np.abs(mine - all_of_it) <= ROUNDING * all_of_it, np.where(all_of_it > 0, 1.0, v), v
        )

    def impurity(self, p: Array, u: Array) -> Array:
        """Return the smallest risk of a constant answer: ``4 W v (1-v)`` or ``W H(v)``.

        Beyond v = 1 it depends on ``kind``.
        """
        v, (mine, all_of_it) = self.posterior(p, u), self.masses(p, u)
        inside = np.where(v <= 1, v, 0.0)
        if self.loss == "quadratic":
            value = 4 * mine * np.where(v == 1, 0.0, 1 - np.where(np.isfinite(v), v, 0.0))
            beyond = value if self.kind == "upu" else np.zeros_like(value)
            empty = -np.inf if self.kind == "upu" else 0.0
            return np.where(all_of_it > 0, np.where(v > 1, beyond, value), empty)
        rest = 1 - inside
        logs = inside * np.log(inside, out=np.zeros_like(inside), where=inside > 0)
        logs += rest * np.log(rest, out=np.zeros_like(rest), where=rest > 0)
        return np.where(v > 1, -np.inf if self.kind == "upu" else 0.0, -all_of_it * logs)

    def stops(self, p: Array, u: Array) -> Array:
        """Return which nodes are leaves because nothing can be gained."""
        impurity = self.impurity(p, u)
        if self.kind == "nnpu":
            return impurity <= 0
        return np.isneginf(impurity) | ((impurity <= 0) & (p == 0))


@dataclass(frozen=True)
class Nodes:
    """Nodes of one level: their rows, node after node, and the numbers of labeled and unlabeled.

    Rows below ``n_p`` are the labeled ones.
    """

    rows: Array
    p: Array
    u: Array
    n_p: int

    @cached_property
    def sizes(self) -> Array:
        """Number of rows of each node."""
        return np.asarray(self.p + self.u)

    @cached_property
    def ends(self) -> Array:
        """Where each node's rows end."""
        return np.cumsum(self.sizes)

    @cached_property
    def starts(self) -> Array:
        """Where each node's rows begin."""
        return np.asarray(self.ends - self.sizes)

    @cached_property
    def _code(self) -> Array:
        return np.where(self.rows < self.n_p, LABELED + 1, 1)

    def spread(self, of_nodes: Array) -> Array:
        """Turn a value per node into a value per row."""
        return np.repeat(of_nodes, self.sizes)

    def count(self, some: Array) -> tuple[Array, Array]:
        """Return how many labeled and unlabeled rows of each node are True in ``some``."""
        total = np.cumsum(self._code * some)[self.ends - 1]
        total[1:] -= total[:-1].copy()
        labeled = total >> 32
        return labeled, (total & (LABELED - 1)) - labeled

    def only(self, some: Array) -> Nodes:
        """Return the nodes whose flag is True."""
        if some.all():
            return self
        return Nodes(self.rows[self.spread(some)], self.p[some], self.u[some], self.n_p)

    def chunks(self, features: int) -> Iterator[tuple[slice, Nodes]]:
        """Yield runs of nodes so that a table of nodes by features is not too large."""
        step = max(1, MAX_ENTRIES // features)
        for a in range(0, len(self.p), step):
            some = slice(a, min(a + step, len(self.p)))
            rows = self.rows[self.starts[a] : self.ends[some.stop - 1]]
            yield (
                some,
                self if step >= len(self.p) else Nodes(rows, self.p[some], self.u[some], self.n_p),
            )


class TreeTable:
    """Features, column after column, labeled rows first."""

    def __init__(self, x: Array, n_p: int) -> None:
        self.n, self.features = x.shape
        self.n_p = n_p
        self.flat = np.ascontiguousarray(x.T).ravel()

    def values(self, nodes: Nodes, feature: Array) -> Array:
        """Return the value of every row of every node in the node's feature."""
        index = nodes.spread(feature * self.n)
        index += nodes.rows
        return self.flat.take(index)


@dataclass(frozen=True)
class Splits:
    """One split per node.

    ``feature`` is -1 if there is none; ``p`` and ``u`` go left; ``risk`` is that of the children.
    """

    feature: Array
    cut: Array
    p: Array
    u: Array
    risk: Array


Chooser = Callable[[TreeTable, Nodes, TreeRisk], Splits]


def evaluate(nodes: Nodes, values: Array, cut: Array, risk: TreeRisk) -> tuple[Array, Array, Array]:
    """Return the labeled and unlabeled rows up to the node's cut, and the children's impurity."""
    p, u = nodes.count(values <= nodes.spread(cut))
    return p, u, risk.impurity(p, u) + risk.impurity(nodes.p - p, nodes.u - u)


def find_cut_range(nodes: Nodes, values: Array, inner: bool) -> tuple[Array, Array]:
    """Return where a node's cut may lie: from its lowest to its highest value.

    With ``inner`` it is from 0.4 into the lowest gap between distinct values to 0.6 into the
    highest one, as in the authors' code.
    """
    low, high = np.minimum.reduceat(values, nodes.starts), np.maximum.reduceat(values, nodes.starts)
    if not inner:
        return low, high
    second = np.minimum.reduceat(np.where(values > nodes.spread(low), values, np.inf), nodes.starts)
    last = np.maximum.reduceat(np.where(values < nodes.spread(high), values, -np.inf), nodes.starts)
    varies = high > low
    return (
        low + 0.4 * np.subtract(second, low, out=np.zeros_like(low), where=varies),
        np.where(varies, last, high)
        + 0.6 * np.subtract(high, last, out=np.zeros_like(low), where=varies),
    )


def make_random_chooser(rng: np.random.Generator, inner: bool = False) -> Chooser:
    """Return a chooser of the best of one random cut in ``ceil(sqrt(d))`` random features.

    Only features that vary in the node are tried.
    """

    def choose(table: TreeTable, nodes: Nodes, risk: TreeRisk) -> Splits:
        parts = [
            _choose_splits(table, chunk, risk, rng, inner)
            for _, chunk in nodes.chunks(table.features)
        ]
        return parts[0] if len(parts) == 1 else _join(Splits, parts)

    return choose


def _choose_splits(
    table: TreeTable, nodes: Nodes, risk: TreeRisk, rng: np.random.Generator, inner: bool
) -> Splits:
    m, d = len(nodes.p), table.features
    order = np.tile(np.arange(d), (m, 1))  # shuffled as far as it is read
    tried = np.zeros(m, dtype=np.int64)  # features that vary
    best = Splits(
        np.full(m, -1),
        np.zeros(m),
        np.zeros(m, np.int64),
        np.zeros(m, np.int64),
        np.full(m, np.inf),
    )
    open_nodes = nodes
    where = np.arange(m)
    for j in range(d):
        going = tried[where] < ceil(sqrt(d))
        if not going.any():
            break
        open_nodes, where = open_nodes.only(going), where[going]
        drawn = rng.integers(j, d, len(where))
        feature = order[where, drawn]
        order[where, drawn] = order[where, j]
        values = table.values(open_nodes, feature)
        low, high = find_cut_range(open_nodes, values, inner)
        varies = high > low
        cut = low + rng.random(len(where)) * (high - low)
        cut = np.where(cut < high, cut, low)  # rounding: something must stay on the right
        p, u, value = evaluate(open_nodes, values, cut, risk)
        better = varies & ((value < best.risk[where]) | (best.feature[where] < 0))
        at = where[better]
        for mine, now in zip(_list_arrays(best), (feature, cut, p, u, value), strict=True):
            mine[at] = now[better]
        tried[where] += varies
    return best


@dataclass(frozen=True)
class Forest:
    """Trees as arrays over nodes; ``feature`` is -1 at a leaf.

    The first ``trees`` nodes are the roots.
    """

    trees: int
    feature: Array
    cut: Array
    left: Array
    right: Array
    v: Array  # posterior of the node
    reduction: Array  # of the impurity by its split, 0 at a leaf

    def leaves(self, x: Array) -> Array:
        """Return the leaf of every row in every tree, ``[trees, n]``."""
        n, d = x.shape
        flat = np.ascontiguousarray(x).ravel()
        node = np.repeat(np.arange(self.trees), n)
        going = np.flatnonzero(self.feature[node] >= 0)
        while len(going):
            now = node[going]
            low = flat.take((going % n) * d + self.feature[now]) <= self.cut[now]
            node[going] = np.where(low, self.left[now], self.right[now])
            going = going[self.feature[node[going]] >= 0]
        return node.reshape(self.trees, n)

    def importances(self, features: int) -> Array:
        """Return the sum of reductions of impurity per feature.

        Infinite ones, of splits into nodes without mass, are left out.
        """
        some = (self.feature >= 0) & np.isfinite(self.reduction)
        return np.bincount(self.feature[some], self.reduction[some], features)


def grow(
    table: TreeTable,
    risk: TreeRisk,
    trees: int,
    choose: Chooser,
    max_depth: int | None = None,
    min_leaf: int = 1,
) -> Forest:
    """Grow trees together until every node is a leaf."""
    n, n_p = table.n, table.n_p
    rows = np.tile(np.arange(n, dtype=np.int32), trees)
    level = Nodes(rows, np.full(trees, n_p), np.full(trees, n - n_p), n_p)
    levels: list[Forest] = []
    depth = count = 0
    while len(level.p):
        leaf = risk.stops(level.p, level.u) | (level.sizes <= min_leaf)
        if max_depth is not None and depth >= max_depth:
            leaf[:] = True
        inner = level.only(~leaf)
        splits = choose(table, inner, risk) if len(inner.p) else None
        divides = splits.feature >= 0 if splits is not None else np.zeros(0, bool)
        at = np.flatnonzero(~leaf)[divides]
        feature, left, right = (np.full(len(leaf), -1) for _ in range(3))
        cut, reduction = np.zeros(len(leaf)), np.zeros(len(leaf))
        size, count = len(leaf), count + len(leaf)
        if splits is not None:
            feature[at], cut[at] = splits.feature[divides], splits.cut[divides]
            reduction[at] = risk.impurity(inner.p, inner.u)[divides] - splits.risk[divides]
        left[at], right[at] = count + np.arange(len(at)), count + len(at) + np.arange(len(at))
        levels.append(
            Forest(size, feature, cut, left, right, risk.posterior(level.p, level.u), reduction)
        )
        level, depth = _make_children(table, inner, splits, divides), depth + 1
    return _join(Forest, levels, trees=trees)


def _make_children(table: TreeTable, nodes: Nodes, splits: Splits | None, divides: Array) -> Nodes:
    """Return the children of split nodes, all left ones first."""
    if splits is None or not divides.any():
        return Nodes(np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(0, np.int64), nodes.n_p)
    split = nodes.only(divides)
    p, u = splits.p[divides], splits.u[divides]
    low = table.values(split, splits.feature[divides]) <= split.spread(splits.cut[divides])
    rows = np.concatenate([split.rows[low], split.rows[~low]])
    return Nodes(
        rows, np.concatenate([p, split.p - p]), np.concatenate([u, split.u - u]), nodes.n_p
    )


def _list_arrays(record: Any) -> list[Array]:
    """Return the arrays of a record of arrays."""
    return [getattr(record, f.name) for f in fields(record) if f.name != "trees"]


def _join(kind: Any, parts: list[Any], **more: Any) -> Any:
    """Join records of arrays, array by array."""
    return kind(*more.values(), *map(np.concatenate, zip(*map(_list_arrays, parts), strict=True)))
