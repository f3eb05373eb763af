"""Two samples are drawn: U from the marginal, P from the positives."""

from __future__ import annotations

from typing import Any

import numpy as np

from puarena.datasets.base import Indices
from puarena.pu.labeling.base import Demand, Setting
from puarena.utils.counts import Counts, allocate

MAX_MODEST_RATE = 0.3


class TwoSample(Setting):
    """U alone follows the marginal."""

    code = "ts"
    title = "two-sample"
    meaning = "unlabeled examples are drawn from everything, and labeled positives separately"
    one_sample = False
    may_lack = True  # P comes on top of U, and a class may have too few examples for both

    def prior_in_u(self, prior: float, rate: float) -> float:
        """Return the prior itself."""
        return prior

    def prior_from_u(self, inside: Any, rate: float) -> Any:
        """Return the prior of U itself."""
        return inside

    def lowest_prior(self, rate: float) -> float:
        """Return 0: the labeled examples say nothing about the prior."""
        return 0.0

    def modest_rate(self, prior: float) -> float:
        """Return a rate for which a dataset has enough positives for both samples."""
        return min(MAX_MODEST_RATE, 0.25 * (1 - prior) + 0.05)

    def counts(self, demand: Demand) -> tuple[Counts, Counts]:
        """Draw both samples."""
        return allocate(demand.n.n_p, demand.positive), demand.allocate(demand.n.n_u)

    def candidates(self, part: Indices, p: int, u: int) -> Indices:
        """Return the positives outside of U, or all of them if P and U must share some."""
        return part if p + u > len(part) else np.concatenate([part[:p], part[p + u :]])

    def unlabeled(self, part: Indices, p: int, u: int, labeled: Indices) -> Indices:
        """Return the class's share of U; it shares with P only what it must."""
        start = min(p, len(part) - u)
        return part[start : start + u]


SETTING = TwoSample()
