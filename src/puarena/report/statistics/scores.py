"""From the store to scores, a line per block and a column per algorithm, and everything that is said about them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from puarena.errors import UserError, unknown_name
from puarena.metrics import METRICS
from puarena.report.evidence import with_words
from puarena.report.select import select
from puarena.report.sources import Source, opened
from puarena.report.statistics.aggregates import (
    gaps_closed,
    improvability,
    intervals_over_problems,
    means_and_errors,
    profiles,
    quartile_means,
)
from puarena.report.statistics.bayes import signed_rank
from puarena.report.statistics.draws import draws, problem_means
from puarena.report.statistics.elo import elo
from puarena.report.statistics.pairs import differences, duels, wilcoxon
from puarena.report.statistics.ranking import friedman, mean_ranks, nemenyi
from puarena.report.statistics.results import OVER, Intervals, Statistics
from puarena.report.statistics.standing import standings
from puarena.report.table import only

if TYPE_CHECKING:
    from pandas import DataFrame

ELO_REFERENCE = "nnpu"  # has 1000 where it takes part
ROPE = 0.01  # of the metric's range: differences up to this are practically none


@dataclass(frozen=True)
class Scores:
    """Test results, as shown, of one metric of the models that one criterion chose."""

    splits: (
        DataFrame  # of what competes: a line per problem and split, NaN where there is no result
    )
    baselines: DataFrame  # of reference baselines: a line per problem, the columns ``naive`` and ``oracle``
    datasets: dict[str, str]  # of every problem

    def over(self, blocks: str) -> DataFrame:
        """A line per problem, or per problem and split."""
        return problem_means(self.splits) if blocks == "problems" else self.splits


def scores(
    source: Source,
    metric: str = "accuracy",
    criterion: str = "pa",
    over: str = "problems",
    algorithms: Sequence[str] | None = None,
) -> DataFrame:
    """Test results as shown: a line per block, a column per algorithm, NaN where there is none.

    Reference baselines, among them those that see the true labels, do not compete.
    """
    curves = opened(source)
    (metric,), (criterion,) = curves.metrics(metric), curves.criteria(criterion)
    if over not in OVER:
        raise unknown_name("kind of block", over, OVER)
    chosen = with_words(_competing(select(curves, criterion), algorithms))
    return scores_of(chosen, metric, criterion).over(over)


def _competing(selection: DataFrame, algorithms: Sequence[str] | None) -> DataFrame:
    """The rows of these algorithms, and of the reference baselines."""
    if algorithms is None:
        return selection
    wanted = only(selection, algorithms).index
    return selection[selection.index.isin(wanted) | selection["baseline"] | selection["supervised"]]


def scores_of(selection: DataFrame, metric: str, criterion: str) -> Scores:
    """Scores out of a selection (with words) by several criteria."""
    record = METRICS[metric]
    frame = selection[selection["criterion"] == criterion]
    frame = frame.assign(score=record.factor * frame[record.column].astype(float))
    apart = frame["baseline"] | frame["supervised"]
    splits = frame[~apart].groupby(["problem", "split", "method"])["score"].mean().unstack("method")
    kind = frame["supervised"].map({True: "oracle", False: "naive"})
    baselines = (
        frame[apart].assign(kind=kind).groupby(["problem", "kind"])["score"].mean().unstack("kind")
    )
    baselines = baselines.reindex(index=splits.index.unique(0), columns=["naive", "oracle"])
    return Scores(splits, baselines, dict(zip(frame["problem"], frame["dataset"], strict=True)))


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
    rope: float | None = None,
) -> list[Statistics]:
    """All statistics per metric (the first unless told) and criterion (those of the profile unless told).

    Blocks are the problems, or, ``over="splits"``, the splits of all problems. ``reference``: test pairs with this
    algorithm only, and take differences from it (from the one of the best mean unless told). ``rope``: up to
    which difference, as shown, two algorithms are practically the same (one point unless told).
    """
    curves = opened(source)
    chosen = curves.metrics(metrics)[: None if metrics else 1]
    by = curves.criteria(criteria)
    if over not in OVER:
        raise unknown_name("kind of block", over, OVER)
    if rope is not None and not 0 <= rope < float("inf"):
        raise UserError(
            f"the region of practical equivalence must be a number from 0 on; '{rope}' is not"
        )
    selection = with_words(_competing(select(curves, by), algorithms))
    return [
        _one(scores_of(selection, m, c), m, c, over, reference, seed, rope)
        for m in chosen
        for c in by
    ]


def _one(
    given: Scores,
    metric: str,
    criterion: str,
    over: str,
    reference: str | None,
    seed: int,
    rope: float | None,
) -> Statistics:
    record = METRICS[metric]
    higher = record.higher
    blocks, notes = _complete(given.over(over))
    splits, _ = _complete(given.splits)
    if over == "splits":
        notes.append("Splits of one problem share data: such tests find differences too easily.")
    order = mean_ranks(blocks, seed, higher)
    listed = tuple(item.algorithm for item in order.items)
    if reference is not None and not listed:
        raise UserError(
            f"'{reference}' cannot be compared: no block has a result of every algorithm"
        )
    if reference is not None and reference not in listed:
        raise unknown_name("algorithm", reference, listed)
    placed = standings(given.splits, given.datasets, higher, seed)
    winner = placed.items[0].algorithm if placed.items else ""
    against = reference or (winner if winner in listed else "")
    again = draws(splits, given.datasets, seed)
    means, errors = means_and_errors(
        splits, None if record.high is None else record.factor * record.high, higher
    )
    baselines = record.sign * given.baselines.reindex(means.index)
    better = Intervals((), 0, note=f"No improvability: {record.inline} has no best possible value.")
    if errors is not None:
        better = intervals_over_problems(
            errors * 0 + improvability(errors) if len(errors) else errors, again
        )
    by_dataset = (
        blocks
        if over == "splits"
        else means.groupby([given.datasets[str(name)] for name in means.index]).mean()
    )
    return Statistics(
        metric=metric,
        criterion=criterion,
        over=over,
        algorithms=listed,
        blocks=tuple(
            name if isinstance(name, str) else f"{name[0]}, split {name[1]}"
            for name in blocks.index
        ),
        ranks=order,
        friedman=friedman(blocks, higher),
        nemenyi=nemenyi(blocks, higher=higher),
        wilcoxon=wilcoxon(blocks, reference),
        differences=differences(splits, against, seed, higher),
        standings=placed,
        elo=elo(splits, given.datasets, reference or ELO_REFERENCE, higher, seed, again),
        gap_closed=gaps_closed(record.sign * means, baselines["naive"], baselines["oracle"], again),
        improvability=better,
        iqm=quartile_means(splits, seed),
        profile=profiles(splits, seed),
        duels=duels(given.splits, higher),
        signed_rank=signed_rank(
            by_dataset,
            against,
            record.factor * ROPE if rope is None else rope,
            "datasets" if over == "problems" else "splits",
            higher,
            seed,
        ),
        notes=tuple(notes),
    )
