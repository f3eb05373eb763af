"""TIcE: tree induction for the label frequency c.

Bekker, Davis: Estimating the class prior in positive and unlabeled data through decision tree induction. AAAI 2018.
"""

from __future__ import annotations

import heapq
from itertools import count

import numpy as np
import numpy.typing as npt

from puarena.priors.sample import Floats, Index, Method, Sample, Share, share_from_c

BINS = 8  # of every feature, by quantiles of the whole sample
SMOOTHING = 10  # k of the paper's split score L / (T + k)
SMALLEST = 10  # rows of a subset whose lower bound counts

Bins = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]


def prepare(sample: Sample, max_splits: int = 100, folds: int = 5, max_features: int = 64) -> Share:
    """``c = max over subsets of L/T - sqrt(c(1-c)(1-d)/(d T))``: subsets with a large share L/T of labeled rows.

    Subsets are the nodes of a tree grown on one fold, best node first, by the labeled share of the better child; the
    bound is taken on the other folds, with d = max(0.025, 1/(1 + 0.004 T)) of their size, twice (c from the first
    pass), and averaged over folds. Features are cut at quantiles; of more than ``max_features`` the principal
    components are used.
    """
    bins = _binned(sample, max_features)
    n_p = len(sample.x_p)

    def share(i_p: Index | None, i_u: Index | None) -> float:
        rows_p = np.arange(n_p) if i_p is None else i_p
        rows_u = np.arange(len(bins) - n_p) if i_u is None else i_u
        x = bins[np.concatenate([rows_p, rows_u + n_p])]
        labeled = np.arange(len(x)) < len(rows_p)
        rng = sample.rng
        fold = np.empty(len(x), np.int64)  # stratified
        fold[labeled] = rng.permutation(labeled.sum()) % folds
        fold[~labeled] = rng.permutation((~labeled).sum()) % folds
        nodes = [_grow(x, labeled, fold == k, max_splits) for k in range(folds)]
        c = 0.5
        for _ in range(2):
            c = float(np.clip(np.mean([_bound(node, c) for node in nodes]), 1e-3, 1.0))
        return share_from_c(c, len(rows_p), len(rows_u))

    return share


def _binned(sample: Sample, max_features: int) -> Bins:
    x = np.vstack(sample.scaled)
    if x.shape[1] > max_features:
        x = x @ np.linalg.eigh(x.T @ x)[1][:, -max_features:]
    cuts = np.quantile(x, np.arange(1, BINS) / BINS, axis=0)
    return (x[:, :, None] > cuts.T).sum(2).astype(np.uint8)


def _counts(x: Bins, labeled: Flags) -> tuple[Floats, Floats]:
    """Rows and labeled rows at or below each cut, ``[features, BINS - 1]``."""
    features = x.shape[1]
    flat = x.astype(np.int64) + BINS * np.arange(features)
    size = BINS * features
    total = np.bincount(flat.ravel(), minlength=size).reshape(features, BINS)
    marked = np.bincount(flat[labeled].ravel(), minlength=size).reshape(features, BINS)
    return total.cumsum(1)[:, :-1].astype(float), marked.cumsum(1)[:, :-1].astype(float)


def _grow(x: Bins, labeled: Flags, grows: Flags, max_splits: int) -> list[tuple[int, int]]:
    """Grow a tree best node first; return (rows, labeled rows) of every node on the rows it was not grown on."""
    order = count()
    everything = np.arange(len(x))
    heap: list[tuple[float, int, Index]] = [(-1.0, next(order), everything)]
    nodes = [_held(everything, labeled, grows)]
    for _ in range(max_splits):
        if not heap:
            break
        _, _, rows = heapq.heappop(heap)
        mine = rows[grows[rows]]
        below, below_l = _counts(x[mine], labeled[mine])
        above, above_l = len(mine) - below, labeled[mine].sum() - below_l
        score = np.maximum(below_l / (below + SMOOTHING), above_l / (above + SMOOTHING))
        score[(below == 0) | (above == 0)] = -1.0
        feature, cut = np.unravel_index(int(score.argmax()), score.shape)
        if score[feature, cut] < 0:
            continue
        left = x[rows, feature] <= cut
        for part in (rows[left], rows[~left]):
            nodes.append(_held(part, labeled, grows))
            inner = part[grows[part]]
            if len(inner) > 2 * SMALLEST and labeled[inner].any():
                promise = float(labeled[inner].sum()) / (len(inner) + SMOOTHING)
                heapq.heappush(heap, (-promise, next(order), part))
    return nodes


def _held(rows: Index, labeled: Flags, grows: Flags) -> tuple[int, int]:
    held = rows[~grows[rows]]
    return len(held), int(labeled[held].sum())


def _bound(nodes: list[tuple[int, int]], c: float) -> float:
    """The best lower bound of c over the nodes; the first is the whole fold and always counts as it is."""
    size = nodes[0][0]
    d = max(0.025, 1 / (1 + 0.004 * size))
    spread = c * (1 - c) * (1 - d) / d
    bounds = [marked / rows - (spread / rows) ** 0.5 for rows, marked in nodes if rows >= SMALLEST]
    return max([*bounds, nodes[0][1] / size])


METHOD = Method(
    "tice",
    "Bekker, Davis: Estimating the class prior in PU data through decision tree induction, AAAI 2018",
    prepare,
    bootstraps=10,
    options=("max_splits",),
)
