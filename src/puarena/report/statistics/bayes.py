"""The Bayesian signed-rank test with a region of practical equivalence (Benavoli, Corani, Demšar, Zaffalon 2017)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from puarena.report.statistics.draws import DIGITS
from puarena.report.statistics.results import Posterior, Posteriors

if TYPE_CHECKING:
    from pandas import DataFrame

SAMPLES = 50_000
PRIOR = 0.5  # weight of one difference of zero
LEAST = 5  # differences


def shares(z: Any, weights: Any, rope: float) -> Any:
    """``[draws, 3]``: the weight of pairs of differences below, inside and above the region; its edges count half."""
    import numpy as np

    z = np.concatenate([[0.0], np.asarray(z, float)])
    weights = np.asarray(weights, float)
    sums, edge = np.round(z[:, None] + z[None, :], DIGITS), round(2 * rope, DIGITS)

    def weight(side: Any) -> Any:
        beyond = (side > edge) + 0.5 * (side == edge)
        return ((weights @ beyond) * weights).sum(1)

    left, right = weight(-sums), weight(sums)
    return np.stack([left, 1 - left - right, right], axis=1)


def signed_rank(
    blocks: DataFrame, reference: str, rope: float, unit: str, higher: bool = True, seed: int = 0
) -> Posteriors:
    """How likely each algorithm is better than the reference, worse, or practically the same."""
    import numpy as np

    n = len(blocks)
    if n < LEAST or reference not in blocks.columns or blocks.shape[1] < 2:
        note = f"No Bayesian signed-rank test: it needs {LEAST} {unit} and two algorithms, and there are {n}."
        return Posteriors(reference, unit, rope, n, note=note)
    weights = np.random.default_rng(seed).dirichlet([PRIOR, *[1.0] * n], size=SAMPLES)
    items = []
    for name in blocks.columns:
        if name != reference:
            gaps = (1 if higher else -1) * (blocks[name] - blocks[reference]).to_numpy()
            largest = shares(gaps, weights, rope).argmax(1)
            items.append(
                Posterior(str(name), n, *(float((largest == side).mean()) for side in (0, 1, 2)))
            )
    return Posteriors(reference, unit, rope, n, tuple(items))
