"""A practitioner who knows how labels were given can say so."""

from __future__ import annotations

import numpy as np
import pytest

from puarena import PUClassifier, load_model
from puarena.estimators.probability import PUScores, fit_probability

SHORT = {"steps": 300, "random_state": 0}


@pytest.fixture(scope="module")
def biased():
    """Positives (share 0.3) are labeled the more often the larger a feature is that says nothing about the class."""
    rng = np.random.default_rng(3)
    truth = rng.random(3000) < 0.3
    x = rng.normal(size=(3000, 3))
    x[:, 0] += 2.5 * truth
    chance = np.clip(1 / (1 + np.exp(-3 * x[:, 1])), 0.05, 1)
    return x, truth, chance, truth & (rng.random(3000) < chance)


def test_propensities_mend_what_biased_labels_spoil(biased):
    x, truth, chance, labeled = biased
    knowing = PUClassifier("sar-oracle", prior=0.3, **SHORT).fit(x, labeled, propensity=chance)
    constant = PUClassifier("sar-oracle", prior=0.3, **SHORT).fit(
        x, labeled, propensity=np.full(len(x), 0.5)
    )
    assert knowing.score(x, truth) > constant.score(x, truth) + 0.02
    assert knowing.learner_ == "sar-oracle"


def test_the_prior_is_what_the_labeled_stand_for(biased):
    x, _, chance, labeled = biased
    clf = PUClassifier("sar-oracle", **SHORT).fit(x, labeled, propensity=chance)
    assert clf.prior_ == pytest.approx((labeled / chance).mean())
    assert clf.prior_ == pytest.approx(0.3, abs=0.06)
    low, high = clf.prior_interval_
    assert low < 0.3 < high
    assert low < clf.prior_ < high


def test_probabilities_follow_the_propensities():
    rng = np.random.default_rng(0)
    q = rng.beta(0.7, 1.2, 200_000)
    truth, chance = rng.random(len(q)) < q, 0.1 + 0.8 * q
    labeled = truth & (rng.random(len(q)) < chance)
    logit = np.log(q / (1 - q))
    scores = PUScores(logit[labeled], logit[~labeled], float(truth.mean()), True)
    for known, tolerance in (
        (scores.labeled_by(chance[labeled], chance[~labeled]), 0.05),
        (scores, None),
    ):
        found = fit_probability(known)
        error = max(abs(found.below - 1), abs(found.above - 1))
        assert (
            error < tolerance if tolerance else error > 0.1
        )  # without them, the true logit is not recognized


def test_a_fitted_one_is_saved_and_read(biased, tmp_path):
    x, _, chance, labeled = biased
    clf = PUClassifier("sar-oracle", prior=0.3, steps=40, random_state=0).fit(
        x, labeled, propensity=chance
    )
    again = load_model(clf.save(tmp_path / "model"))
    np.testing.assert_array_equal(again.predict_proba(x), clf.predict_proba(x))


@pytest.mark.parametrize(
    ("options", "propensity", "words"),
    [
        (
            {"algorithm": "auto"},
            0.5,
            "algorithm='auto' cannot use propensities; those that can: 'sar-oracle'",
        ),
        ({"algorithm": "nnpu"}, 0.5, "algorithm='nnpu' cannot use propensities"),
        ({"algorithm": "elkan-noto"}, 0.5, "algorithm='elkan-noto' cannot use propensities"),
        (
            {},
            None,
            r"'sar-oracle' needs to know who is labeled how often: fit\(X, y, propensity=...\)",
        ),
        ({}, 0.0, "propensity of row 0 is 0; .* above 0 and at most 1"),
        ({}, 1.5, "propensity of row 0 is 1.5"),
        ({}, np.nan, "propensity of row 0 is nan"),
        ({}, [0.5, 0.5], r"propensity has shape \(2,\), and there are 3000 rows"),
        ({"threshold": "pa"}, 0.5, "threshold='pa' takes labels for given at random"),
        ({"members": 3}, 0.5, "members=3 cannot use propensities"),
        (
            {"setting": "two-sample"},
            0.5,
            "setting='two-sample' the share of positives must be given",
        ),
        ({"algorithm": "pn-oracle", "prior": 0.4}, None, "'pn-oracle' is trained with true labels"),
    ],
)
def test_what_cannot_be_used_is_refused(biased, options, propensity, words):
    x, _, _, labeled = biased
    if isinstance(propensity, float):
        propensity = np.full(len(x), propensity)
    with pytest.raises(ValueError, match=words):
        PUClassifier(**{"algorithm": "sar-oracle", **SHORT, **options}).fit(
            x, labeled, propensity=propensity
        )
