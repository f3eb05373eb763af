"""TIcE: tree induction for the label frequency c.

Bekker, Davis: Estimating the class prior in positive and unlabeled data through decision tree
induction. AAAI 2018.
"""

from __future__ import annotations

import heapq
from itertools import count

import numpy as np
import numpy.typing as npt

from puarena.priors.sample import (
    Floats,
    Index,
    PriorMethod,
    Sample,
    Share,
    share_from_frequency,
)

FEATURE_BINS = 8  # of every feature, by quantiles of the whole sample
SMOOTHING = 10  # k of the paper's split score L / (T + k)
MIN_SUBSET_ROWS = 10  # of a subset with a lower bound that counts

Bins = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]


def prepare(sample: Sample, max_splits: int = 100, folds: int = 5, max_features: int = 64) -> Share:
    """Return the share at the label frequency c, found from subsets with many labeled rows.

    ``c = max over subsets of L/T - sqrt(c(1-c)(1-d)/(d T))``, with T rows in a subset, L of them
    labeled. Subsets are the nodes of a tree grown on one fold, best node first, by the labeled
    share of the better child. The bound is taken on the other folds, with
    d = max(0.025, 1/(1 + 0.004 T)) of their size, twice (c from the first pass), and averaged over
    folds. Features are cut at quantiles; of more than ``max_features`` the principal components
    are used.
    """
    bins = _bin_features(sample, max_features)
    n_p = len(sample.x_p)

    def estimate_share(i_p: Index | None, i_u: Index | None) -> float:
        rows_p = np.arange(n_p) if i_p is None else i_p
        rows_u = np.arange(len(bins) - n_p) if i_u is None else i_u
        x = bins[np.concatenate([rows_p, rows_u + n_p])]
        labeled = np.arange(len(x)) < len(rows_p)
        rng = sample.rng
        fold = np.empty(len(x), np.int64)  # stratified
        fold[labeled] = rng.permutation(labeled.sum()) % folds
        fold[~labeled] = rng.permutation((~labeled).sum()) % folds
        trees = [_grow_tree(x, labeled, fold == k, max_splits) for k in range(folds)]
        c = 0.5
        for _ in range(2):
            bounds = [_compute_bound(nodes, c) for nodes in trees]
            c = float(np.clip(np.mean(bounds), 1e-3, 1.0))
        return share_from_frequency(c, len(rows_p), len(rows_u))

    return estimate_share


def _bin_features(sample: Sample, max_features: int) -> Bins:
    x = np.vstack(sample.scaled)
    if x.shape[1] > max_features:
        x = x @ np.linalg.eigh(x.T @ x)[1][:, -max_features:]
    cuts = np.quantile(x, np.arange(1, FEATURE_BINS) / FEATURE_BINS, axis=0)
    return (x[:, :, None] > cuts.T).sum(2).astype(np.uint8)


def _count_below(x: Bins, labeled: Flags) -> tuple[Floats, Floats]:
    """Return rows and labeled rows up to each cut, ``[features, FEATURE_BINS - 1]``."""
    features = x.shape[1]
    flat = x.astype(np.int64) + FEATURE_BINS * np.arange(features)
    size = FEATURE_BINS * features
    total = np.bincount(flat.ravel(), minlength=size).reshape(features, FEATURE_BINS)
    marked = np.bincount(flat[labeled].ravel(), minlength=size).reshape(features, FEATURE_BINS)
    return total.cumsum(1)[:, :-1].astype(float), marked.cumsum(1)[:, :-1].astype(float)


def _grow_tree(x: Bins, labeled: Flags, grows: Flags, max_splits: int) -> list[tuple[int, int]]:
    """Grow a tree best node first.

    Return rows and labeled rows of every node, among the rows that the tree was not grown on.
    """
    order = count()
    root = np.arange(len(x))
    heap: list[tuple[float, int, Index]] = [(-1.0, next(order), root)]
    nodes = [_count_held(root, labeled, grows)]
    for _ in range(max_splits):
        if not heap:
            break
        _, _, rows = heapq.heappop(heap)
        own = rows[grows[rows]]
        below, below_l = _count_below(x[own], labeled[own])
        above, above_l = len(own) - below, labeled[own].sum() - below_l
        score = np.maximum(below_l / (below + SMOOTHING), above_l / (above + SMOOTHING))
        score[(below == 0) | (above == 0)] = -1.0
        feature, cut = np.unravel_index(int(score.argmax()), score.shape)
        if score[feature, cut] < 0:
            continue
        left = x[rows, feature] <= cut
        for part in (rows[left], rows[~left]):
            nodes.append(_count_held(part, labeled, grows))
            inner = part[grows[part]]
            if len(inner) > 2 * MIN_SUBSET_ROWS and labeled[inner].any():
                promise = float(labeled[inner].sum()) / (len(inner) + SMOOTHING)
                heapq.heappush(heap, (-promise, next(order), part))
    return nodes


def _count_held(rows: Index, labeled: Flags, grows: Flags) -> tuple[int, int]:
    held = rows[~grows[rows]]
    return len(held), int(labeled[held].sum())


def _compute_bound(nodes: list[tuple[int, int]], c: float) -> float:
    """Return the best lower bound of c over the nodes; of the first, the whole fold, the share."""
    size = nodes[0][0]
    d = max(0.025, 1 / (1 + 0.004 * size))
    spread = c * (1 - c) * (1 - d) / d
    bounds = [nodes[0][1] / size]
    for rows, marked in nodes:
        if rows >= MIN_SUBSET_ROWS:
            bounds.append(marked / rows - (spread / rows) ** 0.5)
    return max(bounds)


METHOD = PriorMethod(
    "tice",
    "Bekker, Davis: Estimating the class prior in PU data through decision tree induction, "
    "AAAI 2018",
    prepare,
    bootstraps=10,
    options=("max_splits",),
)
