"""Saving and loading fitted models without pickle."""

from __future__ import annotations

import copy
import json
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest
import sklearn
import skops.io
import torch
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures, StandardScaler
from sklearn.svm import SVC
from sklearn.tree._tree import Tree

from pu_tables import needs_embeddings, notes, quick, table
from puarena import PUClassifier, PUSearch, UserError, catalog, load_model, save_model
from puarena.estimators.persistence import ABOUT, FORMAT_VERSION
from user_errors import raises_user_error

X, y, truth = table(200)
FRAME = pd.DataFrame(X, columns=["a", "b", "c"]).assign(town=np.where(X[:, 0] > 0, "A", "B"))
FRAME.loc[::7, "b"] = np.nan

MODELS = {
    **{name: quick(name, steps=40) for name in ("nnpu", "vpu", "p3mix-e", "pan")},
    **{name: PUClassifier(name, prior=0.5) for name in catalog.names("classic")},
    "an ensemble": quick("vpu", members=3, steps=40),
    "auto": PUClassifier(prior=0.5, random_state=0),
    "another threshold": PUClassifier(prior=0.5, threshold="pa", random_state=0),
    "short for a network": PUClassifier("upu", prior=0.5, random_state=0),
    "a forest": PUClassifier(RandomForestClassifier(5), prior=0.5),
    "boosting": PUClassifier(HistGradientBoostingClassifier(max_iter=3), prior=0.5),
    "batches": PUClassifier(SGDClassifier(loss="log_loss"), prior=0.5),
    "a pipeline inside": PUClassifier(make_pipeline(StandardScaler(), LogisticRegression())),
}


@pytest.mark.parametrize("clf", MODELS.values(), ids=MODELS)
def test_a_loaded_model_predicts_the_same(clf, tmp_path):
    clf.fit(FRAME, np.where(y, "positive", "unlabeled"))
    assert clf.save(tmp_path / "model") == tmp_path / "model"
    again = load_model(tmp_path / "model")
    assert type(again) is type(clf)
    np.testing.assert_array_equal(again.predict_proba(FRAME), clf.predict_proba(FRAME))
    np.testing.assert_array_equal(again.predict(FRAME), clf.predict(FRAME))
    assert repr(again) == repr(clf)
    # Rows of the table are in no file.
    fitted = {name for name in vars(clf) if name.endswith("_")} - {"sample_"}
    assert {name for name in vars(again) if name.endswith("_")} == fitted
    for name in ("prior_", "prior_interval_", "threshold_", "report_", "n_features_in_"):
        assert getattr(again, name) == getattr(clf, name), name
    assert again.feature_names_in_.tolist() == FRAME.columns.tolist()
    if hasattr(clf, "partial_fit"):
        assert again.partial_fit(FRAME, np.where(y, "positive", "unlabeled")).batches_.rows == 400


@needs_embeddings
@pytest.mark.parametrize("make", [PUClassifier, quick])
def test_a_model_of_texts_needs_the_embedding_again(make, tmp_path, monkeypatch):
    (old, cars), (new, answers) = notes(), notes(new=True)
    clf = make(text="embeddings", prior=0.5, random_state=0)
    clf.fit(old, cars & (np.arange(len(old)) % 2 == 0))
    assert roc_auc_score(answers, clf.predict_proba(new)[:, 1]) > 0.9
    clf.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(new), clf.predict_proba(new))
    assert again.text == "embeddings"
    monkeypatch.setitem(sys.modules, "wordllama", None)
    with raises_user_error("missing-dependency", "puarena[text]"):
        load_model(tmp_path / "model").predict(new)


PIPELINES = {
    "scaled": [StandardScaler(), quick(steps=20)],
    "filled": [SimpleImputer(add_indicator=True), quick(steps=20)],
    "projected": [PCA(2), quick(steps=20)],
    "squared": [PolynomialFeatures(), PUClassifier(prior=0.5, random_state=0)],
    "passed": ["passthrough", quick(steps=20)],
}


@pytest.mark.parametrize("steps", PIPELINES.values(), ids=PIPELINES)
def test_a_pipeline_is_saved(steps, tmp_path):
    whole = make_pipeline(*steps).fit(X, y)
    again = load_model(save_model(whole, tmp_path / "model"))
    np.testing.assert_array_equal(again.predict_proba(X), whole.predict_proba(X))
    assert [name for name, _ in again.steps] == [name for name, _ in whole.steps]


def test_columns_are_transformed_and_saved(tmp_path):
    columns = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), ["a", "b", "c"]),
        (OneHotEncoder(handle_unknown="ignore"), ["town"]),
    )
    whole = make_pipeline(columns, PUClassifier(prior=0.5, random_state=0)).fit(FRAME, y)
    again = load_model(save_model(whole, tmp_path / "model"))
    np.testing.assert_array_equal(again.predict_proba(FRAME), whole.predict_proba(FRAME))


def test_a_search_saves_its_winner(tmp_path):
    for base in (quick(), make_pipeline(StandardScaler(), quick())):
        search = PUSearch(base, n_iter=2, random_state=0).fit(X, y)
        again = load_model(search.save(tmp_path / "model"))
        np.testing.assert_array_equal(again.predict(X), search.predict(X))


def make_network(features):
    return torch.nn.Linear(features, 1)


@pytest.mark.parametrize("scaled", [False, True])
def test_a_network_of_ones_own_must_be_given_again(scaled, tmp_path):
    clf = quick(network=make_network)
    model = make_pipeline(StandardScaler(), clf).fit(X, y) if scaled else clf.fit(X, y)
    file = save_model(model, tmp_path / "model")
    assert clf.network is make_network
    with pytest.raises(UserError) as error:
        load_model(file)
    assert error.value.code == "missing-data"
    again = load_model(file, network=make_network)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    with pytest.raises(UserError) as error:
        load_model(file, network=lambda n: torch.nn.Linear(n, 2))
    assert error.value.code == "conflict"


class Foreign(LogisticRegression):
    """A class that no file of a model is expected to contain."""


def test_foreign_classes_are_neither_saved_nor_loaded(tmp_path):
    clf = PUClassifier(Foreign(), prior=0.5).fit(X, y)
    with pytest.raises(UserError) as error:
        clf.save(tmp_path / "model")
    assert error.value.code == "not-supported"
    assert "Foreign" in str(error.value)
    assert not (tmp_path / "model").exists()
    write_model(tmp_path / "made", Foreign().fit(X, y))
    with pytest.raises(UserError) as error:
        load_model(tmp_path / "made")
    assert error.value.code == "wrong-format"
    assert "Foreign" in str(error.value)


def write_model(file, content, version=FORMAT_VERSION):
    """Write a file as ``save_model`` does, of anything."""
    skops.io.dump(content, file)
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr(ABOUT, json.dumps({"format_version": version, "puarena": "1"}))


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    return quick().fit(X, y).save(tmp_path_factory.mktemp("saved") / "model").read_bytes()


@pytest.mark.parametrize(
    "change, code",
    [
        (lambda file, saved: None, "missing-file"),
        (lambda file, saved: file.write_bytes(b""), "wrong-format"),
        (lambda file, saved: file.write_bytes(saved[:-9]), "wrong-format"),
        (lambda file, saved: skops.io.dump(LogisticRegression(), file), "wrong-format"),
        (lambda file, saved: write_model(file, LogisticRegression(), 99), "wrong-format"),
        (lambda file, saved: write_model(file, StandardScaler()), "wrong-format"),
        (lambda file, saved: file.write_bytes(flip_bit(saved)), "damaged-file"),
    ],
)
def test_wrong_and_damaged_files(change, code, saved, tmp_path):
    change(tmp_path / "model", saved)
    with pytest.raises(UserError) as error:
        load_model(tmp_path / "model")
    assert error.value.code == code
    assert "model" in str(error.value)


def flip_bit(content, at=None):
    """Change a bit, by default in the largest array of a saved model."""
    at = len(content) // 2 if at is None else at
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


def test_no_flipped_bit_changes_predictions(saved, tmp_path):
    file = tmp_path / "model"
    file.write_bytes(saved)
    expected = load_model(file).predict_proba(X)
    for at in np.random.default_rng(0).integers(0, len(saved), 60):
        file.write_bytes(flip_bit(saved, at))
        try:
            found = load_model(file).predict_proba(X)
        except UserError:
            continue
        np.testing.assert_array_equal(found, expected)


def break_tree(model, place, value):
    """Change one number of a fitted tree; it is written as whoever forges a file would."""
    tree = model.model_.parts[0].models[0] if hasattr(model, "model_") else model
    found = []

    def look(each):
        if type(each).__name__ in ("Tree", "TreePredictor", "Forest"):
            found.append(each)
        for part in vars(each).values() if hasattr(each, "__dict__") else ():
            look(part)
        for part in each if isinstance(each, (list, tuple)) else ():
            look(part)

    look(tree)
    each = found[0]
    if type(each).__name__ == "Tree":
        state = each.__getstate__()
        nodes = state["nodes"].copy()
        nodes[place][0] = value
        each.__setstate__(state | {"nodes": nodes})
    elif type(each).__name__ == "TreePredictor":
        each.nodes[{"left_child": "left", "feature": "feature_idx"}[place]][0] = value
    else:
        array = {"left_child": each.left, "feature": each.feature}[place]
        array[0] = value


@pytest.mark.parametrize("place", ["left_child", "feature"])
@pytest.mark.parametrize("name", ["a forest", "boosting", "puet"])
def test_a_tree_that_never_ends_is_not_loaded(name, place, tmp_path):
    """Compiled code would walk in a circle, or read beyond its arrays."""
    model = sklearn.base.clone(MODELS[name]).fit(X, y)
    save_model(model, tmp_path / "whole")
    assert load_model(tmp_path / "whole").predict(X).shape == y.shape
    break_tree(model, place, 0 if place == "left_child" else 10_000)
    save_model(model, tmp_path / "model")
    with pytest.raises(UserError) as error:
        load_model(tmp_path / "model")
    assert error.value.code == "damaged-file"
    assert "tree" in str(error.value)


def widen_stages(model):
    """Sums would be written beyond their array."""
    model.estimators_ = np.concatenate([model.estimators_] * 400, axis=1)


def lengthen_support(model):
    model.support_ = np.full(10_000_000, 3, np.int32)


def shorten_coefficients(model):
    model._dual_coef_ = model._dual_coef_[:, :1].copy()


def share_a_tree(model):
    """Two estimators have one tree, which splits by a column that only one of them has."""
    tree = model.estimators_[0]
    state = tree.tree_.__getstate__()
    nodes = state["nodes"].copy()
    nodes["feature"][nodes["left_child"] != -1] = 9_999
    wide = Tree(10_000, np.array([2], np.intp), 1)
    wide.__setstate__(state | {"nodes": nodes})
    other = copy.deepcopy(tree)
    other.tree_ = tree.tree_ = wide
    other.n_features_in_ = 10_000
    model.other = other


def add_categories(model):
    """A category is the number of a bit, which would be set beyond the array."""
    model._bin_mapper.is_categorical_[0] = 1
    model._bin_mapper.bin_thresholds_[0] = np.array([1e9])


FORGED = {
    "boosted stages": (GradientBoostingClassifier(n_estimators=2), widen_stages),
    "support": (SVC(), lengthen_support),
    "coefficients": (SVC(), shorten_coefficients),
    "shared tree": (RandomForestClassifier(2), share_a_tree),
    "categories": (HistGradientBoostingClassifier(max_iter=2), add_categories),
}


@pytest.mark.parametrize("name", FORGED)
def test_arrays_that_compiled_code_would_leave_are_not_loaded(name, tmp_path):
    estimator, forge = FORGED[name]
    model = PUClassifier(sklearn.base.clone(estimator), prior=0.5, random_state=0).fit(X, y)
    expected = load_model(model.save(tmp_path / "whole")).predict_proba(X)
    np.testing.assert_array_equal(model.predict_proba(X), expected)
    forge(model.model_.parts[0].models[0].estimator)
    save_model(model, tmp_path / "model")
    with pytest.raises(UserError) as error:
        load_model(tmp_path / "model")
    assert error.value.code == "damaged-file"


@pytest.mark.parametrize("path", ["", None, 3])
def test_paths(path, tmp_path):
    clf = quick(steps=5).fit(X, y)
    for use in (clf.save, load_model):
        with pytest.raises(UserError) as error:
            use(path)
        assert error.value.code == "invalid-value"
    with pytest.raises(UserError) as error:
        clf.save(tmp_path)
    assert error.value.code == "cannot-write"
