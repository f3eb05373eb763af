"""One function over all estimators of the class prior: right for one and for two samples, with an interval."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from puarena.data import labelling
from puarena.errors import UserError, nearest
from puarena.practice.labels import read_labels
from puarena.priors.methods import METHODS
from puarena.priors.sample import Floats, Method, PriorWarning, Sample

EDGE = 1e-3  # estimates are kept this far from 0 and 1: a prior lies strictly between
SMALL = 50_000  # rows
COMPARED = ("bbe", "km2", "dedpul", "pen-l1")  # those that were near the truth in `puarena priors bench`


@dataclass(frozen=True)
class PriorEstimate:
    """An estimated class prior: ``value``, its ``interval`` (about 95 %), the ``method``, and ``details``.

    ``details`` has ``unlabeled_prior`` (the share of positives inside U), ``rate`` (n_P / (n_P + n_U)), ``setting``,
    ``n_bootstrap``, ``notes``, and ``others`` where several methods were run.
    """

    value: float
    interval: tuple[float, float]
    method: str
    details: dict[str, Any] = field(default_factory=dict)

    def __float__(self) -> float:
        return self.value


def estimate_prior(
    X: Any,
    y: Any,
    setting: str = labelling.DEFAULT,
    method: str = "bbe",
    random_state: int = 0,
    n_bootstrap: int | None = None,
    estimator: Any = None,
    compare: bool | Sequence[str] = False,
    disagreement: float = 0.15,
    folds: int = 5,
    positive_label: Any = None,
    **options: Any,
) -> PriorEstimate:
    """Estimate the class prior from labeled positives and unlabeled rows.

    Args:
        X: features ``[n, d]``.
        y: 1 or True marks a labeled positive, 0, -1 or False an unlabeled row; see :mod:`puarena.practice.labels`.
        setting: ``"os"`` (one sample, part of whose positives were labeled: the answer is the prior of all rows, the
            labeled ones included) or ``"ts"`` (positives and unlabeled rows drawn apart: the prior of the unlabeled).
        method: one of ``METHODS``, or ``"all"``: every method, the answer their median.
        random_state: seed of folds, subsamples and the bootstrap.
        n_bootstrap: resamples for the interval (0: none, the interval is the value); None: as many as the method
            affords. The interval is the value ± 1.96 standard deviations over resamples of the scored rows; the
            classifier of P against U is not fitted again, so its own variance is not in it.
        estimator: scikit-learn classifier that tells P from U for the methods on out-of-fold scores.
        compare: also run other methods (True: a quick selection) and warn when the answers are more than
            ``disagreement`` apart.
        disagreement: the difference between two methods' answers that calls for a warning.
        folds: folds of the out-of-fold scores.
        positive_label: the value of ``y`` that marks a labeled positive; needed where ``y`` is text.
        **options: of the method: ``max_samples`` (km2), ``centres`` (pen-l1), ``space`` (both: ``"scores"`` or
            ``"features"``), ``max_splits`` (tice), ``confidence`` (bbe), ``max_difference`` (dedpul).
    """
    try:
        kind = labelling.get(setting)
    except UserError as error:
        raise ValueError(str(error)) from None
    wanted = tuple(METHODS) if method == "all" else (method,)
    if compare:
        wanted = tuple(dict.fromkeys((*wanted, *(COMPARED if compare is True else compare))))
    for name in wanted:
        if name not in METHODS:
            raise ValueError(f"unknown method {name!r}{nearest(name, [*METHODS, 'all'])}")
    known = {option for name in wanted for option in METHODS[name].options}
    for option in options:
        if option not in known:
            raise TypeError(f"estimate_prior with method {method!r} has no option {option!r}{nearest(option, known)}")
    x_p, x_u = split(X, y, positive_label)
    sample = Sample(x_p, x_u, estimator, folds, random_state)
    with threads(len(x_p) + len(x_u)):
        answers = {name: _one(sample, METHODS[name], kind, n_bootstrap, options) for name in wanted}
    if len(answers) > 1:
        _warn_if_apart(answers, disagreement)
    chosen = _median(answers) if method == "all" else answers[method]
    others = {name: each for name, each in answers.items() if name != method}
    if others:
        chosen.details["others"] = others
    return chosen


def split(X: Any, y: Any, positive_label: Any = None) -> tuple[Floats, Floats]:
    """Check the input as scikit-learn does; return the labeled positives and the unlabeled rows."""
    from sklearn.utils import check_array, check_consistent_length, column_or_1d

    x = check_array(X, dtype=np.float64)
    y = column_or_1d(y)
    check_consistent_length(x, y)
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise ValueError("y contains NaN or infinity; use 1 for labeled positives and 0 or -1 for unlabeled rows")
    positive = read_labels(y, positive_label).positive
    return x[positive], x[~positive]


def prior_of_share(share: npt.ArrayLike, rate: float, setting: labelling.Setting) -> Floats:
    """From the share of positives inside U to the prior, kept off the edges."""
    inside = np.clip(np.asarray(share, float), 0.0, 1.0)
    return np.clip(setting.prior_from_u(inside, rate), EDGE, 1 - EDGE)


def threads(rows: int) -> AbstractContextManager[Any]:
    """One thread for small samples: more gain nothing there, and wait for each other on a busy machine."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    return threadpool_limits(1 if rows < SMALL else None)


def _one(
    sample: Sample, method: Method, setting: labelling.Setting, n_bootstrap: int | None, options: dict[str, Any]
) -> PriorEstimate:
    own = {key: value for key, value in options.items() if key in method.options}
    before = len(sample.notes)
    share = method.prepare(sample, **own)
    n_p, n_u = len(sample.x_p), len(sample.x_u)
    rate = n_p / (n_p + n_u)
    inside = float(np.clip(share(None, None), 0.0, 1.0))
    value = float(prior_of_share(inside, rate, setting))
    rng = np.random.default_rng([sample.random_state, 1])
    times = method.bootstraps if n_bootstrap is None else n_bootstrap
    again = [share(rng.integers(0, n_p, n_p), rng.integers(0, n_u, n_u)) for _ in range(times)]
    spread = float(prior_of_share(again, rate, setting).std(ddof=1)) if times > 1 else 0.0
    low, high = np.clip([value - 1.96 * spread, value + 1.96 * spread], setting.lowest_prior(rate), 1.0)
    details = {
        "unlabeled_prior": inside,
        "rate": rate,
        "setting": setting.code,
        "n_bootstrap": times,
        "notes": sample.notes[before:],
    }
    return PriorEstimate(value, (float(min(low, value)), float(max(high, value))), method.name, details)


def _median(answers: dict[str, PriorEstimate]) -> PriorEstimate:
    """The median of all methods, between the smallest and the largest answer."""
    values = [each.value for each in answers.values()]
    any_details = next(iter(answers.values())).details
    inside = float(np.median([each.details["unlabeled_prior"] for each in answers.values()]))
    details = {
        **any_details,
        "unlabeled_prior": inside,
        "notes": [n for e in answers.values() for n in e.details["notes"]],
    }
    return PriorEstimate(float(np.median(values)), (min(values), max(values)), "all", details)


def _warn_if_apart(answers: dict[str, PriorEstimate], disagreement: float) -> None:
    values = {name: each.value for name, each in answers.items()}
    if max(values.values()) - min(values.values()) > disagreement:
        listed = ", ".join(f"{name} {value:.2f}" for name, value in values.items())
        warnings.warn(
            f"the methods disagree about the class prior ({listed}); do not rely on one of them: the labeled positives "
            "may not be a random part of all positives, or no region of the features is purely positive",
            PriorWarning,
            stacklevel=3,
        )
