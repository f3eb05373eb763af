"""From the store to scores, a line per block and a column per algorithm, and everything that is said about them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from puarena.errors import UserError, unknown
from puarena.metrics import METRICS
from puarena.report.evidence import with_words
from puarena.report.select import select
from puarena.report.sources import Source, opened
from puarena.report.statistics.pairs import differences, wilcoxon
from puarena.report.statistics.ranking import friedman, mean_ranks, nemenyi
from puarena.report.statistics.results import OVER, Statistics
from puarena.report.table import only

if TYPE_CHECKING:
    from pandas import DataFrame


def scores(
    source: Source,
    metric: str = "accuracy",
    criterion: str = "pa",
    over: str = "problems",
    algorithms: Sequence[str] | None = None,
) -> DataFrame:
    """Test results as shown: a line per block, a column per algorithm, NaN where there is none.

    A method that sees the true labels takes part only if it is among ``algorithms``.
    """
    curves = opened(source)
    (metric,), (criterion,) = curves.metrics(metric), curves.criteria(criterion)
    if over not in OVER:
        raise unknown("kind of block", over, OVER)
    return _scores(select(curves, criterion), metric, criterion, over, algorithms)


def _scores(
    selection: DataFrame, metric: str, criterion: str, over: str, algorithms: Sequence[str] | None
) -> DataFrame:
    """Scores out of a selection by several criteria."""
    record = METRICS[metric]
    chosen = selection[selection["criterion"] == criterion]
    chosen = chosen[~chosen["supervised"]] if algorithms is None else only(chosen, algorithms)
    frame = with_words(chosen).assign(score=record.factor * chosen[record.column].astype(float))
    index = ["problem"] if over == "problems" else ["problem", "split"]
    table: DataFrame = frame.groupby([*index, "method"])["score"].mean().unstack("method")
    return table


def _complete(scores: DataFrame) -> tuple[DataFrame, list[str]]:
    """Only the blocks in which every algorithm has a result, and a sentence about the others."""
    full = scores.dropna(axis=0, how="any")
    lacking = scores.columns[scores.isna().any()]
    if len(full) == len(scores):
        return full, []
    listed = ", ".join(lacking[:5]) + (", ..." if len(lacking) > 5 else "")
    left_out = len(scores) - len(full)
    return full, [
        f"{left_out} of {len(scores)} blocks left out because an algorithm has no result there ({listed}); "
        "--algorithms chooses others."
    ]


def statistics(
    source: Source,
    metrics: Iterable[str] | str | None = None,
    criteria: Iterable[str] | str | None = None,
    over: str = "problems",
    algorithms: Sequence[str] | None = None,
    reference: str | None = None,
    seed: int = 0,
) -> list[Statistics]:
    """All statistics per metric (the first unless told) and criterion (those of the profile unless told).

    Blocks are the problems, or, ``over="splits"``, the splits of all problems. ``reference``: test pairs with this
    algorithm only, and take differences from it (from the algorithm of the best mean rank unless told).
    """
    curves = opened(source)
    chosen = curves.metrics(metrics)[: None if metrics else 1]
    by = curves.criteria(criteria)
    if over not in OVER:
        raise unknown("kind of block", over, OVER)
    selection = select(curves, by)
    return [_one(selection, m, c, over, algorithms, reference, seed) for m in chosen for c in by]


def _one(
    selection: DataFrame,
    metric: str,
    criterion: str,
    over: str,
    algorithms: Sequence[str] | None,
    reference: str | None,
    seed: int,
) -> Statistics:
    higher = METRICS[metric].higher
    blocks, notes = _complete(_scores(selection, metric, criterion, over, algorithms))
    splits, _ = _complete(_scores(selection, metric, criterion, "splits", algorithms))
    if over == "splits":
        notes.append("Splits of one problem share data: such tests find differences too easily.")
    order = mean_ranks(blocks, seed, higher)
    listed = tuple(item.algorithm for item in order.items)
    if reference is not None and not listed:
        raise UserError(f"'{reference}' cannot be compared: no block has a result of every algorithm")
    if reference is not None and reference not in listed:
        raise unknown("algorithm", reference, listed)
    return Statistics(
        metric=metric,
        criterion=criterion,
        over=over,
        algorithms=listed,
        blocks=tuple(name if isinstance(name, str) else f"{name[0]}, split {name[1]}" for name in blocks.index),
        ranks=order,
        friedman=friedman(blocks, higher),
        nemenyi=nemenyi(blocks, higher=higher),
        wilcoxon=wilcoxon(blocks, reference),
        differences=differences(splits, reference or (listed[0] if listed else ""), seed, higher),
        notes=tuple(notes),
    )
