"""Inclusion probabilities with a given sum: the constant that a mechanism leaves open, by bisection."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from puarena.errors import UserError
from puarena.pu.labeling.base import Chances

HALVINGS = 200  # more than a float has bits


def linked(link: Callable[[float], Chances], size: int, total: int) -> Chances:
    """Return ``link(a)``, which rises with ``a`` from 0 to 1, at the ``a`` where its sum is ``total``."""
    if total >= size:
        return np.ones(size)
    low, high = -1.0, 1.0
    while link(low).sum() > total:
        low *= 2
    while link(high).sum() < total:
        high *= 2
    return link(_bisected(lambda a: link(a).sum() < total, low, high))


def weighted(log: npt.NDArray[np.float64], total: int, who: str) -> Chances:
    """Return ``min(1, a weights)`` with the sum ``total``, of the logarithms of the weights."""
    usable = int((log > -np.inf).sum())
    if usable < total:
        raise UserError(
            f"labeling {who} leaves {usable} of {len(log)} candidates with a chance above 0, and {total} of them "
            "are to be labeled; use a lower rate, or another range or power"
        )
    if usable == total:
        return (log > -np.inf).astype(np.float64)

    def chances(a: float) -> Chances:
        return np.exp(np.minimum(0.0, a + log))

    low, high = -log.max() - 60, -log[log > -np.inf].min()
    return chances(_bisected(lambda a: chances(a).sum() < total, float(low), float(high)))


def standardized(values: npt.NDArray[np.float64], what: str) -> npt.NDArray[np.float64]:
    """Return values with mean 0 and population standard deviation 1; a constant cannot have them."""
    spread = values.std()
    if not spread > 1e-12 * max(1.0, float(np.abs(values).max(initial=0.0))):
        raise UserError(
            f"labeling cannot depend on {what}: it is {values[0]:g} for all {len(values)} positives that may be "
            "labeled"
        )
    return (values - values.mean()) / spread


def _bisected(below: Callable[[float], bool], low: float, high: float) -> float:
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) else (low, middle)
    return (low + high) / 2
