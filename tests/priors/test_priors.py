"""Estimated class priors: right in both settings on mixtures with a known prior."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from typer.testing import CliRunner

from puarena.cli import app
from puarena.errors import UserError
from puarena.priors import METHODS, PriorEstimate, PriorWarning, estimate_prior
from puarena.priors.estimate import run_method, warn_of_doubts
from puarena.priors.kernels import compute_gaussian, factor_kernel
from puarena.priors.methods.saturation import (
    find_shortest_interval,
    fit_saturation,
    fits_badly,
)
from puarena.priors.sample import Sample
from puarena.pu import labeling

MODEL = LogisticRegression()
OFF = {
    "bbe": 0.07,
    "km2": 0.1,
    "tice": 0.1,
    "dedpul": 0.08,
    "elkan-noto": 0.14,
    "pen-l1": 0.08,
}  # one draw
OFF |= {"saturation": 0.1}
# (Elkan-Noto is biased upwards where the classes overlap, and here they do.)


def mixture(setting, prior, n=1500, gap=3.0, seed=0):
    """Draw two Gaussians; 40 % of the positives are labeled, or a third of the rows are P."""
    rng = np.random.default_rng(seed)
    label = rng.random(n) < prior
    if setting == "os":
        labeled = label & (rng.random(n) < 0.4)
    else:
        labeled = np.arange(n) < n // 3
        label |= labeled
    x = rng.normal(size=(n, 3))
    x[:, 0] += gap * label
    return x, labeled.astype(int)


@pytest.mark.parametrize("prior", [0.3, 0.7])
@pytest.mark.parametrize("setting", ["os", "ts"])
@pytest.mark.parametrize("method", METHODS)
def test_known_priors(method, setting, prior):
    x, y = mixture(setting, prior)
    found = estimate_prior(x, y, setting, method, n_bootstrap=3, estimator=MODEL)
    assert isinstance(found, PriorEstimate)
    assert found.method == method
    assert abs(found.value - prior) < OFF[method]
    assert found.interval[0] <= found.value <= found.interval[1]
    assert float(found) == found.value


def test_one_sample_means_the_prior_of_the_whole():
    x, y = mixture("os", 0.5)
    whole, inside = (
        estimate_prior(x, y, name, "bbe", estimator=MODEL) for name in ("one-sample", "two-sample")
    )
    rate = y.mean()
    assert inside.value == pytest.approx(whole.details["unlabeled_prior"])
    assert whole.value == pytest.approx(rate + (1 - rate) * inside.value)
    assert whole.value > rate


def test_the_default_classifier_and_the_interval():
    x, y = mixture("os", 0.4, n=800)
    found = estimate_prior(x, y, n_bootstrap=50)
    assert abs(found.value - 0.4) < 0.1
    low, high = found.interval
    assert 0.02 < high - low < 0.3
    assert estimate_prior(x, y, n_bootstrap=50) == found  # seeded
    assert estimate_prior(x, y, n_bootstrap=0).interval == (found.value, found.value)


def score_groups(place, prior, n, frequency=0.5):
    """Return scores of P and of U, and the share of positives; ``place`` gives their centers."""
    rng = np.random.default_rng(0)
    truth = rng.random(n) < prior
    score = rng.normal(size=n) + place(truth, rng)
    labeled = truth & (rng.random(n) < frequency)
    return score[labeled], score[~labeled], truth.mean()


def place_apart(truth, rng):
    return 6 * truth


def place_two_kinds(truth, rng):
    """Half of either class is in one place, and cannot be told apart."""
    return 12 * np.where(rng.random(len(truth)) < 0.5, 0, 2 * truth - 1)


def test_the_interval_covers_rare_positives_of_which_most_are_labeled():
    setting, covered = labeling.get_setting("one-sample"), []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        truth = rng.random(800) < 0.035
        score = rng.normal(size=800) + 1.2 * truth
        labeled = truth & (rng.random(800) < 0.6)
        fit = fit_saturation(score[labeled], score[~labeled], setting)
        low, high = find_shortest_interval(fit.priors, fit.weights)
        covered.append(low <= truth.mean() <= high)
    assert np.mean(covered) >= 0.9  # cut off alike at both ends: 0.3


def make_scored_sample(p, u):
    sample = Sample(p[:, None], u[:, None])
    vars(sample)["model_scores"] = [tuple(1 / (1 + np.exp(-side)) for side in (p, u))]
    return sample


@pytest.mark.parametrize(
    "prior, frequency, n", [(0.3, 0.2, 5000), (0.3, 0.5, 10_000), (0.5, 0.2, 10_000)]
)
def test_saturation_is_right_where_the_classes_are_far_apart(prior, frequency, n):
    """Its curve must be able to be a step, between bins that are not merged."""
    p, u, truth = score_groups(place_apart, prior, n, frequency)
    sample = make_scored_sample(p, u)
    found = run_method(sample, METHODS["saturation"], sample.setting, None, {}, [])
    assert found.value == pytest.approx(truth, abs=0.01)
    assert found.interval[0] <= truth <= found.interval[1]
    assert not fits_badly(sample)


@pytest.mark.parametrize("prior", [0.3, 0.6])
def test_saturation_is_right_on_xor(prior):
    """The linear model knows nothing here; weighted as the boosted one it costs .05 to .15."""
    rng = np.random.default_rng(1)
    truth = rng.random(2000) < prior
    side = rng.choice([-1, 1], size=2000)
    centers = 3 * np.stack([side, np.where(truth, side, -side)], 1)
    y = truth & (rng.random(2000) < 0.4)
    found = estimate_prior(centers + rng.normal(size=(2000, 2)), y, warn=False)
    assert abs(found.value - truth.mean()) < 0.035
    assert found.interval[0] <= truth.mean() <= found.interval[1]


@pytest.mark.parametrize("prior", [0.3, 0.5, 0.7])
def test_where_its_curve_fits_badly_saturation_says_what_bbe_finds(prior):
    p, u, truth = score_groups(place_two_kinds, prior, 10_000)
    sample = make_scored_sample(p, u)
    saturation, bbe = (
        run_method(sample, METHODS[name], sample.setting, None, {}, [])
        for name in ("saturation", "bbe")
    )
    assert fits_badly(sample)
    assert bbe.value == pytest.approx(truth, abs=0.015)
    assert abs(saturation.value - truth) > 0.03
    low, high = saturation.interval
    assert low <= bbe.value <= high
    with pytest.warns(PriorWarning, match=f"{bbe.value:.2f} by bbe"):
        warn_of_doubts(saturation, sample)


def test_labels_may_be_bool_signs_or_named():
    x, y = mixture("os", 0.4, n=400)
    values = [
        estimate_prior(x, marks, estimator=MODEL, n_bootstrap=0, **named).value
        for marks, named in (
            (y, {}),
            (y.astype(bool), {}),
            (2 * y - 1, {}),
            (np.where(y, "p", "u"), {"positive_label": "p"}),
        )
    ]
    assert len(set(values)) == 1
    assert (
        estimate_prior(pd.DataFrame(x), pd.Series(y), estimator=MODEL, n_bootstrap=0).value
        == values[0]
    )


def test_a_warning_when_methods_disagree():
    x, y = mixture("os", 0.3, n=400, gap=0.7)  # no region is purely positive
    with pytest.warns(PriorWarning, match="disagree"):
        found = estimate_prior(
            x, y, compare=["elkan-noto", "tice"], disagreement=0.05, n_bootstrap=0, estimator=MODEL
        )
    assert set(found.details["others"]) == {"elkan-noto", "tice"}
    assert found.method == "saturation"


def test_all_methods_and_their_median():
    x, y = mixture("os", 0.5, n=800)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PriorWarning)
        found = estimate_prior(x, y, method="all", n_bootstrap=0, estimator=MODEL)
    values = [each.value for each in found.details["others"].values()]
    assert len(values) == len(METHODS)
    assert found.value == pytest.approx(np.median(values))
    assert abs(found.value - 0.5) < 0.08


def test_km2_thins_large_samples_and_says_so():
    x, y = mixture("os", 0.5, n=600)
    with pytest.warns(PriorWarning, match="km2 uses .* unlabeled rows"):
        found = estimate_prior(x, y, method="km2", max_samples=300, n_bootstrap=0, estimator=MODEL)
    assert found.details["notes"]
    assert abs(found.value - 0.5) < 0.15


def test_the_factor_stands_for_the_kernel():
    x = np.random.default_rng(0).normal(size=(200, 1))
    z = factor_kernel(x, 1.0, 100)
    assert z.shape[1] < 40
    np.testing.assert_allclose(z @ z.T, compute_gaussian(x, x, 1.0), atol=1e-4)


def test_scores_are_out_of_fold():
    rng = np.random.default_rng(0)
    x = rng.normal(
        size=(300, 5)
    )  # nothing to learn: a classifier that saw the rows would separate them
    p, u = Sample(x[:100], x[100:]).scores
    assert abs(p.mean() - u.mean()) < 0.1


def test_missing_labels_are_unlabeled():
    rng = np.random.default_rng(0)
    x, labeled = rng.normal(size=(60, 2)), np.arange(60) % 3 == 0
    options = {"n_bootstrap": 0, "warn": False, "estimator": LogisticRegression()}
    found = estimate_prior(x, np.where(labeled, 1.0, np.nan), **options)
    assert found.value == estimate_prior(x, labeled, **options).value


@pytest.mark.parametrize(
    "change, code",
    [
        ({"method": "bbs"}, "unknown-name"),
        ({"setting": "three"}, "unknown-name"),
        ({"X": np.ones((60, 2)), "method": "tice"}, "missing-data"),
        ({"y": np.arange(60) == 0}, "missing-data"),
        ({"n_bootstrap": -1}, "invalid-value"),
        ({"method": "km2", "space": "time"}, "invalid-value"),
    ],
)
def test_bad_input(change, code):
    with pytest.raises(UserError) as error:
        estimate_prior(**make_input(**change))
    assert error.value.code == code


@pytest.mark.parametrize(
    "change",
    [
        {"y": np.zeros(60)},
        {"y": np.ones(60)},
        {"y": np.arange(60) % 3},
        {"X": np.full((60, 2), np.inf)},
        {"X": np.zeros((59, 2))},
        {"X": np.array([["a"]] * 60)},
    ],
)
def test_input_that_scikit_learn_refuses(change):
    with pytest.raises(ValueError):
        estimate_prior(**make_input(**change))


def make_input(**change):
    """Return arguments of ``estimate_prior``, some of them changed."""
    x = np.random.default_rng(0).normal(size=(60, 2))
    return {"X": x, "y": np.arange(60) % 2, "n_bootstrap": 0, **change}


def test_unknown_options():
    with pytest.raises(TypeError, match="no option 'max_sampels'"):
        estimate_prior(np.eye(4), [1, 1, 0, 0], method="km2", max_sampels=3)


def test_commands(tmp_path):
    x, y = mixture("os", 0.5, n=300)
    file = tmp_path / "data.csv"
    pd.DataFrame(x, columns=["a", "b", "c"]).assign(s=y).to_csv(file, index=False)
    done = CliRunner().invoke(
        app, ["priors", "estimate", str(file), "--label", "s", "--method", "tice", "--json"]
    )
    assert done.exit_code == 0, done.output
    assert 0.2 < json.loads(done.stdout)["tice"]["value"] < 0.8
    assert CliRunner().invoke(app, ["priors", "estimate", str(file), "--label", "t"]).exit_code == 2
    assert (
        CliRunner()
        .invoke(app, ["priors", "estimate", str(file), "--label", "s", "--method", "x"])
        .exit_code
        == 2
    )
