"""Known propensities: how likely every positive row was to be labeled."""

from __future__ import annotations

import numpy as np
import pytest

from puarena import PUClassifier, PUNetClassifier, load_model

SHORT = {"steps": 300, "random_state": 0}


@pytest.fixture(scope="module")
def biased():
    """Label positives (share 0.3) more often if a feature independent of the class is large."""
    rng = np.random.default_rng(3)
    truth = rng.random(3000) < 0.3
    x = rng.normal(size=(3000, 3))
    x[:, 0] += 2.5 * truth
    chance = np.clip(1 / (1 + np.exp(-3 * x[:, 1])), 0.05, 1)
    return x, truth, chance, truth & (rng.random(3000) < chance)


def test_propensities_correct_the_bias_of_labels(biased):
    x, truth, chance, labeled = biased
    known, constant = (
        PUNetClassifier("sar-oracle", prior=0.3, **SHORT).fit(x, labeled, propensity=each)
        for each in (chance, np.full(len(x), 0.5))
    )
    assert known.score(x, truth) > constant.score(x, truth) + 0.02
    assert known.learner_ == "sar-oracle"


def test_the_prior_follows_from_labels_and_propensities(biased):
    x, _, chance, labeled = biased
    clf = PUNetClassifier("sar-oracle", **SHORT).fit(x, labeled, propensity=chance)
    assert clf.prior_ == pytest.approx((labeled / chance).mean())
    assert clf.prior_ == pytest.approx(0.3, abs=0.06)
    low, high = clf.prior_interval_
    assert low < 0.3 < high
    assert low < clf.prior_ < high


def test_a_fitted_one_is_saved_and_read(biased, tmp_path):
    x, _, chance, labeled = biased
    clf = PUNetClassifier("sar-oracle", prior=0.3, steps=40, random_state=0)
    clf.fit(x, labeled, propensity=chance)
    again = load_model(clf.save(tmp_path / "model"))
    np.testing.assert_array_equal(again.predict_proba(x), clf.predict_proba(x))


@pytest.mark.parametrize(
    ("options", "propensity", "words"),
    [
        ({"algorithm": "nnpu"}, 0.5, "algorithm='nnpu'.*'sar-oracle'"),
        ({}, None, r"fit\(X, y, propensity=...\)"),
        ({}, 0.0, "propensity of row 0 is 0;"),
        ({}, 1.5, "propensity of row 0 is 1.5"),
        ({}, np.nan, "propensity of row 0 is nan"),
        ({}, [0.5, 0.5], r"shape \(2,\), and there are 3000 rows"),
        ({"threshold": "pa"}, 0.5, "threshold='pa'"),
        ({"members": 3}, 0.5, "members=3"),
        ({"setting": "two-sample"}, 0.5, "setting='two-sample'"),
        ({"algorithm": "pn-oracle", "prior": 0.4}, None, "'pn-oracle'"),
    ],
)
def test_what_cannot_be_used_is_refused(biased, options, propensity, words):
    x, _, _, labeled = biased
    if isinstance(propensity, float):
        propensity = np.full(len(x), propensity)
    with pytest.raises(ValueError, match=words):
        PUNetClassifier(**{"algorithm": "sar-oracle", **SHORT, **options}).fit(
            x, labeled, propensity=propensity
        )


def test_propensities_in_puclassifier(biased):
    x, _, chance, labeled = biased
    for algorithm in ("auto", "elkan-noto", "nnpu"):
        with pytest.raises(ValueError, match=f"'{algorithm}'.*'sar-oracle'"):
            PUClassifier(algorithm).fit(x, labeled, propensity=chance)
