"""Learning batch by batch, where the classifier that :class:`PUClassifier` was given can."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_consistent_length, check_random_state, column_or_1d
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _check_sample_weight

from puarena.classics.wrapper import fit_weighted
from puarena.estimators import portfolio
from puarena.estimators.learners import Given, PUTable
from puarena.estimators.training import hold_out
from puarena.pu import labeling
from puarena.pu.labels import Labels

KEPT = 5_000  # held-out rows of P and of U that are kept, the newest
ENOUGH = 20  # held-out rows of a side, below which a model is judged by the rows it has just seen as well


@dataclass
class Stream:
    """What is remembered between batches: counts, which values of ``y`` there are, and held-out rows of P and U."""

    labeled: int
    rows: int
    values: Any = None  # of ``y`` in the first batch; None: any, one of them is named positive
    held: list[Any] = field(default_factory=lambda: [None, None])

    def keep(self, side: int, x: Any) -> None:
        """Remember held-out rows of one side."""
        self.held[side] = _joined([self.held[side], x])[-KEPT:]

    def judged(self, seen: list[Any]) -> list[Any]:
        """Rows of P and of U to judge a model by."""
        few = min(0 if x is None else x.shape[0] for x in self.held) < ENOUGH
        return [
            _joined([held, x]) if few else held for held, x in zip(self.held, seen, strict=True)
        ]


def _joined(parts: list[Any]) -> Any:
    """Rows below rows, dense or sparse."""
    own = [part for part in parts if part is not None]
    return sparse.vstack(own).tocsr() if sparse.issparse(own[0]) else np.concatenate(own)


class PartialFit(BaseEstimator):
    """The part of :class:`PUClassifier` that learns batch by batch."""

    @available_if(lambda self: hasattr(self.algorithm, "partial_fit"))
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Any:
        """Learn from one more batch of rows; there where the classifier given as ``algorithm`` has ``partial_fit``.

        The first batch (or an earlier ``fit``) says how columns are read and, unless ``prior`` is a number, what the
        prior is: it should be large, and needs labeled and unlabeled rows. Later ones may be of one kind.
        ``validation_fraction`` of every batch is never learned from: threshold and probabilities come from these
        rows, of which the last 5,000 of each kind are kept.

        Parameters
        ----------
        X, y, sample_weight : as for ``fit``
            A batch.
        classes : ignored
            The first batch has both; here for scikit-learn's convention.

        Returns
        -------
        PUClassifier
            Itself.
        """
        if hasattr(self, "stream_"):
            table = self._batch(X, y, sample_weight)
            (member,) = self.ensemble_.parts[0].members
        else:
            table = self._table(X, y, sample_weight)
            learner = Given(self.algorithm)
            if why := learner.refusal(table):
                raise ValueError(f"{why}.")
            member = learner.fresh(table, check_random_state(table.seed))
            self._begin(table, y)
        x = table.tree if member.trees else table.dense
        rng, seen = check_random_state((table.seed + self.stream_.rows) % 2**31), []
        for side, flags in enumerate((table.labels.positive, ~table.labels.positive)):
            rows = np.flatnonzero(flags)
            kept, held = (
                hold_out(rows, self.validation_fraction, rng) if len(rows) > 1 else (rows, rows[:0])
            )
            self.stream_.keep(side, x[held])
            seen.append(kept)
        rows = np.sort(np.concatenate(seen))
        weights = None if table.plain else table.weights(rows)
        fit_weighted(member.estimator, x[rows], table.target[rows], weights, partly=True)
        sides = self.stream_.judged([x[kept] for kept in seen])
        score = np.concatenate([member.score(side, side) for side in sides])
        labeled = np.arange(len(score)) < sides[0].shape[0]
        if (
            not labeled.any() or labeled.all()
        ):  # ``fit``, then a batch of one kind: threshold and probabilities stay
            return self
        judged = replace(table, labels=Labels(labeled, np.zeros(len(score), bool), self.classes_))
        self._take(portfolio.only(Given(self.algorithm).name, member, score, judged), judged)
        return self

    def _begin(self, table: PUTable, y: Any) -> None:
        """Start counting, from a table that is learned from."""
        named = self.positive_label is not None
        self.stream_ = Stream(
            round(table.rate * table.rows), table.rows, None if named else np.unique(np.asarray(y))
        )
        self.negative_known_ = bool(table.labels.negative.any())

    def _batch(self, X: Any, y: Any, sample_weight: Any) -> PUTable:
        """A batch after the first, read as that was."""
        X, y = self._checked(X), column_or_1d(y)
        check_consistent_length(X, y)
        known = self.stream_.values
        if known is not None and (new := np.setdiff1d(y, known)).size:
            raise ValueError(
                f"y has the value {new.tolist()[0]!r}, which no earlier batch has; name positive_label."
            )
        positive = np.asarray(y == self.classes_[1], bool)
        negative = np.asarray(y == self.classes_[0], bool) & self.negative_known_
        weight = (
            None
            if sample_weight is None
            else _check_sample_weight(sample_weight, X, dtype=np.float64)
        )
        self.stream_.labeled += int(positive.sum())
        self.stream_.rows += len(positive)
        dense, tree = self._forms(X)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        rate = self.stream_.labeled / self.stream_.rows
        return PUTable(
            dense,
            tree,
            Labels(positive, negative, self.classes_),
            weight,
            self.prior_,
            labeling.get_setting(self.setting),
            seed,
            rate,
            self.stream_.rows,
            self.n_jobs,
        )
