"""Down-sampled random forest, as ecologists fit it to presences and background points.

Valavi, Elith, Lahoz-Monfort, Guillera-Arroita: Modelling species presence-only data with random
forests. Ecography 44, 2021.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.tree import DecisionTreeClassifier
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
class DownSampledForestClassifier(PUWrapper):
    """A random forest whose trees see as many unlabeled rows as positives.

    Every tree is grown to the end on a bootstrap sample of the positives and on as many unlabeled
    rows; a split looks at a random part of the features. Its probabilities are for a share of
    positives of one half. ``n_jobs``: threads that fit and predict.
    """

    paper: ClassVar[str] = (
        "Valavi, Elith, Lahoz-Monfort, Guillera-Arroita: Modelling species presence-only data with "
        "random forests, Ecography 2021"
    )
    minutes_on_images: ClassVar[int] = 10
    forms: ClassVar[tuple[ClassicForm, ...]] = (
        ClassicForm(
            "down-sampled-rf",
            "Down-sampled RF",
            "The mean of 500 trees, each of a bootstrap sample of P and as many unlabeled rows.",
            setting="two-sample",
        ),
    )

    n_estimators: int = 500
    max_features: Any = "sqrt"
    positive_label: Any = None
    random_state: Any = None
    n_jobs: int | None = None

    def _get_estimator(self) -> Any:
        return DecisionTreeClassifier(max_features=self.max_features)

    def _fit(
        self, X: Any, labels: Labels, weight: Floats | None, rng: np.random.RandomState
    ) -> None:
        if self.n_estimators < 1:
            raise ValueError(f"n_estimators must be 1 or more, and {self.n_estimators!r} was given")
        positive, others = np.flatnonzero(labels.positive), np.flatnonzero(~labels.positive)
        samples = []
        for _ in range(self.n_estimators):
            drawn = [rng.choice(side, len(positive)) for side in (positive, others)]
            samples.append((np.concatenate(drawn), self._clone_estimator(rng)))

        def fit_tree(index: Index, tree: Any) -> Any:
            own = None if weight is None else weight[index]
            target = labels.positive[index].astype(int)
            return fit_weighted(tree, take_rows(X, index), target, own)

        jobs = Parallel(self.n_jobs, prefer="threads")
        self.estimators_ = list(jobs(delayed(fit_tree)(*sample) for sample in samples))

    def _predict_positive(self, X: Any) -> Floats:
        jobs = (delayed(predict_positive)(tree, X) for tree in self.estimators_)
        return np.asarray(np.mean(Parallel(self.n_jobs, prefer="threads")(jobs), axis=0))
