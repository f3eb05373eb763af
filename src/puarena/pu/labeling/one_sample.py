"""One sample of the marginal is drawn and some of its positives are labeled; the rest of it is U."""

from __future__ import annotations

from typing import Any

import numpy as np

from puarena.datasets.dataset import Indices
from puarena.pu.labeling.base import Demand, Setting
from puarena.utils.counts import Counts, rounded, spread


class OneSample(Setting):
    """P and U together follow the marginal, so U has fewer positives than that."""

    code = "os"
    title = "one-sample"
    meaning = "one sample is drawn and part of its positives are labeled; everything else of it is unlabeled"
    one_sample = True

    def label_frequency(self, prior: float, rate: float) -> float:
        """Return c, the probability that a positive is labeled."""
        return rate / prior

    def prior_in_u(self, prior: float, rate: float) -> float:
        """Return what is left of the prior once the labeled positives are gone."""
        c = min(1.0, self.label_frequency(prior, rate))
        return (1 - c) * prior / (1 - c * prior)

    def prior_from_u(self, inside: Any, rate: float) -> Any:
        """Return the prior of P and U together."""
        return rate + (1 - rate) * inside

    def lowest_prior(self, rate: float) -> float:
        """All labeled examples are positives."""
        return rate

    def modest_rate(self, prior: float) -> float:
        """Label half of the positives."""
        return 0.5 * prior

    def counts(self, demand: Demand) -> tuple[Counts, Counts]:
        """Draw the sample, label in it."""
        sample = demand.mixture(demand.n.n)
        # Shared out by the sample's own counts, so that no class labels more than it has there.
        p = spread(
            min(demand.n.n_p, rounded(demand.prior * demand.n.n)), sample * (demand.positive > 0)
        )
        return p, sample - p

    def refusal(self, demand: Demand, class_names: tuple[str, ...]) -> str:
        """No more positives can be labeled than the sample has."""
        n, rate, prior, positives = (
            demand.n,
            demand.rate,
            demand.prior,
            rounded(demand.prior * demand.n.n),
        )
        if n.n_p <= positives:
            return ""
        worst = int(np.argmax(demand.positive))
        has, needs = (
            spread(positives, demand.positive)[worst],
            spread(n.n_p, demand.positive)[worst],
        )
        return (
            f"rate {rate:g} is above the class prior {prior:g}, so the label frequency "
            f"c = {self.label_frequency(prior, rate):.3g} would exceed 1: class '{class_names[worst]}' has {has} "
            f"examples in the sample and lacks {needs - has} of the {needs} to be labeled; use a rate of at most "
            f"{prior:g}"
        )

    def candidates(self, part: Indices, p: int, u: int) -> Indices:
        """Return the positives of the sample."""
        return part[: p + u]

    def unlabeled(self, part: Indices, p: int, u: int, labeled: Indices) -> Indices:
        """Return what is left of the sample."""
        sample = part[: p + u]
        return sample[~np.isin(sample, labeled)]


SETTING = OneSample()
