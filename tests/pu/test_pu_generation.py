"""PU generation: sizes, counts by class, priors, disjointness, what a draw depends on, and what it
must not reveal.
"""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from puarena import datasets
from puarena.datasets import Dataset
from puarena.errors import UserError
from puarena.pu import Problem, compute_sizes, draw_pu_data, labeling
from puarena.utils.counts import allocate
from user_errors import raises_user_error

GOLDEN = Path(os.environ.get("PUARENA_GOLDEN", Path(__file__).parents[1] / "golden"))
PRIORS = json.loads((GOLDEN / "priors.json").read_text())["cases"]
SIZED = [case for case in PRIORS if "dataset" in case["params"]]
PLAIN = [case for case in PRIORS if "dataset" not in case["params"]]

# Class counts of the published files: training pool, test set (None: a random part of the pool).
LETTERS = (789, 766, 736, 805, 768, 775, 773, 734, 755, 747, 739, 761, 792)  # A to M
LETTERS += (783, 753, 803, 783, 758, 748, 796, 813, 764, 752, 787, 786, 734)  # N to Z
COUNTS = {
    "cifar10": ([5000] * 10, [1000] * 10),
    "imagenette": (
        [963, 955, 993, 858, 941, 956, 961, 931, 951, 960],
        [387, 395, 357, 386, 409, 394, 389, 419, 399, 390],
    ),
    "usps": (
        [1194, 1005, 731, 658, 652, 556, 664, 645, 542, 644],
        [359, 264, 198, 166, 200, 160, 170, 147, 166, 177],
    ),
    "letter": (LETTERS, None),
    "digits": ([178, 182, 177, 183, 181, 182, 181, 179, 174, 180], None),
}
# (dataset, case, rate) -> P, where the pool cannot supply n_P and the paper took what there is
TS_SHORT = {
    ("usps", 1, 0.4): 1578,
    ("usps", 2, 0.4): 1582,
    ("usps", 1, 0.5): 1898,
    ("usps", 2, 0.5): 1942,
    ("imagenette", 2, 0.5): 2958,
}


def stand_in(name: str, **changes) -> Dataset:
    """A dataset with the class counts and the protocol of a published one, without its features."""
    info = datasets.info(name)
    train, test = COUNTS[name]
    classes = np.repeat(np.arange(len(train)), train)
    parts: dict = {"test_fraction": info.test_fraction}
    if test is not None:
        parts = {"train": np.arange(len(classes)), "test": len(classes) + np.arange(sum(test))}
        classes = np.concatenate([classes, np.repeat(np.arange(len(test)), test)])
    parts |= {
        "cases": info.cases,
        "size": info.size,
        "stratify": info.stratify,
        "balanced": info.balanced,
        "default_prior": info.default_prior,
        "shortfall": info.shortfall,
    }
    return made(name, classes, info.class_names, **(parts | changes))


def made(name: str, classes, class_names=None, **parts) -> Dataset:
    classes = np.asarray(classes, np.int64)
    names = class_names or tuple(str(k) for k in range(classes.max() + 1))
    return Dataset(
        name=name,
        features=np.zeros((len(classes), 1), np.float32),
        classes=classes,
        class_names=names,
        **parts,
    )


def whole(pu):
    return np.concatenate([pu.p_train, pu.p_val]), np.concatenate([pu.u_train, pu.u_val])


def per_class(dataset, indices):
    return np.bincount(dataset.classes[indices], minlength=len(dataset.class_names))


def test_golden_shifted_priors():
    for case in PLAIN:
        pi, c = case["params"]["pi"], case["params"]["c"]
        expected = case["expected_value"]
        setting, rate = labeling.get_setting("os"), expected["rate"]
        assert setting.prior_in_u(pi, rate) == pytest.approx(
            expected["shifted_prior"], rel=1e-12, abs=1e-12
        )
        assert setting.prior_from_u(expected["shifted_prior"], rate) == pytest.approx(pi, rel=1e-12)
        assert setting.label_frequency(pi, rate) == pytest.approx(c, rel=1e-12)


@pytest.mark.parametrize("golden", SIZED, ids=lambda golden: golden["id"])
@pytest.mark.parametrize("case", [1, 2])
def test_golden_sizes(golden, case):
    name, rate = golden["params"]["dataset"], golden["params"]["positive_rate"]
    expected = golden["expected_value"]
    n = compute_sizes(datasets.info(name).size, rate)
    for key in ("n_p", "n_u", "val_p", "val_u"):
        assert getattr(n, key) == expected[key], key
    assert labeling.get_setting("os").label_frequency(0.5, rate) == pytest.approx(
        expected["one_sample"]["c"], abs=1e-12
    )

    dataset = stand_in(name)
    pu, hidden = draw_pu_data(dataset, Problem(name, case, "os", rate), split=0)
    p, u = whole(pu)
    positive = dataset.positive(case)
    per = expected["labeled_per_positive_class"]
    total = expected["one_sample"]["total_per_class"]
    assert (per_class(dataset, p) == np.where(positive, per, 0)).all()
    assert (per_class(dataset, u) == np.where(positive, total - per, total)).all()
    parts = {"val_p": pu.p_val, "val_u": pu.u_val, "train_p": pu.p_train, "train_u": pu.u_train}
    assert {key: len(part) for key, part in parts.items()} == {key: expected[key] for key in parts}
    assert pu.shifted_prior == pytest.approx(expected["one_sample"]["shifted_prior"], abs=1e-12)
    assert np.concatenate([hidden.u_train, hidden.u_val]).mean() == pytest.approx(
        pu.shifted_prior, abs=1e-12
    )
    assert (pu.prior, pu.rate) == (0.5, pytest.approx(rate, abs=1e-12))

    problem = Problem(name, case, "ts", rate)
    if name == "letter" and rate >= 0.4:
        with raises_user_error("missing-data", "are missing"):
            draw_pu_data(dataset, problem, split=0)
        return
    pu, _ = draw_pu_data(dataset, problem, split=0)
    p, u = whole(pu)
    assert (per_class(dataset, u) == expected["two_sample"]["unlabeled_per_class"]).all()
    short = TS_SHORT.get((name, case, rate))
    if name == "letter" and rate == 0.3:  # the random test part may leave a few too few of a class
        assert 0.97 * expected["n_p"] <= len(p) <= expected["n_p"]
    else:
        assert len(p) == (short or expected["n_p"])
        assert short or (per_class(dataset, p) == np.where(positive, per, 0)).all()
    assert pu.shifted_prior == pu.prior == 0.5


def test_every_positive_class_gives_what_it_has_left():
    dataset = stand_in("usps")
    p, _ = whole(draw_pu_data(dataset, Problem("usps", 1, "ts", 0.5), 0)[0])
    assert list(per_class(dataset, p)) == [0, 0, 0, 0, 400, 356, 0, 400, 342, 400]


@pytest.mark.parametrize("setting", ["os", "ts"])
@pytest.mark.parametrize("name", ["letter", "usps", "digits"])
@pytest.mark.parametrize("prior", [0.2, 0.35, 0.7])
def test_other_priors(name, setting, prior):
    dataset = stand_in(name)
    pu, hidden = draw_pu_data(dataset, Problem(name, 2, setting, 0.15, prior), 1)
    p, u = whole(pu)
    positive = dataset.positive(2)
    classes = len(positive)
    n = int(dataset.size * 0.5 / max(prior, 1 - prior) + 1e-9)
    assert len(p) == int(0.15 * n + 0.5 + 1e-9)
    assert len(p) + len(u) == n
    drawn = per_class(dataset, p) + per_class(dataset, u)
    if setting == "os":
        assert drawn.max() <= dataset.size / classes
        assert drawn[positive].sum() == pytest.approx(prior * n, abs=0.5 + 1e-9)
    for counts in (
        per_class(dataset, p)[positive],
        per_class(dataset, u)[positive],
        per_class(dataset, u)[~positive],
    ):
        assert counts.max() - counts.min() <= (2 if setting == "os" else 1)
    inside = np.concatenate([hidden.u_train, hidden.u_val]).mean()
    assert inside == pytest.approx(pu.shifted_prior, abs=1.01 / len(u))
    assert pu.shifted_prior == pytest.approx(
        (prior - pu.rate) / (1 - pu.rate) if setting == "os" else prior, abs=1e-9
    )
    assert hidden.test.mean() == pytest.approx(prior, abs=0.5 / len(pu.test) + 1e-9)
    if name == "usps":  # as large as it can be: 977 positives and 1030 negatives are there
        assert len(pu.test) == int(min(977 / prior, 1030 / (1 - prior)))


def test_test_set_keeps_natural_frequencies_at_the_default_prior():
    dataset = stand_in("usps")
    for prior in (None, 0.5):
        pu, hidden = draw_pu_data(dataset, Problem("usps", 1, "os", 0.3, prior), 0)
        assert len(pu.test) == 2007
        assert hidden.test.sum() == 850
    assert draw_pu_data(dataset, Problem("usps", 2), 0)[1].test.sum() == 977


def test_random_test_part():
    dataset = stand_in("letter")
    one, other = (draw_pu_data(dataset, Problem("letter"), split)[0] for split in (0, 1))
    assert len(one.test) == len(other.test) == 2000
    assert len(np.intersect1d(one.test, other.test)) < 400
    digits = stand_in("digits")
    pu, _ = draw_pu_data(digits, Problem("digits"), 0)
    assert len(pu.test) == 359
    assert set(per_class(digits, pu.test)) <= {35, 36, 37}


def parts_of(pu):
    return [pu.p_train, pu.u_train, pu.p_val, pu.u_val, pu.test]


@pytest.mark.parametrize("setting", ["os", "ts"])
@pytest.mark.parametrize("name", ["letter", "usps", "digits"])
def test_parts_are_disjoint(name, setting):
    dataset = stand_in(name)
    pu, _ = draw_pu_data(dataset, Problem(name, 1, setting, 0.1), 2)
    everything = np.concatenate(parts_of(pu))
    assert everything.dtype == np.int64
    assert len(np.unique(everything)) == len(everything)
    assert dataset.positive(1)[dataset.classes[np.concatenate([pu.p_train, pu.p_val])]].all()


BASE = {"dataset": "digits", "case": 1, "setting": "os", "rate": 0.2, "prior": 0.4}


def drawn(salt="", split=0, name="digits", **changes):
    dataset = (
        stand_in("digits")
        if name == "digits"
        else dataclasses.replace(stand_in("digits"), name=name)
    )
    return parts_of(draw_pu_data(dataset, Problem(**(BASE | changes)), split, salt)[0])


def test_a_draw_is_a_function_of_its_key():
    assert all(np.array_equal(a, b) for a, b in zip(drawn(), drawn(), strict=True))
    implied = drawn(prior=None)
    assert all(np.array_equal(a, b) for a, b in zip(implied, drawn(prior=0.5), strict=True))


@pytest.mark.parametrize(
    "changes",
    [
        {"split": 1},
        {"salt": "x"},
        {"case": 2},
        {"setting": "ts"},
        {"rate": 0.21},
        {"prior": 0.41},
        {"name": "other"},
    ],
    ids=str,
)
def test_every_part_of_the_key_matters(changes):
    for a, b in zip(drawn(), drawn(**changes), strict=True):
        assert not np.array_equal(a, b)


PINNED = [[1648, 1300, 667], [756, 1196, 796], [1390, 909, 270], [1487, 239, 1255], [7, 10, 12]]


def test_numbers_do_not_change_between_versions():
    """The draw is part of what a stored result means: these are the first indices of one draw, for
    good.
    """
    parts = drawn()
    assert [list(part[:3]) for part in parts] == PINNED


def test_the_global_generator_is_left_alone():
    np.random.seed(3)
    before = np.random.get_state()[1].copy()
    drawn()
    assert (np.random.get_state()[1] == before).all()


def test_no_hidden_label_can_be_reached():
    dataset = stand_in("digits")
    pu, hidden = draw_pu_data(dataset, Problem("digits", case=2, rate=0.2, prior=0.4), 0)
    assert {field.name for field in dataclasses.fields(pu)} == {
        "p_train",
        "u_train",
        "p_val",
        "u_val",
        "test",
        "prior",
        "rate",
        "shifted_prior",
        "setting",
    }
    assert set(vars(pu)) == {field.name for field in dataclasses.fields(pu)}
    for name, value in vars(pu).items():
        if isinstance(value, np.ndarray):
            assert value.base is None, name  # not a view of something larger
            assert not value.flags.writeable
            assert value.dtype == np.int64
            assert value.dtype.names is None
        else:
            assert type(value) is float or value is labeling.get_setting("os"), name
    with pytest.raises(dataclasses.FrozenInstanceError):
        pu.prior = 0.9
    with pytest.raises(ValueError, match="read-only"):
        pu.u_train[0] = 0
    # Nor does the order tell: positives (the last classes here) come as early in U as negatives do.
    places = np.arange(len(hidden.u_train)) / len(hidden.u_train)
    spread_of_mean = np.sqrt(1 / 12 / hidden.u_train.sum())
    assert abs(places[hidden.u_train].mean() - 0.5) < 5 * spread_of_mean


def test_hidden_labels_are_the_true_ones():
    dataset = stand_in("letter")
    pu, hidden = draw_pu_data(dataset, Problem("letter", 2, "ts", 0.1, 0.3), 0)
    positive = dataset.positive(2)
    for name in ("u_train", "u_val", "test"):
        labels = getattr(hidden, name)
        assert labels.dtype == bool
        assert not labels.flags.writeable
        assert np.array_equal(labels, positive[dataset.classes[getattr(pu, name)]])


def test_validation_is_a_random_part():
    dataset = stand_in("usps")
    pu, hidden = draw_pu_data(dataset, Problem("usps", 1, "ts", 0.3), 0)
    assert hidden.u_val.mean() == pytest.approx(0.5, abs=0.15)
    assert len(set(dataset.classes[pu.p_val])) == 5


# Natural proportions


def natural(size=900, prior=None, counts=(50, 150, 300, 500), positive=(0, 2), **parts) -> Dataset:
    classes = np.repeat(np.arange(len(counts)), counts)
    pool = np.array(counts) * 0.8
    share = float(pool[list(positive)].sum() / pool.sum())
    parts = {"test_fraction": 0.2, "default_prior": prior or share} | parts
    return made("natural", classes, cases={1: positive}, size=size, balanced=False, **parts)


def test_natural_proportions_use_the_whole_pool():
    dataset = natural(size=800)
    pu, hidden = draw_pu_data(dataset, Problem("natural", rate=0.2), 0)
    p, u = whole(pu)
    assert list(per_class(dataset, np.concatenate([p, u]))) == [40, 120, 240, 400]
    assert list(per_class(dataset, p)) == [23, 0, 137, 0]
    assert pu.prior == pytest.approx(0.35)
    assert list(per_class(dataset, pu.test)) == [10, 30, 60, 100]
    assert hidden.test.mean() == pytest.approx(0.35)


def test_natural_proportions_at_another_prior():
    dataset = natural(size=800)
    pu, hidden = draw_pu_data(dataset, Problem("natural", rate=0.2, prior=0.6), 0)
    p, u = whole(pu)
    assert len(p) + len(u) == int(800 * 0.35 / 0.6)
    counts = per_class(dataset, np.concatenate([p, u]))
    assert list(counts[[0, 2]]) == [40, 240]  # every positive there is
    assert counts[1] / counts[3] == pytest.approx(120 / 400, abs=0.01)
    assert hidden.test.mean() == pytest.approx(0.6, abs=0.01)
    assert hidden.test.sum() == 70


def test_test_set_follows_a_dataset_whose_own_prior_is_not_the_natural_one():
    pu, hidden = draw_pu_data(natural(size=800, prior=0.6), Problem("natural", rate=0.2), 0)
    assert pu.prior == 0.6
    assert hidden.test.mean() == pytest.approx(0.6, abs=0.01)


# Any dataset


@st.composite
def situations(draw):
    k = draw(st.integers(2, 6))
    balanced = draw(st.booleans())
    counts = draw(st.lists(st.integers(120, 400), min_size=k, max_size=k))
    positive = tuple(range(draw(st.integers(1, k - 1))))
    prior = draw(st.one_of(st.none(), st.floats(0.15, 0.85)))
    setting = draw(st.sampled_from(["os", "ts"]))
    rate = draw(st.floats(0.1, 0.8))
    size = draw(
        st.integers(100, max(100, int(0.8 * (k * min(counts) if balanced else sum(counts)))))
    )
    fraction = draw(st.sampled_from([0.1, 0.2]))
    pool = np.array(counts) * (1 - fraction)
    base = len(positive) / k if balanced else float(pool[list(positive)].sum() / pool.sum())
    classes = np.repeat(np.arange(k), counts)
    dataset = made(
        "any",
        classes,
        cases={1: positive},
        size=size,
        balanced=balanced,
        test_fraction=fraction,
        default_prior=base,
    )
    return dataset, Problem("any", 1, setting, rate, prior), draw(st.integers(0, 5))


@settings(max_examples=150, deadline=None)
@given(situations())
def test_any_draw_adds_up_or_says_why_not(situation):
    dataset, problem, split = situation
    prior = problem.prior or dataset.default_prior
    try:
        pu, hidden = draw_pu_data(dataset, problem, split)
    except UserError as error:
        text = str(error)
        assert "\n" not in text
        if problem.setting == "os" and "exceed 1" in text:
            assert problem.rate > prior - 0.02
        else:
            assert "are missing" in text or "too few" in text
        return
    p, u = whole(pu)
    n = len(p) + len(u)
    assert n <= dataset.size
    assert len(p) == int(problem.rate * n + 0.5 + 1e-9)
    assert len(pu.p_val) == int(0.1 * len(p) + 1e-9)
    assert len(pu.u_val) == int(0.1 * len(u) + 1e-9)
    everything = np.concatenate(parts_of(pu))
    assert len(np.unique(everything)) == len(everything)
    truth = dataset.positive(1)[dataset.classes]
    assert truth[p].all()
    unlabeled = truth[u].sum()
    if problem.setting == "os":
        assert unlabeled + len(p) == pytest.approx(prior * n, abs=0.5 + 1e-6)
        assert pu.shifted_prior == pytest.approx(
            max(0, (prior - pu.rate) / (1 - pu.rate)), abs=1e-9
        )
    else:
        assert unlabeled == pytest.approx(prior * len(u), abs=0.5 + 1e-6)
        assert pu.shifted_prior == prior
    if problem.prior is not None and abs(prior - dataset.default_prior) > 0.01:
        assert hidden.test.sum() == pytest.approx(prior * len(pu.test), abs=0.5 + 1e-6)


@given(st.integers(0, 5000), st.lists(st.integers(1, 300), min_size=1, max_size=30))
def test_an_allocation_is_exact_and_fair(total, weights):
    weights = np.array(weights)
    counts = allocate(total, weights)
    assert counts.sum() == total
    assert (np.abs(counts - total * weights / weights.sum()) < 1).all()
    if total <= weights.sum():
        assert (counts <= weights).all()


# Mistakes


@pytest.mark.parametrize("value", [0, 1, -0.2, 1.5, float("nan"), float("inf"), "half", True])
@pytest.mark.parametrize("name", ["rate", "prior"])
def test_rate_and_prior_lie_between_0_and_1(name, value):
    with raises_user_error("invalid-value", repr(value)):
        Problem("digits", **{name: value})


def test_bad_problems():
    with raises_user_error("unknown-name", "'oss'", "'os'"):
        Problem("digits", setting="oss")
    with raises_user_error("invalid-value", "0"):
        Problem("digits", case=0)
    with raises_user_error("unknown-name", "case 3", "1, 2"):
        draw_pu_data(stand_in("digits"), Problem("digits", case=3), 0)
    assert hash(Problem("digits")) == hash(Problem("digits", 1, "os", 0.3, None))


def test_a_rate_above_the_prior_is_no_one_sample_problem():
    with raises_user_error("missing-data", "1.67", "class '1' has 39", "lacks 26 of the 65"):
        draw_pu_data(stand_in("digits"), Problem("digits", 1, "os", 0.5, 0.3), 0)
    pu, hidden = draw_pu_data(stand_in("digits"), Problem("digits", 1, "os", 0.5), 0)
    assert pu.shifted_prior == 0
    assert not hidden.u_train.any()


def test_a_class_that_lacks_examples_is_named():
    problem = Problem("usps", 1, "ts", 0.4)
    with raises_user_error("missing-data", "'8'", "542", "560", "18 are missing"):
        draw_pu_data(stand_in("usps", shortfall=0.05), problem, 0)
    assert draw_pu_data(stand_in("usps", shortfall=0.06), problem, 0)
    with raises_user_error("missing-data", "'8'", "542", "600", "1 more class"):
        draw_pu_data(stand_in("usps", size=6000), Problem("usps", 1, "os", 0.3), 0)


def test_the_size_an_error_proposes_fits():
    problem = Problem("natural", 1, "ts", 0.3)
    with pytest.raises(UserError, match="a size of at most") as caught:
        draw_pu_data(natural(size=800), problem, 0)
    proposed = int(str(caught.value).split("at most ")[1].split()[0])
    assert 400 < proposed < 800
    assert draw_pu_data(natural(size=proposed), problem, 0)
    with raises_user_error("missing-data"):
        draw_pu_data(natural(size=proposed + 5), problem, 0)


def test_too_few_to_hold_any_out():
    with raises_user_error("missing-data", "too few"):
        draw_pu_data(natural(size=80), Problem("natural", rate=0.1), 0)


def test_a_side_without_examples():
    parts = {"train": np.arange(300), "test": np.arange(300, 600)}
    one_sided = made(
        "one", [0] * 300 + [1] * 300, cases={1: (0,)}, size=200, balanced=False, **parts
    )
    with raises_user_error("missing-data", "training pool", "negatives"):
        draw_pu_data(one_sided, Problem("one"), 0)
    classes = [0] * 300 + [1] * 300 + [0] * 20
    parts = {"train": np.arange(600), "test": np.arange(600, 620)}
    test_sided = made("two", classes, cases={1: (0,)}, size=400, **parts)
    with raises_user_error("missing-data", "test set", "'two'", "negatives"):
        draw_pu_data(test_sided, Problem("two"), 0)
