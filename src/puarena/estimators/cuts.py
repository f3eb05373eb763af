"""Where to cut: decisions from the posterior probabilities of held-out rows, without negatives.

``"model"`` is the model's own cut (probability one half), ``"pa"`` maximizes proxy accuracy. The
others need no more than the posterior ``q``: ``"f1"`` maximizes the expected F1, which is
``2 sum(q over the rows above) / (rows above + sum(q))``; ``"prior"`` predicts as many rows positive
as the prior says there are; ``"cost"`` cuts where the expected costs of both answers are equal;
``"budget"`` predicts as many of the unlabeled rows positive as can be checked.

Lewis: Evaluating and optimizing autonomous text classification systems. SIGIR 1995 (expected F1).
Elkan: The foundations of cost-sensitive learning. IJCAI 2001 (costs).
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from puarena.errors import UserError
from puarena.estimators.calibration import PUScores, fit_threshold

Floats = npt.NDArray[np.float64]

MODEL, PA, F1, PRIOR, COST, BUDGET = "model", "pa", "f1", "prior", "cost", "budget"
CUTS = (MODEL, PA, F1, PRIOR, COST, BUDGET)
MAX_KEPT_ROWS = 5_000  # held-out rows of P, and of U, that a fitted model keeps


@dataclass(frozen=True)
class HeldOutRows:
    """Decisions and probabilities of rows that a model was not fitted to: P first, then U.

    ``rate`` is the share of labeled rows in the data, of which ``unlabeled`` rows have no label.
    """

    decision: Floats
    probability: Floats
    labeled: npt.NDArray[np.bool_]
    prior: float
    rate: float
    unlabeled: int
    one_sample: bool

    @property
    def weight(self) -> Floats:
        """Weights that make the rows a marginal sample, with mean one."""
        share = self.rate if self.one_sample else 0.0
        n_p = int(self.labeled.sum())
        n_u = len(self.labeled) - n_p
        weight = np.where(self.labeled, share / max(n_p, 1), (1 - share) / max(n_u, 1))
        return np.asarray(weight * len(weight))

    def find_cut(self, threshold: str, costs: Any = None, budget: float | None = None) -> float:
        """Return the decision at and above which a row is predicted positive."""
        if threshold == PA:
            p, u = self.decision[self.labeled], self.decision[~self.labeled]
            return fit_threshold(PUScores(p, u, self.prior, self.one_sample))
        if threshold == F1:
            return self._maximize_f1()
        if threshold == PRIOR:
            return self._cut_share(self.decision, self.weight, self.prior)
        if threshold == COST:
            return self._cut_probability(read_costs(costs))
        if threshold == BUDGET:
            decision = self.decision[~self.labeled]
            share = read_budget(budget)
            share = share / self.unlabeled if share >= 1 else share
            return self._cut_share(decision, np.ones(len(decision)), share)
        return 0.0

    def _maximize_f1(self) -> float:
        order = np.argsort(-self.decision, kind="stable")
        value, q, weight = self.decision[order], self.probability[order], self.weight[order]
        above = np.cumsum(weight)
        f1 = 2 * np.cumsum(weight * q) / (above + (weight * q).sum())
        # A cut can only be below the last of equal values.
        is_last = np.append(value[1:] < value[:-1], True)
        best = int(np.argmax(np.where(is_last, f1, -1.0)))
        return _place_between(value, best)

    def _cut_share(self, decision: Floats, weight: Floats, share: float) -> float:
        """Return the cut above which as near to a share of the rows as possible are."""
        order = np.argsort(-decision, kind="stable")
        value = decision[order]
        above = np.append(0.0, np.cumsum(weight[order]) / weight.sum())
        can_cut = np.concatenate([[True], value[1:] < value[:-1], [True]])
        best = int(np.argmin(np.where(can_cut, np.abs(above - share), np.inf)))
        return (
            float(np.nextafter(value[0], np.inf)) if best == 0 else _place_between(value, best - 1)
        )

    def _cut_probability(self, level: float) -> float:
        """Return the decision at which the probability reaches a level."""
        order = np.argsort(self.decision, kind="stable")
        value = self.decision[order]
        q = np.maximum.accumulate(self.probability[order])
        if level <= q[0]:
            return float(value[0])
        if level > q[-1]:
            return float(np.nextafter(value[-1], np.inf))
        at = int(np.searchsorted(q, level))
        rise = q[at] - q[at - 1]
        part = (level - q[at - 1]) / rise if rise > 0 else 1.0
        return float(value[at - 1] + part * (value[at] - value[at - 1]))


def _place_between(value: Floats, last: int) -> float:
    """Return a cut between a value and the next lower one; values decrease."""
    if last + 1 >= len(value):
        return float(value[last])
    return float((value[last] + value[last + 1]) / 2)


def keep_rows(
    p: Floats,
    u: Floats,
    probability_p: Floats,
    probability_u: Floats,
    prior: float,
    rate: float,
    unlabeled: int,
    one_sample: bool,
) -> HeldOutRows:
    """Return held-out rows, of each side at most ``MAX_KEPT_ROWS`` evenly over their order."""
    sides = []
    for decision, probability in ((p, probability_p), (u, probability_u)):
        order = np.argsort(decision, kind="stable")
        if len(order) > MAX_KEPT_ROWS:
            order = order[np.linspace(0, len(order) - 1, MAX_KEPT_ROWS).round().astype(int)]
        sides.append((decision[order], probability[order]))
    (p, q_p), (u, q_u) = sides
    labeled = np.repeat([True, False], [len(p), len(u)])
    decision, probability = np.concatenate([p, u]), np.concatenate([q_p, q_u])
    return HeldOutRows(decision, probability, labeled, prior, rate, unlabeled, one_sample)


def read_costs(costs: Any) -> float:
    """Return the probability above which a row should be predicted positive.

    ``costs`` is a matrix with true classes as rows and predicted ones as columns, negative first,
    as scikit-learn's confusion matrix is; or the costs of a false positive and a false negative.
    """
    if costs is None:
        raise UserError(
            "threshold='cost' needs costs=(of a false positive, of a false negative), or a matrix "
            "[[0, 1], [5, 0]] with true classes as rows, negative first",
            "missing-data",
        )
    try:
        matrix = np.asarray(costs, float)
    except (TypeError, ValueError):
        matrix = np.full((), np.nan)
    if matrix.shape == (2,):
        matrix = np.array([[0.0, matrix[0]], [matrix[1], 0.0]])
    if matrix.shape != (2, 2) or not np.isfinite(matrix).all():
        raise UserError(
            f"costs={costs!r} is neither two numbers nor a 2 x 2 matrix", "invalid-value"
        )
    wrong_positive, wrong_negative = matrix[0, 1] - matrix[0, 0], matrix[1, 0] - matrix[1, 1]
    if not (wrong_positive > 0 and wrong_negative > 0):
        raise UserError(
            f"costs={costs!r}: in each row the wrong prediction must cost more than the right one",
            "invalid-value",
        )
    return float(wrong_positive / (wrong_positive + wrong_negative))


def read_budget(budget: Any) -> float:
    """Return the budget: a number of rows from 1, or a share of them below 1."""
    if budget is None:
        raise UserError(
            "threshold='budget' needs budget=, the number of unlabeled rows that can be checked "
            "(below 1: their share)",
            "missing-data",
        )
    if not isinstance(budget, Real) or isinstance(budget, bool) or not 0 < float(budget) < np.inf:
        raise UserError(f"budget={budget!r} is not a number above 0", "invalid-value")
    return float(budget)
