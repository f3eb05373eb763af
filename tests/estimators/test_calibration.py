"""Probabilities and thresholds from positives and unlabeled rows alone."""

from __future__ import annotations

import numpy as np
import pytest

from puarena.estimators.calibration import PUScores, fit_slopes, fit_threshold
from puarena.estimators.model_selection import compute_criterion


def test_the_threshold_has_the_best_proxy_accuracy():
    p, u = np.array([1.0, 2.0, 3.0, -1.0]), np.array([2.5, -2.0, -3.0, -4.0, 0.5, -0.5])
    values = [
        compute_criterion("pa", p - cut, u - cut, 0.4, False) for cut in np.linspace(-5, 4, 1000)
    ]
    best = fit_threshold(PUScores(p, u, 0.4, False))
    assert compute_criterion("pa", p - best, u - best, 0.4, False) == pytest.approx(max(values))


@pytest.mark.parametrize("one_sample", [True, False])
def test_probabilities_recover_a_known_posterior(one_sample):
    rng = np.random.default_rng(0)
    n, prior = 20_000, 0.3
    label = rng.random(n) < prior
    s = rng.normal(size=n) + 2 * label
    logit = 2 * s - 2 + np.log(prior / (1 - prior))
    raw = 0.3 * logit  # the right threshold, the wrong scale
    if one_sample:
        labeled = label & (rng.random(n) < 0.4)
        scores = PUScores(raw[labeled], raw[~labeled], prior, True)
    else:
        scores = PUScores(raw[label][:2000], raw[n // 2 :], prior, False)
    q = fit_slopes(scores)(raw)
    assert abs(q.mean() - prior) < 0.02
    assert np.abs(q - 1 / (1 + np.exp(-logit))).mean() < 0.02


def test_probabilities_follow_known_propensities():
    rng = np.random.default_rng(0)
    q = rng.beta(0.7, 1.2, 200_000)
    truth, chance = rng.random(len(q)) < q, 0.1 + 0.8 * q
    labeled = truth & (rng.random(len(q)) < chance)
    logit = np.log(q / (1 - q))
    scores = PUScores(logit[labeled], logit[~labeled], float(truth.mean()), True)
    known = fit_slopes(scores.set_propensity(chance[labeled], chance[~labeled]))
    assert max(abs(known.below - 1), abs(known.above - 1)) < 0.05
    # Without the propensities, the true logit is not recognized.
    unknown = fit_slopes(scores)
    assert max(abs(unknown.below - 1), abs(unknown.above - 1)) > 0.1
