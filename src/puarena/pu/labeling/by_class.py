"""Subpopulations are labeled at different rates, as PULSNAR and others study."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from puarena.pu.labeling.base import Candidates, Chances, Mechanism
from puarena.pu.labeling.solving import solve_weights, standardize


@dataclass(frozen=True)
class ByClass(Mechanism):
    """``min(1, a 2^(strength k))`` with the rank ``k`` of the original class."""

    name = "class"
    meaning = "each original class that is positive is labeled more often than the one before it"

    strength: float = 1.0

    def propensity(self, candidates: Candidates) -> Chances:
        """Return the chances by the class of every candidate."""
        rank = np.unique(candidates.classes, return_inverse=True)[1].astype(np.float64)
        standardize(rank, "the original class (its rank)")  # raises an error for a single class
        return solve_weights(self.strength * rank * np.log(2.0), candidates.labels, self.text)


MECHANISM = ByClass
