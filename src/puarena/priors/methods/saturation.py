"""Saturation: how the share of labeled rows levels off as the score grows.

The estimators of mixture proportions (BBE, KM2, penalized L1) look for a region of pure positives;
if the classes overlap there is none, and they answer too high. Here the posterior inside U is
assumed to be logistic in the normal score (the normal quantile of the rank) of a score that
separates P from U, as in the label-frequency models of

Elkan, Noto: Learning classifiers from only positive and unlabeled data. KDD 2008;
Jaskie, Elkan, Spanias: A modified logistic regression for positive and unlabeled learning.
Asilomar 2019,

and slope and share are averaged over their posterior distribution, under weak prior distributions:
real tables have few positives more often than many. The interval is that of this distribution.
Every row counts only ``TEMPER`` times, since a logistic curve is only approximately right. These
numbers were chosen on some real tables and tried on others (docs/practice.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit
from scipy.stats import norm, rankdata

from puarena.priors.sample import Floats, Index, PriorMethod, Sample, Share, take_rows

TEMPER = 0.3
SHARE_CENTER, SHARE_SPREAD = -1.3, 1.1  # of the log-odds of the share of positives in U
SLOPE_CENTER, SLOPE_SPREAD = 0.9, 1.0  # of the logarithm of the slope

SHARES = expit(np.linspace(logit(0.004), logit(0.985), 64))
LOG_SLOPES = np.linspace(-0.7, 2.3, 16)

MAX_BINS = 120
BISECTION_STEPS = 26


@dataclass(frozen=True)
class ScoreBins:
    """Counts of P and U in bins of equal size along the normal score of the pooled rows."""

    x: Floats  # the mean normal score of a bin
    p: Floats  # rows of P in it
    u: Floats  # rows of U in it

    @classmethod
    def from_scores(cls, p: Floats, u: Floats) -> ScoreBins:
        """Count the scores of P and U."""
        x = compute_normal_scores(np.concatenate([p, u]))
        n, bins = len(x), min(len(x), MAX_BINS)
        rank = np.argsort(np.argsort(x, kind="stable"), kind="stable")
        place = (rank * bins) // n
        size = np.bincount(place, minlength=bins)
        in_p = np.bincount(place[: len(p)], minlength=bins).astype(float)
        return cls(np.bincount(place, x, minlength=bins) / size, in_p, size - in_p)

    def find_intercepts(self, slope: Floats, share: Floats) -> Floats:
        """Return the intercepts at which the mean posterior over U is the share, by bisection."""
        weight = self.u / self.u.sum()
        low = np.full(np.broadcast(slope, share).shape, -40.0)
        high = -low
        for _ in range(BISECTION_STEPS):
            middle = (low + high) / 2
            below = np.tensordot(weight, expit(slope * self.x[:, None, None] + middle), 1) < share
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return (low + high) / 2

    def compute_likelihood(self, slope: Floats, intercept: Floats, share: Floats) -> Floats:
        """Return the log-likelihood of which rows are in P.

        The odds of P against U are n_P / n_U times the posterior over the share.
        """
        rate = self.p.sum() / (self.p.sum() + self.u.sum())
        q = expit(slope * self.x[:, None, None] + intercept)
        of_p = np.clip(rate * q / (rate * q + (1 - rate) * share), 1e-12, 1 - 1e-12)
        return np.asarray(
            np.tensordot(self.p, np.log(of_p), 1) + np.tensordot(self.u, np.log1p(-of_p), 1)
        )


def compute_normal_scores(values: Floats) -> Floats:
    """Return the normal quantiles of the ranks; equal values share one."""
    return np.asarray(norm.ppf((rankdata(values) - 0.5) / len(values)))


def compute_slope_prior() -> Floats:
    """Return the logarithm of the prior density of ``LOG_SLOPES``."""
    return -0.5 * ((LOG_SLOPES - SLOPE_CENTER) / SLOPE_SPREAD) ** 2


def compute_distribution(p: Floats, u: Floats) -> Floats:
    """Return the posterior distribution over ``SHARES``, from scores of P and U."""
    slopes = np.exp(LOG_SLOPES)[:, None]
    bins = ScoreBins.from_scores(p, u)
    intercepts = bins.find_intercepts(slopes, SHARES[None])
    evidence = TEMPER * bins.compute_likelihood(slopes, intercepts, SHARES[None])
    evidence += compute_slope_prior()[:, None]
    evidence -= 0.5 * ((logit(SHARES) - SHARE_CENTER) / SHARE_SPREAD) ** 2
    weight = np.exp(evidence - evidence.max()).sum(0)
    return np.asarray(weight / weight.sum())


def prepare(sample: Sample) -> Share:
    """Return the posterior mean of the share."""
    all_p, all_u = sample.ranking

    def estimate_share(i_p: Index | None, i_u: Index | None) -> float:
        return float(compute_distribution(take_rows(all_p, i_p), take_rows(all_u, i_u)) @ SHARES)

    return estimate_share


def compute_interval(samples: list[Sample], level: float = 0.95) -> tuple[float, float]:
    """Return quantiles of the mean distribution over the sample and its refitted parts."""
    mixed = np.mean([compute_distribution(*sample.ranking) for sample in samples], axis=0)
    low, high = np.interp([(1 - level) / 2, (1 + level) / 2], np.cumsum(mixed), SHARES)
    return float(low), float(high)


METHOD = PriorMethod(
    "saturation",
    "puarena; after Elkan, Noto, KDD 2008, and Jaskie, Elkan, Spanias, Asilomar 2019",
    prepare,
    bootstraps=0,
    interval=compute_interval,
)
