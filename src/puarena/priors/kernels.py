"""Gaussian kernels between a part of the data and all of it; never all against all."""

from __future__ import annotations

import numpy as np

from puarena.priors.sample import Floats


def squared_distances(a: Floats, b: Floats) -> Floats:
    """``|a_i - b_j|^2``."""
    d = (a**2).sum(1)[:, None] + (b**2).sum(1) - 2 * a @ b.T
    return np.maximum(d, 0.0)


def gaussian(a: Floats, b: Floats, width: float) -> Floats:
    """``exp(-|a_i - b_j|^2 / (2 width^2))``."""
    return np.asarray(np.exp(squared_distances(a, b) / (-2 * width**2)))


def median_distance(x: Floats, rng: np.random.Generator, most: int = 500) -> float:
    """The median distance between two rows, from a random part of them."""
    part = x[rng.permutation(len(x))[:most]]
    distances = np.sqrt(squared_distances(part, part)[np.triu_indices(len(part), 1)])
    positive = distances[distances > 0]
    return float(np.median(positive)) if len(positive) else 1.0


def factor(x: Floats, width: float, rank: int, tolerance: float = 1e-6) -> Floats:
    """``[n, k]`` z with ``z z' ~ gaussian(x, x, width)``, k <= rank: incomplete Cholesky, largest rest first."""
    rest = np.ones(len(x))
    z = np.zeros((len(x), min(rank, len(x))))
    for k in range(z.shape[1]):
        pivot = int(rest.argmax())
        if rest[pivot] < tolerance:
            return z[:, :k]
        column = gaussian(x, x[pivot : pivot + 1], width)[:, 0] - z[:, :k] @ z[pivot, :k]
        z[:, k] = column / np.sqrt(rest[pivot])
        rest = np.maximum(rest - z[:, k] ** 2, 0.0)
    return z
