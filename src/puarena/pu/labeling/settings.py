"""The settings of the package: one sample of the marginal, or two samples."""

from __future__ import annotations

from typing import Any

import numpy as np

from puarena.datasets.base import Indices
from puarena.pu.labeling.base import Demand, Setting
from puarena.utils.counts import Counts, allocate, round_half_up


class OneSample(Setting):
    """P and U together follow the marginal, so U has a smaller share of positives."""

    code = "os"
    title = "one-sample"
    meaning = "one sample is drawn and some of its positives are labeled; the rest is unlabeled"
    one_sample = True

    def label_frequency(self, prior: float, rate: float) -> float:
        """Return c, the probability that a positive is labeled."""
        return rate / prior

    def prior_in_u(self, prior: float, rate: float) -> float:
        """Return the share of positives once the labeled ones are removed."""
        c = min(1.0, self.label_frequency(prior, rate))
        return (1 - c) * prior / (1 - c * prior)

    def prior_from_u(self, inside: Any, rate: float) -> Any:
        """Return the prior of P and U together."""
        return rate + (1 - rate) * inside

    def lowest_prior(self, rate: float) -> float:
        """Return the rate: all labeled examples are positives."""
        return rate

    def modest_rate(self, prior: float) -> float:
        """Return the rate that labels half of the positives."""
        return 0.5 * prior

    def counts(self, demand: Demand) -> tuple[Counts, Counts]:
        """Draw the sample, and label some of it."""
        sample = demand.allocate(demand.n.n)
        labels = min(demand.n.n_p, round_half_up(demand.prior * demand.n.n))
        # Allocated by the sample's own counts, so that no class labels more than it has there.
        p = allocate(labels, sample * (demand.positive > 0))
        return p, sample - p

    def refusal(self, demand: Demand, class_names: tuple[str, ...]) -> str:
        """Return why more positives cannot be labeled than the sample has."""
        n, rate, prior = demand.n, demand.rate, demand.prior
        positives = round_half_up(prior * n.n)
        if n.n_p <= positives:
            return ""
        worst = int(np.argmax(demand.positive))
        available = allocate(positives, demand.positive)[worst]
        needed = allocate(n.n_p, demand.positive)[worst]
        return (
            f"rate {rate:g} is above the class prior {prior:g}, so the label frequency "
            f"c = {self.label_frequency(prior, rate):.3g} would exceed 1: class "
            f"'{class_names[worst]}' has {available} examples in the sample and lacks "
            f"{needed - available} of the {needed} to be labeled; use a rate of at most {prior:g}"
        )

    def candidates(self, part: Indices, p: int, u: int) -> Indices:
        """Return the positives of the sample."""
        return part[: p + u]

    def unlabeled(self, part: Indices, p: int, u: int, labeled: Indices) -> Indices:
        """Return the sample without its labeled examples."""
        sample = part[: p + u]
        return sample[~np.isin(sample, labeled)]


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
