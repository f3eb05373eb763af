"""Trees of PU extra trees as arrays: all trees of a block grow together, level by level."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from math import ceil, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
PAIRS = 1 << 20  # (tree, row) pairs that grow or are evaluated at once
CHOICES = 1 << 24  # and entries of (node, feature)
LABELED = 1 << 32  # counts of labeled rows stand above those of all rows in one 64-bit number
ROUNDING = 1e-12  # relative, below which a mass counts as none


@dataclass(frozen=True)
class Risk:
    """The PU risk of a node that holds ``p`` of ``n_p`` labeled and ``u`` of ``n_u`` unlabeled rows.

    Masses: ``W_p = prior p/n_p`` of positives and ``W`` of everything: ``u/n_u``, or with ``one_sample``
    ``(p+u)/(n_p+n_u)``. ``kind``: "nnpu" or "upu". ``loss``: "quadratic" or "logistic".
    """

    prior: float
    n_p: int
    n_u: int
    one_sample: bool = False
    kind: str = "nnpu"
    loss: str = "quadratic"

    def masses(self, p: Array, u: Array) -> tuple[Array, Array]:
        """The mass of positives and of everything in a node."""
        everything = (p + u) / (self.n_p + self.n_u) if self.one_sample else u / self.n_u
        return self.prior * (p / self.n_p), np.asarray(everything)

    def posterior(self, p: Array, u: Array) -> Array:
        """``v = W_p / W``, infinite in a node without mass."""
        mine, all_of_it = self.masses(p, u)
        v = np.divide(mine, all_of_it, out=np.full(np.shape(mine), np.inf), where=all_of_it > 0)
        return np.where(
            np.abs(mine - all_of_it) <= ROUNDING * all_of_it, np.where(all_of_it > 0, 1.0, v), v
        )

    def impurity(self, p: Array, u: Array) -> Array:
        """The smallest risk of a constant answer: ``4 W v (1-v)`` or ``W H(v)``; beyond v = 1 as the kind says."""
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
        """Which nodes are leaves because nothing can be gained."""
        impurity = self.impurity(p, u)
        if self.kind == "nnpu":
            return impurity <= 0
        return np.isneginf(impurity) | ((impurity <= 0) & (p == 0))


@dataclass(frozen=True)
class Nodes:
    """Nodes of one level: their rows, node after node, and how many of them are labeled and unlabeled.

    Rows below ``n_p`` are the labeled ones.
    """

    rows: Array
    p: Array
    u: Array
    n_p: int

    @cached_property
    def sizes(self) -> Array:
        """Rows of each node."""
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
        """A value per node as a value per row."""
        return np.repeat(of_nodes, self.sizes)

    def count(self, some: Array) -> tuple[Array, Array]:
        """How many labeled and unlabeled rows of each node are among ``some`` (bool per row)."""
        total = np.cumsum(self._code * some)[self.ends - 1]
        total[1:] -= total[:-1].copy()
        labeled = total >> 32
        return labeled, (total & (LABELED - 1)) - labeled

    def only(self, some: Array) -> Nodes:
        """The nodes with a true flag."""
        if some.all():
            return self
        return Nodes(self.rows[self.spread(some)], self.p[some], self.u[some], self.n_p)

    def chunks(self, features: int) -> Iterator[tuple[slice, Nodes]]:
        """Runs of nodes for which a table of nodes by features is not too large."""
        step = max(1, CHOICES // features)
        for a in range(0, len(self.p), step):
            some = slice(a, min(a + step, len(self.p)))
            rows = self.rows[self.starts[a] : self.ends[some.stop - 1]]
            yield (
                some,
                self if step >= len(self.p) else Nodes(rows, self.p[some], self.u[some], self.n_p),
            )


class Table:
    """Features, column after column, labeled rows first."""

    def __init__(self, x: Array, n_p: int) -> None:
        self.n, self.features = x.shape
        self.n_p = n_p
        self.flat = np.ascontiguousarray(x.T).ravel()

    def values(self, nodes: Nodes, feature: Array) -> Array:
        """The value of every row of every node in the node's feature."""
        index = nodes.spread(feature * self.n)
        index += nodes.rows
        return self.flat.take(index)


@dataclass(frozen=True)
class Splits:
    """One split per node, ``feature`` -1 where there is none; ``p``, ``u`` go left; ``risk`` is the children's."""

    feature: Array
    cut: Array
    p: Array
    u: Array
    risk: Array


Chooser = Callable[[Table, Nodes, Risk], Splits]


def evaluate(nodes: Nodes, values: Array, cut: Array, risk: Risk) -> tuple[Array, Array, Array]:
    """Labeled and unlabeled rows with values up to the node's cut, and the sum of both children's impurities."""
    p, u = nodes.count(values <= nodes.spread(cut))
    return p, u, risk.impurity(p, u) + risk.impurity(nodes.p - p, nodes.u - u)


def cut_range(nodes: Nodes, values: Array, inner: bool) -> tuple[Array, Array]:
    """Where a node's cut may lie: from its lowest to its highest value; ``inner``: from 0.4 into the lowest gap between
    distinct values to 0.6 into the highest one, as the authors'."""
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


def extra_random(rng: np.random.Generator, inner: bool = False) -> Chooser:
    """Chooses the best of one random cut in each of ``ceil(sqrt(d))`` random features that vary in the node."""

    def choose(table: Table, nodes: Nodes, risk: Risk) -> Splits:
        parts = [
            _chosen(table, chunk, risk, rng, inner) for _, chunk in nodes.chunks(table.features)
        ]
        return parts[0] if len(parts) == 1 else _joined(Splits, parts)

    return choose


def _chosen(
    table: Table, nodes: Nodes, risk: Risk, rng: np.random.Generator, inner: bool
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
        low, high = cut_range(open_nodes, values, inner)
        varies = high > low
        cut = low + rng.random(len(where)) * (high - low)
        cut = np.where(cut < high, cut, low)  # rounding: something must stay on the right
        p, u, value = evaluate(open_nodes, values, cut, risk)
        better = varies & ((value < best.risk[where]) | (best.feature[where] < 0))
        at = where[better]
        for mine, now in zip(_columns(best), (feature, cut, p, u, value), strict=True):
            mine[at] = now[better]
        tried[where] += varies
    return best


@dataclass(frozen=True)
class Forest:
    """Trees as arrays over nodes; ``feature`` is -1 at a leaf. The first ``trees`` nodes are the roots."""

    trees: int
    feature: Array
    cut: Array
    left: Array
    right: Array
    v: Array  # posterior of the node
    reduction: Array  # of the impurity by its split, 0 at a leaf

    def leaves(self, x: Array) -> Array:
        """The leaf of every row in every tree, ``[trees, n]``."""
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
        """The sum of reductions of impurity per feature; infinite ones (of splits into nodes without mass) left out."""
        some = (self.feature >= 0) & np.isfinite(self.reduction)
        return np.bincount(self.feature[some], self.reduction[some], features)


def grow(
    table: Table,
    risk: Risk,
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
        level, depth = _children(table, inner, splits, divides), depth + 1
    return _joined(Forest, levels, trees=trees)


def _children(table: Table, nodes: Nodes, splits: Splits | None, divides: Array) -> Nodes:
    """The children of split nodes, all left ones first."""
    if splits is None or not divides.any():
        return Nodes(np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(0, np.int64), nodes.n_p)
    split = nodes.only(divides)
    p, u = splits.p[divides], splits.u[divides]
    low = table.values(split, splits.feature[divides]) <= split.spread(splits.cut[divides])
    rows = np.concatenate([split.rows[low], split.rows[~low]])
    return Nodes(
        rows, np.concatenate([p, split.p - p]), np.concatenate([u, split.u - u]), nodes.n_p
    )


def _columns(record: Any) -> list[Array]:
    return [getattr(record, f.name) for f in fields(record) if f.name != "trees"]


def _joined(kind: Any, parts: list[Any], **more: Any) -> Any:
    """Records of arrays as one, array by array."""
    return kind(*more.values(), *map(np.concatenate, zip(*map(_columns, parts), strict=True)))
