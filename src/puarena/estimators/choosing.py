"""Which learners :class:`PUClassifier` tries, from what its parameters name."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator

from puarena import catalog
from puarena.errors import UserError
from puarena.estimators import portfolio
from puarena.estimators.learners import MANY, Given, Learner, Linear, Networks, PUTable, Trees
from puarena.estimators.network_fit import SHORT

AUTO, ENSEMBLE = "auto", "nnpu"  # the portfolio, and the algorithm of its networks
FEW = 200  # labels, below which a named algorithm is trained as an ensemble over folds


class Choosing(BaseEstimator):
    """The part of :class:`PUClassifier` that knows what its parameters name."""

    def _named(self) -> bool:
        """Is it a network algorithm by its name?"""
        return (
            isinstance(self.algorithm, str)
            and self.algorithm != AUTO
            and not self._entry().is_classic
        )

    def _ensemble_of(self, table: PUTable) -> int:
        """How many networks a named algorithm is trained as."""
        if self.members != "auto":
            return int(self.members)
        return (
            1 if int(table.target.sum()) >= FEW or table.propensity is not None else portfolio.FOLDS
        )

    def _check_base(self) -> None:
        """Refuse a ``base`` that nothing would wrap."""
        classic = (
            isinstance(self.algorithm, str) and self.algorithm != AUTO and self._entry().is_classic
        )
        if self.base is None or (
            classic and "estimator" in self._entry().make_estimator(0).get_params(deep=False)
        ):
            return
        name = self.algorithm if isinstance(self.algorithm, str) else type(self.algorithm).__name__
        raise ValueError(
            f"base={type(self.base).__name__} has no use with algorithm={name!r}: only classics wrap a classifier; "
            f"PUClassifier({type(self.base).__name__}()) uses it alone."
        )

    def _entry(self) -> Any:
        try:
            return catalog.get(self.algorithm)
        except UserError as error:
            raise ValueError(str(error)) from None

    def _learners(self) -> list[Learner]:
        """The learners to try."""
        if not isinstance(self.algorithm, str):
            return [Given(self.algorithm)]
        if self.algorithm == AUTO:
            name = self._registered(ENSEMBLE)
            networks = Networks(
                lambda table, fold: self._train_folds(table, fold, name, **SHORT), MANY
            )
            return [Linear(), Trees(), networks]
        entry = self._entry()
        if entry.is_classic:
            classic = entry.make_estimator(0)
            own = {"estimator": self.base, "n_jobs": self.n_jobs, "verbose": self.verbose or None}
            known = classic.get_params(deep=False)
            classic.set_params(
                **{key: value for key, value in own.items() if value is not None and key in known}
            )
            return [Given(classic, entry.name)]
        name = self._registered()
        return [Networks(lambda table, fold: self._train_folds(table, fold, name))]
