"""Two steps with spies.

Liu, Lee, Yu, Li: Partially supervised classification of text documents. ICML 2002.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from puarena.classics.wrapper import (
    ClassicForm,
    Floats,
    PUWrapper,
    fit_weighted,
    predict_positive,
    take_rows,
)
from puarena.pu.labels import Labels


@dataclass(eq=False, repr=False)
class SpiesClassifier(PUWrapper):
    """Two steps: positives hidden among the unlabeled rows (spies) show which rows are negative.

    Rows that score below the spies are reliable negatives. In the second step the wrapped
    classifier learns all positives against these; the paper iterates by EM instead. ``spies``: the
    share of positives that are spies. ``noise``: the share of spies that may score below the cut.
    """

    paper: ClassVar[str] = (
        "Liu, Lee, Yu, Li: Partially supervised classification of text documents, ICML 2002"
    )
    forms: ClassVar[tuple[ClassicForm, ...]] = (
        ClassicForm(
            "spies",
            "Spies",
            "Unlabeled rows that score below hidden positives are negatives; then logistic "
            "regression against these.",
        ),
    )

    estimator: Any = None
    spies: float = 0.15
    noise: float = 0.15
    positive_label: Any = None
    random_state: Any = None

    def _fit(
        self, X: Any, labels: Labels, weight: Floats | None, rng: np.random.RandomState
    ) -> None:
        for name in ("spies", "noise"):
            if not 0 < getattr(self, name) < 1:
                raise ValueError(
                    f"{name} must lie strictly between 0 and 1, and {getattr(self, name)!r} was "
                    "given"
                )
        labeled = labels.positive
        positives = rng.permutation(np.flatnonzero(labeled))
        count = min(len(positives) - 1, max(1, round(self.spies * len(positives))))
        spies = positives[:count]
        target = labeled.astype(int)
        target[spies] = 0
        score = predict_positive(fit_weighted(self._clone_estimator(rng), X, target, weight), X)
        unlabeled = np.flatnonzero(~labeled)
        self.threshold_ = float(np.quantile(score[spies] if count else score[labeled], self.noise))
        negative = unlabeled[(score[unlabeled] < self.threshold_) | labels.negative[unlabeled]]
        if not len(negative):  # no row scores below the spies: take the lowest tenth
            lowest = np.argsort(score[unlabeled], kind="stable")
            negative = unlabeled[lowest[: max(1, len(unlabeled) // 10)]]
        self.reliable_negatives_ = negative
        kept = np.concatenate([np.flatnonzero(labeled), negative])
        own = None if weight is None else weight[kept]
        self.estimator_ = fit_weighted(
            self._clone_estimator(rng), take_rows(X, kept), labeled[kept].astype(int), own
        )

    def _predict_positive(self, X: Any) -> Floats:
        return predict_positive(self.estimator_, X)
