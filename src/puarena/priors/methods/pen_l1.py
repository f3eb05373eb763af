"""Penalized L1 divergence.

du Plessis, Niu, Sugiyama: Class-prior estimation for learning from positive and unlabeled data.
ACML 2015.
"""

from __future__ import annotations

import numpy as np

from puarena.priors.kernels import compute_gaussian, compute_median_distance
from puarena.priors.sample import Floats, Index, PriorMethod, Sample, Share, take_rows

THETA = np.linspace(0.01, 1.0, 100)  # shares that are tried
KERNEL_WIDTHS = (0.25, 0.5)  # in units of the median distance
PENALTIES = (1e-4, 1e-3, 1e-2)


def prepare(sample: Sample, centers: int = 200, space: str = "scores", folds: int = 5) -> Share:
    """Return the theta that minimizes ``sum_l max(0, b_l) b_l / lambda - theta + 1``.

    Here ``b_l = theta mean_P g_l - mean_U g_l``. The g_l are Gaussians around a random part of the
    sample; their width and lambda maximize the held-out objective (K folds) at the theta where its
    largest value is smallest. ``space`` is ``"scores"`` (out-of-fold log-odds of P against U) or
    ``"features"`` (as published).
    """
    z_p, z_u = sample.scale_points(space)
    rng = sample.rng
    pooled = np.vstack([z_p, z_u])
    middle = pooled[rng.permutation(len(pooled))[:centers]]
    base = compute_median_distance(pooled, rng)
    maps = []
    for width in KERNEL_WIDTHS:
        scale = width * base
        maps.append((compute_gaussian(z_p, middle, scale), compute_gaussian(z_u, middle, scale)))
    parts = max(2, min(folds, len(z_p), len(z_u)))
    fold_p, fold_u = (rng.permutation(len(z)) % parts for z in (z_p, z_u))
    k, penalty = _choose_parameters(maps, fold_p, fold_u)
    g_p, g_u = maps[k]

    def estimate_share(i_p: Index | None, i_u: Index | None) -> float:
        b = THETA[:, None] * take_rows(g_p, i_p).mean(0) - take_rows(g_u, i_u).mean(0)
        objective = (np.maximum(b, 0) * b).sum(1) / penalty - THETA + 1
        return float(THETA[np.argmin(objective)])

    return estimate_share


def _choose_parameters(
    maps: list[tuple[Floats, Floats]], fold_p: Index, fold_u: Index
) -> tuple[int, float]:
    """Return the index of the width and the penalty with the best held-out divergence.

    They are compared at the theta where the largest held-out divergence is smallest.
    """
    score = np.zeros((len(maps), len(PENALTIES), len(THETA)))
    folds = int(fold_p.max()) + 1
    for k, (g_p, g_u) in enumerate(maps):
        for fold in range(folds):
            held_p, held_u = fold_p == fold, fold_u == fold
            train = THETA[:, None] * g_p[~held_p].mean(0) - g_u[~held_u].mean(0)
            held = THETA[:, None] * g_p[held_p].mean(0) - g_u[held_u].mean(0)
            for j, penalty in enumerate(PENALTIES):
                a = np.maximum(train, 0) / penalty
                score[k, j] += ((a * held).sum(1) - penalty / 2 * (a**2).sum(1)) / folds
    at = int(np.argmin(score.max((0, 1)) - THETA + 1))
    best = int(score[:, :, at].argmax())
    return best // len(PENALTIES), PENALTIES[best % len(PENALTIES)]


METHOD = PriorMethod(
    "pen-l1",
    "du Plessis, Niu, Sugiyama: Class-prior estimation for learning from positive and unlabeled "
    "data, ACML 2015",
    prepare,
    bootstraps=50,
    options=("centers", "space"),
)
