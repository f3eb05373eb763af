"""Saturation: how the share of labeled rows levels off as the score grows.

The estimators of mixture proportions (BBE, KM2, penalized L1) look for a region of pure positives;
if the classes overlap there is none, and they answer too high. Here the posterior inside U is
assumed to be logistic in the normal score (the normal quantile of the rank) of a score that
separates P from U, as in the label-frequency models of

Elkan, Noto: Learning classifiers from only positive and unlabeled data. KDD 2008;
Jaskie, Elkan, Spanias: A modified logistic regression for positive and unlabeled learning.
Asilomar 2019,

and slope and share are averaged over their posterior distribution, under weak prior distributions:
real tables have few positives more often than many, and in one sample neither hardly any nor nearly
all positives are labeled. A range in which the prior is known to lie truncates the distribution;
the interval is that of the distribution. Every row counts only ``TEMPER`` times, since a logistic
curve is only approximately right. These numbers were chosen on some real tables and tried on others
(docs/practice.md). Where an increasing curve of any shape fits much better than the logistic one,
as it does if the positives are of two kinds, one of which is mixed with negatives, the interval
reaches to the estimate of BBE.

The interval is the shortest one. The distribution is skewed to the right: with few labels, one that
cuts the same share off both ends misses rare positives of which most are labeled.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit
from scipy.stats import norm, rankdata

from puarena.priors.methods import bbe
from puarena.priors.sample import Floats, Index, PriorMethod, Sample, Share, take_rows
from puarena.pu.labeling import Setting

TEMPER = 0.3
SHARE_CENTER, SHARE_SPREAD = -1.6, 1.6  # of the log-odds of the share of positives in U
FREQUENCY_CENTER, FREQUENCY_SPREAD = -1.2, 1.3  # of the log-odds of the label frequency
SLOPE_CENTER, SLOPE_SPREAD = 0.9, 1.0  # of the logarithm of the slope

LOWEST_SHARE, HIGHEST_SHARE, SHARES = 1e-4, 0.985, 80
LOG_SLOPES = np.linspace(-1.0, 3.4, 20)

MAX_BINS = 100
# By how much the logarithm of the likelihood may be below that of an increasing curve of any shape:
# on samples from the model, and on 28 real tables, it was mostly less.
MAX_MISFIT, MAX_MISFIT_PER_ROW = 10.0, 0.003
MAX_INTERCEPT = 400.0  # more than the steepest slope times the largest normal score
BISECTION_STEPS = 32
INTERVAL_STEPS = 400  # in which the shortest interval is searched


@dataclass(frozen=True)
class ScoreBins:
    """Counts of P and U in bins of equal width along the normal score of the pooled rows.

    Bins of equal width are as fine among the highest scores, where few rows are, as in the middle:
    rare positives are not merged with the rows below them.
    """

    x: Floats  # the mean normal score of a bin
    p: Floats  # rows of P in it
    u: Floats  # rows of U in it

    @classmethod
    def from_scores(cls, p: Floats, u: Floats) -> ScoreBins:
        """Count the scores of P and U."""
        x = compute_normal_scores(np.concatenate([p, u]))
        width = (x.max() - x.min()) / MAX_BINS or 1.0
        place = np.minimum(np.floor((x - x.min()) / width), MAX_BINS - 1).astype(np.int64)
        place = np.unique(place, return_inverse=True)[1]
        size = np.bincount(place).astype(float)
        in_p = np.bincount(place[: len(p)], minlength=len(size)).astype(float)
        return cls(np.bincount(place, x) / size, in_p, size - in_p)

    def find_intercepts(self, slope: Floats, share: Floats) -> Floats:
        """Return the intercepts at which the mean posterior over U is the share, by bisection."""
        weight = self.u / self.u.sum()
        low = np.full(np.broadcast(slope, share).shape, -MAX_INTERCEPT)
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

    def compute_monotone_likelihood(self) -> float:
        """Return the log-likelihood of the best increasing curve, which may have any shape."""
        from sklearn.isotonic import isotonic_regression

        rows = self.p + self.u
        of_p = isotonic_regression(self.p / rows, sample_weight=rows)
        of_p = np.clip(of_p, 1e-12, 1 - 1e-12)
        return float(self.p @ np.log(of_p) + self.u @ np.log1p(-of_p))


@dataclass(frozen=True)
class SaturationFit:
    """The posterior distribution over slopes (rows) and shares of positives in U (columns)."""

    slopes: Floats  # [slopes]
    shares: Floats  # [shares]
    intercepts: Floats  # [slopes, shares]
    likelihood: Floats  # [slopes, shares]
    weights: Floats  # of the shares
    priors: Floats  # the class priors of the shares, as the setting defines them

    @property
    def share(self) -> float:
        """The mean share of positives in U."""
        return float(self.weights @ self.shares)

    @property
    def prior(self) -> float:
        """The mean prior."""
        return float(self.weights @ self.priors)

    def compute_joint(self) -> Floats:
        """Return the weights of slopes and shares together; given the share, rows count fully."""
        evidence = self.likelihood + compute_slope_prior()[:, None]
        given_share = np.exp(evidence - evidence.max(0))
        return np.asarray(given_share / given_share.sum(0) * self.weights)


def fit_saturation(
    p: Floats,
    u: Floats,
    setting: Setting,
    rate: float | None = None,
    bounds: tuple[float, float] = (0.0, 1.0),
) -> SaturationFit:
    """Fit slopes and shares to scores of P and U.

    ``rate`` is the share of labeled rows in the data, if the scores are only of a part of them;
    ``bounds`` is the range in which the class prior lies; its ends may be equal.
    """
    rate = len(p) / (len(p) + len(u)) if rate is None else rate
    ends = []
    for end in bounds:
        share = 0.0
        if end > setting.lowest_prior(rate):
            share = float(setting.prior_in_u(end, rate))
        ends.append(min(max(share, LOWEST_SHARE), HIGHEST_SHARE))
    low, high = ends
    count = 1 if low == high else SHARES
    shares = expit(np.linspace(logit(low), logit(high), count))
    bins, slopes = ScoreBins.from_scores(p, u), np.exp(LOG_SLOPES)
    intercepts = bins.find_intercepts(slopes[:, None], shares[None])
    likelihood = bins.compute_likelihood(slopes[:, None], intercepts, shares[None])
    priors = np.asarray(setting.prior_from_u(shares, rate), float)
    evidence = TEMPER * likelihood + compute_slope_prior()[:, None]
    evidence -= 0.5 * ((logit(shares) - SHARE_CENTER) / SHARE_SPREAD) ** 2
    if setting.one_sample:
        frequency = np.clip(rate / priors, 1e-9, 1 - 1e-9)
        evidence -= 0.5 * ((logit(frequency) - FREQUENCY_CENTER) / FREQUENCY_SPREAD) ** 2
    weights = np.exp(evidence - evidence.max()).sum(0)
    return SaturationFit(slopes, shares, intercepts, likelihood, weights / weights.sum(), priors)


def compute_normal_scores(values: Floats) -> Floats:
    """Return the normal quantiles of the ranks; equal values share one."""
    return np.asarray(norm.ppf((rankdata(values) - 0.5) / len(values)))


def compute_slope_prior() -> Floats:
    """Return the logarithm of the prior density of ``LOG_SLOPES``."""
    return -0.5 * ((LOG_SLOPES - SLOPE_CENTER) / SLOPE_SPREAD) ** 2


def compute_quantiles(values: Floats, weights: Floats, levels: Floats) -> Floats:
    """Return quantiles of a distribution on increasing values, interpolated between them."""
    if len(values) == 1:
        return np.full(len(levels), float(values[0]))
    # Half of a value's weight is below it.
    below = np.cumsum(weights) - weights / 2
    return np.interp(levels, below, values)


def find_shortest_interval(
    values: Floats, weights: Floats, level: float = 0.95
) -> tuple[float, float]:
    """Return the shortest interval with a share of a distribution on increasing values."""
    levels = np.linspace(0.0, 1.0, INTERVAL_STEPS + 1)
    quantiles = compute_quantiles(values, weights, levels)
    width = round(level * INTERVAL_STEPS)
    low = int(np.argmin(quantiles[width:] - quantiles[:-width]))
    return float(quantiles[low]), float(quantiles[low + width])


def prepare(sample: Sample) -> Share:
    """Return the posterior mean of the share."""
    all_p, all_u = sample.ranking

    def estimate_share(i_p: Index | None, i_u: Index | None) -> float:
        p, u = take_rows(all_p, i_p), take_rows(all_u, i_u)
        return fit_saturation(p, u, sample.setting, sample.data_rate, sample.bounds).share

    return estimate_share


def fits_badly(sample: Sample) -> bool:
    """Return whether an increasing curve of another shape is much more likely."""
    p, u = sample.ranking
    fit = fit_saturation(p, u, sample.setting, sample.data_rate)
    misfit = ScoreBins.from_scores(p, u).compute_monotone_likelihood() - fit.likelihood.max()
    return bool(misfit > MAX_MISFIT + MAX_MISFIT_PER_ROW * (len(p) + len(u)))


def compute_interval(samples: list[Sample], level: float = 0.95) -> tuple[float, float]:
    """Return the interval of the mean distribution over the sample and its refitted parts.

    If the curve fits badly, the interval is extended to what BBE finds on each of them.
    """
    fits = []
    for each in samples:
        fits.append(fit_saturation(*each.ranking, each.setting, each.data_rate, each.bounds))
    weights = np.mean([fit.weights for fit in fits], axis=0)
    ends = list(find_shortest_interval(fits[0].shares, weights, level))
    if fits_badly(samples[0]):
        ends += [bbe.prepare(each)(None, None) for each in samples]
    return float(min(ends)), float(max(ends))


METHOD = PriorMethod(
    "saturation",
    "puarena; after Elkan, Noto, KDD 2008, and Jaskie, Elkan, Spanias, Asilomar 2019",
    prepare,
    bootstraps=0,
    interval=compute_interval,
)
