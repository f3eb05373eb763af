"""What positives and unlabeled rows alone can say about a fitted score: probabilities, a threshold, proxy metrics.

**Probabilities.** A decision ``s`` (zero on the threshold) becomes ``sigmoid(a s)``, with one slope ``a > 0`` below the
threshold and one above it, so that a row is predicted positive exactly where its probability exceeds one half. The
slopes maximize the likelihood of which rows are labeled, under the condition that the mean probability of a marginal
sample is the class prior (or as near to it as the threshold allows): the sample is U in the two-sample setting, P and U
together in the one-sample setting. With posterior ``q``, prior ``pi`` and label rate ``r``, in the one-sample setting a
row is labeled with probability ``c q``, where ``c = r / pi``; in the two-sample setting a row of the pooled data comes
from P with probability ``r q / (r q + (1 - r) pi)``. Where propensities are known, each row's own, divided by that of
an average positive, stands before ``q``. A normal prior with deviation 5 on the slopes, in units of the
root mean square of ``s``, keeps them finite when the score separates P from U.

**Threshold.** The one that maximizes PA on the same rows; of equally good ones the nearest to the algorithm's own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.special import expit

from puarena import metrics
from puarena.estimators.corrected import counts
from puarena.priors.methods import saturation
from puarena.pu.labeling import Setting

Floats = npt.NDArray[np.float64]

TINY = 1e-300

SLOPE_DEVIATION = 5.0
SLOPES = (-4.0, 2.5)  # natural logarithms of the slopes, the score in units of its root mean square
SAMPLE = 4_000  # rows of P and of U that a fit looks at, at most
KNOTS = 512
CONDITION = 100.0  # weight of the squared distance of the mean probability from the prior


@dataclass(frozen=True)
class PUScores:
    """Scores of labeled positives and of unlabeled rows, and what is known about where they come from."""

    p: Floats
    u: Floats
    prior: float
    one_sample: bool
    relative_p: Floats | float = 1.0  # propensity of every row by that of an average positive
    relative_u: Floats | float = 1.0

    @property
    def rate(self) -> float:
        """Share of labeled rows."""
        return len(self.p) / (len(self.p) + len(self.u))

    @property
    def marginal(self) -> Floats:
        """Scores of a sample of the marginal distribution."""
        return np.concatenate([self.p, self.u]) if self.one_sample else self.u

    def shifted(self, cut: float) -> PUScores:
        """The same with the cut at zero."""
        return replace(self, p=self.p - cut, u=self.u - cut)

    def labeled_by(self, propensity_p: Floats, propensity_u: Floats) -> PUScores:
        """The same where labels were given with known propensities: an average positive has their harmonic mean."""
        average = 1 / np.mean(1 / propensity_p)
        return replace(self, relative_p=propensity_p / average, relative_u=propensity_u / average)


@dataclass(frozen=True)
class Probability:
    """The map ``s -> sigmoid(below s)`` for negative ``s``, ``sigmoid(above s)`` for others."""

    below: float = 1.0
    above: float = 1.0

    def __call__(self, score: Floats) -> Floats:
        """Return the probability of being positive."""
        return expit(np.where(score < 0, self.below, self.above) * score)


def fit_probability(scores: PUScores) -> Probability:
    """Return the map that the module's text describes."""
    (p, e_p), (u, e_u) = (
        _thinned(scores.p, scores.relative_p),
        _thinned(scores.u, scores.relative_u),
    )
    size = float(np.sqrt(np.mean(np.concatenate([p, u]) ** 2)))
    if not (np.isfinite(size) and size > 1e-12):
        return Probability()
    rate, prior = scores.rate, scores.prior
    z_p, z_u, share = p / size, u / size, rate if scores.one_sample else 0.0

    def lack(log_slopes: Floats) -> float:
        below, above = np.exp(np.clip(log_slopes, *SLOPES))
        chance = Probability(below, above)
        q_p, q_u = chance(z_p), chance(z_u)
        mean = share * q_p.mean() + (1 - share) * q_u.mean()
        l_p, l_u = (_labeled(q, rate, prior, scores.one_sample) for q in (e_p * q_p, e_u * q_u))
        likelihood = (
            rate * np.log(np.maximum(l_p, TINY)).mean()
            + (1 - rate) * np.log(np.maximum(1 - l_u, TINY)).mean()
        )
        stiffness = (
            0.5 * (below**2 + above**2) / SLOPE_DEVIATION**2 / (len(scores.p) + len(scores.u))
        )
        outside = np.abs(log_slopes - np.clip(log_slopes, *SLOPES)).sum()
        return float(-likelihood + stiffness + CONDITION * (mean - prior) ** 2 + outside)

    grid = np.linspace(*SLOPES, 9)
    start = min(((a, b) for a in grid for b in grid), key=lambda slopes: lack(np.array(slopes)))
    best = minimize(
        lack,
        np.array(start),
        method="Nelder-Mead",
        options={"xatol": 1e-4, "fatol": 1e-9, "maxiter": 300},
    )
    below, above = np.exp(np.clip(best.x, *SLOPES))
    return Probability(float(below / size), float(above / size))


def _labeled(q: Floats, rate: float, prior: float, one_sample: bool) -> Floats:
    """Probability that a row of the data is a labeled one, given that it is positive with probability ``q``."""
    return (
        np.minimum(1.0, min(1.0, rate / prior) * q)
        if one_sample
        else rate * q / (rate * q + (1 - rate) * prior)
    )


def _thinned(values: Floats, beside: Floats | float) -> tuple[Floats, Floats]:
    """At most ``SAMPLE`` of the values, evenly over their order (their distribution without the cost of all), and what
    stands beside them."""
    beside = np.broadcast_to(np.asarray(beside, np.float64), values.shape)
    if len(values) <= SAMPLE:
        return np.asarray(values, np.float64), beside
    chosen = np.argsort(values, kind="stable")[
        np.linspace(0, len(values) - 1, SAMPLE).round().astype(int)
    ]
    return values[chosen].astype(np.float64), beside[chosen]


def fit_threshold(scores: PUScores) -> float:
    """Return the threshold with the highest PA, halfway between two scores, the one nearest to 0 among equals."""
    values = np.unique(np.concatenate([scores.p, scores.u]))
    cuts = np.concatenate(
        [[values[0] - 1.0], (values[1:] + values[:-1]) / 2, [values[-1] + 1.0], [0.0]]
    )
    value = metrics.proxy_accuracy(
        counts(scores.p, scores.u, scores.prior, scores.one_sample, cuts)
    )
    good = cuts[value >= value.max() - 1e-12]
    return float(good[np.argmin(np.abs(good))])


@dataclass(frozen=True)
class Posterior:
    """Calibrated log-odds of a score: linear in its normal score, whose quantiles among held-out rows are the knots."""

    score: Floats  # increasing
    normal: Floats
    slope: float
    intercept: float

    def __call__(self, score: Floats) -> Floats:
        """Return the log-odds of being positive; beyond the knots they go on as between the last two."""
        x = np.interp(score, self.score, self.normal)
        if len(self.score) > 1:
            unit = (self.normal[-1] - self.normal[0]) / (self.score[-1] - self.score[0])
            x = x + unit * (
                np.minimum(score - self.score[0], 0) + np.maximum(score - self.score[-1], 0)
            )
        return self.slope * x + self.intercept


def fit_posterior(
    p: Floats, u: Floats, prior: float, setting: Setting, rate: float | None = None
) -> Posterior:
    """Return the map from held-out scores of P and U to log-odds, for rows of the marginal distribution.

    Inside U the posterior is logistic in the normal score and its mean is the share of positives there; the slope is
    the likeliest, under the prior distribution of :mod:`puarena.priors.methods.saturation`. ``rate`` is the share of
    labeled rows in the data, where the scores are only of a part of them.
    """
    rate = len(p) / (len(p) + len(u)) if rate is None else rate
    share = np.array([[min(max(setting.prior_in_u(prior, rate), 1e-4), 1 - 1e-4)]])
    slopes = np.exp(saturation.LOG_SLOPES)[:, None]
    bins = saturation.ScoreBins.from_scores(p, u)
    intercepts = bins.find_intercepts(slopes, share)
    evidence = bins.compute_likelihood(slopes, intercepts, share)[:, 0]
    best = int(np.argmax(evidence + saturation.compute_slope_prior()))
    kept = (
        min(rate / prior, 1 - 1e-6) if setting.one_sample else 0.0
    )  # share of the positives that U has lost
    pooled = np.concatenate([p, u])
    values, at = np.unique(pooled, return_index=True)
    normal = saturation.compute_normal_scores(pooled)[at]
    if len(values) > KNOTS:
        chosen = np.unique(np.linspace(0, len(values) - 1, KNOTS).round().astype(int))
        values, normal = values[chosen], normal[chosen]
    return Posterior(
        values, normal, float(slopes[best, 0]), float(intercepts[best, 0] - np.log1p(-kept))
    )
