"""Two samples are drawn: U from the marginal, P from the positives."""

from __future__ import annotations

from typing import Any

import numpy as np

from puarena.datasets.dataset import Indices
from puarena.pu.labeling.base import Demand, Setting
from puarena.utils.counts import Counts, spread

LARGEST = 0.3  # of the modest rates


class TwoSample(Setting):
    """U alone follows the marginal."""

    code = "ts"
    title = "two-sample"
    meaning = "unlabeled examples are drawn from everything, and labeled positives apart from them"
    one_sample = False
    may_lack = True  # P comes on top of U, and a class may not have so many

    def prior_in_u(self, prior: float, rate: float) -> float:
        """Return the prior itself."""
        return prior

    def prior_from_u(self, inside: Any, rate: float) -> Any:
        """Return the prior of U itself."""
        return inside

    def lowest_prior(self, rate: float) -> float:
        """The labeled examples say nothing about it."""
        return 0.0

    def modest_rate(self, prior: float) -> float:
        """Few enough for a dataset to have them beside those in U."""
        return min(LARGEST, 0.25 * (1 - prior) + 0.05)

    def counts(self, demand: Demand) -> tuple[Counts, Counts]:
        """Draw both."""
        return spread(demand.n.n_p, demand.positive), demand.mixture(demand.n.n_u)

    def candidates(self, part: Indices, p: int, u: int) -> Indices:
        """Return the positives that are not in U; all of them where P and U share some."""
        return part if p + u > len(part) else np.concatenate([part[:p], part[p + u :]])

    def unlabeled(self, part: Indices, p: int, u: int, labeled: Indices) -> Indices:
        """Return the class's share of U, whoever is labeled; of those in P only as many as it cannot do without."""
        start = min(p, len(part) - u)
        return part[start : start + u]


SETTING = TwoSample()
