"""Warnings about features that know the label, and about labels that are not what they seem."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from puarena.datasets.encoding import TableWarning
from puarena.estimators.model_selection import MisuseWarning

MAX_CELLS = 10_000_000  # of the part of a table that is looked at
MAX_COMPARED_ROWS = 10_000
MIN_LABELS = 10  # with fewer, many features separate them by chance
LEAK_AUC = 0.99
MAX_NAMED = 5  # features in a warning
NEAR_FREQUENCY = 0.95  # of the positives labeled: nearly all


def warn_of_leaks(
    values: npt.NDArray[np.float64],
    names: Sequence[str],
    labeled: npt.NDArray[np.bool_],
) -> None:
    """Warn of features that alone tell labeled rows from the others.

    Positives among the unlabeled rows keep an honest feature from doing so.
    """
    rows = min(MAX_COMPARED_ROWS, max(MAX_CELLS // max(values.shape[1], 1), 100))
    if len(values) > rows:
        chosen = np.random.default_rng(0).permutation(len(values))[:rows]
        values, labeled = values[chosen], labeled[chosen]
    count = int(labeled.sum())
    if count < MIN_LABELS or count == len(labeled):
        return
    ranks = rankdata(values, axis=0)[labeled].mean(0)
    auc = (ranks - (count + 1) / 2) / (len(labeled) - count)
    strength = np.maximum(auc, 1 - auc)
    found = [at for at in np.argsort(-strength, kind="stable") if strength[at] > LEAK_AUC]
    if not found:
        return
    named = ", ".join(f"'{names[at]}' (AUC {strength[at]:.4f})" for at in found[:MAX_NAMED])
    if len(found) > MAX_NAMED:
        named += f" and {len(found) - MAX_NAMED} more"
    warnings.warn(
        f"{named}: alone almost separates labeled from unlabeled rows. If it was recorded because "
        "of the label, or is the label, leave it out; the scores say nothing otherwise",
        TableWarning,
        stacklevel=4,
    )


def warn_of_guessed_label(classes: npt.NDArray[np.generic]) -> None:
    """Warn if it was guessed which of two numbers marks labeled positives."""
    if classes.dtype.kind in "iuf" and not set(classes.tolist()) <= {-1, 0, 1}:
        warnings.warn(
            f"y has the values {classes[0]} and {classes[1]}: {classes[1]} was taken for the "
            "labeled positives; name them with positive_label",
            TableWarning,
            stacklevel=4,
        )


def warn_of_frequency(rate: float, prior: float) -> None:
    """Warn if nearly all positives of one sample are labeled."""
    if rate > NEAR_FREQUENCY * prior:
        warnings.warn(
            f"a share of {rate:.3g} of the rows is labeled, and the prior is {prior:.3g}: nearly "
            "all positives would be labeled already, and there would be none to find",
            TableWarning,
            stacklevel=4,
        )


def warn_of_scored_labels(share: float, rows: int, rate: float, prior: float) -> None:
    """Warn if ``score`` is given labels instead of true classes, judged by the share of positives.

    ``rate`` is the share of labeled rows that was fitted to.
    """
    error = np.sqrt(prior * (1 - prior) / max(rows, 1))
    if abs(share - rate) < abs(share - prior) and prior - share > 3 * error:
        warnings.warn(
            "score(X, y) is for true classes, and y has far fewer positives than the prior says: "
            "unlabeled rows seem to count as negative. Use scoring=PUScorer('pa') in a search, or "
            "proxy_accuracy(model, X, y)",
            MisuseWarning,
            stacklevel=3,
        )
