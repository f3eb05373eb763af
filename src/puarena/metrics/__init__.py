"""Criteria and test metrics over the last axis; the leading axes are runs."""

from puarena.metrics.criteria import (
    CRITERIA,
    Counts,
    Validation,
    compute_criteria,
    get_criterion,
    list_cautions,
    list_default_criteria,
    proxy_accuracy,
    proxy_auc,
)
from puarena.metrics.measures import Criterion, Measure, Metric
from puarena.metrics.scores import (
    METRICS,
    NO_TRUTH,
    accuracy,
    auc,
    compute_metrics,
    f1,
    get_metric,
    list_default_metrics,
    precision,
    recall,
)

__all__ = [
    "CRITERIA",
    "METRICS",
    "NO_TRUTH",
    "Counts",
    "Criterion",
    "Measure",
    "Metric",
    "Validation",
    "accuracy",
    "auc",
    "compute_criteria",
    "compute_metrics",
    "f1",
    "get_criterion",
    "get_metric",
    "list_cautions",
    "list_default_criteria",
    "list_default_metrics",
    "precision",
    "proxy_accuracy",
    "proxy_auc",
    "recall",
]
