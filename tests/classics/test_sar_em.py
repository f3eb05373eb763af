"""SAR-EM as a classic: the golden runs of the whole method, and what it is for."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.estimator_checks import check_estimator

import goldens
from pu_tables import EXPECTED, table
from puarena import catalog
from puarena.classics import SarEMClassifier
from puarena.classics.sar_em import expected_likelihood, posterior

PRECISE = LogisticRegression(tol=1e-10, max_iter=10_000)


@pytest.mark.parametrize(
    "case", goldens.cases("sar_em", lambda c: c["params"]["kind"] == "em"), ids=lambda c: c["id"]
)
def test_golden_em(case):
    x, s = np.array(case["inputs"]["x"]), np.array(case["inputs"]["s"])
    options = {
        "propensity_features": case["params"]["propensity_features"],
        "max_iter": case["params"]["iterations"] or 500,
    }
    model = SarEMClassifier(PRECISE, PRECISE, refit=False, **options).fit(x, s)
    extra, value = case["expected_extra"], case["expected_value"]
    f, g = (
        np.log(p / (1 - p)) for p in (model.predict_proba(x)[:, 1], model.predict_propensity(x))
    )
    for name, got in {
        "h": expit(f),
        "e": expit(g),
        "posterior": np.where(s == 1, 1.0, posterior(f, g)),
        "loglik": model.likelihood_,
    }.items():
        goldens.close(got, extra[name], case, "float64", name)
    goldens.close(
        np.r_[model.estimator_.coef_[0], model.estimator_.intercept_],
        value["h_coef"],
        case,
        "float64",
        "h",
    )
    goldens.close(
        np.r_[model.propensity_.coef_[0], model.propensity_.intercept_],
        value["e_coef"],
        case,
        "float64",
        "e",
    )
    if "iterations" in extra:
        assert model.n_iter_ == extra["iterations"]
    if case["params"]["refit"]:
        model = SarEMClassifier(PRECISE, PRECISE, **options).fit(x, s)
        goldens.close(model.predict_proba(x)[:, 1], extra["refit_h"], case, "float64", "refit")


@pytest.mark.parametrize(
    "case", goldens.cases("sar_em", lambda c: "-likelihood" in c["id"]), ids=lambda c: c["id"]
)
def test_golden_likelihood(case):
    x = case["inputs"]
    f, g = np.r_[x["f_p"], x["f_u"]], np.r_[x["g_p"], x["g_u"]]
    value = expected_likelihood(f, g, np.arange(len(f)) < len(x["f_p"]))
    goldens.close(value, case["expected_value"], case, "float64", "likelihood")


def biased(n=6000, seed=0):
    """Two features: the first makes the class, the second decides who is labeled."""
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.4
    x = np.column_stack([rng.normal(size=n) + 3 * y, rng.normal(size=n)])
    return x, y, y & (rng.random(n) < expit(2 * x[:, 1] - 1)), expit(2 * x[:, 1] - 1)


def test_it_finds_class_and_propensity_where_the_naive_one_does_not():
    x, y, s, e = biased()
    model = SarEMClassifier(propensity_features=[1]).fit(x, s)
    naive = LogisticRegression(class_weight="balanced").fit(x, s)
    assert (model.predict(x) == y).mean() > 0.9
    assert (model.predict(x) == y).mean() > (naive.predict(x) == y).mean() + 0.05
    assert np.abs(model.predict_propensity(x) - e)[s].mean() < 0.08


def test_any_classifier_and_chosen_columns():
    x, y, s, _ = biased(1500)
    forest = RandomForestClassifier(20, min_samples_leaf=40, random_state=0)
    model = SarEMClassifier(
        forest, propensity_features=[1], refit=False, max_iter=5, random_state=1
    ).fit(x, s)
    assert (model.predict(x) == y).mean() > 0.78
    assert len(model.predict_propensity(x)) == len(x)
    assert catalog.get("sar-em-lr").make_estimator(0).max_iter == 30


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"propensity_features": [2]},
            r"propensity_features is \[2\], and the table has 2 columns",
        ),
        ({"propensity_features": []}, r"propensity_features is \[\]"),
        ({"max_iter": 0}, "max_iter must be at least 1, and 0 was given"),
    ],
)
def test_wrong_options(options, words):
    x, _, s, _ = biased(100)
    with pytest.raises(ValueError, match=words):
        SarEMClassifier(**options).fit(x, s)


def test_scikit_learns_own_checks():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_estimator(SarEMClassifier(max_iter=5), on_skip=None, expected_failed_checks=EXPECTED)


def test_weights_known_negatives_and_text():
    x, s, truth = table(600, prior=0.4, labeled=0.4)
    whole = (np.arange(600) % 3 > 0).astype(float)
    part = SarEMClassifier(max_iter=5).fit(x, s, sample_weight=whole)
    same = SarEMClassifier(max_iter=5).fit(x[whole > 0], s[whole > 0])
    plain = SarEMClassifier(LogisticRegression(), LogisticRegression(), max_iter=5)
    one, two = (
        plain.fit(x, s, whole).predict_proba(x),
        plain.fit(x[whole > 0], s[whole > 0]).predict_proba(x),
    )
    np.testing.assert_allclose(one, two, atol=1e-3)  # a weight of 0 is no row
    assert (
        part.estimator_[0].n_samples_seen_ != same.estimator_[0].n_samples_seen_
    )  # scaling alone sees all
    marks = s.astype(int) - (~truth & (np.arange(600) % 2 == 0))
    known, unknown = (
        SarEMClassifier(max_iter=5).fit(x, y).predict_proba(x)[~truth, 1] for y in (marks, s)
    )
    assert known.mean() < unknown.mean()
    frame = pd.DataFrame({"a": x[:, 0], "town": np.where(x[:, 1] > 0, "A", "B")})
    base = make_pipeline(
        make_column_transformer((OneHotEncoder(), ["town"]), remainder="passthrough"),
        LogisticRegression(),
    )
    clf = SarEMClassifier(base, base, max_iter=5).fit(frame, s)
    assert (clf.predict(frame) == truth).mean() > 0.75
    assert clf.predict_propensity(frame).shape == (600,)
