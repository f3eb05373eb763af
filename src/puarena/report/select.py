"""Model selection as one query over the stored curves.

For every problem, method and split, and every criterion: among all configurations and selectable
records take the one with the best validation value (NaN never wins; ties go to the earliest step,
then the lowest configuration) and read its test metrics. Another criterion or metric needs no
training.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from puarena.errors import unknown_name
from puarena.metrics import CRITERIA, METRICS, NO_TRUTH, get_metric
from puarena.pu.problem import PROBLEM_COLUMNS
from puarena.report.methods import read_methods, read_problems
from puarena.report.sources import GROUP, Source, as_list, open_curves
from puarena.results.parquet import connect

if TYPE_CHECKING:
    from pandas import DataFrame


def select(source: Source, criteria: Iterable[str] | str | None = None) -> DataFrame:
    """Return one row per problem, method, split and criterion: the selected record.

    Columns: the problem, the method, ``split``, ``configs`` (how many there were to choose from),
    ``criterion``, its ``value``, ``step``, ``config``, ``run`` and the test metrics. Where every
    value of the criterion is NaN nothing is selected and these are missing. Default: all criteria.
    """
    curves = open_curves(source)
    chosen = curves.criteria(criteria, every=True)
    columns = [METRICS[name].column for name in curves.metrics(every=True)]
    keys = ", ".join(f'"{key}"' for key in (*GROUP, "split"))
    read = ", ".join(["value", "step", "config", "run", *columns])
    picks = ", ".join(f"{_pick_sql(name, columns)} AS pick_{i}" for i, name in enumerate(chosen))
    pairs = ", ".join(f"{{criterion: '{name}', pick: pick_{i}}}" for i, name in enumerate(chosen))
    query = f"""
        WITH picks AS (
                 SELECT {keys}, count(DISTINCT config) AS configs, {picks}
                 FROM curves GROUP BY ALL),
             listed AS (SELECT {keys}, configs, unnest([{pairs}]) AS chosen FROM picks),
             spread AS (
                 SELECT {keys}, configs, chosen.criterion AS criterion, unnest(chosen.pick)
                 FROM listed)
        SELECT {keys}, configs, criterion, {read} FROM spread
        ORDER BY {keys}, list_position({chosen!r}, criterion)
    """
    frame = curves.frame(query, chosen)
    untested = METRICS[NO_TRUTH].column
    if untested in columns and frame[untested].isna().all():
        frame[untested] = frame["value"]
    return frame


def _pick_sql(criterion: str, columns: Sequence[str]) -> str:
    """Return SQL for the record with the best value: earliest step, then lowest configuration."""
    record = CRITERIA[criterion]
    value = record.column
    names = ("step", "config", "run", *columns)
    fields = ", ".join([f"value: {value}", *(f"{name}: {name}" for name in names)])
    rank = f"{{value: {record.sign} * {value}, step: -step, config: -config}}"
    return f"arg_max({{{fields}}}, {rank}) FILTER (WHERE selectable AND NOT isnan({value}))"


def aggregate(selection: DataFrame, metrics: Iterable[str] | str | None = None) -> DataFrame:
    """Return the mean over splits, as shown, per problem, method, criterion and metric.

    ``std_population`` and ``std_sample`` are standard deviations over splits. ``stderr``, which the
    paper prints after ±, is ``std_population / sqrt(n)``; ``stderr_sample`` is the usual
    ``std_sample / sqrt(n)`` (both are missing for one split). Of the ``splits`` that ran, ``n``
    have a value. Means are rounded to nine digits after the point, so that values that differ only
    by the order of a sum are ties everywhere.
    """
    keys = ", ".join(f'"{key}"' for key in (*GROUP, "criterion"))
    present = [record for record in METRICS.values() if record.column in selection.columns]
    wanted = [get_metric(name) for name in as_list(metrics)] or present
    parts = " UNION ALL ".join(
        f"SELECT {keys}, configs, {i} AS place, '{record.name}' AS metric, "
        f"{record.factor} * {record.column} AS value FROM selection"
        for i, record in enumerate(wanted)
    )
    error = "CASE WHEN count(value) > 1 THEN {}(value) / sqrt(count(value)) END"
    query = f"""
        SELECT {keys}, metric, round(avg(value), 9) AS mean,
               {error.format("stddev_pop")} AS stderr,
               {error.format("stddev_samp")} AS stderr_sample,
               stddev_pop(value) AS std_population, stddev_samp(value) AS std_sample,
               count(value) AS n, count(*) AS splits, min(configs) AS configs
        FROM ({parts}) GROUP BY {keys}, place, metric ORDER BY {keys}, place
    """
    with connect() as con:
        con.register("selection", selection)
        return con.execute(query).df()


def keep_algorithms(frame: DataFrame, algorithms: Sequence[str] | None) -> DataFrame:
    """Return the rows of these algorithms; ``None`` keeps all."""
    if algorithms is None:
        return frame
    algorithms = as_list(algorithms)
    for name in algorithms:
        if name not in set(frame["algorithm"]):
            raise unknown_name("algorithm", name, frame["algorithm"])
    return frame[frame["algorithm"].isin(list(algorithms))]


def add_labels(frame: DataFrame, like: DataFrame | None = None) -> DataFrame:
    """Return the rows with ``method``, ``problem``, ``setting_short`` and ``one_sample``.

    Problems have the labels that they have in the frame ``like``, if it is given.
    """
    problems = read_problems(frame)
    distinct = (frame if like is None else like)[list(PROBLEM_COLUMNS)].drop_duplicates()
    others = [name for name in PROBLEM_COLUMNS if name != "prior"]
    # The prior is part of the label only if it tells two problems apart.
    priors = len(distinct) > len(distinct[others].drop_duplicates())
    return frame.assign(
        method=[method.label for method in read_methods(frame)],
        problem=[problem.label(priors) for problem in problems],
        setting_short=[problem.short for problem in problems],
        one_sample=[problem.one_sample for problem in problems],
    )
