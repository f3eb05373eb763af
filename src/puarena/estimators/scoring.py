"""Scorers for scikit-learn's searches that need no negatives: the benchmark's criteria, and corrected metrics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.pipeline import Pipeline

from puarena import metrics
from puarena.errors import UserError, suggest
from puarena.estimators import corrected
from puarena.pu import labeling
from puarena.pu.labels import read_labels

Floats = npt.NDArray[np.float64]
PRACTICAL = {
    name: c for name, c in metrics.CRITERIA.items() if not c.oracle
}  # what needs no true label
COUNTED = {"precision": corrected.precision, "recall": corrected.recall, "f1": corrected.f1}
RANKED = {"average-precision": corrected.average_precision, "auc": corrected.auc}


def practical(name: str) -> metrics.Criterion:
    """A criterion that can be computed without true labels."""
    try:
        criterion = metrics.criterion(name)
    except UserError:
        criterion = None
    if criterion is None or criterion.oracle:
        raise ValueError(
            f"{name!r} is no criterion that works without true labels{suggest(str(name), PRACTICAL)}."
        )
    return criterion


def criterion_value(
    name: str, p: Floats, u: Floats, prior: float, one_sample: bool, rate: float | None = None
) -> float:
    """A criterion of decisions (positive at or above zero) on P and U."""
    criterion = practical(name)
    if criterion.needs == "counts":
        return float(criterion.compute(corrected.counts(p, u, prior, one_sample, rate=rate)))
    import torch

    return float(
        criterion.compute(*(torch.from_numpy(np.array(side, np.float64)) for side in (p, u)))
    )


@dataclass(frozen=True)
class PUScorer:
    """A number about a fitted classifier from PU data; ``scoring=PUScorer("f1", prior=0.3)``, larger is better.

    Parameters
    ----------
    name : str
        A criterion (``"pa"``, ``"pauc"``, …), or a metric corrected for PU data: ``"precision"``, ``"recall"``,
        ``"f1"``, ``"average-precision"``, ``"auc"``. The conditions under which these hold are in
        :mod:`puarena.estimators.corrected`; all but recall and PAUC need the prior.
    prior : float, optional
        The class prior. Default: the estimator's ``prior_``. Give it when candidates of one search could have
        different ones: PA with another prior is another scale.
    setting : {"one-sample", "two-sample"}, optional
        Default: the estimator's ``setting``.
    """

    name: str
    prior: float | None = None
    setting: str | None = None

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:
        """Return the score of a fitted classifier on rows and their PU labels."""
        classes = getattr(estimator, "classes_", None)
        known = classes[-1] if classes is not None and len(classes) == 2 else None
        labels = read_labels(y, known)
        positive = labels.classes[1]
        corrects = self.name in COUNTED or self.name in RANKED
        by_scores = not corrects and practical(self.name).needs == "scores"
        if by_scores or self.name == "recall":
            prior, setting = (
                0.5,
                labeling.get_setting(labeling.DEFAULT_SETTING),
            )  # they depend on neither
        else:
            prior, setting = (
                float(self._given(estimator, "prior_", "prior")),
                self._setting(estimator),
            )
            if not 0 < prior < 1:
                raise ValueError(f"prior must be in (0, 1), got {prior}.")
        if by_scores or self.name in RANKED:
            score = decisions(estimator, X, positive)
        else:
            score = np.where(np.asarray(estimator.predict(X)) == positive, 1.0, -1.0)
        # Known negatives are part of the one sample; of two samples they are in neither.
        p, u = (
            score[labels.positive],
            score[~labels.positive if setting.one_sample else labels.unlabeled],
        )
        if self.name in COUNTED:
            return float(COUNTED[self.name](corrected.counts(p, u, prior, setting.one_sample)))
        if self.name in RANKED:
            return RANKED[self.name](p, u, prior, setting)
        return practical(self.name).sign * criterion_value(
            self.name, p, u, prior, setting.one_sample
        )

    def _setting(self, estimator: Any) -> labeling.Setting:
        try:
            return labeling.get_setting(self._given(estimator, "setting", "setting"))
        except UserError as error:
            raise ValueError(str(error)) from None

    def _given(self, estimator: Any, attribute: str, name: str) -> Any:
        """A value, or the estimator's (of a pipeline: its last step's)."""
        if getattr(self, name) is not None:
            return getattr(self, name)
        last = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
        value = getattr(last, attribute, None)
        if value is None:
            raise ValueError(
                f"{self.name} needs the {name}, and {type(last).__name__} has no '{attribute}'; give it with "
                f"PUScorer({self.name!r}, {name}=…)."
            )
        return value


def decisions(estimator: Any, X: Any, positive: Any) -> Floats:
    """Scores that rank rows, larger for the class ``positive``."""
    if hasattr(estimator, "decision_function"):
        score = np.asarray(estimator.decision_function(X), float)
        return score if estimator.classes_[1] == positive else -score
    return np.asarray(estimator.predict_proba(X), float)[
        :, np.flatnonzero(estimator.classes_ == positive)[0]
    ]


def proxy_accuracy(
    estimator: Any, X: Any, y: Any, *, prior: float | None = None, setting: str | None = None
) -> float:
    """PA of a fitted classifier on PU data: accuracy + prior in expectation. A scorer: ``scoring=proxy_accuracy``.

    Parameters
    ----------
    estimator : classifier or pipeline
        Anything with ``predict``.
    X, y : array-like
        Rows and their PU labels.
    prior, setting : optional
        As in :class:`PUScorer`.

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
    return PUScorer("pa", prior, setting)(estimator, X, y)


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
    return PUScorer("pauc")(estimator, X, y)


def _scorer(name: str) -> Callable[..., float]:
    def score(
        estimator: Any, X: Any, y: Any, *, prior: float | None = None, setting: str | None = None
    ) -> float:
        return PUScorer(name, prior, setting)(estimator, X, y)

    score.__name__ = score.__qualname__ = f"pu_{name.replace('-', '_')}"
    what = (COUNTED | RANKED)[name].__doc__
    score.__doc__ = (
        f"The {name} of a classifier on PU data, a scorer: {what} See :class:`PUScorer`."
    )
    return score


pu_precision, pu_recall, pu_f1 = map(_scorer, COUNTED)
pu_average_precision, pu_auc = map(_scorer, RANKED)
