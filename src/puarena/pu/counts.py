"""The arithmetic of a draw's sizes: how many examples it has, and how they are shared among classes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.int64]  # [classes]
VALIDATION = 0.1  # fraction of P and of U held out to choose a model
CLOSE = 1e-9


@dataclass(frozen=True)
class Sizes:
    """How many examples a draw has."""

    n_p: int
    n_u: int

    @property
    def n(self) -> int:
        """Labeled and unlabeled examples together."""
        return self.n_p + self.n_u

    @property
    def val_p(self) -> int:
        """Labeled positives held out."""
        return truncated(VALIDATION * self.n_p)

    @property
    def val_u(self) -> int:
        """Unlabeled examples held out."""
        return truncated(VALIDATION * self.n_u)


def sizes(size: int, rate: float, prior: float = 0.5, base: float = 0.5) -> Sizes:
    """Sizes of a draw from a sample of ``size`` whose positive fraction is ``base``, thinned to ``prior``.

    The total is the largest for which neither side needs more than it has in the base sample.
    """
    n = truncated(size * min(base / prior, (1 - base) / (1 - prior)))
    n_p = rounded(rate * n)
    return Sizes(n_p, n - n_p)


def spread(total: int, weights: npt.NDArray[Any]) -> Counts:
    """Share ``total`` among classes in proportion to ``weights`` by largest remainder (ties: the lower class)."""
    if total == 0:
        return np.zeros(len(weights), np.int64)
    quota = total * weights / weights.sum()
    counts = np.floor(quota + CLOSE).astype(np.int64)
    order = np.argsort(-np.round(quota - counts, 9), kind="stable")
    counts[order[: total - counts.sum()]] += 1
    return counts


def mixture(
    total: int, prior: float, positive: npt.NDArray[Any], negative: npt.NDArray[Any]
) -> Counts:
    """Share ``total`` among classes, a fraction ``prior`` of it on the positive side, by the weights of each side."""
    positives = rounded(prior * total)
    return spread(positives, positive) + spread(total - positives, negative)


def rounded(value: float) -> int:
    """Round half up, immune to the last bits of a float product."""
    return math.floor(value + 0.5 + 1e-9)


def truncated(value: float) -> int:
    """Integer part, immune to the last bits of a float product."""
    return math.floor(value + 1e-9)
