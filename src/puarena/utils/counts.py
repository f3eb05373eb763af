"""Whole numbers of examples: rounding, and the allocation of a total to classes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.int64]  # [classes]
CLOSE = 1e-9  # tolerance for the last bits of a product of floats


def allocate(total: int, weights: npt.NDArray[Any]) -> Counts:
    """Allocate ``total`` to classes in proportion to ``weights`` by largest remainder.

    Of equal remainders the lower class comes first.
    """
    if total == 0:
        return np.zeros(len(weights), np.int64)
    quota = total * weights / weights.sum()
    counts = np.floor(quota + CLOSE).astype(np.int64)
    order = np.argsort(-np.round(quota - counts, 9), kind="stable")
    counts[order[: total - counts.sum()]] += 1
    return counts


def allocate_by_prior(
    total: int, prior: float, positive: npt.NDArray[Any], negative: npt.NDArray[Any]
) -> Counts:
    """Allocate a fraction ``prior`` of ``total`` to positive classes, the rest to the others."""
    positives = round_half_up(prior * total)
    return allocate(positives, positive) + allocate(total - positives, negative)


def round_half_up(value: float) -> int:
    """Round half up, whatever the last bits of a product of floats are."""
    return math.floor(value + 0.5 + CLOSE)


def truncate(value: float) -> int:
    """Return the integer part, whatever the last bits of a product of floats are."""
    return math.floor(value + CLOSE)


def count_test_examples(
    classes: npt.NDArray[np.integer], class_count: int, fraction: float
) -> Counts:
    """Return how many examples of each class a stratified random test part has."""
    counts = np.bincount(classes, minlength=class_count)
    return allocate(round_half_up(fraction * len(classes)), counts)
