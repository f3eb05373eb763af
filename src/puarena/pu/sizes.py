"""How many examples of each class a draw takes, and the errors for what a dataset cannot supply."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from puarena.errors import UserError
from puarena.pu import labeling
from puarena.utils.counts import CLOSE, Counts, round_half_up, truncate

if TYPE_CHECKING:
    from puarena.datasets.base import DatasetFacts, DatasetInfo, Flags
    from puarena.pu.problem import Problem

VALIDATION_FRACTION = 0.1  # of P and of U, held out for model selection
UNCOUNTED_EXAMPLES = 10**9  # assumed for a dataset whose files are not here


@dataclass(frozen=True)
class Sizes:
    """The numbers of labeled and unlabeled examples of a draw."""

    n_p: int
    n_u: int

    @property
    def n(self) -> int:
        """Labeled and unlabeled examples together."""
        return self.n_p + self.n_u

    @property
    def val_p(self) -> int:
        """Labeled positives held out."""
        return truncate(VALIDATION_FRACTION * self.n_p)

    @property
    def val_u(self) -> int:
        """Unlabeled examples held out."""
        return truncate(VALIDATION_FRACTION * self.n_u)


def compute_sizes(size: int, rate: float, prior: float = 0.5, base: float = 0.5) -> Sizes:
    """Return the sizes of a draw from ``size`` examples of which a fraction ``base`` is positive.

    The examples are thinned to ``prior``. The total is the largest for which neither side needs
    more examples than it has.
    """
    n = truncate(size * min(base / prior, (1 - base) / (1 - prior)))
    n_p = round_half_up(rate * n)
    return Sizes(n_p, n - n_p)


class Allocation:
    """The numbers of examples by class that a problem takes from a training pool.

    ``available`` has the examples of each class in the pool. ``base`` is the positive fraction of
    a sample that is drawn from it without thinning.
    """

    def __init__(
        self,
        dataset: DatasetFacts,
        problem: Problem,
        prior: float,
        positive: Flags,
        available: Counts,
    ) -> None:
        self.dataset, self.problem, self.prior, self.available = dataset, problem, prior, available
        self.setting = labeling.get_setting(problem.setting)
        weights = np.ones(len(available)) if dataset.balanced else available.astype(float)
        self.positive, self.negative = weights * positive, weights * ~positive
        for side, share in (("positives", self.positive), ("negatives", self.negative)):
            if not share.sum():
                raise self._error(f"the training pool has no {side}")
        self.base = float(self.positive.sum() / weights.sum())
        # Two samples of given sizes may share examples: in the literature U is often the whole
        # training set.
        self.may_share = problem.labeled is not None and not self.setting.one_sample

    def counts(self) -> tuple[Counts, Counts]:
        """Return the numbers for P and for U by class."""
        demand = self._demand(self.dataset.size)
        if refusal := self.setting.refusal(demand, self.dataset.class_names):
            raise self._error(refusal)
        n = demand.n
        if not (n.val_p and n.val_u):
            raise self._error(
                f"{n.n_p} labeled and {n.n_u} unlabeled examples are too few to hold out 10% of "
                "each for validation; at least 10 of each are needed: use more data or another rate"
            )
        p, u = self.setting.counts(demand)
        missing = self._missing(p, u)
        if missing.any():
            raise self._shortage(p, u, missing)
        return (p if self.may_share else np.minimum(p, self.available - u)), u

    def _demand(self, size: int) -> labeling.Demand:
        n = self.problem.sizes(size, self.prior, self.base)
        return labeling.Demand(n, self.problem.rate, self.prior, self.positive, self.negative)

    def _missing(self, p: Counts, u: Counts) -> Counts:
        """Return the missing examples by class; 0 where the dataset tolerates the shortfall."""
        needed = np.maximum(p, u) if self.may_share else p + u
        missing = np.maximum(needed - self.available, 0)
        if self.setting.may_lack:
            missing[missing <= self.dataset.shortfall * p + CLOSE] = 0
        return missing

    def _shortage(self, p: Counts, u: Counts, missing: Counts) -> UserError:
        worst = int(np.argmax(missing))
        also, hint, remedy = "", "", "use a lower rate or another prior"
        if others := int((missing > 0).sum()) - 1:
            also = f" (and {others} more {'class is' if others == 1 else 'classes are'} short)"
        if self.problem.labeled is not None:
            remedy = "ask for fewer"
        elif fitting := self._largest_size():
            hint = f"; a size of at most {fitting} instead of {self.dataset.size} would fit"
        return self._error(
            f"class '{self.dataset.class_names[worst]}' has {self.available[worst]} training "
            f"examples but {p[worst] + u[worst]} are needed ({u[worst]} unlabeled, {p[worst]} "
            f"labeled), so {missing[worst]} are missing{also}{hint}; {remedy}"
        )

    def _largest_size(self) -> int:
        """Return the largest size of the dataset that its classes can supply."""
        low, high = 0, self.dataset.size
        while high - low > 1:
            middle = (low + high) // 2
            short = self._missing(*self.setting.counts(self._demand(middle))).any()
            low, high = (low, middle) if short else (middle, high)
        return low

    def _error(self, reason: str) -> UserError:
        return UserError(f"{self.problem.label()}: {reason}", "missing-data")


def check_unseen(info: DatasetInfo, problem: Problem) -> None:
    """Raise the error of a draw for what a dataset cannot supply, without its files."""
    positive = info.positive(problem.case)
    base = info.prior_of(problem.case)
    shares = np.where(positive, base / positive.sum(), (1 - base) / (~positive).sum())
    available = np.round(UNCOUNTED_EXAMPLES * shares).astype(np.int64)
    prior = base if problem.prior is None else problem.prior
    Allocation(info, problem, prior, positive, available).counts()
