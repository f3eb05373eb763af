"""The standings behind every choice of problems that the page's filters allow, computed as ``puarena stats`` does."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

from puarena.metrics import METRICS
from puarena.report.evidence import with_words
from puarena.report.problems import PROBLEM, Problem, read_all
from puarena.report.statistics.draws import problem_means
from puarena.report.statistics.results import DRAWS, Standings
from puarena.report.statistics.scores import scores_of
from puarena.report.statistics.standing import ranks_of, standings
from puarena.report.statistics.text import place, places, verdict
from puarena.report.table import shown

if TYPE_CHECKING:
    from pandas import DataFrame

FEWER = 2000  # draws for a choice of some of the problems; for all of them there are as many as in ``stats``
VIEWS = 40  # choices of problems; those of fewer filters come first


def choices(problems: Sequence[Problem]) -> list[tuple[int, ...]]:
    """The sets of problems that filters can choose, by their numbers: all of them, then by ever more filters."""
    values = [
        list(dict.fromkeys(str(getattr(problem, name)) for problem in problems)) for name in PROBLEM
    ]
    filters = product(*([None, *(known if len(known) > 1 else [])] for known in values))
    choices: dict[tuple[int, ...], None] = {}
    for chosen in sorted(filters, key=lambda given: sum(value is not None for value in given)):
        fits = [
            all(
                value in (None, str(getattr(problem, name)))
                for name, value in zip(PROBLEM, chosen, strict=True)
            )
            for problem in problems
        ]
        choices.setdefault(tuple(i for i, fit in enumerate(fits) if fit))
    return [chosen for chosen in choices if chosen][:VIEWS]


def views(
    selection: DataFrame,
    problems: Sequence[Problem],
    labels: Mapping[str, int],
    metrics: Sequence[str],
    criteria: Sequence[str],
) -> dict[str, Any]:
    """By problems (``0,1``), metric and criterion: the verdict, and a line of numbers and texts per method."""
    frame = with_words(selection)
    names = dict(zip(read_all(Problem, frame), frame["problem"], strict=True))
    listed = choices(problems)
    notes: dict[str, int] = {}  # by number: most choices share one
    result: dict[str, Any] = {",".join(map(str, chosen)): {} for chosen in listed}
    given = {
        (metric, criterion): (
            scores_of(frame, metric, criterion),
            _everyone(frame, metric, criterion),
        )
        for metric, criterion in product(metrics, criteria)
    }
    for chosen, view in zip(listed, result.values(), strict=True):
        wanted = [names[problems[i]] for i in chosen if problems[i] in names]
        count = DRAWS if len(chosen) == len(problems) else FEWER
        for (metric, criterion), (scores, everyone) in given.items():
            splits = scores.splits[scores.splits.index.get_level_values(0).isin(wanted)].dropna(
                axis=1, how="all"
            )
            standing = standings(splits, scores.datasets, METRICS[metric].higher, count=count)
            line = _view(standing, splits, everyone.reindex(wanted), labels, metric)
            view[f"{metric}.{criterion}"] = line | {
                "note": notes.setdefault(standing.note, len(notes))
            }
    return {"views": result, "notes": list(notes)}


def _everyone(frame: DataFrame, metric: str, criterion: str) -> DataFrame:
    """Means of all methods, also of the reference baselines, a line per problem."""
    record = METRICS[metric]
    chosen = frame[frame["criterion"] == criterion]
    values = chosen.assign(score=record.factor * chosen[record.column].astype(float))
    table: DataFrame = values.groupby(["problem", "method"])["score"].mean().unstack("method")
    return table


def _view(
    standing: Standings,
    splits: DataFrame,
    everyone: DataFrame,
    labels: Mapping[str, int],
    metric: str,
) -> dict[str, Any]:
    """What the page shows of one choice of problems."""
    record = METRICS[metric]
    digits = record.decimals + 1  # enough to draw with; texts say the numbers
    means = (
        everyone.to_numpy().mean(0).tolist() if len(everyone) else []
    )  # NaN where a problem is missing
    rows: dict[int, list[Any]] = {
        labels[str(name)]: [round(mean, digits), shown(mean, record.decimals)]
        for name, mean in zip(everyone.columns if means else (), means, strict=True)
        if not math.isnan(mean)
    }
    competing = problem_means(splits)[[item.algorithm for item in standing.items]]
    mean_ranks = ranks_of(competing.to_numpy(), record.higher).mean(0) if standing.items else []
    all_ranks = [item.rank for item in standing.items]
    for item, mean_rank in zip(standing.items, mean_ranks, strict=True):
        own = [
            f"{mean_rank:.1f}",
            place(item.rank, all_ranks),
            places(item.rank_low, item.rank_high),
        ]
        rows[labels[item.algorithm]] += [
            *own,
            int(item.tied),
            round(item.low, digits),
            round(item.high, digits),
        ]
    best = labels[standing.items[0].algorithm] if standing.items else -1
    return {"verdict": verdict(standing, metric), "unit": standing.unit, "best": best, "rows": rows}
