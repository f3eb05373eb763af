"""Saturation: how the share of labeled rows levels off as the score grows, read with a logistic posterior.

The estimators of mixture proportions (BBE, KM2, penalized L1) ask for a region of pure positives; where the classes
overlap there is none, and they answer too high. Here the posterior inside U is supposed to be logistic in the normal
score (the normal quantile of the rank) of a score that tells P from U, as in the label-frequency models of

Elkan, Noto: Learning classifiers from only positive and unlabeled data. KDD 2008;
Jaskie, Elkan, Spanias: A modified logistic regression for positive and unlabeled learning. Asilomar 2019,

and slope and share are averaged over by their posterior distribution, under mild prior distributions: real tables have
more often few positives than many. The interval is that distribution's, with every row counted ``TEMPER`` times,
since a logistic curve is only nearly right. These numbers were chosen on some real tables and tried on others
(docs/practice.md).
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit, logit

from puarena.priors.curve import Curve
from puarena.priors.sample import Floats, Index, Method, Sample, Share, take

TEMPER = 0.3
SHARE_CENTER, SHARE_SPREAD = -1.3, 1.1  # of the log-odds of the share of positives in U
SLOPE_CENTER, SLOPE_SPREAD = 0.9, 1.0  # of the logarithm of the slope

SHARES = expit(np.linspace(logit(0.004), logit(0.985), 64))
SLOPES = np.linspace(-0.7, 2.3, 16)


def prepare(sample: Sample) -> Share:
    """The posterior mean of the share."""
    all_p, all_u = sample.ranking

    def share(i_p: Index | None, i_u: Index | None) -> float:
        return float(distribution(take(all_p, i_p), take(all_u, i_u)) @ SHARES)

    return share


def distribution(p: Floats, u: Floats) -> Floats:
    """The posterior distribution over ``SHARES``, of scores of P and U."""
    slopes = np.exp(SLOPES)[:, None]
    curve = Curve.of(p, u)
    evidence = TEMPER * curve.likelihood(
        slopes, curve.intercepts(slopes, SHARES[None]), SHARES[None]
    )
    evidence += slope_prior()[:, None]
    evidence -= 0.5 * ((logit(SHARES) - SHARE_CENTER) / SHARE_SPREAD) ** 2
    weight = np.exp(evidence - evidence.max()).sum(0)
    return np.asarray(weight / weight.sum())


def slope_prior() -> Floats:
    """The logarithm of the prior density of ``SLOPES``."""
    return -0.5 * ((SLOPES - SLOPE_CENTER) / SLOPE_SPREAD) ** 2


def interval(samples: list[Sample], level: float = 0.95) -> tuple[float, float]:
    """Quantiles of the mean distribution over samples: the whole one, and those that were fitted again."""
    mixed = np.mean([distribution(*sample.ranking) for sample in samples], axis=0)
    low, high = np.interp([(1 - level) / 2, (1 + level) / 2], np.cumsum(mixed), SHARES)
    return float(low), float(high)


METHOD = Method(
    "saturation",
    "puarena; after Elkan, Noto, KDD 2008, and Jaskie, Elkan, Spanias, Asilomar 2019",
    prepare,
    bootstraps=0,
    interval=interval,
)
