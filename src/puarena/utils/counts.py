"""Whole numbers of examples: rounding, and shares of a total by class."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.int64]  # [classes]
CLOSE = 1e-9


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


def stratified_test_counts(
    classes: npt.NDArray[np.integer], class_count: int, fraction: float
) -> Counts:
    """Return how many examples of each class a random test part takes when it is drawn class by class."""
    counts = np.bincount(classes, minlength=class_count)
    return spread(rounded(fraction * len(classes)), counts)
