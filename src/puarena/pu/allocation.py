"""How many examples of each class a draw takes, and what to say when the pool cannot supply them."""

from __future__ import annotations

import numpy as np

from puarena.datasets.dataset import Dataset, DatasetInfo, Flags
from puarena.errors import UserError
from puarena.pu import labeling
from puarena.pu.labeling import Demand
from puarena.pu.problem import Problem
from puarena.utils.counts import CLOSE, Counts

PLENTY = 10**9  # examples of a dataset that nobody has counted yet


class Allocation:
    """The numbers of one problem, from the training examples that are ``available`` of each class."""

    def __init__(
        self,
        dataset: Dataset | DatasetInfo,
        problem: Problem,
        prior: float,
        positive: Flags,
        available: Counts,
    ) -> None:
        self.dataset, self.problem, self.prior, self.available = dataset, problem, prior, available
        self.setting = labeling.get(problem.setting)
        weights = np.ones(len(available)) if dataset.balanced else available.astype(float)
        self.positive, self.negative = weights * positive, weights * ~positive
        for side, total in (("positives", self.positive.sum()), ("negatives", self.negative.sum())):
            if not total:
                raise UserError(f"{self._where()}: the training pool has no {side}")
        self.base = float(self.positive.sum() / weights.sum())
        # Two samples of given sizes may share examples: in the literature U is often the whole training set.
        self.shared = problem.labeled is not None and not self.setting.one_sample

    def counts(self) -> tuple[Counts, Counts]:
        """Return the numbers for P and U by class."""
        demand = self._demand(self.dataset.size)
        if refusal := self.setting.refusal(demand, self.dataset.class_names):
            raise UserError(f"{self._where()}: {refusal}")
        n = demand.n
        if not (n.val_p and n.val_u):
            raise UserError(
                f"{self._where()}: {n.n_p} labeled and {n.n_u} unlabeled examples are too few, at least 10 of each are "
                "needed to hold out 10% for validation; use more data or another rate"
            )
        p, u = self.setting.counts(demand)
        lack = self._lack(p, u)
        if lack.any():
            raise self._shortage(p, u, lack)
        return (p if self.shared else np.minimum(p, self.available - u)), u

    def _demand(self, size: int) -> Demand:
        n = self.problem.sizes(size, self.prior, self.base)
        return Demand(n, self.problem.rate, self.prior, self.positive, self.negative)

    def _lack(self, p: Counts, u: Counts) -> Counts:
        """Missing examples by class; 0 where the shortfall is one the dataset tolerates."""
        needed = np.maximum(p, u) if self.shared else p + u
        missing = np.maximum(needed - self.available, 0)
        tolerated = (
            self.dataset.shortfall * p + CLOSE if self.setting.may_lack else np.zeros(len(p))
        )
        return np.where(missing > tolerated, missing, 0)

    def _shortage(self, p: Counts, u: Counts, lack: Counts) -> UserError:
        worst = int(np.argmax(lack))
        others = int((lack > 0).sum()) - 1
        also = (
            f" (and {others} more {'class is' if others == 1 else 'classes are'} short)"
            if others
            else ""
        )
        fitting = 0 if self.problem.labeled is not None else self._largest_size()
        hint = (
            f"; a size of at most {fitting} instead of {self.dataset.size} would fit"
            if fitting
            else ""
        )
        remedy = (
            "ask for fewer"
            if self.problem.labeled is not None
            else "use a lower rate or another prior"
        )
        return UserError(
            f"{self._where()}: class '{self.dataset.class_names[worst]}' has {self.available[worst]} training examples "
            f"but {p[worst] + u[worst]} are needed ({u[worst]} unlabeled, {p[worst]} labeled), so {lack[worst]} are "
            f"missing{also}{hint}; {remedy}"
        )

    def _largest_size(self) -> int:
        low, high = 0, self.dataset.size
        while high - low > 1:
            middle = (low + high) // 2
            short = self._lack(*self.setting.counts(self._demand(middle))).any()
            low, high = (low, middle) if short else (middle, high)
        return low

    def _where(self) -> str:
        return self.problem.label()


def check_unseen(info: DatasetInfo, problem: Problem) -> None:
    """Refuse what no draw can give, in the words of a draw, as far as that is known without the dataset's files."""
    info.check_case(problem.case)
    positive = np.isin(np.arange(info.class_count), info.cases[problem.case])
    base = info.prior_of(problem.case)
    shares = np.where(positive, base / positive.sum(), (1 - base) / (~positive).sum())
    prior = base if problem.prior is None else problem.prior
    Allocation(info, problem, prior, positive, np.round(PLENTY * shares).astype(np.int64)).counts()
