"""Propensities with a given sum: the constant that a mechanism leaves open, by bisection."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from puarena.errors import UserError
from puarena.pu.labeling.base import Chances

BISECTION_STEPS = 200  # more than a float has bits


def solve_link(link: Callable[[float], Chances], size: int, total: int) -> Chances:
    """Return ``link(a)``, which rises from 0 to 1, for the ``a`` with the sum ``total``."""
    if total >= size:
        return np.ones(size)
    low, high = -1.0, 1.0
    while link(low).sum() > total:
        low *= 2
    while link(high).sum() < total:
        high *= 2
    return link(_bisect(lambda a: link(a).sum() < total, low, high))


def solve_weights(log_weights: npt.NDArray[np.float64], total: int, text: str) -> Chances:
    """Return ``min(1, a weights)`` with the sum ``total``; ``text`` is for error messages."""
    usable = int((log_weights > -np.inf).sum())
    if usable < total:
        raise UserError(
            f"labeling {text} leaves {usable} of {len(log_weights)} candidates with a chance "
            f"above 0, and {total} of them are to be labeled; use a lower rate, or another range "
            "or power",
            "missing-data",
        )
    if usable == total:
        return (log_weights > -np.inf).astype(np.float64)

    def chances(a: float) -> Chances:
        return np.exp(np.minimum(0.0, a + log_weights))

    low, high = -log_weights.max() - 60, -log_weights[log_weights > -np.inf].min()
    return chances(_bisect(lambda a: chances(a).sum() < total, float(low), float(high)))


def standardize(values: npt.NDArray[np.float64], what: str) -> npt.NDArray[np.float64]:
    """Return values with mean 0 and population standard deviation 1; constants are an error."""
    deviation = values.std()
    if not deviation > 1e-12 * max(1.0, float(np.abs(values).max(initial=0.0))):
        raise UserError(
            f"labeling cannot depend on {what}: it is {values[0]:g} for all {len(values)} "
            "positives that may be labeled",
            "invalid-value",
        )
    return (values - values.mean()) / deviation


def _bisect(is_below: Callable[[float], bool], low: float, high: float) -> float:
    for _ in range(BISECTION_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if is_below(middle) else (low, middle)
    return (low + high) / 2
