"""How good is a model, without negatives: metrics with intervals from positive and unlabeled rows.

With prior ``pi``, recall ``t`` (the share of P predicted positive) and ``q`` (the share of a
marginal sample predicted positive): precision is ``pi t / q``, F1 ``2 pi t / (pi + q)``, accuracy
``1 - pi - q + 2 pi t``, and AUC follows from that of P against U. The lift among the ``k`` highest
rows is their recall over ``k`` and needs no prior. Intervals are quantiles over draws of prior,
recall and ``q``.

Menon, van Rooyen, Ong, Williamson: Learning from corrupted binary labels via class-probability
estimation. ICML 2015 (AUC). Claesen, Davis, De Smet, De Moor: Assessing binary classifiers using
only positive and unlabeled data. 2015 (bounds from a range of priors).
DeLong, DeLong, Clarke-Pearson: Comparing the areas under two or more correlated receiver operating
characteristic curves. Biometrics 44, 1988 (variance of AUC).
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.model_selection import StratifiedGroupKFold
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, check_consistent_length

from puarena.errors import UserError
from puarena.estimators.model_selection import PUStratifiedKFold, score_rows
from puarena.estimators.prior_knowledge import INTERVAL, QUANTILES
from puarena.priors.estimate import check_bounds
from puarena.pu import labeling
from puarena.pu.labeling import Setting
from puarena.pu.labels import Labels, read_labels

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

DRAWS = 4000
TOP_SHARE = 0.1  # the rows whose lift is reported
HALF = 0.5  # of a row is added to either outcome (Jeffreys), so that no share is certain
METRICS = ("precision", "recall", "f1", "accuracy", "auc", "lift", "prior")


@dataclass(frozen=True)
class Estimate:
    """A number with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Evaluation:
    """What :func:`evaluate` found: an estimate of every metric, and what they rest on."""

    precision: Estimate
    recall: Estimate
    f1: Estimate
    accuracy: Estimate
    auc: Estimate
    lift: Estimate
    prior: Estimate
    top: float  # the share of rows whose lift this is
    labeled: int
    unlabeled: int
    rows: str  # which rows these are

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        values: dict[str, Any] = {}
        for name in METRICS:
            each = getattr(self, name)
            values[name] = {"value": each.value, "interval": [each.low, each.high]}
        return values | {"top": self.top, "labeled": self.labeled, "unlabeled": self.unlabeled}

    def describe(self) -> str:
        """Return the estimates and what they rest on, as text."""
        lines = [f"{'':<10} {'estimate':>8}   95% interval"]
        for name in METRICS:
            each = getattr(self, name)
            title = f"lift {self.top:.0%}" if name == "lift" else name
            lines.append(f"{title:<10} {each.value:>8.3f}   {each.low:.3f} to {each.high:.3f}")
        lines.append(
            f"This rests on {self.labeled:,} labeled and {self.unlabeled:,} unlabeled rows "
            f"({self.rows}), on labels given at random among the positives, and, but for recall "
            f"and lift, on a share of positives between {self.prior.low:.3g} and "
            f"{self.prior.high:.3g}. If labels are not given at random, check rows by hand "
            "(choose_checks)."
        )
        return "\n".join(lines)


def evaluate(
    model: Any,
    X: Any = None,
    labeled: Any = None,
    *,
    folds: int | None = None,
    groups: Any = None,
    prior: Any = None,
    setting: str | None = None,
    top: float = TOP_SHARE,
    random_state: int = 0,
) -> Evaluation:
    """Estimate precision, recall, F1, accuracy, AUC and lift of a model without any negative.

    Parameters
    ----------
    model : classifier or pipeline
        Fitted; with ``folds`` it may be unfitted, if ``prior`` is given.
    X : array-like or data frame, optional
        Rows that the model was *not* fitted to; with ``folds``, rows to fit copies of it to.
        Default: the rows that a model of this package held out when it was fitted.
    labeled : array-like of shape (n_samples,), optional
        Labels of these rows, as for ``fit``.
    folds : int, optional
        Fit a copy of the model to all folds but one, and judge it by this one.
    groups : array-like, optional
        With ``folds``: rows of one group are in one fold.
    prior : float or (low, high), optional
        Default: as the model estimated it, with its doubt.
    setting : {"one-sample", "two-sample"}, optional
        Default: the model's.
    top : float, default=0.1
        The share of rows, those with the highest scores, whose lift is reported.
    random_state : int, default=0
        Decides folds and draws.

    Returns
    -------
    Evaluation
        Estimates with 95 % intervals, which carry the doubt about the prior and the size of the
        sample; ``print(found.describe())``.

    Examples
    --------
    >>> import numpy as np
    >>> from puarena import PUClassifier
    >>> from puarena.estimators import evaluate
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.random(1000) < 0.3
    >>> X = rng.normal(size=(1000, 2)) + 3 * truth[:, None]
    >>> clf = PUClassifier(random_state=0).fit(X, truth & (rng.random(1000) < 0.5))
    >>> found = evaluate(clf)
    >>> found.precision.low < np.mean(truth[clf.predict(X)]) < found.precision.high
    True
    """
    if not 0 < top < 1:
        raise UserError(f"top={top!r} is not a share between 0 and 1", "invalid-value")
    rng = np.random.default_rng(random_state)
    if folds is not None and folds < 2:
        raise UserError(f"folds={folds!r} is not a number from 2", "invalid-value")
    if X is not None and labeled is not None:
        check_consistent_length(X, labeled)
    if X is None:
        judged = _recall_held_out(_last_step(model))
    elif labeled is None:
        raise UserError("labeled is needed: evaluate(model, X, labeled)", "missing-data")
    elif folds is None:
        judged = _judge(model, X, labeled, setting)
    else:
        judged = _judge_by_folds(model, X, labeled, setting, folds, groups, random_state)
    p, u, kind, rate = judged.p, judged.u, judged.setting, judged.rate
    recall, share_u = judged.above_p, judged.above_u
    priors = _draw_priors(judged.model, prior, kind, rate, rng)
    auc, error = compute_proxy_auc(p, u)
    recall_top = _count_top(p, u, top, rate, kind)
    ones = np.ones(1)
    point = _compute_metrics(
        ones * recall.mean(),
        ones * share_u.mean(),
        ones * auc,
        ones * recall_top,
        ones * np.mean(priors),
        top,
        rate,
        kind,
    )
    drawn = _compute_metrics(
        _draw_share(recall.sum(), len(p), rng),
        _draw_share(share_u.sum(), len(u), rng),
        rng.normal(auc, error, DRAWS),
        _draw_share(recall_top * len(p), len(p), rng),
        priors,
        top,
        rate,
        kind,
    )
    found = {}
    for name in METRICS:
        low, high = np.percentile(drawn[name], INTERVAL)
        value = float(point[name][0])
        found[name] = Estimate(value, min(float(low), value), max(float(high), value))
    if prior is None:
        found["prior"] = Estimate(judged.model.prior_, *judged.model.prior_interval_)
    return Evaluation(**found, top=top, labeled=len(p), unlabeled=len(u), rows=judged.rows)


@dataclass(frozen=True)
class _Judged:
    """Scores and decisions of rows that the model, or a copy of it, was not fitted to."""

    model: Any  # whose distribution of the prior is used
    setting: Setting
    rate: float
    p: Floats
    u: Floats
    above_p: Flags
    above_u: Flags
    rows: str  # which rows these are


def _last_step(model: Any) -> Any:
    return model.steps[-1][1] if isinstance(model, Pipeline) else model


def _recall_held_out(model: Any) -> _Judged:
    """Return the rows that a model held out when it was fitted."""
    held = getattr(model, "held_out_", None)
    if held is None:
        raise UserError(
            "this model keeps no held-out rows: evaluate(model, X, labeled) with rows that it "
            "was not fitted to, or folds=5",
            "missing-data",
        )
    kind = labeling.get_setting("one-sample" if held.one_sample else "two-sample")
    p, u = held.decision[held.labeled], held.decision[~held.labeled]
    rate = len(p) / (len(p) + len(u)) if held.rate is None else held.rate
    above_p, above_u = p >= model.shift_, u >= model.shift_
    rows = "held out when the model was fitted"
    return _Judged(model, kind, rate, p, u, above_p, above_u, rows)


def _judge(model: Any, X: Any, labeled: Any, setting: str | None) -> _Judged:
    """Judge rows by a fitted model."""
    kind, labels = _read_rows(model, labeled, setting)
    score, above = _predict(model, X, labels.classes[1])
    rows = "which the model must not have been fitted to"
    return _split_rows(_last_step(model), kind, labels, score, above, rows)


def _judge_by_folds(
    model: Any, X: Any, labeled: Any, setting: str | None, folds: int, groups: Any, seed: int
) -> _Judged:
    """Judge every row by a copy of a model that was not fitted to it."""
    kind, labels = _read_rows(model, labeled, setting)
    y = np.asarray(labeled)
    score, above, copies = np.zeros(len(y)), np.zeros(len(y), bool), []
    splitter: Any = PUStratifiedKFold(folds, random_state=seed)
    if groups is not None:
        splitter = StratifiedGroupKFold(folds, shuffle=True, random_state=seed)
    for train, held in splitter.split(np.zeros(len(y)), y, groups):
        copy = clone(model).fit(_safe_indexing(X, train), y[train])
        score[held], above[held] = _predict(copy, _safe_indexing(X, held), copy.classes_[1])
        copies.append(copy)
    last = _last_step(model)
    if not hasattr(last, "prior_quantiles_"):
        last = _last_step(copies[0])
    rows = f"each judged by a copy of the model fitted to the other of {folds} folds"
    return _split_rows(last, kind, labels, score, above, rows)


def _read_rows(model: Any, labeled: Any, setting: str | None) -> tuple[Setting, Labels]:
    """Return the setting of rows, the model's where none is named, and their labels."""
    classes: Any = getattr(model, "classes_", ())
    labels = read_labels(labeled, classes[1] if len(classes) == 2 else None)
    named = setting or getattr(_last_step(model), "setting", None)
    if named is None:
        raise UserError("name the setting: evaluate(…, setting='one-sample')", "missing-data")
    return labeling.get_setting(named), labels


def _split_rows(
    model: Any, kind: Setting, labels: Labels, score: Floats, above: Flags, rows: str
) -> _Judged:
    p, u = labels.positive, ~labels.positive if kind.one_sample else labels.unlabeled
    rate = float(p.sum() / (p.sum() + u.sum()))
    return _Judged(model, kind, rate, score[p], score[u], above[p], above[u], rows)


def _predict(model: Any, X: Any, positive: Any) -> tuple[Floats, Flags]:
    """Return scores and decisions of rows."""
    return score_rows(model, X, positive), np.asarray(model.predict(X)) == positive


def _draw_priors(
    model: Any, prior: Any, setting: Setting, rate: float, rng: np.random.Generator
) -> Floats:
    """Return draws of the prior: of the model's distribution, or uniform in the given range."""
    lowest = setting.lowest_prior(rate)
    if prior is not None:
        ends = (float(prior), float(prior)) if isinstance(prior, Real) else prior
        return rng.uniform(*check_bounds(ends, setting, rate, f"prior={prior!r}"), DRAWS)
    quantiles = getattr(model, "prior_quantiles_", None)
    if quantiles is None:
        raise UserError(
            f"{type(model).__name__} has no estimate of the prior: evaluate(…, prior=(low, high))",
            "missing-data",
        )
    return np.maximum(np.interp(rng.random(DRAWS), QUANTILES, quantiles), lowest)


def _draw_share(count: float, size: int, rng: np.random.Generator) -> Floats:
    return rng.beta(count + HALF, size - count + HALF, DRAWS)


def _count_top(p: Floats, u: Floats, top: float, rate: float, setting: Setting) -> float:
    """Return the share of P among the highest rows of a marginal sample."""
    share = rate if setting.one_sample else 0.0
    value = np.concatenate([p, u])
    weight = np.repeat([share / len(p), (1 - share) / len(u)], [len(p), len(u)])
    order = np.argsort(-value, kind="stable")
    above = np.cumsum(weight[order])
    cut = value[order][min(int(np.searchsorted(above, top)), len(value) - 1)]
    # Rows tied with the cut count by the share of them that is needed.
    over, tied = value > cut, value == cut
    part = (top - weight[over].sum()) / weight[tied].sum()
    is_p = np.arange(len(value)) < len(p)
    recall = (over & is_p).sum() + np.clip(part, 0, 1) * (tied & is_p).sum()
    return float(recall / len(p))


def compute_proxy_auc(p: Floats, u: Floats) -> tuple[float, float]:
    """Return the AUC of P against U and its standard error (DeLong)."""
    sorted_u, sorted_p = np.sort(u), np.sort(p)
    of_p = (np.searchsorted(sorted_u, p, "left") + np.searchsorted(sorted_u, p, "right")) / 2
    of_u = (np.searchsorted(sorted_p, u, "left") + np.searchsorted(sorted_p, u, "right")) / 2
    of_p, of_u = of_p / len(u), 1 - of_u / len(p)
    variance = 0.0
    for part in (of_p, of_u):
        # With few rows the spread is hardly known: half a row of either outcome is added.
        mean = (part.sum() + HALF) / (len(part) + 1)
        floor = mean * (1 - mean) / (len(part) + 1) ** 2
        variance += (part.var(ddof=1) / len(part) if len(part) > 1 else 0.25) + floor
    return float(of_p.mean()), float(np.sqrt(variance))


def _compute_metrics(
    recall: Floats,
    share_u: Floats,
    proxy_auc: Floats,
    recall_top: Floats,
    prior: Floats,
    top: float,
    rate: float,
    setting: Setting,
) -> dict[str, Floats]:
    """Return every metric, of arrays of equal length."""
    q = rate * recall + (1 - rate) * share_u if setting.one_sample else share_u
    # No more true positives than rows predicted positive, and no more false ones than negatives.
    true = np.clip(prior * recall, np.maximum(q - (1 - prior), 0.0), q)
    inside = np.array([setting.prior_in_u(float(each), rate) for each in prior])
    auc = np.clip((proxy_auc - inside / 2) / np.maximum(1 - inside, 1e-6), 0.0, 1.0)
    return {
        "precision": np.divide(true, q, out=np.zeros_like(q), where=q > 0),
        "recall": recall,
        "f1": 2 * true / (prior + q),
        "accuracy": 1 - prior - q + 2 * true,
        "auc": auc,
        "lift": recall_top / top,
        "prior": prior,
    }
