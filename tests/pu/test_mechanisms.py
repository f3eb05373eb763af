"""The labeling mechanisms: golden probabilities, exact numbers, true frequencies, and what stays
out of reach.
"""

from __future__ import annotations

from dataclasses import fields, replace
from types import SimpleNamespace

import numpy as np
import pytest

import goldens
from puarena import datasets
from puarena.pu import Problem, draw_pu_data, labeling
from puarena.pu.draw import measure_label_strength
from puarena.pu.labeling.base import sample_systematically
from user_errors import raises_user_error

WAYS = [
    "posterior(strength=2)",
    "jerm-s3",
    "lbe-a",
    "boundary",
    "feature(strength=2)",
    "sar-pu",
    "class",
    "property",
]
DIGITS = datasets.load("digits")


def stand_in(case, **more):
    """Candidates that have what a golden case gives."""
    x, n = case["inputs"], case["params"]["n"]
    return SimpleNamespace(
        posterior=np.clip(x.get("p", np.full(n, 0.5)), 0.001, 0.999),
        table=np.array(x.get("x", np.zeros((n, 1)))),
        classes=np.array(x.get("classes", np.zeros(n))),
        labels=case["params"]["n_L"],
        index=np.arange(n),
        parts=[np.arange(n)],
        counts=np.array([case["params"]["n_L"]]),
        **more,
    )


def text_of(params):
    """A golden case's mechanism as one writes it."""
    if "alias" in params:
        return params["alias"]
    known = {
        key: value
        for key, value in params.items()
        if key in ("form", "power", "strength", "delta", "feature")
    }
    if "range" in params:
        known["range"] = ":".join(map(str, params["range"]))
    return f"{params['mechanism']}({','.join(f'{key}={value}' for key, value in known.items())})"


@pytest.mark.parametrize(
    "case",
    goldens.cases("labelling", lambda c: "e" in (c.get("expected_value") or [])),
    ids=lambda c: c["id"],
)
def test_golden_probabilities(case):
    mechanism = labeling.get_mechanism(text_of(case["params"]))
    chances = mechanism.propensity(stand_in(case))
    goldens.close(chances, case["expected_value"]["e"], case, "float64", "e")
    assert chances.sum() == pytest.approx(case["expected_extra"]["sum"], abs=1e-12 * len(chances))
    canonical = case["expected_extra"].get("canonical", {})
    for name, value in canonical.items():
        own = {"mechanism": mechanism.name, **vars(mechanism)}[name]
        assert own == (":".join(map(str, value)) if isinstance(value, list) else value)


@pytest.mark.parametrize(
    "case", goldens.cases("labelling", lambda c: "-madow" in c["id"]), ids=lambda c: c["id"]
)
def test_golden_selection(case):
    x, params = case["inputs"], case["params"]
    selected = sample_systematically(
        np.array(x["e"]), np.array(x["permutation"]), params["u"], params["n_L"]
    )
    assert np.flatnonzero(selected).tolist() == case["expected_value"]["selected"]
    if "t" in x:
        strength = measure_label_strength(np.array(x["t"]), selected)
        goldens.close(
            strength, case["expected_extra"]["label_strength"], case, "float64", "label strength"
        )


@pytest.mark.parametrize(
    "case",
    goldens.cases("labelling", lambda c: c["id"].endswith("-property")),
    ids=lambda c: c["id"],
)
def test_golden_property(case):
    some = stand_in(case, pixels=np.array(case["inputs"]["property"])[:, None])
    chances = labeling.get_mechanism("property").propensity(some)
    assert np.flatnonzero(chances).tolist() == case["expected_value"]["selected"]
    counts = np.unique(some.classes[chances > 0], return_counts=True)[1]
    assert counts.tolist() == case["expected_extra"]["counts"]


@pytest.mark.parametrize(
    "case", goldens.cases("labelling", lambda c: "-value" in c["id"]), ids=lambda c: c["id"]
)
def test_golden_property_of_images(case):
    mechanism = labeling.get_mechanism(f"property(kind={case['params']['property']})")
    goldens.close(
        mechanism.amount(np.array(case["inputs"]["images"])),
        case["expected_value"],
        case,
        "float64",
        "value",
    )


@pytest.mark.parametrize("setting", [s.code for s in labeling.list_settings()])
@pytest.mark.parametrize("way", WAYS)
def test_numbers_are_exact_in_either_setting(way, setting):
    pu, hidden = draw_pu_data(DIGITS, Problem("digits", 1, setting, 0.2, 0.4, way), 1)
    scar, _ = draw_pu_data(DIGITS, Problem("digits", 1, setting, 0.2, 0.4), 1)
    for part in ("p_train", "p_val", "u_train", "u_val"):
        assert len(getattr(pu, part)) == len(getattr(scar, part))
    p, u = np.r_[pu.p_train, pu.p_val], np.r_[pu.u_train, pu.u_val]
    assert not np.intersect1d(p, u).size
    assert DIGITS.positive(1)[DIGITS.classes[p]].all()
    assert np.r_[hidden.u_train, hidden.u_val].mean() == pytest.approx(pu.shifted_prior, abs=0.002)
    assert len(hidden.propensity_val) == len(pu.p_val)
    assert ((hidden.propensity_train > 0) & (hidden.propensity_train <= 1)).all()
    assert sum(hidden.bias.by_class.values()) == len(p)


@pytest.mark.parametrize("way", WAYS[:-1])
def test_frequencies_are_the_stated_probabilities(way):
    mechanism, times = labeling.get_mechanism(way), 10_000
    some = some_candidates()
    chances = mechanism.propensity(some)
    rng = np.random.default_rng(5)
    counts = np.zeros(len(chances))
    for _ in range(times):
        selected = mechanism.label(some, chances, rng)
        assert selected.sum() == some.labels
        counts += selected
    z = (counts / times - chances) / np.sqrt(np.maximum(chances * (1 - chances), 1e-12) / times)
    assert np.abs(z[chances < 1]).max() < 5
    assert (counts[chances == 1] == times).all()


def some_candidates():
    positive = DIGITS.positive(1)
    parts = [
        np.flatnonzero(DIGITS.classes == k)[:60] if yes else np.zeros(0, int)
        for k, yes in enumerate(positive)
    ]
    counts = np.where(positive, 20, 0)
    return labeling.Candidates(DIGITS, np.arange(len(DIGITS.classes)), positive, parts, counts)


@pytest.mark.parametrize(
    "way",
    [
        "posterior(strength=0)",
        "lbe-a(power=0)",
        "boundary(power=0)",
        "feature(strength=0)",
        "class(strength=0)",
    ],
)
def test_no_strength_is_labeling_at_random_bit_for_bit(way):
    assert Problem("digits", labeling=way) == Problem("digits")
    a, b = (draw_pu_data(DIGITS, Problem("digits", labeling=text), 2) for text in (way, "scar"))
    for one, two in zip(a, b, strict=True):
        for item in fields(one):
            assert np.array_equal(getattr(one, item.name), getattr(two, item.name))


def test_the_bias_has_its_direction_and_is_reported():
    bias = {
        way: draw_pu_data(DIGITS, Problem("digits", labeling=way), 0)[1].bias
        for way in (*WAYS, "boundary(power=2)")
    }
    assert bias["posterior(strength=2)"].label_strength > 0.3
    assert bias["boundary"].label_strength < bias["boundary(power=2)"].label_strength < -0.1
    by_class = list(bias["class"].by_class.values())
    assert by_class == sorted(by_class)
    assert bias["class"].by_class.keys() == set("13579")
    assert bias["property"].effective == 1  # all that are labeled were certain to be
    assert 0.9 < bias["boundary"].posterior_auc <= 1
    assert draw_pu_data(DIGITS, Problem("digits"), 0)[1].bias is None


def test_validation_positives_are_as_biased_as_training_ones():
    shares = []
    for split in range(8):
        pu, _ = draw_pu_data(
            DIGITS, Problem("digits", rate=0.1, labeling="class(strength=2)"), split
        )
        shares.append([(DIGITS.classes[part] == 9).mean() for part in (pu.p_train, pu.p_val)])
    train, val = np.mean(shares, 0)
    assert train > 0.4  # of five classes
    assert val == pytest.approx(train, abs=0.1)


def test_nothing_of_it_can_be_reached_from_the_data():
    pu, _ = draw_pu_data(DIGITS, Problem("digits", labeling="posterior"), 0)
    arrays = {"p_train", "u_train", "p_val", "u_val", "test"}
    assert {item.name for item in fields(pu)} == arrays | {
        "prior",
        "rate",
        "shifted_prior",
        "setting",
    }
    assert all(getattr(pu, name).dtype == np.int64 for name in arrays)
    assert vars(pu.setting) == {}


def test_a_draw_repeats_and_differs_between_mechanisms():
    a, b, c = (
        draw_pu_data(DIGITS, Problem("digits", labeling=way), 0)[0]
        for way in ("class", "class", "boundary")
    )
    assert np.array_equal(a.p_train, b.p_train)
    assert not np.array_equal(a.p_train, c.p_train)


@pytest.mark.parametrize(
    ("way", "code", "tokens"),
    [
        ("feature(feature=64)", "invalid-value", ["feature 64", "64 columns"]),
        ("feature(feature=0)", "invalid-value", ["feature 0", "all 450"]),
        ("sar-pu(0,1)", "missing-data", ["of 450 candidates", "360"]),
        ("property(kind=red)", "not-supported", ["3 colors"]),
    ],
)
def test_an_impossible_mechanism_names_the_number(way, code, tokens):
    with raises_user_error(code, *tokens):
        draw_pu_data(DIGITS, Problem("digits", rate=0.4, labeling=way), 0)


@pytest.mark.parametrize(
    ("way", "code", "tokens"),
    [
        ("posterior(form=wieght)", "unknown-name", ["'wieght'", "'weight'"]),
        ("posterior(strength=nan)", "invalid-value", ["strength", "nan"]),
        ("posterior(strength=1,strength=2)", "conflict", ["strength"]),
        ("posterior(strength=1", "invalid-value", ["posterior(strength=1"]),
        ("lbe-a(strength=2)", "conflict", ["strength 2"]),
        ("boundary(delta=-1)", "invalid-value", ["delta", "-1"]),
        ("boundary(power=-1)", "invalid-value", ["power", "-1"]),
        ("feature(feature=age)", "invalid-value", ["'age'"]),
        ("sar-pu(2,3)", "invalid-value", ["'2:3'"]),
        ("property(kind=blue)", "unknown-name", ["'blue'"]),
        ("jerm-s5", "unknown-name", ["'jerm-s5'", "'jerm-s"]),
    ],
)
def test_a_mechanism_that_does_not_exist(way, code, tokens):
    with raises_user_error(code, *tokens):
        labeling.get_mechanism(way)


def test_a_class_that_is_alone_and_a_table_without_images():
    alone = Problem("digits", labeling="class", rate=0.1, prior=0.12)
    with raises_user_error("invalid-value", "original class"):
        draw_pu_data(replace(DIGITS, cases={1: (3,)}), alone, 0)
    with raises_user_error("not-supported", "images", "'digits'"):
        draw_pu_data(replace(DIGITS, gray=False), Problem("digits", labeling="property"), 0)


def test_a_constant_posterior():
    flat = replace(DIGITS, features=np.zeros_like(DIGITS.features), revision="flat")
    for way in ("posterior", "boundary"):
        with raises_user_error("invalid-value", "the posterior", "0.504", "all 450"):
            draw_pu_data(flat, Problem("digits", labeling=way), 0)


def test_a_mechanism_of_stored_results_need_not_be_known_here():
    known = labeling.describe_mechanism("class(strength=3)")
    assert (known.name, known.short, known.strength) == ("class", "class(strength=3)", 3)
    assert labeling.describe_mechanism("scar").strength == 0
    unknown = labeling.describe_mechanism("own(x=1)")
    assert (unknown.name, unknown.short, unknown.meaning) == ("own(x=1)", "own(x=1)", "")
    assert np.isnan(unknown.strength)
