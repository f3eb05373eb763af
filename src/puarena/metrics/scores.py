"""Test metrics over the last axis: ``[…, n]`` decisions or scores and labels to ``[…]`` values in
float64.

Positive means ``decision >= 0``. Precision, recall and F1 are 0 where their denominator is; AUC
counts ties one half and is NaN where one class is missing. A row with a score that is not finite is
NaN.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from puarena.metrics.records import Metric, look_up

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
    """Fraction of points on the right side."""
    return ((decision >= 0) == label).double().mean(-1)


def precision(decision: Tensor, label: Tensor) -> Tensor:
    """Fraction of the predicted positives that are positive."""
    true, predicted, _ = _counts(decision, label)
    return _ratio(true, predicted)


def recall(decision: Tensor, label: Tensor) -> Tensor:
    """Fraction of the positives that are predicted positive."""
    true, _, positives = _counts(decision, label)
    return _ratio(true, positives)


def f1(decision: Tensor, label: Tensor) -> Tensor:
    """Harmonic mean of precision and recall."""
    true, predicted, positives = _counts(decision, label)
    return _ratio(2 * true, predicted + positives)


def auc(score: Tensor, label: Tensor) -> Tensor:
    """Probability that a random positive scores above a random negative, ties counting one half."""
    import torch

    label = label.expand_as(score)
    if (
        score.device.type == "cpu"
    ):  # numpy's vectorized sort is several times faster than torch's here
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


METRICS: dict[str, Metric] = {
    m.name: m
    for m in (
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


def metric(name: str) -> Metric:
    """A test metric by name."""
    return look_up("metric", name, METRICS)


def default_metrics() -> list[str]:
    """The test metrics shown unless others are asked for."""
    return [m.name for m in METRICS.values() if m.default]


def test_metrics(decision: Tensor, score: Tensor, label: Tensor) -> dict[str, Tensor]:
    """Return all metrics of ``[runs, n]`` outputs against true labels, by column."""
    import torch

    handed = {"decision": decision, "score": score}
    values = {m.column: m.compute(handed[m.needs], label) for m in METRICS.values()}
    finite = torch.isfinite(decision).all(-1)
    return {
        name: torch.where(finite, v, torch.full_like(v, float("nan"))) for name, v in values.items()
    }
