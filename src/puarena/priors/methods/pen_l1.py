"""Penalized L1 divergence.

du Plessis, Niu, Sugiyama: Class-prior estimation for learning from positive and unlabeled data. ACML 2015.
"""

from __future__ import annotations

import numpy as np

from puarena.priors.kernels import gaussian, median_distance
from puarena.priors.sample import Floats, Index, Method, Sample, Share, take

THETA = np.linspace(0.01, 1.0, 100)
WIDTHS = (0.25, 0.5)  # of the median distance
PENALTIES = (1e-4, 1e-3, 1e-2)


def prepare(sample: Sample, centers: int = 200, space: str = "scores", folds: int = 5) -> Share:
    """Minimize over theta ``sum_l max(0, b_l) b_l / lambda - theta + 1``, ``b_l = theta mean_P g_l - mean_U g_l``.

    The g_l are Gaussians around a random part of the sample; their width and lambda maximize the held-out objective
    (K folds) at the theta where its largest value is smallest. ``space``:
    ``"scores"`` (out-of-fold log-odds of P against U) or ``"features"`` (as published).
    """
    z_p, z_u = sample.points(space)
    rng = sample.rng
    everything = np.vstack([z_p, z_u])
    middle = everything[rng.permutation(len(everything))[:centers]]
    base = median_distance(everything, rng)
    maps = [(gaussian(z_p, middle, w * base), gaussian(z_u, middle, w * base)) for w in WIDTHS]
    fold_p, fold_u = (
        rng.permutation(len(z)) % max(2, min(folds, len(z_p), len(z_u))) for z in (z_p, z_u)
    )
    k, penalty = _choose(maps, fold_p, fold_u)
    g_p, g_u = maps[k]

    def share(i_p: Index | None, i_u: Index | None) -> float:
        b = THETA[:, None] * take(g_p, i_p).mean(0) - take(g_u, i_u).mean(0)
        return float(THETA[np.argmin((np.maximum(b, 0) * b).sum(1) / penalty - THETA + 1)])

    return share


def _choose(maps: list[tuple[Floats, Floats]], fold_p: Index, fold_u: Index) -> tuple[int, float]:
    """The width (its number) and the penalty that are best where the best held-out divergence is smallest."""
    score = np.zeros((len(maps), len(PENALTIES), len(THETA)))
    folds = int(fold_p.max()) + 1
    for k, (g_p, g_u) in enumerate(maps):
        for fold in range(folds):
            train, held = (
                THETA[:, None] * g_p[part_p].mean(0) - g_u[part_u].mean(0)
                for part_p, part_u in (
                    (fold_p != fold, fold_u != fold),
                    (fold_p == fold, fold_u == fold),
                )
            )
            for j, penalty in enumerate(PENALTIES):
                a = np.maximum(train, 0) / penalty
                score[k, j] += ((a * held).sum(1) - penalty / 2 * (a**2).sum(1)) / folds
    at = int(np.argmin(score.max((0, 1)) - THETA + 1))
    best = int(score[:, :, at].argmax())
    return best // len(PENALTIES), PENALTIES[best % len(PENALTIES)]


METHOD = Method(
    "pen-l1",
    "du Plessis, Niu, Sugiyama: Class-prior estimation for learning from positive and unlabeled data, ACML 2015",
    prepare,
    bootstraps=50,
    options=("centers", "space"),
)
