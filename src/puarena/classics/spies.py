"""Two steps with spies.

Liu, Lee, Yu, Li: Partially supervised classification of text documents. ICML 2002.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from puarena.classics.base import Floats, PUWrapper, fit_weighted, positive_probability, rows
from puarena.pu.labels import Labels


@dataclass(eq=False, repr=False)
class SpiesClassifier(PUWrapper):
    """Hide some positives (spies) among the unlabeled rows; what scores below them is reliably negative; learn from it.

    ``spies``: the share of positives that spy. ``noise``: the share of spies that may score below the cut. Second
    step: the wrapped classifier, all positives against the reliable negatives (the paper iterates by EM instead).
    """

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
                    f"{name} must lie strictly between 0 and 1, and {getattr(self, name)!r} was given"
                )
        labeled = labels.positive
        positives = rng.permutation(np.flatnonzero(labeled))
        count = min(len(positives) - 1, max(1, round(self.spies * len(positives))))
        spies = positives[:count]
        target = labeled.astype(int)
        target[spies] = 0
        score = positive_probability(fit_weighted(self._fresh(rng), X, target, weight), X)
        unlabeled = np.flatnonzero(~labeled)
        self.threshold_ = float(np.quantile(score[spies] if count else score[labeled], self.noise))
        negative = unlabeled[(score[unlabeled] < self.threshold_) | labels.negative[unlabeled]]
        if not len(negative):  # nothing scores below the spies: the lowest tenth has to do
            negative = unlabeled[
                np.argsort(score[unlabeled], kind="stable")[: max(1, len(unlabeled) // 10)]
            ]
        self.reliable_negatives_ = negative
        kept = np.concatenate([np.flatnonzero(labeled), negative])
        own = None if weight is None else weight[kept]
        self.estimator_ = fit_weighted(
            self._fresh(rng), rows(X, kept), labeled[kept].astype(int), own
        )

    def _probability(self, X: Any) -> Floats:
        return positive_probability(self.estimator_, X)
