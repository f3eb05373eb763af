"""A posterior that is logistic in the normal score: how it is fitted to scores of P and U, and its likelihood."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit
from scipy.stats import norm, rankdata

from puarena.priors.sample import Floats

BINS = 120
STEPS = 26  # of bisection for an intercept


@dataclass(frozen=True)
class Curve:
    """Rows of P and U, counted in bins of equal size along the normal score of the pooled rows."""

    x: Floats  # the mean normal score of a bin
    p: Floats  # rows of P in it
    u: Floats  # rows of U in it

    @classmethod
    def of(cls, p: Floats, u: Floats) -> Curve:
        """Count the scores."""
        x = normal_scores(np.concatenate([p, u]))
        n, bins = len(x), min(len(x), BINS)
        place = (np.argsort(np.argsort(x, kind="stable"), kind="stable") * bins) // n
        size = np.bincount(place, minlength=bins)
        in_p = np.bincount(place[: len(p)], minlength=bins).astype(float)
        return cls(np.bincount(place, x, minlength=bins) / size, in_p, size - in_p)

    def intercepts(self, slope: Floats, share: Floats) -> Floats:
        """The intercepts at which the mean posterior over U is the share."""
        weight = self.u / self.u.sum()
        low = np.full(np.broadcast(slope, share).shape, -40.0)
        high = -low
        for _ in range(STEPS):
            middle = (low + high) / 2
            below = np.tensordot(weight, expit(slope * self.x[:, None, None] + middle), 1) < share
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return (low + high) / 2

    def likelihood(self, slope: Floats, intercept: Floats, share: Floats) -> Floats:
        """Log-likelihood of who is in P: the odds of P against U are n_P/n_U times the posterior over the share."""
        rate = self.p.sum() / (self.p.sum() + self.u.sum())
        q = expit(slope * self.x[:, None, None] + intercept)
        of_p = np.clip(rate * q / (rate * q + (1 - rate) * share), 1e-12, 1 - 1e-12)
        return np.asarray(
            np.tensordot(self.p, np.log(of_p), 1) + np.tensordot(self.u, np.log1p(-of_p), 1)
        )


def normal_scores(values: Floats) -> Floats:
    """The normal quantiles of the ranks; equal values share one."""
    return np.asarray(norm.ppf((rankdata(values) - 0.5) / len(values)))
