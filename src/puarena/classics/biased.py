"""Biased (weighted) logistic regression.

Lee, Liu: Learning with positive and unlabeled examples using weighted logistic regression.
ICML 2003.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from puarena.classics.wrapper import ClassicForm, Floats, PUWrapper, fit_weighted, predict_positive
from puarena.pu.labels import Labels


@dataclass(eq=False, repr=False)
class BiasedClassifier(PUWrapper):
    """Unlabeled rows as negatives, with less weight than labeled rows.

    ``positive_weight``: the share of all weight that the positives have together, between 0 and 1.
    ``"balanced"`` is one half, the paper's choice: a positive weighs n_U / n and an unlabeled row
    n_P / n. ``estimator`` must take ``sample_weight``; the default is logistic regression.
    """

    paper: ClassVar[str] = (
        "Lee, Liu: Learning with positive and unlabeled examples using weighted logistic "
        "regression, ICML 2003"
    )
    forms: ClassVar[tuple[ClassicForm, ...]] = (
        ClassicForm(
            "biased-lr",
            "Biased LR",
            "Logistic regression of P against U, both sides with the same total weight.",
        ),
    )

    estimator: Any = None
    positive_weight: float | str = "balanced"
    positive_label: Any = None
    random_state: Any = None

    def _fit(
        self, X: Any, labels: Labels, weight: Floats | None, rng: np.random.RandomState
    ) -> None:
        share = 0.5 if self.positive_weight == "balanced" else self.positive_weight
        if isinstance(share, str) or not 0 < share < 1:
            raise ValueError(
                f"positive_weight is {share!r}; give 'balanced' or a number between 0 and 1"
            )
        labeled = labels.positive
        own = np.ones(len(labeled)) if weight is None else weight
        total = np.where(labeled, own[labeled].sum(), own[~labeled].sum())
        balanced = own * np.where(labeled, share, 1 - share) * len(labeled) / total
        self.estimator_ = fit_weighted(self._clone_estimator(rng), X, labeled.astype(int), balanced)

    def _predict_positive(self, X: Any) -> Floats:
        return predict_positive(self.estimator_, X)
