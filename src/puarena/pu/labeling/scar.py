"""Selected completely at random: every positive has the same chance of a label."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from puarena.datasets.base import Flags
from puarena.pu.labeling.base import Candidates, Chances, Mechanism


@dataclass(frozen=True)
class Scar(Mechanism):
    """A fixed number of labels per class; the shuffle decides which examples get them."""

    name = "scar"
    meaning = "every positive is labeled with the same probability"

    def propensity(self, candidates: Candidates) -> Chances:
        """Return the label frequency of every candidate's class."""
        size = np.array([len(part) for part in candidates.parts])
        return np.repeat(candidates.counts / np.maximum(size, 1), size)

    def label(self, candidates: Candidates, chances: Chances, rng: np.random.Generator) -> Flags:
        """Return the first candidates of every class."""
        shares = zip(candidates.parts, candidates.counts, strict=True)
        return np.concatenate([np.arange(len(part)) < count for part, count in shares])


MECHANISM = Scar
