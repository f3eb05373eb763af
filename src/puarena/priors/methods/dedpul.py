"""DEDPUL: difference of estimated densities.

Ivanov: DEDPUL: difference-of-estimated-densities-based positive-unlabeled learning. ICMLA 2020.
"""

from __future__ import annotations

import numpy as np

from puarena.priors.sample import Floats, Index, Method, Sample, Share, take

BINS = 1024
GRID = np.linspace(0.001, 1.0, 1000)


def prepare(sample: Sample, max_difference: float = 0.05) -> Share:
    """The share a at which ``mean_U min(1, a r)`` equals a, r = f_P / f_U of the out-of-fold log-odds.

    Densities by a Gaussian kernel on a fine grid; r is made non-decreasing in the score. The expectation-maximization
    of the paper is tried first; where it has no fixed point but 0, the largest second difference of
    ``D(a) = a - mean_U min(1, a r)`` with ``D <= max_difference`` is taken, as in the paper.
    """
    all_p, all_u = sample.logits

    def share(i_p: Index | None, i_u: Index | None) -> float:
        ratio = density_ratio(take(all_p, i_p), take(all_u, i_u))
        root = _fixed_point(ratio)
        return root if root is not None else _kink(ratio, max_difference)

    return share


def density_ratio(z_p: Floats, z_u: Floats) -> Floats:
    """``f_P / f_U`` at the unlabeled points, sorted by score and non-decreasing."""
    from scipy.ndimage import gaussian_filter1d

    both = np.concatenate([z_p, z_u])
    widths = [_bandwidth(z) for z in (z_p, z_u)]
    margin = 4 * max(widths)
    edges = np.linspace(both.min() - margin, both.max() + margin, BINS + 1)
    step = edges[1] - edges[0]
    density = []
    for z, width in zip((z_p, z_u), widths, strict=True):
        counts, _ = np.histogram(z, edges)
        density.append(gaussian_filter1d(counts / (len(z) * step), width / step, mode="constant"))
    middle = (edges[:-1] + edges[1:]) / 2
    f_p, f_u = (np.interp(np.sort(z_u), middle, d) for d in density)
    ratio = f_p / np.maximum(f_u, 1e-12)
    return np.asarray(np.maximum.accumulate(_smooth(ratio, max(1, len(ratio) // 40))))


def _bandwidth(z: Floats) -> float:
    """Silverman's rule, robust to tails."""
    spread = min(z.std(), float(np.subtract(*np.percentile(z, [75, 25]))) / 1.34) or z.std()
    return max(0.9 * float(spread) * len(z) ** -0.2, 0.01)


def _smooth(values: Floats, reach: int) -> Floats:
    """Rolling median over a window of neighbors in the order of the score."""
    from scipy.ndimage import median_filter

    return np.asarray(median_filter(values, 2 * reach + 1, mode="nearest"), float)


def _fixed_point(ratio: Floats, steps: int = 1000, tolerance: float = 1e-5) -> float | None:
    """Iterate ``a <- mean_U min(1, a r)`` from 1; None if it runs off to 0."""
    a = 1.0
    for _ in range(steps):
        new = float(np.minimum(1.0, a * ratio).mean())
        if abs(new - a) < tolerance:
            break
        a = new
    return a if a > 0.05 and abs(float(np.minimum(1.0, a * ratio).mean()) - a) < tolerance else None


def _kink(ratio: Floats, most: float) -> float:
    """The share where ``D(a)`` bends most."""
    ordered = np.sort(ratio)
    total = np.concatenate([[0.0], np.cumsum(ordered)])
    below = np.searchsorted(ordered, 1 / GRID, "right")  # points whose a r is below 1
    difference = GRID - (GRID * total[below] + (len(ordered) - below)) / len(ordered)
    lag = 20
    bend = difference[2 * lag :] - 2 * difference[lag:-lag] + difference[: -2 * lag]
    allowed = difference[lag:-lag] <= most
    if not allowed.any():
        return float(GRID[np.argmin(difference)])
    return float(GRID[lag:-lag][np.argmax(np.where(allowed, bend, -np.inf))])


METHOD = Method(
    "dedpul",
    "Ivanov: DEDPUL: difference-of-estimated-densities-based positive-unlabeled learning, ICMLA 2020",
    prepare,
    bootstraps=100,
    options=("max_difference",),
)
