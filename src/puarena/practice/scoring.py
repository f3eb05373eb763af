"""Choosing without negatives in scikit-learn's own searches: scorers, and splitters that keep P and U in proportion."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit
from sklearn.pipeline import Pipeline

from puarena.data import labelling
from puarena.practice import probability
from puarena.practice.labels import labeled_rows


def proxy_accuracy(estimator: Any, X: Any, y: Any, *, prior: float | None = None, setting: str | None = None) -> float:
    """PA of a fitted classifier on PU data: accuracy + prior in expectation. A scorer: ``scoring=proxy_accuracy``.

    Parameters
    ----------
    estimator : classifier or pipeline
        Anything with ``predict``.
    X, y : array-like
        Rows and their PU labels.
    prior : float, optional
        The class prior. Default: the estimator's ``prior_``. Give it (``functools.partial(proxy_accuracy, prior=0.4)``)
        when candidates of one search could have different ones: PA with another prior is another scale.
    setting : {"one-sample", "two-sample"}, optional
        Default: the estimator's ``setting``.

    Returns
    -------
    float
        Between 0 and 1 + prior; higher is better.

    Examples
    --------
    >>> from functools import partial
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from puarena import proxy_accuracy
    >>> X, y = np.array([[0.0], [0.1], [1.0], [1.1]]), np.array([0, 0, 0, 1])
    >>> score = partial(proxy_accuracy, prior=0.5, setting="one-sample")
    >>> score(LogisticRegression(C=100, class_weight="balanced").fit(X, y), X, y)
    1.5
    """
    prior, setting = _given(estimator, "prior_", prior, "prior"), _given(estimator, "setting", setting, "setting")
    if not 0 < prior < 1:
        raise ValueError(f"prior must be in (0, 1), got {prior}.")
    titles = {each.title: each for each in labelling.settings()}
    if setting not in titles:
        raise ValueError(f"setting must be one of {', '.join(titles)}, got {setting!r}.")
    labeled, positive = _split(estimator, y)
    decision = np.where(np.asarray(estimator.predict(X)) == positive, 1.0, -1.0)
    scores = probability.PUScores(decision[labeled], decision[~labeled], float(prior), titles[setting].one_sample)
    return probability.proxy_accuracy_of(scores)


def proxy_auc(estimator: Any, X: Any, y: Any) -> float:
    """PAUC of a fitted classifier on PU data: how well P is ranked above U. A scorer: ``scoring=proxy_auc``.

    Parameters
    ----------
    estimator : classifier or pipeline
        Anything with ``decision_function`` or ``predict_proba``.
    X, y : array-like
        Rows and their PU labels.

    Returns
    -------
    float
        The probability that a labeled positive scores above an unlabeled row, ties one half.
    """
    labeled, positive = _split(estimator, y)
    if hasattr(estimator, "decision_function"):
        score = np.asarray(estimator.decision_function(X))
        score = score if estimator.classes_[1] == positive else -score
    else:
        score = np.asarray(estimator.predict_proba(X))[:, np.flatnonzero(estimator.classes_ == positive)[0]]
    return probability.proxy_auc_of(score[labeled], score[~labeled])


def _split(estimator: Any, y: Any) -> tuple[npt.NDArray[np.bool_], Any]:
    """Return which rows are labeled, and the class that stands for positive."""
    classes = getattr(estimator, "classes_", None)
    positive = classes[-1] if classes is not None and len(classes) == 2 else None
    labeled, (_, found) = labeled_rows(y, positive)
    return labeled, found


def _given(estimator: Any, attribute: str, value: Any, name: str) -> Any:
    """A value, or the estimator's (of a pipeline: its last step's)."""
    if value is not None:
        return value
    last = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
    found = getattr(last, attribute, None)
    if found is None:
        raise ValueError(
            f"proxy_accuracy needs the {name}, and {type(last).__name__} has no '{attribute}'; give it with "
            f"functools.partial(proxy_accuracy, {name}=…)."
        )
    return found


class PUStratifiedKFold(StratifiedKFold):
    """K folds, each with its share of labeled and of unlabeled rows.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds; there must be as many labeled and unlabeled rows.
    shuffle : bool, default=True
        Whether to shuffle first: in PU tables the positives often come first.
    random_state : int, RandomState or None, default=None
        Decides the shuffling.
    positive_label : optional
        As in :class:`PUClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from puarena import PUStratifiedKFold
    >>> y = np.r_[np.ones(10), np.zeros(90)]
    >>> [int(y[test].sum()) for _, test in PUStratifiedKFold(5, random_state=0).split(np.zeros((100, 1)), y)]
    [2, 2, 2, 2, 2]
    """

    def __init__(
        self, n_splits: int = 5, *, shuffle: bool = True, random_state: Any = None, positive_label: Any = None
    ) -> None:
        super().__init__(n_splits=n_splits, shuffle=shuffle, random_state=random_state if shuffle else None)
        self.positive_label = positive_label

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[npt.NDArray[Any], npt.NDArray[Any]]]:
        """Yield training and test indices; every fold has labeled and unlabeled rows."""
        labeled = _enough(y, self.positive_label, self.n_splits)
        yield from super().split(X, labeled.astype(int))


class PUShuffleSplit(StratifiedShuffleSplit):
    """Random splits with the same share of labeled rows in both parts.

    Parameters
    ----------
    n_splits : int, default=10
        Number of splits.
    test_size, train_size : float or int, optional
        As in :class:`sklearn.model_selection.StratifiedShuffleSplit`.
    random_state : int, RandomState or None, default=None
        Decides the splits.
    positive_label : optional
        As in :class:`PUClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from puarena import PUShuffleSplit
    >>> y = np.r_[np.ones(10), np.zeros(90)]
    >>> splitter = PUShuffleSplit(2, test_size=0.2, random_state=0)
    >>> [int(y[test].sum()) for _, test in splitter.split(np.zeros((100, 1)), y)]
    [2, 2]
    """

    def __init__(
        self,
        n_splits: int = 10,
        *,
        test_size: Any = None,
        train_size: Any = None,
        random_state: Any = None,
        positive_label: Any = None,
    ) -> None:
        super().__init__(n_splits, test_size=test_size, train_size=train_size, random_state=random_state)
        self.positive_label = positive_label

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[npt.NDArray[Any], npt.NDArray[Any]]]:
        """Yield training and test indices."""
        labeled = _enough(y, self.positive_label, 2)
        yield from super().split(X, labeled.astype(int))


def _enough(y: Any, positive_label: Any, parts: int) -> npt.NDArray[np.bool_]:
    if y is None:
        raise ValueError("y is needed: it says which rows are labeled positives.")
    labeled, _ = labeled_rows(y, positive_label)
    for name, count in (("labeled", int(labeled.sum())), ("unlabeled", int((~labeled).sum()))):
        if count < parts:
            raise ValueError(f"n_splits={parts} cannot be greater than the number of {name} rows, {count}.")
    return labeled
