"""The classics: scikit-learn's own checks, that they learn, and that they are rows of the
benchmark.
"""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import check_estimator

import puarena
from pu_tables import EXPECTED
from puarena import catalog, training
from puarena.catalog import explain
from puarena.classics import (
    BaggingPUClassifier,
    BiasedClassifier,
    DownSampledForestClassifier,
    ElkanNotoClassifier,
    MaxentClassifier,
    NaiveClassifier,
    SpiesClassifier,
)
from puarena.errors import UserError
from puarena.experiments.plan import make_plan
from puarena.experiments.spec import Spec
from puarena.testing import contract

FAST = {
    "elkan-noto": ElkanNotoClassifier(LogisticRegression()),
    "elkan-noto-weighted": ElkanNotoClassifier(LogisticRegression(), weighted=True),
    "bagging-pu": BaggingPUClassifier(n_estimators=5),
    "spies": SpiesClassifier(LogisticRegression()),
    "biased-lr": BiasedClassifier(LogisticRegression()),
    "down-sampled-rf": DownSampledForestClassifier(n_estimators=20),
    "maxent": MaxentClassifier(C=0.1),
}


def mixture(n=1000, prior=0.5, seed=0, gap=3):
    rng = np.random.default_rng(seed)
    label = rng.random(n) < prior
    x = rng.normal(size=(n, 3))
    x[:, 0] += gap * label
    return x, (label & (rng.random(n) < 0.4)).astype(int), label


@pytest.mark.parametrize("name", FAST)
def test_scikit_learns_own_checks(name):
    check_estimator(FAST[name], on_skip=None, expected_failed_checks=EXPECTED)


@pytest.mark.parametrize("name", FAST)
def test_learns(name):
    x, y, _ = mixture()
    new, _, truth = mixture(seed=1)
    model = (
        FAST[name].__class__(**{**FAST[name].get_params(deep=False), "random_state": 0}).fit(x, y)
    )
    assert (model.predict(new) == truth).mean() > 0.8, (
        name
    )  # a constant answer has 0.5, the best possible one 0.93
    assert ((model.decision_function(new) > 0) == (model.predict(new) == 1)).all()
    assert model.score(new, truth.astype(int)) > 0.8
    np.testing.assert_allclose(model.predict_proba(new).sum(1), 1)


class Remembers(DecisionTreeClassifier):
    def fit(self, X, y, sample_weight=None):
        self.rows_ = X[y == 0]
        return super().fit(X, y)


def test_bags_are_drawn_as_ever():
    """The rows of a bag, then the seed of its tree, bag by bag: another order would give other
    numbers.
    """
    x, y, _ = mixture(200)
    model = BaggingPUClassifier(Remembers(), n_estimators=3, random_state=7).fit(x, y)
    rng, unlabeled = np.random.RandomState(7), np.flatnonzero(y == 0)
    for tree in model.estimators_:
        np.testing.assert_array_equal(tree.rows_, x[rng.choice(unlabeled, y.sum())])
        assert tree.random_state == rng.randint(2**31 - 1)


@pytest.mark.parametrize("y_of", [lambda y: y.astype(bool), lambda y: 2 * y - 1])
def test_labels(y_of):
    x, y, _ = mixture(300)
    plain, other = (BiasedClassifier().fit(x, marks).decision_function(x) for marks in (y, y_of(y)))
    np.testing.assert_allclose(plain, other)


def test_named_positive_label():
    x, y, _ = mixture(300)
    model = SpiesClassifier(positive_label="a", random_state=0).fit(x, np.where(y, "a", "b"))
    assert model.classes_.tolist() == ["b", "a"]
    assert set(model.predict(x)) == {"a", "b"}


def test_elkan_noto_finds_the_label_frequency():
    # The method assumes no overlap, and a classifier that gives all positives the same value.
    for seed in range(3):
        x, y, label = mixture(3000, gap=8, seed=seed)
        model = ElkanNotoClassifier(DecisionTreeClassifier(max_depth=1), random_state=0).fit(x, y)
        assert abs(model.c_ - y[label].mean()) < 0.015  # the frequency in this very draw


def test_bagging_scores_what_it_has_not_seen():
    x, y, label = mixture(400)
    model = BaggingPUClassifier(n_estimators=20, random_state=0).fit(x, y)
    assert np.isnan(model.oob_score_[y == 1]).all()
    rest = (y == 0) & ~np.isnan(model.oob_score_)
    assert model.oob_score_[rest & label].mean() > model.oob_score_[rest & ~label].mean() + 0.2


def test_any_classifier_may_be_wrapped():
    x, y, _ = mixture(300)
    for inner in (LinearSVC(), KNeighborsClassifier()):
        assert SpiesClassifier(inner, random_state=0).fit(x, y).predict_proba(x).shape == (300, 2)
    with pytest.raises(ValueError, match="takes no sample_weight"):
        BiasedClassifier(KNeighborsClassifier()).fit(x, y)


@pytest.mark.parametrize(
    "model",
    [
        ElkanNotoClassifier(hold_out=1),
        BaggingPUClassifier(n_estimators=0),
        SpiesClassifier(spies=0),
        SpiesClassifier(noise=1),
        BiasedClassifier(positive_weight="much"),
    ],
)
def test_bad_parameters(model):
    with pytest.raises(ValueError):
        model.fit(*mixture(100)[:2])


@pytest.mark.parametrize("y", [np.zeros(50), np.ones(50), np.arange(50) % 3])
def test_bad_labels(y):
    with pytest.raises(ValueError, match="class"):
        BiasedClassifier().fit(np.zeros((50, 2)), y)


ROWS = [
    "elkan-noto",
    "elkan-noto-weighted",
    "bagging-pu",
    "spies",
    "biased-lr",
]  # that need no prior


def test_rows_of_the_benchmark(tmp_path):
    spec = Spec(
        problems=[{"dataset": "digits", "settings": ["os", "ts"], "rates": [0.2]}],
        algorithms=[*ROWS, "nnpu"],
        splits=1,
        configs=2,
        steps=20,
        record_every=10,
    )
    plan = make_plan(spec)
    assert len(plan.runs) == 2 * (len(ROWS) + 2)  # a classic has one configuration
    outcome = puarena.run(spec, out=tmp_path, device="cpu", workers=1)
    assert not outcome.failures
    frame = puarena.load(tmp_path).df()
    mine = frame[frame["algorithm"].isin(ROWS)]
    assert len(mine) == 2 * len(ROWS)
    assert (mine["step"] == 1).all()
    assert mine["selectable"].all()
    assert (mine["status"] == "ok").all()
    assert mine["test_auc"].min() > 0.85
    assert np.isfinite(
        mine[["test_accuracy", "test_f1", "val_pa", "val_pauc", "val_oa"]].to_numpy()
    ).all()
    assert {row.method.algorithm for row in puarena.table(tmp_path)[0].rows} == {*ROWS, "nnpu"}
    assert puarena.run(spec, out=tmp_path, device="cpu", workers=1).computed == 0


def test_all_does_not_mean_the_classics():
    others = {"sar-em-lr", "puet", "puet-c", "naive-lr", "naive-boosting"}
    assert set(catalog.names("classic")) == {*ROWS, *others, "down-sampled-rf", "maxent"}
    problems = [{"dataset": "digits"}]
    assert not set(Spec(problems=problems).resolve().algorithms) & set(ROWS)
    assert "Elkan, Noto" in explain(catalog.get("elkan-noto"))


def test_the_engine_refuses_them():
    x, data, hidden = contract.make_toy_problem(0.5)
    with pytest.raises(UserError, match="spies") as error:
        training.train([training.Row("spies", data, hidden, seed=0)], contract.CONFIG, x)
    assert error.value.code == "not-supported"


def test_trees_of_the_forest_see_as_many_unlabeled_rows():
    x, y, _ = mixture(300)
    y[np.flatnonzero(y)[20:]] = 0
    forest = DownSampledForestClassifier(n_estimators=30, random_state=0).fit(x, y)
    for tree in forest.estimators_:
        assert tree.tree_.n_node_samples[0] <= 40
        assert tree.tree_.weighted_n_node_samples[0] == 40
        assert tree.max_features == "sqrt"
    assert len({tree.random_state for tree in forest.estimators_}) == 30


def test_maxent_finds_an_optimum_in_the_middle():
    """A species that lives at medium temperatures: no linear model can rank its places."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, 2))
    lives = np.abs(x[:, 0]) < 0.7
    y = (lives & (rng.random(3000) < 0.1)).astype(int)
    new = rng.normal(size=(2000, 2))
    truth = np.abs(new[:, 0]) < 0.7
    scores = [
        roc_auc_score(truth, model.fit(x, y).decision_function(new))
        for model in (MaxentClassifier(), NaiveClassifier())
    ]
    assert scores[0] > 0.95
    assert scores[1] < 0.65
    constant = np.column_stack([x, np.ones(len(x))])
    assert np.isfinite(MaxentClassifier().fit(constant, y).predict_proba(constant)).all()


def test_naive_classifiers_predict_labels():
    x, y, truth = mixture(4000)
    for boosting in (False, True):
        model = NaiveClassifier(boosting=boosting, random_state=0).fit(x, y)
        assert model.predict_proba(x)[:, 1].mean() == pytest.approx(y.mean(), abs=0.03)
        assert roc_auc_score(truth, model.decision_function(x)) > 0.9
