"""Fit a model to a user's table in one call and describe it: the work of ``puarena fit``."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from puarena import catalog
from puarena.datasets.encoding import WORDS
from puarena.errors import UserError
from puarena.estimators.classifier import AUTO, PUClassifier
from puarena.estimators.learners import describe_report
from puarena.estimators.model_selection import get_pu_criterion
from puarena.estimators.network import PUNetClassifier
from puarena.estimators.prior_knowledge import describe_interval
from puarena.estimators.scar import describe_bias
from puarena.estimators.search import PUSearch
from puarena.pu import labeling


@dataclass(frozen=True)
class TableFit:
    """A model fitted to a table, and what is reported about it."""

    model: Any
    search: PUSearch | None
    selection: str
    notes: list[str]  # warnings of this package while the model was fitted
    bias_warning: str  # empty unless labels do not look given at random
    labeled: int
    unlabeled: int
    features: int
    unlabeled_positive: float  # share of the unlabeled rows that are predicted positive

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain data."""
        return {
            "labeled": self.labeled,
            "unlabeled": self.unlabeled,
            "features": self.features,
            "columns": self._list_columns(),
            "algorithm": self.model.algorithm_,
            "prior": self.model.prior_,
            "prior_interval": list(self.model.prior_interval_),
            "selection": self.selection,
            "score": self.model.best_score_,
            "unlabeled_positive": self.unlabeled_positive,
        }

    def describe(self) -> str:
        """Return the result as text of a few lines."""
        lines = [f"columns {line}" for line in self._list_columns()]
        if self.search is not None:
            lines.append(self.search.table())
        if len(self.model.report_) > 1:
            lines.append(describe_report(self.model.report_))
            lines.append("(* is used. Higher is better; measured on rows not used to fit them)")
        lines += [self._describe_model(), self._describe_prior()]
        return "\n".join(lines)

    def _list_columns(self) -> list[str]:
        """Return which columns were left out or read in a way of their own."""
        return [] if self.model.encoder_ is None else self.model.encoder_.describe()

    def _describe_model(self) -> str:
        model = self.model
        prior = f"prior {describe_interval(model.prior_interval_, model.prior_)}"
        score = f"{get_pu_criterion(self.selection).title} {model.best_score_:.4f}"
        if hasattr(model, "best_step_") and len(model.model_.parts[0].models) == 1:
            score = f"step {model.best_step_:,} kept with {score}"
        return (
            f"{model.algorithm_}: {self.labeled:,} labeled and {self.unlabeled:,} unlabeled rows, "
            f"{self.features} features, {prior}; {score}"
        )

    def _describe_prior(self) -> str:
        model = self.model
        low, high = (100 * end for end in model.prior_interval_)
        one_sample = labeling.get_setting(model.setting).one_sample
        rows = "all rows" if one_sample else "the unlabeled rows"
        share = f"{low:.3g}%" if low == high else f"between {low:.2g}% and {high:.2g}%"
        return (
            f"{share} of {rows} are positive; "
            f"{100 * self.unlabeled_positive:.1f}% of the unlabeled rows are predicted positive"
        )


def fit_table(
    X: Any,
    y: npt.NDArray[np.int64],
    *,
    algorithm: str = "auto",
    prior: float | str | Sequence[float] = "estimate",
    label_frequency: float | Sequence[float] | None = None,
    setting: str = "one-sample",
    selection: str = "pa",
    threshold: str = "model",
    costs: Any = None,
    budget: float | None = None,
    text: str = WORDS,
    groups: Any = None,
    steps: int = 2000,
    search: int = 1,
    random_state: int = 0,
    device: str = "auto",
    verbose: bool = False,
) -> TableFit:
    """Fit a model to a table; ``fitted.model.save(file)`` saves it.

    Parameters
    ----------
    X : data frame
        The feature columns.
    y : ndarray of shape (n_samples,)
        1 for labeled positives, 0 for unlabeled rows, -1 for known negatives.
    algorithm : str, default="auto"
        ``"auto"`` or a name in ``puarena list algorithms``.
    prior, label_frequency, setting, selection, threshold, costs, budget, text : optional
        As in :class:`PUClassifier`.
    groups : array-like of shape (n_samples,), optional
        As for :meth:`PUClassifier.fit`.
    random_state, device : optional
        As in :class:`PUClassifier`.
    steps : int, default=2000
        Training steps of a named algorithm, and of the configurations of a search.
    search : int, default=1
        Configurations of a network to try; 1: no search.
    verbose : bool, default=False
        Whether to print progress.

    Returns
    -------
    TableFit
        The fitted model and what describes it.
    """
    if search > 1 and algorithm in catalog.names("classic"):
        raise UserError(
            f"'{algorithm}' is fitted at once and has nothing to search; omit --search", "conflict"
        )
    model = _make_model(
        algorithm,
        steps,
        search,
        prior=prior,
        label_frequency=label_frequency,
        setting=setting,
        selection=selection,
        threshold=threshold,
        costs=costs,
        budget=budget,
        text=text,
        random_state=random_state,
        device=device,
        verbose=int(verbose),
    )
    if groups is not None and not isinstance(model, PUClassifier):
        raise UserError(
            f"'{model.algorithm}' cannot keep groups together; use 'auto' or a classic",
            "not-supported",
        )
    race = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        if search > 1:
            race = PUSearch(model, n_iter=search, criterion=selection, random_state=random_state)
            model = race.fit(X, y).best_estimator_
        elif isinstance(model, PUClassifier):
            model.fit(X, y, groups=groups)
        else:
            model.fit(X, y)
    return TableFit(
        model=model,
        search=race,
        selection=selection,
        notes=_list_notes(caught),
        bias_warning=_describe_network_bias(model, X, y == 1, setting),
        labeled=int((y == 1).sum()),
        unlabeled=int((y == 0).sum()),
        features=X.shape[1],
        unlabeled_positive=float((model.decision_function(X) > 0)[y == 0].mean()),
    )


def _describe_network_bias(model: Any, X: Any, labeled: Any, setting: str) -> str:
    """Return the warning that other models give when they are fitted."""
    if not isinstance(model, PUNetClassifier):
        return ""
    return describe_bias(X, labeled, setting, model.prior_)


def _make_model(
    algorithm: str, steps: int, search: int, **params: Any
) -> PUClassifier | PUNetClassifier:
    """Return the estimator for an algorithm; the search of "auto" is one over its networks."""
    if algorithm == AUTO and search > 1:
        algorithm = "nnpu"
    if algorithm == AUTO or catalog.get(algorithm).is_classic:
        return PUClassifier(algorithm, **params)
    return PUNetClassifier(algorithm, steps=steps, **params)


def _list_notes(caught: list[warnings.WarningMessage]) -> list[str]:
    """Return the texts of this package's own warnings, each once."""
    own = [item for item in caught if item.category.__module__.startswith("puarena")]
    return list(dict.fromkeys(str(item.message) for item in own))
