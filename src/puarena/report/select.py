"""Model selection as one query over the stored curves.

For every problem, method and split, and every criterion: among all configurations and selectable records take the one
with the best validation value (NaN never wins; ties go to the earliest step, then the lowest configuration) and read
off its test metrics. No training is repeated for another criterion or metric.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from puarena.metrics import CRITERIA, METRICS, metric
from puarena.report.sources import GROUP, Source, listed, opened

if TYPE_CHECKING:
    from pandas import DataFrame


def select(source: Source, criteria: Iterable[str] | str | None = None) -> DataFrame:
    """One row per problem, method, split and criterion: what was selected, and its test metrics.

    Columns: the problem, the method, ``split``, ``configs`` (how many there were to choose from), ``criterion``,
    ``value`` (of the criterion), ``step``, ``config``, ``run`` and the test metrics. Where every value of the criterion
    is NaN nothing is selected and these are missing. All criteria unless told.
    """
    curves = opened(source)
    chosen = curves.criteria(criteria, every=True)
    columns = [METRICS[name].column for name in curves.metrics(every=True)]
    keys = ", ".join(f'"{key}"' for key in (*GROUP, "split"))
    read = ", ".join(["value", "step", "config", "run", *columns])
    picks = ", ".join(f"{_pick(name, columns)} AS pick_{i}" for i, name in enumerate(chosen))
    pairs = ", ".join(f"{{criterion: '{name}', pick: pick_{i}}}" for i, name in enumerate(chosen))
    query = f"""
        WITH picks AS (SELECT {keys}, count(DISTINCT config) AS configs, {picks} FROM curves GROUP BY ALL),
             listed AS (SELECT {keys}, configs, unnest([{pairs}]) AS chosen FROM picks),
             spread AS (SELECT {keys}, configs, chosen.criterion AS criterion, unnest(chosen.pick) FROM listed)
        SELECT {keys}, configs, criterion, {read} FROM spread
        ORDER BY {keys}, list_position({chosen!r}, criterion)
    """
    return curves.frame(query, chosen)


def _pick(criterion: str, columns: Sequence[str]) -> str:
    """SQL for the record with the best value: earliest step, then lowest configuration on ties."""
    record = CRITERIA[criterion]
    value = record.column
    fields = ", ".join(
        [f"value: {value}", *(f"{name}: {name}" for name in ("step", "config", "run", *columns))]
    )
    rank = f"{{value: {record.sign} * {value}, step: -step, config: -config}}"
    return f"arg_max({{{fields}}}, {rank}) FILTER (WHERE selectable AND NOT isnan({value}))"


def aggregate(selection: DataFrame, metrics: Iterable[str] | str | None = None) -> DataFrame:
    """Mean over splits, as shown (most metrics in percent), per problem, method, criterion and metric.

    ``std_population`` and ``std_sample`` are standard deviations over splits; ``stderr``, what the paper prints after
    ±, is ``std_population / sqrt(n)`` and ``stderr_sample`` the usual ``std_sample / sqrt(n)`` (both missing for one
    split); of the ``splits`` that ran, ``n`` have a value. Means are rounded to nine digits after the point, so that
    what is equal but for the order of a sum is a tie everywhere.
    """
    import duckdb

    keys = ", ".join(f'"{key}"' for key in (*GROUP, "criterion"))
    everything = [record for record in METRICS.values() if record.column in selection.columns]
    wanted = [metric(name) for name in listed(metrics)] or everything
    parts = " UNION ALL ".join(
        f"SELECT {keys}, configs, {i} AS place, '{record.name}' AS metric, {record.factor} * {record.column} AS value "
        "FROM selection"
        for i, record in enumerate(wanted)
    )
    query = f"""
        SELECT {keys}, metric, round(avg(value), 9) AS mean,
               CASE WHEN count(value) > 1 THEN stddev_pop(value) / sqrt(count(value)) END AS stderr,
               CASE WHEN count(value) > 1 THEN stddev_samp(value) / sqrt(count(value)) END AS stderr_sample,
               stddev_pop(value) AS std_population, stddev_samp(value) AS std_sample,
               count(value) AS n, count(*) AS splits, min(configs) AS configs
        FROM ({parts}) GROUP BY {keys}, place, metric ORDER BY {keys}, place
    """
    with duckdb.connect() as con:
        con.register("selection", selection)
        return con.execute(query).df()
