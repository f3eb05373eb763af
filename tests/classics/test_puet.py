"""PU extra trees: golden values, the limit of labeled data, and the scikit-learn face."""

from __future__ import annotations

from math import ceil, sqrt

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.metrics import roc_auc_score
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import check_estimator

import goldens
import puarena
from pu_tables import EXPECTED
from puarena import catalog
from puarena.catalog import explain
from puarena.classics import PUExtraTreesClassifier
from puarena.classics import puet as arrays
from puarena.classics.puet import (
    Nodes,
    Splits,
    TreeRisk,
    TreeTable,
    evaluate,
    find_cut_range,
    grow,
    make_random_chooser,
)
from puarena.experiments.spec import Spec


def cases(kind):
    return goldens.cases("puet", lambda c: c["params"]["kind"] == kind)


def risk_of(case):
    p = case["params"]
    return TreeRisk(p["pi"], p["n_P"], p["n_U"], p["form"] == "os", p["risk"], p["loss"])


def numbers(values):
    return np.array([float(v) for v in values])


def close(actual, expected, case, what):
    a, b = np.asarray(actual, float), numbers(expected)
    assert (np.isinf(a) == np.isinf(b)).all()
    assert (a[np.isinf(b)] == b[np.isinf(b)]).all()
    goldens.close(a[np.isfinite(b)], b[np.isfinite(b)], case, "float64", what)


@pytest.mark.parametrize("case", cases("node"), ids=lambda c: c["id"])
def test_golden_nodes(case):
    risk, p, u = risk_of(case), np.array(case["inputs"]["p"]), np.array(case["inputs"]["u"])
    extra = case["expected_extra"]
    v = risk.posterior(p, u)
    close(risk.impurity(p, u), case["expected_value"], case, "impurity")
    close(v, extra["v"], case, "v")
    close(np.clip(v, 0, 1), extra["score"], case, "score")
    assert np.sign(v - 0.5).tolist() == extra["leaf"]
    assert risk.stops(p, u).astype(int).tolist() == extra["stop"]


@pytest.mark.parametrize("case", cases("split"), ids=lambda c: c["id"])
def test_golden_splits(case):
    """All candidates at once: as many copies of the node."""
    x_p, x_u = np.array(case["inputs"]["x_p"]), np.array(case["inputs"]["x_u"])
    feature, cut = np.array(case["inputs"]["candidates"]).T
    k, n = len(cut), len(x_p) + len(x_u)
    table = TreeTable(np.concatenate([x_p, x_u]), len(x_p))
    nodes = Nodes(np.tile(np.arange(n), k), np.full(k, len(x_p)), np.full(k, len(x_u)), len(x_p))
    _, _, value = evaluate(nodes, table.values(nodes, feature.astype(int)), cut, risk_of(case))
    close(value, case["expected_extra"]["risk"], case, "risk")
    assert int(np.argmin(value)) == case["expected_value"]["best"]


@pytest.mark.parametrize("case", cases("cut-range"), ids=lambda c: c["id"])
def test_golden_cut_range(case):
    values = np.array(case["inputs"]["values"])
    both = np.concatenate(
        [values, [5.0, 5.0], values]
    )  # other nodes beside it, one without a range
    sizes = np.array([len(values), 2, len(values)])
    nodes = Nodes(np.arange(len(both)), sizes, np.zeros(3, int), len(both))
    low, high = find_cut_range(nodes, both, inner=True)
    for at in (0, 2):
        close([low[at], high[at]], case["expected_value"], case, "range")
    assert (low[1], high[1]) == (5.0, 5.0)
    assert [side[0] for side in find_cut_range(nodes, both, inner=False)] == [
        values.min(),
        values.max(),
    ]


@pytest.mark.parametrize("case", cases("tree"), ids=lambda c: c["id"])
def test_golden_trees(case):
    given, extra = case["inputs"], case["expected_extra"]
    x_p, x_u, x_test = (np.array(given[name]) for name in ("x_p", "x_u", "x_test"))
    wanted = iter([given["splits"][:1], given["splits"][1:]])  # level by level

    def choose(table, nodes, risk):
        _, feature, cut = (np.array(column) for column in zip(*next(wanted), strict=True))
        return Splits(feature, cut, *evaluate(nodes, table.values(nodes, feature), cut, risk))

    forest = grow(
        TreeTable(np.concatenate([x_p, x_u]), len(x_p)),
        risk_of(case),
        1,
        choose,
        case["params"]["depth"],
    )
    close(forest.importances(x_p.shape[1]), case["expected_value"], case, "importances")
    close(forest.reduction[:3], extra["reduction"], case, "reduction")
    heap = [
        forest.left[1],
        forest.right[1],
        forest.left[2],
        forest.right[2],
    ]  # the leaves 3, 4, 5, 6
    assert (forest.feature[heap] == -1).all()
    close(forest.v[heap], extra["leaf_v"], case, "v of the leaves")
    assert np.sign(forest.v[heap] - 0.5).tolist() == extra["leaf_decision"]
    leaf = forest.leaves(x_test)[0]
    assert np.sign(forest.v[leaf] - 0.5).tolist() == extra["test_decision"]
    close(np.clip(forest.v[leaf], 0, 1), extra["test_score"], case, "score")


# -- the limit of labeled data -------------------------------------------------------


def smallest_risk(table, nodes, risk):
    """Of all midpoints between distinct values of all features, for every node: the split of an
    ordinary tree.
    """
    smallest = []
    for a, b, p, u in zip(nodes.starts, nodes.ends, nodes.p, nodes.u, strict=True):
        one, risks = Nodes(nodes.rows[a:b], np.array([p]), np.array([u]), nodes.n_p), []
        for feature in range(table.features):
            values = table.values(one, np.array([feature]))
            distinct = np.unique(values)
            cuts = (distinct[1:] + distinct[:-1]) / 2
            risks += [evaluate(one, values, np.array([cut]), risk)[2][0] for cut in cuts]
        smallest.append(min(risks))
    return np.array(smallest)


@pytest.mark.parametrize("one_sample, copies", [(True, 0), (False, 1), (False, 3)])
def test_with_true_negatives_it_is_the_gini_tree_of_scikit_learn(one_sample, copies):
    """U has true negatives alone (one-sample), or every positive so many times (two-sample):
    nothing is unknown.
    """
    rng = np.random.default_rng(copies)
    label = rng.random(120) < 0.35
    x = (rng.normal(size=(120, 3)) + label[:, None] * [1.0, 0.5, 0.0]).astype(np.float32)
    positive, negative = x[label], x[~label]
    u = np.concatenate([*[positive] * copies, negative])
    weight = 1 if one_sample else copies
    prior = weight * len(positive) / (weight * len(positive) + len(negative))
    risk = TreeRisk(prior, len(positive), len(u), one_sample)
    weights = np.where(label, weight, 1.0)
    model = DecisionTreeClassifier(criterion="gini", max_depth=4, random_state=0).fit(
        x, label, sample_weight=weights
    )
    tree, everything = model.tree_, np.concatenate([positive, u]).astype(np.float64)
    path, depth = model.decision_path(everything.astype(np.float32)), iter(range(4))

    def as_scikit_learn(table, nodes, risk):
        now = next(depth)
        their = np.array([path[row].indices[now] for row in nodes.rows[nodes.starts]])
        feature, cut = tree.feature[their], tree.threshold[their]
        assert (feature >= 0).all()  # where they have a leaf, so do we
        values = evaluate(nodes, table.values(nodes, feature), cut, risk)
        np.testing.assert_allclose(
            values[2], smallest_risk(table, nodes, risk), atol=1e-12
        )  # their best is ours
        return Splits(feature, cut, *values)

    forest = grow(TreeTable(everything, len(positive)), risk, 1, as_scikit_learn, max_depth=4)
    mine, theirs = [0], [0]
    for a, b in zip(mine, theirs, strict=True):  # both lists grow: the same nodes
        assert 2 * forest.v[a] * (1 - forest.v[a]) == pytest.approx(tree.impurity[b], abs=1e-12)
        assert forest.feature[a] == max(tree.feature[b], -1)
        if forest.feature[a] >= 0:
            below = [tree.children_left[b], tree.children_right[b]]
            mass = tree.weighted_n_node_samples * tree.impurity / weights.sum()
            assert forest.reduction[a] == pytest.approx(
                2 * (mass[b] - mass[below].sum()), abs=1e-12
            )
            mine += [forest.left[a], forest.right[a]]
            theirs += below
    assert len(mine) == tree.node_count > 9
    importance = forest.importances(3)
    np.testing.assert_allclose(importance / importance.sum(), model.feature_importances_)


def test_with_true_negatives_it_is_extra_trees():
    rng = np.random.default_rng(3)

    def draw(n):
        label = rng.random(n) < 0.4
        return rng.normal(size=(n, 4)) + label[:, None] * [1.5, 0.8, 0.0, 0.0], label.astype(int)

    (x, y), (new, truth) = draw(500), draw(3000)
    mine = PUExtraTreesClassifier(prior=y.mean(), random_state=0).fit(x, y)
    theirs = ExtraTreesClassifier(100, random_state=0).fit(x, y)
    np.testing.assert_allclose(mine.feature_importances_, theirs.feature_importances_, atol=0.03)
    assert abs(mine.score(new, truth) - theirs.score(new, truth)) < 0.015
    assert abs(np.mean(mine.predict_proba(new) - theirs.predict_proba(new))) < 0.01


# -- learning ----------------------------------------------------------------------


def gaussians(n_p, n_u, prior, seed, gap=2.0):
    rng = np.random.default_rng(seed)
    label = np.concatenate([np.ones(n_p, bool), rng.random(n_u) < prior])
    return (rng.normal(size=n_p + n_u) + gap * label)[:, None], np.repeat([1, 0], [n_p, n_u]), label


@pytest.mark.parametrize("prior", [0.25, 0.7])
def test_known_mixture_recovers_bayes_in_one_dimension(prior):
    x, y, _ = gaussians(4000, 8000, prior, seed=0)
    model = PUExtraTreesClassifier(prior, "two-sample", min_samples_leaf=400, random_state=0).fit(
        x, y
    )
    grid = np.linspace(-1, 3, 9)[:, None]
    bayes = (
        prior
        * norm.pdf(grid[:, 0], 2)
        / (prior * norm.pdf(grid[:, 0], 2) + (1 - prior) * norm.pdf(grid[:, 0]))
    )
    assert np.abs(model.predict_proba(grid)[:, 1] - bayes).max() < 0.12
    new, _, truth = gaussians(0, 5000, prior, seed=1)
    edge = 1 + np.log((1 - prior) / prior) / 2
    assert model.score(new, truth) > ((new[:, 0] > edge) == truth).mean() - 0.02


def one_sample(n=1500, prior=0.6, rate=0.5, seed=0):
    rng = np.random.default_rng(seed)
    label = rng.random(n) < prior
    x = rng.normal(size=(n, 5))
    x[:, 0] += 2.5 * label
    return x, (label & (rng.random(n) < rate)).astype(int), label


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"risk": "upu"},
        {"loss": "logistic"},
        {"risk": "upu", "loss": "logistic"},
        {"cuts": "inner"},
        {"max_depth": 6},
    ],
)
def test_learns_in_every_form(options):
    x, y, _ = one_sample()
    new, _, truth = one_sample(seed=1)
    model = PUExtraTreesClassifier(0.6, n_estimators=60, random_state=0, **options).fit(x, y)
    assert roc_auc_score(truth, model.decision_function(new)) > 0.9
    if options.get("risk") != "upu":  # the unbiased risk overfits: negative impurities
        assert model.score(new, truth) > 0.85
    assert model.feature_importances_.argmax() == 0
    assert model.feature_importances_.sum() == pytest.approx(1)


def test_one_sample_data_need_the_one_sample_form():
    rng = np.random.default_rng(0)
    prior, label = 0.6, rng.random(12_000) < 0.6
    x = (rng.normal(size=len(label)) + 2 * label)[:, None]
    y = (label & (rng.random(len(label)) < 0.6)).astype(int)
    grid = np.linspace(-0.5, 2.5, 7)[:, None]
    bayes = (
        prior
        * norm.pdf(grid[:, 0], 2)
        / (prior * norm.pdf(grid[:, 0], 2) + (1 - prior) * norm.pdf(grid[:, 0]))
    )
    mine, other = (
        np.abs(
            PUExtraTreesClassifier(
                prior, setting, n_estimators=50, min_samples_leaf=400, random_state=0
            )
            .fit(x, y)
            .predict_proba(grid)[:, 1]
            - bayes
        ).mean()
        for setting in ("one-sample", "two-sample")
    )
    assert mine < 0.06
    assert other > mine + 0.04


def test_the_answer_is_the_vote():
    x, y, _ = one_sample(400, seed=3)
    model = PUExtraTreesClassifier(0.6, n_estimators=25, min_samples_leaf=30, random_state=1).fit(
        x, y
    )
    score, vote = model._average(x)
    assert ((score > 0.5) != (vote >= 0.5)).any()  # they do differ here
    assert ((model.predict(x) == 1) == (vote >= 0.5)).all()
    agree = (score > 0.5) == (vote >= 0.5)
    np.testing.assert_allclose(model.predict_proba(x)[agree, 1], score[agree], atol=1e-8)


def test_blocks_and_chunks_change_nothing_but_the_draws(monkeypatch):
    x, y, _ = one_sample(300)
    whole = PUExtraTreesClassifier(0.6, n_estimators=30, random_state=0).fit(x, y)
    monkeypatch.setattr("puarena.classics.puet.MAX_PAIRS", 1000)
    monkeypatch.setattr(arrays, "MAX_ENTRIES", 40)
    parts = PUExtraTreesClassifier(0.6, n_estimators=30, random_state=0).fit(x, y)
    assert len(whole.forests_) == 1
    assert len(parts.forests_) == 10
    assert sum(f.trees for f in parts.forests_) == 30
    np.testing.assert_allclose(whole.feature_importances_, parts.feature_importances_, atol=0.06)
    assert (whole.predict(x) == parts.predict(x)).mean() > 0.95


def test_limits_of_growth():
    x, y, _ = one_sample(300)
    flat = PUExtraTreesClassifier(0.6, n_estimators=5, max_depth=2, random_state=0).fit(x, y)
    assert all(len(f.v) <= f.trees * 7 for f in flat.forests_)
    same = PUExtraTreesClassifier(0.6, n_estimators=3, random_state=0).fit(
        np.ones((40, 2)), np.arange(40) % 2
    )
    assert sum(len(f.v) for f in same.forests_) == 3  # nothing varies
    assert not same.feature_importances_.any()


def test_only_features_that_vary_are_drawn():
    rng = np.random.default_rng(0)
    x = np.zeros((200, 50))
    x[:, 17] = rng.normal(size=200)
    table = TreeTable(x, 100)
    nodes = Nodes(np.arange(200, dtype=np.int32), np.array([100]), np.array([100]), 100)
    splits = make_random_chooser(rng)(table, nodes, TreeRisk(0.5, 100, 100))
    assert splits.feature.tolist() == [17]
    assert x[:, 17].min() <= splits.cut[0] < x[:, 17].max()
    everywhere = rng.normal(size=(200, 50))
    seen = {
        int(
            make_random_chooser(rng)(
                TreeTable(everywhere, 100), nodes, TreeRisk(0.5, 100, 100)
            ).feature[0]
        )
        for _ in range(300)
    }
    assert len(seen) > 40  # any of the 50, of which ceil(sqrt(50)) = 8 compete
    assert ceil(sqrt(50)) == 8


def test_scikit_learns_own_checks():
    check_estimator(
        PUExtraTreesClassifier(prior=0.5, n_estimators=5),
        on_skip=None,
        expected_failed_checks=EXPECTED,
    )


def test_estimated_prior():
    x, y, label = one_sample(2000, 0.5)
    model = PUExtraTreesClassifier(n_estimators=10, random_state=0).fit(x, y)
    assert abs(model.prior_ - label.mean()) < 0.12


@pytest.mark.parametrize(
    "options, word",
    [
        ({"prior": 1.5}, "between 0 and 1"),
        ({"prior": "half"}, "estimate"),
        ({"setting": "os"}, "one-sample"),
        ({"risk": "pn"}, "nnpu"),
        ({"loss": "hinge"}, "quadratic"),
        ({"cuts": "middle"}, "inner"),
        ({"n_estimators": 0}, "1 or more"),
        ({"max_depth": 0}, "1 or more"),
    ],
)
def test_bad_parameters(options, word):
    with pytest.raises(ValueError, match=word):
        PUExtraTreesClassifier(**{"prior": 0.5, **options}).fit(*one_sample(50)[:2])


def test_rows_of_the_benchmark(tmp_path):
    problems = [{"dataset": "digits", "settings": ["os", "ts"], "rates": [0.2]}]
    spec = Spec(
        problems=problems,
        algorithms=["puet", "puet-c"],
        splits=1,
        configs=1,
        steps=20,
        record_every=10,
    )
    outcome = puarena.run(spec, out=tmp_path, device="cpu", workers=1)
    assert not outcome.failures
    frame = puarena.load(tmp_path).df()
    assert sorted(zip(frame["setting"], frame["algorithm"], strict=True)) == [
        ("os", "puet"),
        ("os", "puet-c"),
        ("ts", "puet"),
    ]
    assert frame["test_auc"].min() > 0.9
    entry = catalog.get("puet-c")
    assert (entry.base, entry.calibrated, entry.needs_prior) == ("puet", True, True)
    assert catalog.get("puet").make_estimator(0, 0.3).prior == 0.3
    assert "Wilton" in explain(catalog.get("puet"))
