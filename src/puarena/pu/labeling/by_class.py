"""Sub-populations are labeled at different rates: what PULSNAR and the arbitrary-positive literature study."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from puarena.pu.labeling.base import Candidates, Chances, Mechanism
from puarena.pu.labeling.solving import standardized, weighted


@dataclass(frozen=True)
class ByClass(Mechanism):
    """``min(1, a 2^(strength k))``, k the rank of the original class among the positive ones."""

    name = "class"
    meaning = "every further one of the original classes that are positive is labeled more often than the one before"

    strength: float = 1.0

    def propensity(self, candidates: Candidates) -> Chances:
        """Return the chances by the class of every candidate."""
        rank = np.unique(candidates.classes, return_inverse=True)[1].astype(np.float64)
        standardized(rank, "the original class (its rank)")
        return weighted(self.strength * rank * np.log(2.0), candidates.labels, self.text)


MECHANISM = ByClass
