"""Which columns a model relies on: by how much its PA falls if the values of one are shuffled.

Breiman: Random forests. Machine Learning 45, 2001 (permutation importance).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from puarena.datasets.encoding import TableEncoder
from puarena.estimators.learners import EncodedRows, PUTable
from puarena.estimators.model_selection import compute_criterion

MAX_SAMPLED_ROWS = 1_000  # labeled, and unlabeled, rows that a fitted model keeps
MAX_JUDGED_COLUMNS = 100
REPEATS = 5


@dataclass(frozen=True)
class RowSample:
    """Rows that a model was fitted to, with the fold in which each was held out.

    A fitted model has them in memory, and never in a file.
    """

    rows: EncodedRows
    labeled: npt.NDArray[np.bool_]
    fold: npt.NDArray[np.int64]


def draw_sample_of_rows(
    table: PUTable, fold: npt.NDArray[np.int64], among: npt.NDArray[np.int64] | None = None
) -> RowSample:
    """Draw labeled and unlabeled rows of a table; by default from all of its rows."""
    among = np.arange(len(fold)) if among is None else among
    rng = np.random.default_rng(table.seed)
    sides = []
    for side in (True, False):
        rows = among[table.labels.positive[among] == side]
        sides.append(rng.permutation(rows)[:MAX_SAMPLED_ROWS])
    chosen = np.sort(np.concatenate(sides))
    return RowSample(table.rows[chosen], table.labels.positive[chosen], fold[chosen])


@dataclass(frozen=True)
class Importance:
    """The loss of PA if a column is shuffled: mean and standard deviation over shuffles."""

    column: str
    loss: float
    deviation: float


def compute_importances(model: Any, seed: int = 0) -> list[Importance]:
    """Return the importance of the columns of a fitted model, the greatest first.

    Of a table with more than ``MAX_JUDGED_COLUMNS`` columns, those are judged that alone tell
    labeled from unlabeled rows best. The list is empty if the model has no rows, since it was
    loaded from a file or fitted to a sparse matrix.
    """
    sample: RowSample | None = getattr(model, "sample_", None)
    encoder: TableEncoder | None = model.encoder_
    if sample is None or encoder is None:
        return []
    places = encoder.find_places()
    if len(places) > MAX_JUDGED_COLUMNS:
        contrast = _compute_contrast(sample, [place[0] for place in places.values()])
        best = np.argsort(-contrast, kind="stable")[:MAX_JUDGED_COLUMNS]
        kept = set(best.tolist())
        places = {name: place for at, (name, place) in enumerate(places.items()) if at in kept}
    rng = np.random.default_rng(seed)
    whole = _compute_pa(model, sample, sample.rows)
    found = []
    for name, place in places.items():
        losses = []
        for _ in range(REPEATS):
            order = rng.permutation(len(sample.labeled))
            losses.append(whole - _compute_pa(model, sample, _shuffle(sample.rows, place, order)))
        found.append(Importance(name, float(np.mean(losses)), float(np.std(losses, ddof=1))))
    return sorted(found, key=lambda each: -each.loss)


def _compute_pa(model: Any, sample: RowSample, rows: EncodedRows) -> float:
    decision = model.model_.decide(rows, sample.fold) - model.shift_
    held = model.held_out_
    p, u = decision[sample.labeled], decision[~sample.labeled]
    return compute_criterion("pa", p, u, model.prior_, held.one_sample, held.rate)


def _shuffle(
    rows: EncodedRows,
    place: tuple[list[int], list[int], list[int]],
    order: npt.NDArray[np.int64],
) -> EncodedRows:
    """Return rows in which a column, in all forms, is that of other rows."""
    dense, tree = rows.dense.copy(), rows.tree.copy()
    dense[:, place[0]] = rows.dense[order][:, place[0]]
    tree[:, place[1]] = rows.tree[order][:, place[1]]
    words = rows.words
    if words is not None:
        from scipy import sparse

        at = np.arange(words.shape[1])
        kept = sparse.diags((~np.isin(at, place[2])).astype(float))
        moved = sparse.diags(np.isin(at, place[2]).astype(float))
        words = (words @ kept + words[order] @ moved).tocsr()
    return EncodedRows(dense, tree, words)


def _compute_contrast(sample: RowSample, places: list[list[int]]) -> npt.NDArray[np.float64]:
    """Return how far labeled and unlabeled rows differ by column, in standard deviations."""
    x = np.asarray(sample.rows.dense)
    spread = x.std(0)
    gap = np.abs(x[sample.labeled].mean(0) - x[~sample.labeled].mean(0))
    gap = np.divide(gap, spread, out=np.zeros_like(gap), where=spread > 0)
    return np.array([gap[place].max() if place else 0.0 for place in places])
