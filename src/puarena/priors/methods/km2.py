"""KM2: kernel mean embedding with the gradient threshold.

Ramaswamy, Scott, Tewari: Mixture proportion estimation via kernel embeddings of distributions.
ICML 2016.
"""

from __future__ import annotations

import warnings

import numpy as np

from puarena.priors.kernels import compute_median_distance, factor_kernel
from puarena.priors.sample import Floats, Index, PriorMethod, PriorWarning, Sample, Share

MAX_RANK = 300  # columns of the factor that replaces the kernel matrix
MAX_LAMBDA = 20.0  # lambda = 1 / (1 - share) is searched up to here
SLOPE_THRESHOLD = 0.2  # in units of the distance of the two mean embeddings


def prepare(
    sample: Sample, max_samples: int = 2000, space: str = "scores", iterations: int = 300
) -> Share:
    """Return ``1 - 1/lambda`` where the slope of ``d(lambda)`` exceeds the threshold.

    ``d(lambda)`` is the distance of ``lambda mean_U + (1 - lambda) mean_P`` from the convex hull of
    all points in the kernel's space. An incomplete Cholesky factor of at most ``MAX_RANK`` columns
    replaces the kernel matrix. A sample of more than ``max_samples`` rows is thinned, with a
    warning, to as many rows of either side if possible. The kernel's width is the median distance
    of two points. ``space`` is ``"scores"`` (out-of-fold log-odds of P against U, far better in our
    measurements) or ``"features"`` (as published).
    """
    rng = sample.rng
    z_p, z_u = sample.scale_points(space)
    if len(z_p) + len(z_u) > max_samples:
        keep_p = min(len(z_p), max(max_samples // 2, max_samples - len(z_u)))
        keep_u = max_samples - keep_p
        text = (
            f"km2 uses {keep_p} of {len(z_p)} positives and {keep_u} of {len(z_u)} unlabeled rows "
            "(max_samples)"
        )
        sample.notes.append(text)
        warnings.warn(text, PriorWarning, stacklevel=4)
        z_p, z_u = z_p[rng.permutation(len(z_p))[:keep_p]], z_u[rng.permutation(len(z_u))[:keep_u]]
    n_p, n_u = len(z_p), len(z_u)
    x = np.vstack([z_u, z_p])
    z = factor_kernel(x, compute_median_distance(x, rng), MAX_RANK)

    def estimate_share(i_p: Index | None, i_u: Index | None) -> float:
        f = np.concatenate([_draw_weights(i_u, n_u, rng), np.zeros(n_p)])
        h = np.concatenate([np.zeros(n_u), _draw_weights(i_p, n_p, rng)])
        return _find_share(z, f, h, iterations)

    return estimate_share


def _draw_weights(index: Index | None, n: int, rng: np.random.Generator) -> Floats:
    """Return equal weights, or those of a new resample, since the rows may have been thinned."""
    if index is None:
        return np.full(n, 1 / n)
    return np.bincount(rng.integers(0, n, n), minlength=n) / n


def _find_share(z: Floats, f: Floats, h: Floats, iterations: int) -> float:
    """Find the share at which the slope of d reaches the threshold, by bisection.

    The rows of z embed the points; f and h are the weights of the means of U and of P.
    """
    gap = z.T @ (f - h)
    distance = max(float(np.linalg.norm(gap)), 1e-9)
    step = 1 / float(np.linalg.eigvalsh(z.T @ z)[-1])
    low, high, v = 0.0, 1 - 1 / MAX_LAMBDA, f
    while high - low > 0.005:
        middle = (low + high) / 2
        target = z.T @ f + (1 / (1 - middle) - 1) * gap
        v, rest = _project_to_hull(z, target, v, step, iterations)
        slope = float(rest @ gap) / max(float(np.linalg.norm(rest)), 1e-9)
        low, high = (low, middle) if slope > SLOPE_THRESHOLD * distance else (middle, high)
    return (low + high) / 2


def _project_to_hull(
    z: Floats, target: Floats, start: Floats, step: float, iterations: int
) -> tuple[Floats, Floats]:
    """Return the convex weights of the rows of z nearest to a target, and the residual.

    The method is accelerated projected gradient descent with restarts.
    """
    v = y = start
    t = 1.0
    for _ in range(iterations):
        new = _project_to_simplex(y - step * (z @ (z.T @ y - target)))
        if (y - new) @ (new - v) > 0:  # restart
            t = 1.0
        following = (1 + np.sqrt(1 + 4 * t * t)) / 2
        y = new + (t - 1) / following * (new - v)
        moved = float(np.abs(new - v).sum())
        v, t = new, following
        if moved < 1e-6:
            break
    return v, target - z.T @ v


def _project_to_simplex(v: Floats) -> Floats:
    """Return the Euclidean projection onto the probability simplex."""
    ordered = np.sort(v)[::-1]
    excess = np.cumsum(ordered) - 1
    k = np.nonzero(ordered > excess / np.arange(1, len(v) + 1))[0][-1]
    return np.maximum(v - excess[k] / (k + 1), 0.0)


METHOD = PriorMethod(
    "km2",
    "Ramaswamy, Scott, Tewari: Mixture proportion estimation via kernel embeddings of "
    "distributions, ICML 2016",
    prepare,
    bootstraps=10,
    options=("max_samples", "space"),
)
