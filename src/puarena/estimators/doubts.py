"""Reasons to doubt a fit, each a warning that says what was seen and what can be done.

They are about the prior, the rows, features that know the label, and labels that are not what they
seem.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.stats import rankdata

from puarena.datasets.encoding import TableWarning
from puarena.errors import PUWarning, warn_once
from puarena.estimators.evaluation import compute_proxy_auc
from puarena.estimators.learners import PUTable
from puarena.estimators.model_selection import MisuseWarning
from puarena.estimators.scar import describe_bias
from puarena.priors.estimate import MAX_RELIABLE_PRIOR, MIN_RELIABLE_LABELS
from puarena.priors.sample import PriorWarning

Floats = npt.NDArray[np.float64]

# Chosen on the tables that defaults were chosen on: 86 % of the priors that are off by more than .1
# are warned of, and 46 % of those that are off by less than .05 (75 and 24 % from 50 labels).
MAX_WIDTH, MAX_RATIO = 0.4, 10.0
MAX_DISAGREEMENT = 0.25
BBE_CONFIDENCE = 0.1
MIN_ERRORS = 2.0  # standard errors by which P must be ranked above U
MIN_COPIES, MIN_COPIED_SHARE = 3, 0.02  # of unlabeled rows that are copies of labeled ones
COPIES_RATIO = 3.0  # to the copies of as many unlabeled rows, which are to be expected
MAX_COMPARED_ROWS = 20_000


class DataWarning(PUWarning):
    """The rows or labels of a table are not what a classifier of this package expects."""


def warn_of_fit(
    table: PUTable,
    score: Floats,
    value: float,
    interval: tuple[float, float] | None,
    names: Sequence[str] | None = None,
) -> None:
    """Issue a warning for every reason to doubt a model, from held-out scores of all its rows.

    ``value`` and ``interval`` are those of the prior; without an interval it is not judged.
    ``names`` are those of the columns of the dense form.
    """
    p, u = score[table.labels.positive], score[~table.labels.positive]
    if interval is not None:
        for text in find_prior_doubts(table, p, u, value, interval):
            warnings.warn(text, PriorWarning, stacklevel=4)
    for text in find_data_doubts(table, p, u, value, names):
        warnings.warn(text, DataWarning, stacklevel=4)


def find_prior_doubts(
    table: PUTable, p: Floats, u: Floats, value: float, interval: tuple[float, float]
) -> Iterator[str]:
    """Yield the reasons to doubt an estimated prior."""
    low, high = interval
    if low == high:
        return
    between = f"between {low:.3g} and {high:.3g}"
    advice = (
        "give a range if you know one, prior=(low, high) or label_frequency=(low, high), or check "
        "some rows by hand (puarena.estimators.choose_checks)"
    )
    if high - low > MAX_WIDTH or high > MAX_RATIO * low:
        few = f" ({len(p)} are labeled)" if len(p) < MIN_RELIABLE_LABELS else ""
        yield f"the data tell little of the share of positives{few}: it is {between}; {advice}"
    if value > MAX_RELIABLE_PRIOR:
        yield (
            f"the share of positives is estimated at {value:.2f}: nearly all rows would be "
            f"positive; perhaps no feature tells positives from negatives: {advice}"
        )
    other = float(table.setting.prior_from_u(_estimate_by_bbe(p, u), table.rate))
    if other < low or abs(other - value) > MAX_DISAGREEMENT:
        yield (
            f"two estimators disagree about the share of positives: {value:.2f} and {other:.2f} "
            f"(BBE); {advice}"
        )


def _estimate_by_bbe(p: Floats, u: Floats) -> float:
    """Return the share of positives in U by best bin estimation (Garg et al., NeurIPS 2021)."""
    sorted_p, sorted_u = np.sort(p), np.sort(u)
    cuts = np.unique(sorted_p)
    above_p = 1 - np.searchsorted(sorted_p, cuts, "left") / len(p)
    above_u = 1 - np.searchsorted(sorted_u, cuts, "left") / len(u)
    slack = sum(np.sqrt(np.log(4 / BBE_CONFIDENCE) / (2 * n)) for n in (len(p), len(u)))
    best = int(np.argmin((above_u + slack) / above_p))
    return min(float(above_u[best] / above_p[best]), 1.0)


def find_data_doubts(
    table: PUTable, p: Floats, u: Floats, value: float, names: Sequence[str] | None = None
) -> Iterator[str]:
    """Yield what is wrong with rows or labels."""
    auc, error = compute_proxy_auc(p, u)
    if auc - MIN_ERRORS * error < 0.5:
        yield (
            f"the features hardly tell labeled from unlabeled rows: of rows that were held out, a "
            f"labeled one ranks above an unlabeled one in {auc:.0%} (± {MIN_ERRORS * error:.0%}) "
            "of pairs; predictions are little better than chance"
        )
    copies = _count_copies(table)
    if copies:
        yield (
            f"{copies:,} unlabeled rows are copies of labeled ones: drop repeated rows, or name "
            "the rows that belong together with fit(…, groups=…), or held-out scores are too good"
        )
    if sparse.issparse(table.rows.dense):
        return
    title = table.setting.title
    bias = describe_bias(table.rows.dense, table.labels.positive, title, value, names)
    if bias:
        yield bias


def _count_copies(table: PUTable) -> int:
    """Return how many unlabeled rows are copies of labeled ones, if that is not to be expected."""
    x = table.rows.dense
    if table.groups is not None or sparse.issparse(x) or len(x) > MAX_COMPARED_ROWS:
        return 0
    rows = np.ascontiguousarray(x).view(np.dtype((np.void, x.dtype.itemsize * x.shape[1]))).ravel()
    positive = table.labels.positive
    of_u = np.random.default_rng(table.seed).permutation(rows[~positive])
    copies = int(np.isin(of_u, rows[positive]).sum())
    # Rows of few values, or with gaps, are alike without being copies: as many unlabeled rows.
    others = of_u[: min(int(positive.sum()), len(of_u) // 2)]
    alike = np.isin(of_u[len(others) :], others).mean() * len(of_u)
    least = max(MIN_COPIES, MIN_COPIED_SHARE * positive.sum(), COPIES_RATIO * alike)
    return copies if copies >= least else 0


MAX_CELLS = 10_000_000  # of the part of a table that is looked at
MAX_RANKED_ROWS = 10_000
MIN_LABELS = 10  # with fewer, many features separate them by chance
LEAK_AUC = 0.99
MAX_NAMED = 5  # features in a warning
NEAR_FREQUENCY = 0.95  # of the positives labeled: nearly all
MAX_DIFFERENT = 0.9  # of the rows have a value of their own: the others may belong together


def warn_of_leaks(
    values: npt.NDArray[np.float64],
    names: Sequence[str],
    labeled: npt.NDArray[np.bool_],
) -> None:
    """Warn of features that alone tell labeled rows from the others.

    Positives among the unlabeled rows keep an honest feature from doing so.
    """
    rows = min(MAX_RANKED_ROWS, max(MAX_CELLS // max(values.shape[1], 1), 100))
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


def warn_of_groups(X: Any, identifiers: Sequence[str]) -> None:
    """Warn of rows that share a value of a column that was left out for identifying rows."""
    shared = []
    for name in identifiers:
        different = X[name].nunique() if hasattr(X[name], "nunique") else X[name].n_unique()
        if 1 < different < MAX_DIFFERENT * len(X):
            shared.append(f"'{name}'")
    if shared:
        warnings.warn(
            f"many rows have the same {' or '.join(shared)}: if they belong together, hold them "
            f"out together, fit(…, groups=X[{shared[0]}]) (on the command line: --groups), or "
            "held-out scores are too good",
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
        warn_once(
            "score(X, y) is for true classes, and y has far fewer positives than the prior says: "
            "unlabeled rows seem to count as negative. Use scoring=PUScorer('pa') in a search, or "
            "proxy_accuracy(model, X, y)",
            MisuseWarning,
        )
