"""What a practitioner decides with: ranges of the prior, cuts, evaluation and hand checks."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.model_selection import TunedThresholdClassifierCV

from pu_tables import quick, table
from puarena import PUClassifier, PUScorer, UserError
from puarena.estimators import choose_checks, evaluate, update_with_checks
from puarena.estimators.cuts import CUTS
from puarena.estimators.doubts import DataWarning
from puarena.estimators.hand_checks import Checks
from puarena.estimators.model_selection import MisuseWarning
from puarena.priors import PriorWarning, estimate_prior
from puarena.priors.stacking import fit_stack

X, s, truth = table(1000, prior=0.3, labeled=0.4, seed=1, gap=2.5)


@pytest.fixture(scope="module")
def clf():
    return PUClassifier(random_state=0).fit(X, s)


# -- the prior -------------------------------------------------------------------------------------


def test_a_range_narrows_the_prior(clf):
    low, high = 0.35, 0.5
    given = PUClassifier(prior=(low, high), random_state=0).fit(X, s)
    assert low - 1e-9 <= given.prior_interval_[0] < given.prior_
    assert given.prior_ < given.prior_interval_[1] <= high + 1e-9
    assert clf.prior_ < given.prior_
    assert given.prior_quantiles_.min() >= low - 1e-9
    rate = s.mean()
    frequency = PUClassifier(label_frequency=(rate / high, rate / low), random_state=0).fit(X, s)
    assert frequency.prior_ == pytest.approx(given.prior_)
    exact = PUClassifier(label_frequency=0.4, random_state=0).fit(X, s)
    assert exact.prior_interval_ == (exact.prior_, exact.prior_)
    assert exact.prior_ == pytest.approx(rate / 0.4)


def test_a_range_of_another_method_and_of_a_classifier():
    for model in (
        PUClassifier(prior=(0.4, 0.5)),
        PUClassifier(LogisticRegression(), prior=(0.4, 0.5)),
    ):
        assert 0.4 <= model.fit(X, s).prior_ <= 0.5
    assert estimate_prior(X, s, method="bbe", bounds=(0.4, 0.5), warn=False).value == 0.4


@pytest.mark.parametrize(
    "given, code",
    [
        ({"prior": (0.01, 0.05)}, "conflict"),  # a tenth of the rows are labeled
        ({"prior": (0.5, 0.2)}, "invalid-value"),
        ({"prior": (0.2, 0.4), "label_frequency": (0.9, 1.0)}, "conflict"),
        ({"label_frequency": 0.5, "setting": "two-sample"}, "conflict"),
        ({"label_frequency": (0.0, 0.5)}, "invalid-value"),
    ],
)
def test_impossible_ranges(given, code):
    with pytest.raises(UserError) as error:
        PUClassifier(**given).fit(X, s)
    assert error.value.code == code


def test_the_prior_moves_probabilities_and_never_the_ranking():
    low, high = (PUClassifier(prior=p, random_state=0).fit(X, s) for p in (0.2, 0.6))
    order = np.argsort(low.decision_function(X), kind="stable")
    assert (np.diff(high.decision_function(X)[order]) >= 0).all()
    means = [model.predict_proba(X)[:, 1].mean() for model in (low, high)]
    assert means == pytest.approx([0.2, 0.6], abs=0.03)


def test_rare_positives_have_no_floor():
    rng = np.random.default_rng(0)
    rare = rng.random(6000) < 0.005
    A = rng.normal(size=(6000, 4)) + 4 * rare[:, None]
    labeled = rare & (rng.random(6000) < 0.5)
    found = estimate_prior(A, labeled, warn=False)
    assert found.interval[0] < rare.mean() < found.interval[1] < 0.04
    assert found.value == pytest.approx(rare.mean(), rel=0.5)


def test_a_useless_model_gets_no_weight_from_many_labels():
    rng = np.random.default_rng(0)
    good, noise = rng.normal(size=(2, 4000))
    labeled = rng.random(4000) < 1 / (1 + np.exp(2 - 2 * good))
    many = fit_stack(np.column_stack([good, noise]), labeled)
    few = fit_stack(np.column_stack([good, noise])[:60], labeled[:60])
    assert many[1] < 0.1 < few[1]
    assert many.sum() == pytest.approx(1)


# -- cuts ------------------------------------------------------------------------------------------


def test_cuts_change_after_fitting_and_probabilities_do_not(clf, tmp_path):
    clf = clf.set_threshold("model")
    chance = clf.predict_proba(X)
    shares = {}
    for name in CUTS:
        clf.set_threshold(name, costs=(1, 5), budget=50)
        shares[name] = clf.predict(X).mean()
        np.testing.assert_array_equal(clf.predict_proba(X), chance)
        np.testing.assert_array_equal(clf.predict(X), clf.decision_function(X) > 0)
    assert shares["prior"] == pytest.approx(clf.prior_, abs=0.03)
    assert shares["cost"] > shares["model"]
    assert clf.predict(X)[~s].sum() == pytest.approx(50, abs=15)
    clf.set_threshold("cost", costs=[[0, 1], [5, 0]])
    assert clf.predict(X).mean() == shares["cost"]
    # Where a false negative costs five times as much, one sixth is enough.
    edge = chance[clf.predict(X), 1].min()
    assert edge == pytest.approx(1 / 6, abs=0.03)
    clf.set_threshold("model")


def test_the_f1_cut_is_better_where_positives_are_rare():
    A, labeled, positive = table(3000, prior=0.06, labeled=0.5, seed=3, gap=1.5)
    clf = PUClassifier(prior=0.06, random_state=0).fit(A, labeled)
    half = f1_score(positive, clf.predict(A))
    assert f1_score(positive, clf.set_threshold("f1").predict(A)) > half + 0.05


@pytest.mark.parametrize(
    "given, code",
    [
        ({"threshold": "cost"}, "missing-data"),
        ({"threshold": "budget"}, "missing-data"),
        ({"threshold": "cost", "costs": (1, -1)}, "invalid-value"),
        ({"threshold": "cost", "costs": (1, 2, 3)}, "invalid-value"),
        ({"threshold": "cost", "costs": "much"}, "invalid-value"),
        ({"threshold": "best"}, "unknown-name"),
    ],
)
def test_cuts_that_cannot_be_made(clf, given, code):
    clf.set_params(costs=None, budget=None).set_threshold("model")
    with pytest.raises(UserError) as error:
        clf.set_threshold(**given)
    assert error.value.code == code
    assert clf.threshold == "model"


def test_scorers_tune_thresholds_of_scikit_learn():
    scorer = PUScorer("f1", prior=0.3, setting="one-sample")
    tuned = TunedThresholdClassifierCV(LogisticRegression(), scoring=scorer, cv=3).fit(X, s)
    assert f1_score(truth, tuned.predict(X)) > 0.8
    assert f1_score(truth, LogisticRegression().fit(X, s).predict(X)) < 0.6
    with pytest.raises(UserError) as error:
        TunedThresholdClassifierCV(LogisticRegression(), scoring=PUScorer("f1"), cv=3).fit(X, s)
    assert error.value.code == "missing-data"


def test_accuracy_is_refused_when_the_scorer_is_made():
    with pytest.raises(UserError) as error:
        PUScorer("accuracy")
    assert error.value.code == "unknown-name"
    assert "accuracy" in str(error.value)


def test_a_calibrator_is_warned_of():
    base = PUClassifier(LogisticRegression(), prior=0.3)
    with pytest.warns(MisuseWarning, match="CalibratedClassifierCV"):
        CalibratedClassifierCV(base, cv=2).fit(X, s)
    with warnings.catch_warnings():
        warnings.simplefilter("error", MisuseWarning)
        base.fit(X, s)
        base.predict_proba(X)
    with pytest.warns(MisuseWarning, match="CalibratedClassifierCV"):
        calibrated = CalibratedClassifierCV(FrozenEstimator(base)).fit(X, s)
    with warnings.catch_warnings():
        warnings.simplefilter("error", MisuseWarning)
        calibrated.predict_proba(X)


# -- evaluation ------------------------------------------------------------------------------------


def test_evaluation_covers_what_the_model_does_on_new_rows(clf):
    A, labeled, positive = table(2000, prior=0.3, labeled=0.4, seed=9, gap=2.5)
    predicted = clf.predict(A)
    true = {
        "precision": positive[predicted].mean(),
        "recall": predicted[positive].mean(),
        "f1": f1_score(positive, predicted),
        "accuracy": (predicted == positive).mean(),
        "prior": 0.3,
    }
    for found in (evaluate(clf), evaluate(clf, A, labeled)):
        for name, value in true.items():
            each = getattr(found, name)
            assert each.low - 0.02 < value < each.high + 0.02, name
            assert each.low <= each.value <= each.high
        assert found.lift.value > 2
        assert (found.prior.low, found.prior.high) == clf.prior_interval_
    # A prior that is known leaves less doubt.
    known = evaluate(clf, A, labeled, prior=0.3)
    assert known.precision.high - known.precision.low < found.precision.high - found.precision.low
    assert known.precision.value == pytest.approx(true["precision"], abs=0.06)


def test_evaluation_by_folds_and_of_other_classifiers():
    model = LogisticRegression(class_weight="balanced")
    found = evaluate(model, X, s, folds=3, prior=0.3, setting="one-sample")
    assert found.labeled == s.sum()
    assert found.recall.low < 0.9 < found.recall.high + 0.05
    for given in ({"folds": 3, "prior": 0.3}, {"folds": 3, "setting": "one-sample"}, {}):
        with pytest.raises(UserError) as error:
            evaluate(model.fit(X, s), X, None if not given else s, **given)
        assert error.value.code == "missing-data"


@pytest.mark.parametrize(
    "given, code",
    [
        ({"prior": "high"}, "invalid-value"),
        ({"prior": (0.9, 0.1)}, "invalid-value"),
        ({"prior": 0.01}, "conflict"),
        ({"top": 5}, "invalid-value"),
        ({"X": X, "labeled": s, "folds": 1}, "invalid-value"),
    ],
)
def test_evaluations_that_cannot_be_made(clf, given, code):
    with pytest.raises(UserError) as error:
        evaluate(clf, **given)
    assert error.value.code == code


def test_labels_of_other_rows_are_refused(clf):
    for call in (evaluate, lambda model, A, y: choose_checks(model, A, 50, y)):
        with pytest.raises(ValueError, match="995"):
            call(clf, X, s[:-5])
        with pytest.raises(ValueError, match="positive_label=True"):
            call(clf, X, np.zeros(len(X)))


def test_groups_stay_in_one_fold():
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(100), 10)
    # The features tell the customer, and nothing else; labels are given by customer.
    A = rng.normal(size=(100, 6))[group] + 0.01 * rng.normal(size=(1000, 6))
    labeled = np.isin(group, np.flatnonzero(rng.random(100) < 0.3))
    model = PUClassifier(prior=0.5, random_state=0)
    leaky = model.fit(A, labeled).report_[-1]["pauc"]
    honest = model.fit(A, labeled, groups=group).report_[-1]["pauc"]
    assert leaky > 0.9
    assert honest < 0.7
    # Values of several types, and missing ones, are groups too.
    named = np.where(group == 0, None, group).astype(object)
    named[group == 1] = "one"
    assert model.fit(A, labeled, groups=named).report_[-1]["pauc"] < 0.7


# -- hand checks -----------------------------------------------------------------------------------


def test_hand_checks_find_the_prior_where_labels_are_biased():
    rng = np.random.default_rng(2)
    A, _, positive = table(2000, prior=0.4, seed=5, gap=2.5)
    chance = np.where(A[:, 0] > np.median(A[positive, 0]), 0.6, 0.02)
    labeled = positive & (rng.random(2000) < chance)
    model = PUClassifier(random_state=0).fit(A, labeled)
    assert model.prior_ < 0.33
    covered, widths = [], []
    for seed in range(12):
        checks = choose_checks(model, A, 50, labeled, seed)
        assert not labeled[checks.rows].any()
        assert len(np.unique(checks.rows)) == 50
        found = update_with_checks(Checks.from_dict(checks.to_dict()), positive[checks.rows])
        covered.append(found.prior.low <= positive.mean() <= found.prior.high)
        widths.append(found.prior.high - found.prior.low)
        assert found.checked == 50
    assert np.mean(covered) >= 0.75
    assert np.mean(widths) < 0.22  # of 50 rows drawn alike: .26


class Guess:
    """A model whose probabilities are given."""

    classes_ = np.array([False, True])
    setting = "two-sample"

    def __init__(self, probability):
        self.probability = probability

    def predict_proba(self, X):
        return np.column_stack([1 - self.probability, self.probability])

    def predict(self, X):
        return self.probability >= 0.5


@pytest.mark.parametrize("n", [50, 400])
@pytest.mark.parametrize("kind", ["useless", "inverted"])
def test_hand_checks_hold_however_wrong_the_model_is(kind, n):
    rng = np.random.default_rng(0)
    right = 1 / (1 + np.exp(-rng.normal(-1, 2, 1000)))
    positive = rng.random(1000) < right
    model = Guess(rng.permutation(right) if kind == "useless" else 1 - right)
    predicted = model.predict(None)
    both = (predicted & positive).sum()
    truth = [positive.mean(), both / predicted.sum(), both / positive.sum()]
    covered = []
    for seed in range(30):
        checks = choose_checks(model, right, n, random_state=seed)
        found = update_with_checks(checks, positive[checks.rows], seed)
        intervals = [found.prior, found.precision, found.recall]
        covered.append([i.low <= t <= i.high for i, t in zip(intervals, truth, strict=True)])
        assert all(i.low <= i.value <= i.high for i in intervals)
    assert np.mean(covered, axis=0).min() >= 0.85


def test_the_chance_of_a_check_is_known(clf):
    checks = choose_checks(clf, X, 40)
    # Each drawn row stands for 1 / chance rows.
    assert (1 / checks.chance).sum() == pytest.approx(len(X))
    for wrong in (np.zeros(39), np.full(40, 2), ["yes"] * 40):
        with pytest.raises(UserError) as error:
            update_with_checks(checks, wrong)
        assert error.value.code == "invalid-value"
    for wrong in (len(X) + 1, "50"):
        with pytest.raises(UserError):
            choose_checks(clf, X, wrong)
    assert update_with_checks(checks, np.zeros(40)).notes


# -- warnings --------------------------------------------------------------------------------------


def list_doubts(A, labeled, **given):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        PUClassifier(random_state=0, **given).fit(A, labeled)
    own = [item for item in caught if issubclass(item.category, (PriorWarning, DataWarning))]
    assert len({str(item.message) for item in own}) == len(own)  # none comes twice
    return " ".join(str(item.message) for item in own)


def test_a_fit_says_what_is_doubtful():
    assert list_doubts(X, s) == ""
    rng = np.random.default_rng(0)
    noise = list_doubts(rng.normal(size=(600, 3)), s[:600])
    assert "better than chance" in noise
    assert "prior=(low, high)" in noise  # the interval is wide
    assert "prior=" not in list_doubts(rng.normal(size=(600, 3)), s[:600], prior=0.5)
    few = s & (np.cumsum(s) <= 20)
    assert "20 are labeled" in list_doubts(X, few)
    hidden = np.flatnonzero(truth & ~s)[:20]
    copied = X.copy()
    copied[hidden] = X[np.flatnonzero(s)[:20]]
    assert "20 unlabeled rows are copies" in list_doubts(copied, s, prior=0.3)
    biased = truth & (X[:, 0] > np.quantile(X[truth, 0], 0.6))
    assert "given at random" in list_doubts(X, biased)


def test_a_prior_changed_after_fitting_is_as_if_fitted_with_it(clf):
    other = PUClassifier(prior=(0.35, 0.5), random_state=0).fit(X, s)
    ranked = clf.predict_proba(X)[:, 1]
    clf.set_prior((0.35, 0.5))
    assert clf.prior_ == pytest.approx(other.prior_, abs=1e-6)
    np.testing.assert_allclose(clf.predict_proba(X), other.predict_proba(X), atol=0.02)
    back = clf.set_prior("estimate").predict_proba(X)[:, 1]
    np.testing.assert_allclose(back, ranked, atol=0.02)
    with pytest.raises(UserError) as error:
        quick(steps=20).fit(X, s).set_prior(0.4)
    assert error.value.code == "not-supported"
