"""What the figures and the page are drawn from, read from the stored curves in a few queries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from puarena.metrics import METRICS
from puarena.report.methods import Method
from puarena.report.problems import PROBLEM, Problem, read_all
from puarena.report.select import select
from puarena.report.sources import GROUP, Curves, Source, opened
from puarena.results.sql import sql_text

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class Evidence:
    """What the figures are drawn from, all of it read from the stored curves.

    Every frame has the columns of the problem and of the method, and the words ``problem``, ``method``,
    ``setting_short`` and ``one_sample``.
    """

    metrics: tuple[str, ...]  # that are drawn
    criteria: tuple[str, ...]
    selection: DataFrame  # one row per problem, method, split and criterion, as ``select`` gives it
    best: (
        DataFrame  # the best test value of any selectable checkpoint, per problem, method and split
    )
    seconds: DataFrame  # of one training run, per problem and method
    curves: DataFrame  # test metrics by step of what a criterion selected; ``even``: of the evenly spaced records


def evidence(
    source: Source,
    metrics: Iterable[str] | None = None,
    criteria: Iterable[str] | None = None,
    algorithms: Sequence[str] | None = None,
    points: int = 60,
    selection: DataFrame | None = None,
) -> Evidence:
    """Read everything the figures need; ``points`` is about how many records of a learning curve are kept."""
    curves = opened(source)
    drawn, by = curves.metrics(metrics), curves.criteria(criteria)
    chosen = select(curves, by) if selection is None else selection
    if algorithms is not None:
        chosen = chosen[chosen["algorithm"].isin(list(algorithms))]
    chosen = with_words(chosen)
    records = [METRICS[name] for name in curves.metrics(every=True)]
    keys = ", ".join(f'"{key}"' for key in GROUP)
    best = ", ".join(
        f"{'max' if m.higher else 'min'}({m.column}) FILTER (WHERE selectable AND NOT isnan({m.column})) AS {m.column}"
        for m in records
    )
    few = (
        curves.store is not None and curves.store.summarized
    )  # it has few records, and the best may be missing
    highest = curves.frame(
        f"SELECT {keys}, split, {best} FROM curves {'WHERE false ' if few else ''}GROUP BY ALL"
    )
    spent = "max(seconds)" if "seconds" in curves.columns else "CAST(NULL AS DOUBLE)"
    times = f"SELECT {keys}, split, config, {spent} AS seconds FROM curves GROUP BY ALL"
    seconds = curves.frame(f"SELECT {keys}, avg(seconds) AS seconds FROM ({times}) GROUP BY ALL")
    thinned = _thinned(curves, chosen, [m.column for m in records], points)
    return Evidence(
        tuple(drawn),
        tuple(by),
        chosen,
        with_words(highest),
        with_words(seconds),
        with_words(thinned),
    )


def _thinned(curves: Curves, chosen: DataFrame, columns: list[str], points: int) -> DataFrame:
    """The learning curves of the selected configurations: evenly spaced records, and the selected ones."""
    import pandas

    keys = [*GROUP, "split", "config"]
    picked = chosen.dropna(subset=["config", "step"]).astype({"config": int, "step": int})
    own = picked[[*keys, "step", *columns]].assign(even=False)
    if picked.empty:
        return own
    listed = ", ".join(f'"{key}"' for key in keys)
    query = f"""
        SELECT * EXCLUDE (place, places) FROM (
            SELECT {listed}, step, {", ".join(columns)},
                   row_number() OVER (PARTITION BY {listed} ORDER BY step) AS place,
                   count(*) OVER (PARTITION BY {listed}) AS places
            FROM curves WHERE run IN ({run_list(picked)}))
        WHERE place % greatest(1, places // {points}) = 0 OR place = places OR place = 1
    """
    even = curves.frame(query).merge(picked[keys].drop_duplicates(), on=keys).assign(even=True)
    both = pandas.concat([even, own]).drop_duplicates([*keys, "step"])
    return both.sort_values([*keys, "step"], ignore_index=True)


def run_list(chosen: DataFrame) -> str:
    """SQL for the runs of a selection."""
    return ", ".join(sql_text(run) for run in sorted(set(chosen["run"])))


def with_words(frame: DataFrame) -> DataFrame:
    """The same rows with ``method``, ``problem``, ``setting_short`` and ``one_sample``."""
    problems = read_all(Problem, frame)
    distinct = frame[list(PROBLEM)].drop_duplicates()
    others = [name for name in PROBLEM if name != "prior"]
    priors = len(distinct) > len(
        distinct[others].drop_duplicates()
    )  # does the prior tell two problems apart?
    return frame.assign(
        method=[method.label for method in read_all(Method, frame)],
        problem=[problem.label(priors) for problem in problems],
        setting_short=[problem.short for problem in problems],
        one_sample=[problem.one_sample for problem in problems],
    )
