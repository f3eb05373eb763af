"""Test metrics over the last axis: ``[…, n]`` decisions or scores and labels to ``[…]`` values in
float64.

Positive means ``decision >= 0``. Precision, recall and F1 are 0 where their denominator is; AUC
counts ties one half and is NaN where one class is missing. A row with a score that is not finite is
NaN.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from puarena.metrics.measures import Metric, find_measure

if TYPE_CHECKING:
    from torch import Tensor


def _ratio(a: Tensor, b: Tensor) -> Tensor:
    return (a / b.clamp_min(1)).where(b > 0, 0.0)


def _counts(decision: Tensor, label: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return true positives, predicted positives, positives."""
    predicted = decision >= 0
    return (
        (predicted & label).sum(-1).double(),
        predicted.sum(-1).double(),
        label.expand_as(decision).sum(-1).double(),
    )


def accuracy(decision: Tensor, label: Tensor) -> Tensor:
    """Return the fraction of points on the right side."""
    return ((decision >= 0) == label).double().mean(-1)


def precision(decision: Tensor, label: Tensor) -> Tensor:
    """Return the fraction of the predicted positives that are positive."""
    true, predicted, _ = _counts(decision, label)
    return _ratio(true, predicted)


def recall(decision: Tensor, label: Tensor) -> Tensor:
    """Return the fraction of the positives that are predicted positive."""
    true, _, positives = _counts(decision, label)
    return _ratio(true, positives)


def f1(decision: Tensor, label: Tensor) -> Tensor:
    """Return the harmonic mean of precision and recall."""
    true, predicted, positives = _counts(decision, label)
    return _ratio(2 * true, predicted + positives)


def auc(score: Tensor, label: Tensor) -> Tensor:
    """Return the probability that a random positive scores above a random negative.

    Ties count one half.
    """
    import torch

    label = label.expand_as(score)
    # On the CPU numpy's vectorized sort is several times faster than torch's.
    if score.device.type == "cpu":
        order = torch.from_numpy(score.detach().numpy().argsort(-1))
    else:
        order = score.argsort(-1)
    ordered, label = score.gather(-1, order), label.gather(-1, order)
    place = torch.arange(score.shape[-1], device=score.device)
    new = torch.ones_like(ordered, dtype=torch.bool)  # the first of its ties
    torch.ne(ordered[..., 1:], ordered[..., :-1], out=new[..., 1:])
    first = torch.where(new, place, 0).cummax(-1).values
    last = torch.where(new.roll(-1, -1), place, score.shape[-1]).flip(-1).cummin(-1).values.flip(-1)
    midrank = (first + last).double() / 2 + 1
    positives = label.sum(-1).double()
    negatives = score.shape[-1] - positives
    wins = (midrank * label).sum(-1) - positives * (positives + 1) / 2
    value = wins / (positives * negatives)  # 0/0 is NaN: undefined without both classes
    return torch.where(torch.isfinite(score).all(-1), value, torch.full_like(value, float("nan")))


def auc_unlabeled(score: Tensor, label: Tensor, labeled: Tensor) -> Tensor:
    """Return the AUC among the points without an observed label; labeled points are positive."""
    # The labeled points lose against every other one; these known wins are taken off again.
    lowest = score.amin(-1, keepdim=True) - 1
    value = auc(score.where(~labeled, lowest), label & ~labeled)
    known, negatives = labeled.sum(-1).double(), (~label).sum(-1).double()
    result: Tensor = (value * (known + negatives) - known) / negatives
    return result


NO_TRUTH = "criterion"  # what is shown of results without any test metric

METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric(
            "accuracy",
            "Accuracy",
            "share of test points on the right side",
            accuracy,
            "decision",
            ("acc",),
            chance=lambda prior: max(prior, 1 - prior),
        ),
        Metric(
            "auc",
            "AUC",
            "area under the ROC curve",
            auc,
            "score",
            ("roc-auc", "auroc", "roc"),
            chance=lambda prior: 0.5,
        ),
        Metric(
            "f1",
            "F1",
            "harmonic mean of precision and recall",
            f1,
            "decision",
            ("f1-score", "f-score", "f"),
        ),
        Metric(
            "auc-unlabeled",
            "AUC unlabeled",
            "AUC among the test points without an observed label: are the others found?",
            auc_unlabeled,
            "observed labels",
            chance=lambda prior: 0.5,
            default=False,
        ),
        Metric(
            NO_TRUTH,
            "Criterion",
            "no true label is known: the criterion's own value of the chosen model",
            auc,
            "nothing",
            high=None,
            default=False,
        ),
        Metric(
            "precision",
            "Precision",
            "share of the predicted positives that are positive",
            precision,
            "decision",
            ("prec", "ppv"),
            default=False,
        ),
        Metric(
            "recall",
            "Recall",
            "share of the positives that are predicted positive",
            recall,
            "decision",
            ("sensitivity", "tpr"),
            default=False,
        ),
    )
}


def get_metric(name: str) -> Metric:
    """Return a test metric by name or synonym."""
    return find_measure("metric", name, METRICS)


def list_default_metrics() -> list[str]:
    """Return the names of the test metrics that are shown by default."""
    return [metric.name for metric in METRICS.values() if metric.default]


def compute_metrics(
    decision: Tensor, score: Tensor, label: Tensor, labeled: Tensor | None = None
) -> dict[str, Tensor]:
    """Return all metrics of ``[runs, n]`` outputs against true labels, by column.

    They are NaN if a decision is not finite. ``labeled``: which points have an observed label.
    """
    import torch

    inputs: dict[str, tuple[Tensor, ...]] = {"decision": (decision, label), "score": (score, label)}
    if labeled is not None:
        inputs["observed labels"] = (score, label, labeled)
    finite = torch.isfinite(decision).all(-1)
    values = {}
    for metric in METRICS.values():
        if metric.needs not in inputs:
            continue
        value = metric.compute(*inputs[metric.needs])
        values[metric.column] = torch.where(finite, value, torch.full_like(value, float("nan")))
    return values
