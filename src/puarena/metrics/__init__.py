"""Metrics and criteria over the last axis; the leading axes are runs. Nothing here knows the rest of the house."""

from puarena.metrics.criteria import CRITERIA, Criterion, Validation, evaluate
from puarena.metrics.scores import METRICS, accuracy, auc, f1, precision, recall, test_metrics

__all__ = [
    "CRITERIA", "METRICS", "Criterion", "Validation",
    "accuracy", "auc", "evaluate", "f1", "precision", "recall", "test_metrics",
]  # fmt: skip
