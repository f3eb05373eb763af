"""DEDPUL: difference of estimated densities.

Ivanov: DEDPUL: difference-of-estimated-densities-based positive-unlabeled learning. ICMLA 2020.
"""

from __future__ import annotations

import numpy as np

from puarena.priors.sample import Floats, Index, PriorMethod, Sample, Share, take_rows

DENSITY_BINS = 1024
SHARE_GRID = np.linspace(0.001, 1.0, 1000)


def prepare(sample: Sample, max_difference: float = 0.05) -> Share:
    """Return the share a at which ``mean_U min(1, a r)`` equals a, with r = f_P / f_U.

    f_P and f_U are densities of the out-of-fold log-odds, by a Gaussian kernel on a fine grid; r is
    made non-decreasing in the score. The expectation-maximization of the paper is tried first; if
    its only fixed point is 0, the largest second difference of ``D(a) = a - mean_U min(1, a r)``
    with ``D <= max_difference`` is taken, as in the paper.
    """
    all_p, all_u = sample.logits

    def estimate_share(i_p: Index | None, i_u: Index | None) -> float:
        ratio = compute_density_ratio(take_rows(all_p, i_p), take_rows(all_u, i_u))
        root = _find_fixed_point(ratio)
        return _find_kink(ratio, max_difference) if root is None else root

    return estimate_share


def compute_density_ratio(z_p: Floats, z_u: Floats) -> Floats:
    """Return ``f_P / f_U`` at the unlabeled rows, sorted by score and non-decreasing."""
    from scipy.ndimage import gaussian_filter1d

    pooled = np.concatenate([z_p, z_u])
    widths = [_choose_bandwidth(z) for z in (z_p, z_u)]
    margin = 4 * max(widths)
    edges = np.linspace(pooled.min() - margin, pooled.max() + margin, DENSITY_BINS + 1)
    step = edges[1] - edges[0]
    density = []
    for z, width in zip((z_p, z_u), widths, strict=True):
        counts, _ = np.histogram(z, edges)
        density.append(gaussian_filter1d(counts / (len(z) * step), width / step, mode="constant"))
    middle = (edges[:-1] + edges[1:]) / 2
    f_p, f_u = (np.interp(np.sort(z_u), middle, d) for d in density)
    ratio = f_p / np.maximum(f_u, 1e-12)
    return np.asarray(np.maximum.accumulate(_smooth(ratio, max(1, len(ratio) // 40))))


def _choose_bandwidth(z: Floats) -> float:
    """Return the bandwidth by Silverman's rule, robust to tails."""
    spread = min(z.std(), float(np.subtract(*np.percentile(z, [75, 25]))) / 1.34) or z.std()
    return max(0.9 * float(spread) * len(z) ** -0.2, 0.01)


def _smooth(values: Floats, reach: int) -> Floats:
    """Return the rolling median over a window of neighbors in the order of the score."""
    from scipy.ndimage import median_filter

    return np.asarray(median_filter(values, 2 * reach + 1, mode="nearest"), float)


def _find_fixed_point(ratio: Floats, steps: int = 1000, tolerance: float = 1e-5) -> float | None:
    """Iterate ``a <- mean_U min(1, a r)`` from 1; return None if it converges to 0."""
    a = 1.0
    for _ in range(steps):
        new = float(np.minimum(1.0, a * ratio).mean())
        if abs(new - a) < tolerance:
            break
        a = new
    converged = abs(float(np.minimum(1.0, a * ratio).mean()) - a) < tolerance
    return a if a > 0.05 and converged else None


def _find_kink(ratio: Floats, max_difference: float) -> float:
    """Return the share at which ``D(a)`` bends most."""
    ordered = np.sort(ratio)
    total = np.concatenate([[0.0], np.cumsum(ordered)])
    below = np.searchsorted(ordered, 1 / SHARE_GRID, "right")  # rows whose a r is below 1
    difference = SHARE_GRID - (SHARE_GRID * total[below] + (len(ordered) - below)) / len(ordered)
    lag = 20
    bend = difference[2 * lag :] - 2 * difference[lag:-lag] + difference[: -2 * lag]
    allowed = difference[lag:-lag] <= max_difference
    if not allowed.any():
        return float(SHARE_GRID[np.argmin(difference)])
    return float(SHARE_GRID[lag:-lag][np.argmax(np.where(allowed, bend, -np.inf))])


METHOD = PriorMethod(
    "dedpul",
    "Ivanov: DEDPUL: difference-of-estimated-densities-based positive-unlabeled learning, "
    "ICMLA 2020",
    prepare,
    bootstraps=100,
    options=("max_difference",),
)
