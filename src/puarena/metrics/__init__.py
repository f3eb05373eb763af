"""Metrics and criteria over the last axis; the leading axes are runs.

Nothing here knows the rest of the house.
"""

from puarena.metrics.criteria import (
    CRITERIA,
    Counts,
    Validation,
    cautions,
    criterion,
    default_criteria,
    evaluate,
    proxy_accuracy,
    proxy_auc,
)
from puarena.metrics.records import Criterion, Metric
from puarena.metrics.scores import (
    METRICS,
    accuracy,
    auc,
    default_metrics,
    f1,
    metric,
    precision,
    recall,
    test_metrics,
)

__all__ = [
    "CRITERIA",
    "METRICS",
    "Counts",
    "Criterion",
    "Metric",
    "Validation",
    "accuracy",
    "auc",
    "cautions",
    "criterion",
    "default_criteria",
    "default_metrics",
    "evaluate",
    "f1",
    "metric",
    "precision",
    "proxy_accuracy",
    "proxy_auc",
    "recall",
    "test_metrics",
]
