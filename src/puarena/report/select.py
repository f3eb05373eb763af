"""Model selection as one query over the stored curves.

For every problem, algorithm and split, and every criterion: among all configurations and selectable records take the
one with the highest validation value (NaN never wins; ties go to the earliest step, then the lowest configuration)
and read off its test metrics. No training is repeated for another criterion or metric.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from puarena.bench.profiles import PROFILES
from puarena.errors import unknown
from puarena.store import Store, ask, open_store

if TYPE_CHECKING:
    from duckdb import DuckDBPyRelation
    from pandas import DataFrame

    Source: TypeAlias = Store | str | Path | DuckDBPyRelation | DataFrame

PROBLEM = ("dataset", "case", "setting", "rate", "prior")
GROUP = (*PROBLEM, "algorithm", "profile")

CRITERIA = {"pa": "val_pa", "pauc": "val_pauc", "oa": "val_oa", "pa-released": "val_pa_released"}
METRICS = {
    "accuracy": "test_accuracy",
    "auc": "test_auc",
    "f1": "test_f1",
    "precision": "test_precision",
    "recall": "test_recall",
}


def load(source: Source) -> DuckDBPyRelation:
    """The stored curves as a DuckDB relation, one row per run and record; ``.df()`` gives a pandas frame.

    The source is a results folder, an exported summary, or a relation or frame like the one returned.
    """
    import duckdb
    import pandas

    source = opened(source)
    if isinstance(source, Store):
        return source.relation()
    if isinstance(source, pandas.DataFrame):
        return duckdb.connect().from_df(source)
    return source


def opened(source: Source) -> Store | DuckDBPyRelation | DataFrame:
    """The source, a path as a store: what asks several times checks the files once."""
    return open_store(source) if isinstance(source, (str, Path)) else source


def names(kind: str, given: Iterable[str] | str | None, known: Mapping[str, str], default: Iterable[str]) -> list[str]:
    """The given metrics or criteria, checked, in their order and without repetition; ``default`` if none is given."""
    listed = [given] if isinstance(given, str) else list(given or default)
    for name in listed:
        if name.lower() not in known:
            raise unknown(kind, name, known)
    return list(dict.fromkeys(name.lower() for name in listed))


def select(source: Source, criteria: Iterable[str] | None = None) -> DataFrame:
    """One row per problem, algorithm, profile, split and criterion: what was selected, and its test metrics.

    Columns: the problem, ``algorithm``, ``profile``, ``split``, ``configs`` (how many there were to choose from),
    ``criterion``, ``value`` (of the criterion), ``step``, ``config``, ``run`` and the test metrics. Where every value
    of the criterion is NaN nothing is selected and these are missing.
    """
    chosen = names("criterion", criteria, CRITERIA, CRITERIA)
    keys = ", ".join(f'"{key}"' for key in (*GROUP, "split"))
    metrics = ", ".join(METRICS.values())
    picks = ", ".join(f"{_pick(CRITERIA[name])} AS pick_{i}" for i, name in enumerate(chosen))
    pairs = ", ".join(f"{{criterion: '{name}', pick: pick_{i}}}" for i, name in enumerate(chosen))
    query = f"""
        WITH picks AS (SELECT {keys}, count(DISTINCT config) AS configs, {picks} FROM curves GROUP BY ALL),
             listed AS (SELECT {keys}, configs, unnest([{pairs}]) AS chosen FROM picks),
             spread AS (SELECT {keys}, configs, chosen.criterion AS criterion, unnest(chosen.pick) FROM listed)
        SELECT {keys}, configs, criterion, value, step, config, run, {metrics} FROM spread
        ORDER BY {keys}, list_position({chosen!r}, criterion)
    """
    source = opened(source)
    with _reading(source):
        return ask(load(source), query).df()


def default_criteria(source: Source) -> tuple[str, ...]:
    """The criteria of the profile a source was made with; the definition's where there are several."""
    source = opened(source)
    with _reading(source):
        found = ask(load(source), "SELECT DISTINCT profile FROM curves").fetchall()
    profiles = {row[0].partition("+")[0] for row in found}
    name = profiles.pop() if len(profiles) == 1 else "definition"
    return PROFILES.get(name, PROFILES["definition"]).criteria


def _pick(value: str) -> str:
    """SQL for the record with the highest ``value``: earliest step, then lowest configuration on ties."""
    taken = f"value: {value}, " + ", ".join(f"{name}: {name}" for name in ("step", "config", "run", *METRICS.values()))
    rank = f"{{value: {value}, step: -step, config: -config}}"
    return f"arg_max({{{taken}}}, {rank}) FILTER (WHERE selectable AND NOT isnan({value}))"


@contextmanager
def _reading(source: Source) -> Iterator[None]:
    """Name the damaged file when a query over a results folder fails."""
    if isinstance(source, Store):
        with source.reading():
            yield
    else:
        yield


def aggregate(selection: DataFrame, metrics: Iterable[str] | None = None) -> DataFrame:
    """Mean over splits, in percent, per problem, algorithm, profile, criterion and metric.

    ``std_population`` and ``std_sample`` are standard deviations over splits; ``stderr``, what the paper prints after
    ±, is ``std_population / sqrt(n)`` (missing for a single split); of the ``splits`` that ran, ``n`` have a value.
    """
    import duckdb

    keys = ", ".join(f'"{key}"' for key in (*GROUP, "criterion"))
    wanted = names("metric", metrics, METRICS, METRICS)
    parts = " UNION ALL ".join(
        f"SELECT {keys}, configs, {i} AS place, '{metric}' AS metric, 100 * {METRICS[metric]} AS percent FROM selection"
        for i, metric in enumerate(wanted)
    )
    query = f"""
        SELECT {keys}, metric, avg(percent) AS mean,
               CASE WHEN count(percent) > 1 THEN stddev_pop(percent) / sqrt(count(percent)) END AS stderr,
               stddev_pop(percent) AS std_population, stddev_samp(percent) AS std_sample,
               count(percent) AS n, count(*) AS splits, min(configs) AS configs
        FROM ({parts}) GROUP BY {keys}, place, metric ORDER BY {keys}, place
    """
    with duckdb.connect() as con:
        con.register("selection", selection)
        return con.execute(query).df()
