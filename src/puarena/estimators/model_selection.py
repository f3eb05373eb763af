"""Model selection without negatives: splitters, criteria, and scorers for scikit-learn's searches.

The corrected metrics (precision, recall, F1, average precision, AUC) hold under three conditions:
the labeled positives are a random part of the positives (selected completely at random), the prior
is right, and the rows were not used to fit the model. A prior that is too high makes all but recall
look better than they are. Notation: recall is the share of P predicted positive, ``q`` that of a
marginal sample (P and U together in the one-sample setting, U in the two-sample setting).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit
from sklearn.pipeline import Pipeline
from sklearn.utils.metadata_routing import MetadataRequest

from puarena import metrics
from puarena.errors import PUWarning, UserError, unknown_name, warn_once
from puarena.metrics import Counts
from puarena.pu import labeling
from puarena.pu.labeling import Setting
from puarena.pu.labels import Labels, read_labels

Floats = npt.NDArray[np.float64]

# The criteria that need no true label.
PU_CRITERIA = {name: c for name, c in metrics.CRITERIA.items() if not c.oracle}


# -- criteria --------------------------------------------------------------------------------------


def get_pu_criterion(name: str) -> metrics.Criterion:
    """Return a criterion that needs no true label, by its name or a synonym."""
    try:
        criterion = metrics.get_criterion(name)
    except UserError:
        criterion = None
    if criterion is None or criterion.oracle:
        raise unknown_name("criterion without true labels", str(name), PU_CRITERIA)
    return criterion


def count_positives(
    p: Floats,
    u: Floats,
    prior: float,
    one_sample: bool,
    cuts: Floats | float = 0.0,
    rate: float | None = None,
) -> Counts:
    """Count the rows of P and of U that score at or above each cut.

    ``rate`` is the share of labeled rows in the data, if P and U are only a part of them.
    """
    above_p, above_u = (len(side) - np.searchsorted(np.sort(side), cuts) for side in (p, u))
    # Rows of P count as often as it takes to make their share the rate.
    weight = 1.0 if rate is None else rate / (1 - rate) * len(u) / len(p)
    one = np.bool_(one_sample)
    return Counts(above_p * weight, len(p) * weight, above_u, len(u), prior, one)


def compute_criterion(
    name: str, p: Floats, u: Floats, prior: float, one_sample: bool, rate: float | None = None
) -> float:
    """Compute a criterion from decisions on P and U, which are positive at or above zero."""
    import torch

    criterion = get_pu_criterion(name)
    if criterion.needs == "counts":
        return float(criterion.compute(count_positives(p, u, prior, one_sample, rate=rate)))
    sides = (torch.from_numpy(np.array(side, np.float64)) for side in (p, u))
    return float(criterion.compute(*sides))


# -- corrected metrics -----------------------------------------------------------------------------


def compute_predicted_share(c: Counts) -> Floats:
    """Return ``q``, the share of a marginal sample that is predicted positive."""
    share_u = c.positive_u / c.size_u
    return np.asarray(c.choose_by_setting(c.rate * c.tpr + (1 - c.rate) * share_u, share_u), float)


def compute_recall(c: Counts) -> Floats:
    """Return the share of P predicted positive, which needs no correction and no prior."""
    return np.asarray(c.tpr, float)


def compute_precision(c: Counts) -> Floats:
    """Return ``prior recall / q``, at most 1, and 0 if nothing is predicted positive."""
    q = compute_predicted_share(c)
    return np.minimum(np.divide(c.prior * c.tpr, q, out=np.zeros_like(q), where=q > 0), 1.0)


def compute_f1(c: Counts) -> Floats:
    """Return ``2 prior recall / (prior + q)``, at most 1."""
    return np.minimum(2 * c.prior * compute_recall(c) / (c.prior + compute_predicted_share(c)), 1.0)


def compute_average_precision(p: Floats, u: Floats, prior: float, setting: Setting) -> float:
    """Return the mean over P of the corrected precision at the row's own score."""
    counts = count_positives(p, u, prior, setting.one_sample, np.sort(p))
    return float(compute_precision(counts).mean())


def compute_auc(p: Floats, u: Floats, prior: float, setting: Setting) -> float:
    """Return ``(PAUC - a/2) / (1 - a)`` within 0 and 1.

    ``a`` is the share of positives in U, with which P ties on average.
    """
    share = setting.prior_in_u(prior, len(p) / (len(p) + len(u)))
    proxy = compute_criterion("pauc", p, u, prior, setting.one_sample)
    return float(np.clip((proxy - share / 2) / (1 - share), 0.0, 1.0))


# -- scorers ---------------------------------------------------------------------------------------

METRICS_OF_COUNTS = {"precision": compute_precision, "recall": compute_recall, "f1": compute_f1}
METRICS_OF_SCORES: dict[str, Callable[[Floats, Floats, float, Setting], float]] = {
    "average-precision": compute_average_precision,
    "auc": compute_auc,
}


@dataclass(frozen=True)
class PUScorer:
    """A scorer for scikit-learn's searches that needs only PU labels; larger is better.

    Parameters
    ----------
    name : str
        A criterion (``"pa"``, ``"pauc"``, …), or a metric corrected for PU data: ``"precision"``,
        ``"recall"``, ``"f1"``, ``"average-precision"``, ``"auc"``; see
        :mod:`puarena.estimators.model_selection` for the conditions under which these hold.
    prior : float, optional
        The class prior, which all but recall and PAUC need. Default: the estimator's ``prior_``.
        Set it if the candidates of one search could have different priors, since PA with another
        prior is on another scale.
    setting : {"one-sample", "two-sample"}, optional
        Default: the estimator's ``setting``.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from puarena import PUScorer
    >>> X, y = np.array([[0.0], [0.1], [1.0], [1.1]]), np.array([0, 0, 0, 1])
    >>> scorer = PUScorer("recall")
    >>> scorer(LogisticRegression(C=100, class_weight="balanced").fit(X, y), X, y)
    1.0
    """

    name: str
    prior: float | None = None
    setting: str | None = None

    # What TunedThresholdClassifierCV asks of a scorer.
    _sign: ClassVar[int] = 1
    _response_method: ClassVar[str] = "predict"
    _kwargs: ClassVar[dict[str, Any]] = {}

    def __post_init__(self) -> None:
        if self.name in METRICS_OF_COUNTS or self.name in METRICS_OF_SCORES:
            return
        try:
            get_pu_criterion(self.name)
        except UserError:
            known = {*METRICS_OF_COUNTS, *METRICS_OF_SCORES, *PU_CRITERIA}
            raise unknown_name("score without true labels", str(self.name), known) from None

    def _score_func(self, y_true: Any, y_pred: Any, **kwargs: Any) -> float:
        """Return the score of decisions, 1 for positive, for TunedThresholdClassifierCV."""
        by_scores, needs_prior = self._find_needs()
        if by_scores:
            raise UserError(
                f"{self.name} does not depend on a threshold; tune it by 'f1' or 'pa'", "conflict"
            )
        for name in ("prior", "setting") if needs_prior else ():
            if getattr(self, name) is None:
                raise UserError(
                    f"to tune a threshold, {self.name} needs the {name}: "
                    f"PUScorer({self.name!r}, prior=…, setting=…)",
                    "missing-data",
                )
        labels = read_labels(y_true)
        score = np.where(np.asarray(y_pred) == labels.classes[1], 1.0, -1.0)
        setting = labeling.get_setting(self.setting or labeling.DEFAULT_SETTING)
        return self._score_decisions(score, labels, self.prior or 0.5, setting)

    def get_metadata_routing(self) -> MetadataRequest:
        """Return that this scorer asks for no metadata."""
        return MetadataRequest(owner=type(self).__name__)

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:
        """Return the score of a fitted classifier on rows and their PU labels."""
        classes: Any = getattr(estimator, "classes_", ())
        labels = read_labels(y, classes[1] if len(classes) == 2 else None)
        positive = labels.classes[1]
        by_scores, needs_prior = self._find_needs()
        prior, setting = (
            0.5,
            labeling.get_setting(labeling.DEFAULT_SETTING),
        )  # PAUC and recall depend on neither
        if needs_prior:
            prior = float(self._get_value(estimator, "prior_", "prior"))
            setting = labeling.get_setting(self._get_value(estimator, "setting", "setting"))
            if not 0 < prior < 1:
                raise UserError(f"prior must be in (0, 1), got {prior}", "invalid-value")
        if by_scores:
            score = score_rows(estimator, X, positive)
        else:
            score = np.where(np.asarray(estimator.predict(X)) == positive, 1.0, -1.0)
        return self._score_decisions(score, labels, prior, setting)

    def _score_decisions(
        self, score: Floats, labels: Labels, prior: float, setting: Setting
    ) -> float:
        """Return the score of rows with scores, of which those from zero are positive."""
        # Known negatives are part of the one sample; of two samples they are in neither.
        unlabeled = ~labels.positive if setting.one_sample else labels.unlabeled
        p, u = score[labels.positive], score[unlabeled]
        if self.name in METRICS_OF_COUNTS:
            counts = count_positives(p, u, prior, setting.one_sample)
            return float(METRICS_OF_COUNTS[self.name](counts))
        if self.name in METRICS_OF_SCORES:
            return METRICS_OF_SCORES[self.name](p, u, prior, setting)
        value = compute_criterion(self.name, p, u, prior, setting.one_sample)
        return get_pu_criterion(self.name).sign * value

    def _find_needs(self) -> tuple[bool, bool]:
        """Return whether the score needs a ranking of rows, and whether it needs the prior."""
        if self.name in METRICS_OF_COUNTS:
            return False, self.name != "recall"
        if self.name in METRICS_OF_SCORES:
            return True, True
        by_scores = get_pu_criterion(self.name).needs == "scores"
        return by_scores, not by_scores

    def _get_value(self, estimator: Any, attribute: str, name: str) -> Any:
        """Return the scorer's own value or the estimator's; of a pipeline, its last step's."""
        if getattr(self, name) is not None:
            return getattr(self, name)
        last = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
        value = getattr(last, attribute, None)
        if value is None:
            raise UserError(
                f"{self.name} needs the {name}, and {type(last).__name__} has no '{attribute}'; "
                f"use PUScorer({self.name!r}, {name}=…)",
                "missing-data",
            )
        return value


class MisuseWarning(PUWarning):
    """A tool of scikit-learn is used in a way that goes wrong with unlabeled rows."""


def warn_of_calibrator() -> None:
    """Warn if a model is being fitted, or asked while it is frozen, by CalibratedClassifierCV.fit.

    It calibrates to the labels as they are, that is, to the chance of a *label*: probabilities come
    out too low by the label frequency, without a word.
    """
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__")
        if name == "sklearn.calibration" and "fit" in frame.f_code.co_name:
            warn_once(
                "CalibratedClassifierCV takes unlabeled rows for negative and undoes the "
                "correction of the probabilities; use the classifier without it: its "
                "probabilities are calibrated",
                MisuseWarning,
            )
            return
        frame = frame.f_back  # type: ignore[assignment]


def score_rows(estimator: Any, X: Any, positive: Any) -> Floats:
    """Return scores that rank rows, larger for the class ``positive``."""
    if hasattr(estimator, "decision_function"):
        score = np.asarray(estimator.decision_function(X), float)
        return score if estimator.classes_[1] == positive else -score
    column = np.flatnonzero(estimator.classes_ == positive)[0]
    return np.asarray(estimator.predict_proba(X), float)[:, column]


def proxy_accuracy(
    estimator: Any, X: Any, y: Any, *, prior: float | None = None, setting: str | None = None
) -> float:
    """Return the PA of a fitted classifier on PU data, which is accuracy + prior in expectation.

    It is a scorer: ``scoring=proxy_accuracy``.

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
    """Return the PAUC of a fitted classifier on PU data: how well P is ranked above U.

    It is a scorer: ``scoring=proxy_auc``.

    Parameters
    ----------
    estimator : classifier or pipeline
        Anything with ``decision_function`` or ``predict_proba``.
    X, y : array-like
        Rows and their PU labels.

    Returns
    -------
    float
        The probability that a labeled positive scores above an unlabeled row; ties count one half.
    """
    return PUScorer("pauc")(estimator, X, y)


# -- splitters -------------------------------------------------------------------------------------


class PUStratifiedKFold(StratifiedKFold):
    """K folds, each with its share of labeled and of unlabeled rows.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds; there must be as many labeled and unlabeled rows.
    shuffle : bool, default=True
        Whether to shuffle first; in PU tables the positives often come first.
    random_state : int, RandomState or None, default=None
        Decides the shuffling.
    positive_label : optional
        As in :class:`PUClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from puarena import PUStratifiedKFold
    >>> X, y = np.zeros((100, 1)), np.r_[np.ones(10), np.zeros(90)]
    >>> [int(y[test].sum()) for _, test in PUStratifiedKFold(5, random_state=0).split(X, y)]
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
        seed = random_state if shuffle else None
        super().__init__(n_splits=n_splits, shuffle=shuffle, random_state=seed)
        self.positive_label = positive_label

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[Any, Any]]:
        """Yield training and test indices; every fold has labeled and unlabeled rows."""
        yield from super().split(X, _read_strata(y, self.positive_label, self.n_splits))


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
    >>> X, y = np.zeros((100, 1)), np.r_[np.ones(10), np.zeros(90)]
    >>> splitter = PUShuffleSplit(2, test_size=0.2, random_state=0)
    >>> [int(y[test].sum()) for _, test in splitter.split(X, y)]
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
        sizes = {"test_size": test_size, "train_size": train_size}
        super().__init__(n_splits, **sizes, random_state=random_state)
        self.positive_label = positive_label

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[Any, Any]]:
        """Yield training and test indices; both parts have labeled and unlabeled rows."""
        yield from super().split(X, _read_strata(y, self.positive_label, parts=2))


def _read_strata(y: Any, positive_label: Any, parts: int) -> npt.NDArray[np.int64]:
    """Return 1 for labeled and 0 for other rows, at least ``parts`` of each."""
    if y is None:
        raise UserError("y is needed to split labeled and unlabeled rows", "missing-data")
    labeled = read_labels(y, positive_label).positive
    for name, count in (("labeled", labeled.sum()), ("unlabeled", (~labeled).sum())):
        if count < parts:
            raise UserError(
                f"n_splits={parts} cannot be greater than the number of {name} rows, {count}",
                "invalid-value",
            )
    return labeled.astype(np.int64)
