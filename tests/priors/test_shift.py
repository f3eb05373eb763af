"""Another share of positives: adjusted probabilities, and the share of an unlabeled batch."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import expit, logit

from puarena import PUClassifier
from puarena.errors import UserError
from puarena.priors import adjust_prior, estimate_prior_shift

GAP = 2.0  # between the means of two Gaussians


class Bayes:
    """The exact posterior of two Gaussians at the prior that it was made for."""

    def __init__(self, prior):
        self.prior_ = prior

    def predict_proba(self, x):
        p = expit(GAP * (x[:, 0] - GAP / 2) + logit(self.prior_))
        return np.column_stack([1 - p, p])


def draw(prior, n=4000, seed=0):
    rng = np.random.default_rng(seed)
    truth = np.arange(n) < prior * n
    return rng.normal(size=(n, 1)) + GAP * truth[:, None], truth


def test_adjusted_probabilities_are_those_of_the_other_prior():
    x, _ = draw(0.3)
    there = Bayes(0.7).predict_proba(x)[:, 1]
    here = Bayes(0.2).predict_proba(x)[:, 1]
    assert np.allclose(adjust_prior(here, 0.2, 0.7), there)
    assert np.allclose(adjust_prior(adjust_prior(here, 0.2, 0.7), 0.7, 0.2), here)


def test_certainties_stay():
    assert adjust_prior([0.0, 1.0], 0.2, 0.9).tolist() == [0.0, 1.0]


@pytest.mark.parametrize("share", [0.05, 0.25, 0.6, 0.9])
@pytest.mark.parametrize("prior", [0.1, 0.4])
def test_the_share_of_a_batch_is_found_from_any_prior(prior, share):
    x, _ = draw(share)
    found = estimate_prior_shift(Bayes(prior), x)
    assert abs(found.value - share) < 0.04
    assert found.interval[0] < share < found.interval[1]


def test_an_uninformative_batch_leaves_the_prior():
    class Blind:
        prior_ = 0.15

        def predict_proba(self, x):
            return np.tile([0.85, 0.15], (len(x), 1))

    found = estimate_prior_shift(Blind(), np.zeros((50, 1)))
    low, high = found.interval
    assert 0.1 < found.value < 0.3
    assert low < 0.03
    assert high > 0.6


def test_a_few_rows_tell_less_than_many():
    width = [np.ptp(estimate_prior_shift(Bayes(0.3), draw(0.5, n)[0]).interval) for n in (10, 200)]
    assert width[0] > 1.5 * width[1]


def test_adjusting_helps_the_probabilities_of_a_fitted_model():
    x, truth = draw(0.25)
    labeled = truth & (np.random.default_rng(1).random(len(x)) < 0.5)
    model = PUClassifier("elkan-noto", random_state=0).fit(x, labeled)
    x_new, new = draw(0.75, seed=2)
    found = estimate_prior_shift(model, x_new)
    assert abs(found.value - 0.75) < 0.12
    brier = [
        np.mean((p[:, 1] - new) ** 2)
        for p in (model.predict_proba(x_new), model.predict_proba(x_new, prior=found.value))
    ]
    assert brier[1] < 0.8 * brier[0]
    own = model.predict_proba(x_new, prior=model.prior_)
    assert np.allclose(own, model.predict_proba(x_new))


def test_other_negatives_need_the_weaker_assumption():
    class Held(Bayes):
        def __init__(self, prior):
            super().__init__(prior)
            x, labeled = draw(0.2, 1500, seed=3)
            self.held_out_ = SimpleNamespace(
                probability=self.predict_proba(x)[:, 1], labeled=labeled
            )

    x, truth = draw(0.15, 3000)
    elsewhere = x + 1.0 * ~truth[:, None]  # negatives that look more like positives
    for rows, near in ((x, 0.15), (elsewhere, 0.15)):
        found = estimate_prior_shift(Held(0.3), rows, same="positives")
        assert abs(found.value - near) < 0.12
        assert found.interval[0] < found.value < found.interval[1]
    assert estimate_prior_shift(Held(0.3), elsewhere).value > 0.4


@pytest.mark.parametrize(
    ("same", "code", "word"),
    [("positive", "unknown-name", "'positives'"), ("positives", "invalid-value", "Bayes")],
)
def test_what_cannot_be_the_same_is_refused(same, code, word):
    with pytest.raises(UserError) as error:
        estimate_prior_shift(Bayes(0.3), draw(0.3, 50)[0], same=same)
    assert error.value.code == code
    assert word in str(error.value)


@pytest.mark.parametrize("prior", [0.0, 1.0, -0.2, float("nan")])
def test_impossible_priors_are_refused(prior):
    with pytest.raises(UserError) as error:
        adjust_prior([0.5], 0.5, prior)
    assert error.value.code == "invalid-value"
    assert "prior_to" in str(error.value)
