"""Bagging PU.

Mordelet, Vert: A bagging SVM to learn from positive and unlabeled examples. Pattern Recognition
Letters 37, 2014.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.parallel import Parallel, delayed

from puarena.classics.wrapper import (
    ClassicForm,
    Floats,
    Index,
    PUWrapper,
    fit_weighted,
    predict_positive,
    take_rows,
)
from puarena.pu.labels import Labels


@dataclass(eq=False, repr=False)
class BaggingPUClassifier(PUWrapper):
    """The mean of many classifiers, each of all positives against a random part of the unlabeled.

    ``sample_size``: rows of each part, drawn with replacement (None: the number of positives).
    ``n_jobs``: threads that fit and predict. ``verbose``: verbosity of joblib. ``oob_score_``: for
    every training row the mean over the classifiers that did not see it as negative; NaN for rows
    that all of them saw, and for labeled rows.
    """

    paper: ClassVar[str] = (
        "Mordelet, Vert: A bagging SVM to learn from positive and unlabeled examples, Pattern "
        "Recognition Letters 2014"
    )
    minutes_on_images: ClassVar[int] = 45
    forms: ClassVar[tuple[ClassicForm, ...]] = (
        ClassicForm(
            "bagging-pu",
            "Bagging PU",
            "The mean of 50 trees, each of all positives against as many random unlabeled rows.",
        ),
    )

    estimator: Any = None
    n_estimators: int = 50
    sample_size: int | None = None
    positive_label: Any = None
    random_state: Any = None
    n_jobs: int | None = None
    verbose: int = 0

    def _make_default(self) -> Any:
        from sklearn.tree import DecisionTreeClassifier

        return DecisionTreeClassifier(min_samples_leaf=2)

    def _fit(
        self, X: Any, labels: Labels, weight: Floats | None, rng: np.random.RandomState
    ) -> None:
        if self.n_estimators < 1:
            raise ValueError(f"n_estimators must be 1 or more, and {self.n_estimators!r} was given")
        positive, negative = np.flatnonzero(labels.positive), np.flatnonzero(labels.negative)
        unlabeled = np.flatnonzero(labels.unlabeled)
        size = self.sample_size or len(positive)
        # Both use ``rng``, so the order of the two draws matters.
        bags = [
            (rng.choice(unlabeled, size), self._clone_estimator(rng))
            for _ in range(self.n_estimators)
        ]

        def fit_member(drawn: Index, model: Any) -> tuple[Any, Index, Floats]:
            index = np.concatenate([positive, negative, drawn])
            target = (np.arange(len(index)) < len(positive)).astype(int)
            own = None if weight is None else weight[index]
            fit_weighted(model, take_rows(X, index), target, own)
            out = np.setdiff1d(unlabeled, drawn)
            score = predict_positive(model, take_rows(X, out)) if len(out) else np.zeros(0)
            return model, out, score

        total, times = np.zeros(len(labels.positive)), np.zeros(len(labels.positive))
        self.estimators_ = []
        jobs = Parallel(self.n_jobs, prefer="threads", verbose=self.verbose)
        for model, out, score in jobs(delayed(fit_member)(*bag) for bag in bags):
            total[out] += score
            times[out] += 1
            self.estimators_.append(model)
        self.oob_score_ = np.divide(total, times, out=np.full(len(total), np.nan), where=times > 0)

    def _predict_positive(self, X: Any) -> Floats:
        jobs = (delayed(predict_positive)(model, X) for model in self.estimators_)
        return np.asarray(np.mean(Parallel(self.n_jobs, prefer="threads")(jobs), axis=0))
