"""Gaussian kernels between a part of the data and all of it, for KM2 and penalized L1."""

from __future__ import annotations

import numpy as np

from puarena.priors.sample import Floats

MAX_PAIRED_ROWS = 500  # rows whose distances are all computed


def compute_squared_distances(a: Floats, b: Floats) -> Floats:
    """Return ``|a_i - b_j|^2``."""
    d = (a**2).sum(1)[:, None] + (b**2).sum(1) - 2 * a @ b.T
    return np.maximum(d, 0.0)


def compute_gaussian(a: Floats, b: Floats, width: float) -> Floats:
    """Return ``exp(-|a_i - b_j|^2 / (2 width^2))``."""
    return np.asarray(np.exp(compute_squared_distances(a, b) / (-2 * width**2)))


def compute_median_distance(x: Floats, rng: np.random.Generator) -> float:
    """Return the median distance between two rows, from a random part of them."""
    part = x[rng.permutation(len(x))[:MAX_PAIRED_ROWS]]
    distances = np.sqrt(compute_squared_distances(part, part)[np.triu_indices(len(part), 1)])
    positive = distances[distances > 0]
    return float(np.median(positive)) if len(positive) else 1.0


def factor_kernel(x: Floats, width: float, rank: int, tolerance: float = 1e-6) -> Floats:
    """Return z of shape ``[n, k]`` with ``z z' ~ compute_gaussian(x, x, width)`` and k <= rank.

    An incomplete Cholesky decomposition takes the largest remaining diagonal first; the whole
    kernel matrix is never formed.
    """
    rest = np.ones(len(x))
    z = np.zeros((len(x), min(rank, len(x))))
    for k in range(z.shape[1]):
        pivot = int(rest.argmax())
        if rest[pivot] < tolerance:
            return z[:, :k]
        column = compute_gaussian(x, x[pivot : pivot + 1], width)[:, 0] - z[:, :k] @ z[pivot, :k]
        z[:, k] = column / np.sqrt(rest[pivot])
        rest = np.maximum(rest - z[:, k] ** 2, 0.0)
    return z
