"""Splitters that keep labeled and unlabeled rows in proportion."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy.typing as npt
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit

from puarena.pu.labels import read_labels


class _ByLabel:
    """Strata are the labeled and the unlabeled rows."""

    positive_label: Any
    parts = 2  # that must each have a row of both

    def split(
        self, X: Any, y: Any = None, groups: Any = None
    ) -> Iterator[tuple[npt.NDArray[Any], npt.NDArray[Any]]]:
        """Yield training and test indices; both parts have labeled and unlabeled rows."""
        if y is None:
            raise ValueError("y is needed: it says which rows are labeled positives.")
        labeled = read_labels(y, self.positive_label).positive
        for name, count in (("labeled", int(labeled.sum())), ("unlabeled", int((~labeled).sum()))):
            if count < self.parts:
                raise ValueError(
                    f"n_splits={self.parts} cannot be greater than the number of {name} rows, {count}."
                )
        yield from super().split(X, labeled.astype(int))  # type: ignore[misc]


class PUStratifiedKFold(_ByLabel, StratifiedKFold):
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
        self,
        n_splits: int = 5,
        *,
        shuffle: bool = True,
        random_state: Any = None,
        positive_label: Any = None,
    ) -> None:
        super().__init__(
            n_splits=n_splits, shuffle=shuffle, random_state=random_state if shuffle else None
        )
        self.positive_label = positive_label

    @property
    def parts(self) -> int:  # type: ignore[override]
        """Every fold has a row of both."""
        return int(self.n_splits)


class PUShuffleSplit(_ByLabel, StratifiedShuffleSplit):
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
        super().__init__(
            n_splits, test_size=test_size, train_size=train_size, random_state=random_state
        )
        self.positive_label = positive_label
