"""Checks of a loaded model whose compiled code trusts its arrays.

scikit-learn walks trees and support vectors in compiled code without checks. With a file that was
forged, it would not end, or read and write beyond the arrays. Other compiled code, of sparse
matrices and of trees of neighbors, is of types that no model file may contain.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.ensemble._gb import BaseGradientBoosting
from sklearn.ensemble._hist_gradient_boosting.gradient_boosting import BaseHistGradientBoosting
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
from sklearn.svm._base import BaseLibSVM
from sklearn.tree._tree import Tree

from puarena.classics.puet import Forest

BITSET_VALUES = 256  # that a category of histogram boosting may have


def check_arrays(model: Any) -> None:
    """Raise ValueError for a part of a model that compiled code could not be trusted with."""
    waiting: list[tuple[Any, int | None]] = [(model, None)]
    seen: dict[tuple[int, int | None], Any] = {}  # values stay alive, so that ids are not reused
    while waiting:
        each, width = waiting.pop()
        # A part of two estimators is checked with the width of either.
        if (id(each), width) in seen:
            continue
        seen[id(each), width] = each
        width = getattr(each, "n_features_in_", width)
        if isinstance(each, Tree):
            _check_tree(each, width)
        elif isinstance(each, TreePredictor):
            _check_predictor(each, width)
        elif isinstance(each, Forest):
            _check_forest(each, width)
        elif isinstance(each, BaseGradientBoosting):
            _check_stages(each)
        elif isinstance(each, BaseHistGradientBoosting):
            _check_categories(each, width)
        elif isinstance(each, BaseLibSVM):
            _check_support_vectors(each)
        waiting += [(part, width) for part in _list_parts(each)]


def _list_parts(each: Any) -> Iterator[Any]:
    yield from getattr(each, "__dict__", {}).values()
    if isinstance(each, dict):
        yield from each.values()
    elif isinstance(each, (list, tuple, set)):
        yield from each
    elif isinstance(each, np.ndarray) and each.dtype == object:
        yield from each.ravel().tolist()


def _check_tree(tree: Tree, width: int | None) -> None:
    inner = (tree.children_left != -1) | (tree.children_right != -1)
    children = tree.children_left, tree.children_right
    for limit in (tree.n_features, width):
        _check_nodes(tree.node_count, inner, children, tree.feature, limit)


def _check_predictor(predictor: TreePredictor, width: int | None) -> None:
    nodes = predictor.nodes
    inner = nodes["is_leaf"] == 0
    children = nodes["left"].astype(np.int64), nodes["right"].astype(np.int64)
    _check_nodes(len(nodes), inner, children, nodes["feature_idx"], width)
    chosen = nodes["bitset_idx"][inner & (nodes["is_categorical"] != 0)]
    if (chosen >= len(predictor.raw_left_cat_bitsets)).any():
        raise ValueError("a tree has categories that are not there")


def _check_forest(forest: Forest, width: int | None) -> None:
    children = forest.left, forest.right
    _check_nodes(len(forest.feature), forest.feature >= 0, children, forest.feature, width)
    if not 0 < forest.trees <= len(forest.feature):
        raise ValueError("a forest has no roots")


def _check_nodes(
    count: int,
    inner: np.ndarray,
    children: tuple[np.ndarray, np.ndarray],
    feature: np.ndarray,
    width: int | None,
) -> None:
    """Raise ValueError unless children come after their node and features are columns."""
    if not count or any(len(array) != count for array in (inner, *children, feature)):
        raise ValueError("a tree has arrays of different lengths")
    number = np.flatnonzero(inner)
    for child in children:
        if ((child[inner] <= number) | (child[inner] >= count)).any():
            raise ValueError("a node of a tree has a child that does not come after it")
    used = feature[inner]
    if width is not None and ((used < 0) | (used >= width)).any():
        raise ValueError("a tree splits by a column that is not there")


def _check_stages(model: BaseGradientBoosting) -> None:
    """Of two classes there is one tree per stage; more would be added beyond the sums' array."""
    stages = getattr(model, "estimators_", None)
    if stages is not None and (stages.ndim != 2 or stages.shape[1] != 1):
        raise ValueError("a model with boosted trees has several in a stage")


def _check_categories(model: BaseHistGradientBoosting, width: int | None) -> None:
    """Columns by which trees split into categories have known ones, which fit into a bitset."""
    mapper = getattr(model, "_bin_mapper", None)
    if mapper is None:
        return
    known = np.flatnonzero(mapper.is_categorical_)
    if mapper.is_categorical_.size != width or len(mapper.bin_thresholds_) != width:
        raise ValueError("a model with boosted trees has other columns than its trees")
    for column in known:
        values = np.asarray(mapper.bin_thresholds_[column])
        if ((values < 0) | (values >= BITSET_VALUES)).any():
            raise ValueError("a model with boosted trees has a category that is too large")
    for predictor in (each for stage in model._predictors for each in stage):
        nodes = predictor.nodes
        chosen = nodes["feature_idx"][(nodes["is_leaf"] == 0) & (nodes["is_categorical"] != 0)]
        if not np.isin(chosen, known).all():
            raise ValueError("a tree has categories of a column that has none")


def _check_support_vectors(model: BaseLibSVM) -> None:
    """All arrays have the lengths that the numbers of vectors and classes give."""
    if not hasattr(model, "support_"):
        return
    classes, (vectors, width) = len(model._n_support), model.support_vectors_.shape
    pairs = classes * (classes - 1) // 2
    # Of one class and of regressions, libsvm has the number of vectors twice.
    total = int(model._n_support.sum()) // (1 if model._impl.endswith("svc") else 2)
    right = (
        classes >= 2
        and (model._n_support >= 0).all()
        and vectors == total == len(model.support_)
        and ((model.support_ >= 0) & (model.support_ < model.shape_fit_[0])).all()
        and (width == model.n_features_in_ or model.kernel == "precomputed")
        and model._dual_coef_.shape == (classes - 1, vectors)
        and model._intercept_.size == pairs
        and all(each.size in (0, pairs) for each in (model._probA, model._probB))
        and model._probA.size == model._probB.size
    )
    if not right:
        raise ValueError("a model with support vectors has arrays of different lengths")
