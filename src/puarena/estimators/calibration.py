"""Calibration without negatives: probabilities and thresholds from positives and unlabeled rows.

**Posterior.** Held-out scores of learners become log-odds, averaged over what is not known about
slope and prior; see :func:`average_posterior`.

**Slopes.** A decision ``s`` (zero on the threshold) becomes ``sigmoid(a s)``, with one slope
``a > 0`` below the threshold and one above it, so that a row is predicted positive exactly if its
probability exceeds one half. The slopes maximize the likelihood of which rows are labeled, under
the condition that the mean probability of a marginal sample is the class prior (or as close to it
as the threshold allows): the sample is U in the two-sample setting, P and U together in the
one-sample setting. With posterior ``q``, prior ``pi`` and label rate ``r``, a row of the one-sample
setting is labeled with probability ``c q``, where ``c = r / pi``; in the two-sample setting a row
of the pooled data comes from P with probability ``r q / (r q + (1 - r) pi)``. If propensities are
known, ``q`` is multiplied by each row's own, relative to that of an average positive. A normal
prior with deviation 5 on the slopes, in units of the root mean square of ``s``, keeps them finite
if the score separates P from U.

**Threshold.** It maximizes PA on the same rows; of equally good ones it is the nearest to zero.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.special import expit, logit

from puarena import metrics
from puarena.estimators.model_selection import count_positives
from puarena.priors.methods import saturation
from puarena.pu.labeling import Setting

Floats = npt.NDArray[np.float64]

MIN_LIKELIHOOD = 1e-300  # before the logarithm
SLOPE_DEVIATION = 5.0
LOG_SLOPE_RANGE = (-4.0, 2.5)  # the score in units of its root mean square
PRIOR_WEIGHT = 100.0  # of the squared distance of the mean probability from the prior
MAX_FITTED_ROWS = 4_000  # rows of P and of U that a fit uses
MAX_KNOTS = 512
MIN_RELATIVE_WEIGHT = 3e-3  # of a slope and share that a posterior is averaged over


@dataclass(frozen=True)
class PUScores:
    """Scores of labeled positives and of unlabeled rows, with what is known about their origin.

    ``relative_p`` and ``relative_u`` are the propensities of the rows divided by that of an average
    positive.
    """

    p: Floats
    u: Floats
    prior: float
    one_sample: bool
    relative_p: Floats | float = 1.0
    relative_u: Floats | float = 1.0

    @property
    def rate(self) -> float:
        """Share of labeled rows."""
        return len(self.p) / (len(self.p) + len(self.u))

    def shift(self, cut: float) -> PUScores:
        """Return the scores with the cut at zero."""
        return replace(self, p=self.p - cut, u=self.u - cut)

    def set_propensity(self, propensity_p: Floats, propensity_u: Floats) -> PUScores:
        """Return the scores with known propensities; an average positive has the harmonic mean."""
        average = 1 / np.mean(1 / propensity_p)
        return replace(self, relative_p=propensity_p / average, relative_u=propensity_u / average)


@dataclass(frozen=True)
class SlopeCalibration:
    """The map ``s -> sigmoid(below s)`` for negative ``s`` and ``sigmoid(above s)`` for others."""

    below: float = 1.0
    above: float = 1.0

    def __call__(self, score: Floats) -> Floats:
        """Return the probability of being positive."""
        return expit(np.where(score < 0, self.below, self.above) * score)


def fit_slopes(scores: PUScores) -> SlopeCalibration:
    """Fit the slopes as described in the module's docstring."""
    p, e_p = _thin(scores.p, scores.relative_p)
    u, e_u = _thin(scores.u, scores.relative_u)
    size = float(np.sqrt(np.mean(np.concatenate([p, u]) ** 2)))
    if not (np.isfinite(size) and size > 1e-12):
        return SlopeCalibration()
    rate, prior, one_sample = scores.rate, scores.prior, scores.one_sample
    z_p, z_u = p / size, u / size
    share_p = rate if one_sample else 0.0  # of P in a marginal sample
    rows = len(scores.p) + len(scores.u)

    def compute_loss(log_slopes: Floats) -> float:
        clipped = np.clip(log_slopes, *LOG_SLOPE_RANGE)
        below, above = np.exp(clipped)
        calibration = SlopeCalibration(below, above)
        q_p, q_u = calibration(z_p), calibration(z_u)
        mean = share_p * q_p.mean() + (1 - share_p) * q_u.mean()
        l_p = _compute_label_probability(e_p * q_p, rate, prior, one_sample)
        l_u = _compute_label_probability(e_u * q_u, rate, prior, one_sample)
        log_p = np.log(np.maximum(l_p, MIN_LIKELIHOOD)).mean()
        log_u = np.log(np.maximum(1 - l_u, MIN_LIKELIHOOD)).mean()
        likelihood = rate * log_p + (1 - rate) * log_u
        penalty = 0.5 * (below**2 + above**2) / SLOPE_DEVIATION**2 / rows
        outside = np.abs(log_slopes - clipped).sum()
        return float(-likelihood + penalty + PRIOR_WEIGHT * (mean - prior) ** 2 + outside)

    grid = np.linspace(*LOG_SLOPE_RANGE, 9)
    start = min(product(grid, grid), key=lambda slopes: compute_loss(np.array(slopes)))
    options = {"xatol": 1e-4, "fatol": 1e-9, "maxiter": 300}
    best = minimize(compute_loss, np.array(start), method="Nelder-Mead", options=options)
    below, above = np.exp(np.clip(best.x, *LOG_SLOPE_RANGE))
    return SlopeCalibration(float(below / size), float(above / size))


def _compute_label_probability(q: Floats, rate: float, prior: float, one_sample: bool) -> Floats:
    """Return the probability that a row of the data is labeled if it is positive with ``q``."""
    if one_sample:
        return np.minimum(1.0, min(1.0, rate / prior) * q)
    return rate * q / (rate * q + (1 - rate) * prior)


def _thin(values: Floats, relative: Floats | float) -> tuple[Floats, Floats]:
    """Return at most ``MAX_FITTED_ROWS`` of the values, evenly over their order.

    So their distribution stays the same. The relative propensities of the same rows come with them.
    """
    relative = np.broadcast_to(np.asarray(relative, np.float64), values.shape)
    if len(values) <= MAX_FITTED_ROWS:
        return np.asarray(values, np.float64), relative
    places = np.linspace(0, len(values) - 1, MAX_FITTED_ROWS).round().astype(int)
    chosen = np.argsort(values, kind="stable")[places]
    return values[chosen].astype(np.float64), relative[chosen]


def fit_threshold(scores: PUScores) -> float:
    """Return the threshold with the highest PA, halfway between two scores or zero.

    Of equally good thresholds the one nearest to zero is returned.
    """
    values = np.unique(np.concatenate([scores.p, scores.u]))
    middles = (values[1:] + values[:-1]) / 2
    cuts = np.concatenate([[values[0] - 1.0], middles, [values[-1] + 1.0], [0.0]])
    counts = count_positives(scores.p, scores.u, scores.prior, scores.one_sample, cuts)
    value = metrics.proxy_accuracy(counts)
    good = cuts[value >= value.max() - 1e-12]
    return float(good[np.argmin(np.abs(good))])


@dataclass(frozen=True)
class PosteriorCalibration:
    """Calibrated log-odds of a score, linear between knots, which are scores of held-out rows."""

    score: Floats  # increasing
    log_odds: Floats

    def __call__(self, score: Floats) -> Floats:
        """Return the log-odds of being positive; beyond the knots they continue linearly."""
        x = np.interp(score, self.score, self.log_odds)
        if len(self.score) > 1:
            rise = self.log_odds[-1] - self.log_odds[0]
            unit = max(rise, 1e-12) / (self.score[-1] - self.score[0])
            below = np.minimum(score - self.score[0], 0)
            above = np.maximum(score - self.score[-1], 0)
            x = x + unit * (below + above)
        return np.asarray(x)


def fit_posterior(
    p: Floats, u: Floats, prior: float, setting: Setting, rate: float | None = None
) -> PosteriorCalibration:
    """Return the map from held-out scores of P and U to log-odds, for a known prior."""
    fit = saturation.fit_saturation(p, u, setting, rate, (prior, prior))
    return average_posterior(p, u, fit, setting, rate)


def average_posterior(
    p: Floats,
    u: Floats,
    fit: saturation.SaturationFit,
    setting: Setting,
    rate: float | None = None,
) -> PosteriorCalibration:
    """Return the map from held-out scores of P and U to log-odds of rows of the marginal sample.

    Inside U the posterior is logistic in the normal score, with the share of positives there as its
    mean. Probabilities are averaged over slopes and shares: what is not known about the prior makes
    them less extreme, as it should. ``rate`` is the share of labeled rows in the data, if the
    scores are only of a part of them.
    """
    rate = len(p) / (len(p) + len(u)) if rate is None else rate
    pooled = np.concatenate([p, u])
    values, at = np.unique(pooled, return_index=True)
    normal = saturation.compute_normal_scores(pooled)[at]
    if len(values) > MAX_KNOTS:
        # Evenly over the normal scores, so that the few highest rows are not merged.
        wanted = np.linspace(normal[0], normal[-1], MAX_KNOTS)
        chosen = np.unique(np.searchsorted(normal, wanted).clip(0, len(normal) - 1))
        values, normal = values[chosen], normal[chosen]
    # The share of the positives that were taken out of U by labeling them.
    removed = np.zeros(len(fit.priors))
    if setting.one_sample:
        removed = np.minimum(rate / fit.priors, 1 - 1e-6)
    joint = fit.compute_joint()
    slope, share = np.nonzero(joint > MIN_RELATIVE_WEIGHT * joint.max())
    weight = joint[slope, share]
    intercept = fit.intercepts[slope, share] - np.log1p(-removed[share])
    logits = fit.slopes[slope][:, None] * normal + intercept[:, None]
    q = (weight / weight.sum()) @ expit(logits)
    # The last term keeps scores apart where probabilities are 0 or 1 in floating point.
    log_odds = logit(np.clip(q, 1e-12, 1 - 1e-12)) + 1e-9 * normal
    return PosteriorCalibration(values, np.maximum.accumulate(log_odds))
