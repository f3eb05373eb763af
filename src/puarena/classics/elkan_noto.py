"""Elkan-Noto, plain and weighted.

Elkan, Noto: Learning classifiers from only positive and unlabeled data. KDD 2008.
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
class ElkanNotoClassifier(PUWrapper):
    """``p(y=1|x) = p(s=1|x) / c``, ``c = p(s=1|y=1)`` the mean of p(s=1|x) over held-out positives.

    ``weighted``: train again on P with weight 1 and every unlabeled row twice, as positive with
    weight ``w = (1-c)/c g/(1-g)`` and as negative with ``1 - w``, g = p(s=1|x) (section 3 of the
    paper). For one-sample data.
    """

    paper: ClassVar[str] = (
        "Elkan, Noto: Learning classifiers from only positive and unlabeled data, KDD 2008"
    )
    forms: ClassVar[tuple[ClassicForm, ...]] = (
        ClassicForm(
            "elkan-noto",
            "Elkan-Noto",
            "``p(s=1|x) / c`` with c the mean of p(s=1|x) over held-out positives; logistic "
            "regression.",
        ),
        ClassicForm(
            "elkan-noto-weighted",
            "Elkan-Noto weighted",
            "Unlabeled rows twice: as positive with weight (1-c)/c g/(1-g), as negative with the "
            "rest; logistic regression.",
            {"weighted": True},
        ),
    )

    estimator: Any = None
    weighted: bool = False
    hold_out: float = 0.2
    positive_label: Any = None
    random_state: Any = None

    def _fit(
        self, X: Any, labels: Labels, weight: Floats | None, rng: np.random.RandomState
    ) -> None:
        if not 0 < self.hold_out < 1:
            raise ValueError(
                f"hold_out must lie strictly between 0 and 1, and {self.hold_out!r} was given"
            )
        labeled = labels.positive
        parts = [rng.permutation(np.flatnonzero(side)) for side in (labeled, ~labeled)]
        held = np.zeros(len(labeled), bool)
        for part in parts:
            held[part[: min(len(part) - 1, max(1, round(self.hold_out * len(part))))]] = True
        kept, seen = np.flatnonzero(~held), np.flatnonzero(held & labeled)
        own = np.ones(len(labeled)) if weight is None else weight
        kept_weight = None if weight is None else weight[kept]
        first = fit_weighted(
            self._clone_estimator(rng), take_rows(X, kept), labeled[kept].astype(int), kept_weight
        )
        seen = seen if len(seen) else np.flatnonzero(labeled)
        chance = predict_positive(first, take_rows(X, seen))
        self.c_ = float(np.clip(np.average(chance, weights=own[seen] + 1e-300), 1e-6, 1.0))
        self.estimator_ = first
        if self.weighted:
            p, u = np.flatnonzero(labeled), np.flatnonzero(~labeled)
            g = np.clip(predict_positive(first, take_rows(X, u)), 1e-12, 1 - 1e-12)
            w = np.clip((1 - self.c_) / self.c_ * g / (1 - g), 0.0, 1.0)
            w = np.where(labels.negative[u], 0.0, w)
            shares = np.concatenate([own[p], own[u] * w, own[u] * (1 - w)])
            target = np.repeat([1, 1, 0], [len(p), len(u), len(u)])
            self.estimator_ = fit_weighted(
                self._clone_estimator(rng), take_rows(X, np.concatenate([p, u, u])), target, shares
            )

    def _predict_positive(self, X: Any) -> Floats:
        p = predict_positive(self.estimator_, X)
        return p if self.weighted else p / self.c_
