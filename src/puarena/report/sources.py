"""What a report is made from: the stored curves as a relation, and which criteria and test metrics they have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from puarena.errors import UserError
from puarena.metrics import CRITERIA, METRICS, Counts, Criterion, Metric, criterion, default_criteria, metric
from puarena.report.methods import METHOD
from puarena.report.problems import PROBLEM, settings
from puarena.store import Store, ask, open_store
from puarena.store.schema import is_value

if TYPE_CHECKING:
    from duckdb import DuckDBPyRelation
    from pandas import DataFrame

    Source: TypeAlias = Store | str | Path | DuckDBPyRelation | DataFrame

GROUP = (*PROBLEM, *METHOD)
NEEDED = (*GROUP, "split", "config", "run", "step", "selectable")
COUNTS = ("val_positive_p", "val_size_p", "val_positive_u", "val_size_u")
_COLUMNS = [*(c.column for c in CRITERIA.values()), *(m.column for m in METRICS.values())]
_NO_VALUES = ", ".join(f"CAST(NULL AS DOUBLE) AS {name}" for name in _COLUMNS)  # of a folder without results
AnyRecord = TypeVar("AnyRecord", Criterion, Metric)


def load(source: Source) -> DuckDBPyRelation:
    """The stored curves as a DuckDB relation, one row per run and record; ``.df()`` gives a pandas frame.

    The source is a results folder, an exported summary, or a relation or frame like the one returned.
    """
    import duckdb
    import pandas

    source = opened(source)
    if isinstance(source, Store):
        stored = source.relation()
        return stored if any(map(is_value, stored.columns)) else stored.project(f"*, {_NO_VALUES}")
    curves = duckdb.connect().from_df(source) if isinstance(source, pandas.DataFrame) else source
    missing = [name for name in NEEDED if name not in curves.columns]
    if missing:
        raise UserError(f"this is not a table of curves: it has no column {', '.join(missing)}")
    return curves


def opened(source: Source) -> Store | DuckDBPyRelation | DataFrame:
    """The source, a path as a store: what asks several times checks the files once."""
    return open_store(source) if isinstance(source, (str, Path)) else source


@contextmanager
def reading(source: Source) -> Iterator[None]:
    """Name the damaged file when a query over a results folder fails."""
    if isinstance(source, Store):
        with source.reading():
            yield
    else:
        yield


def metrics_of(source: Source, given: Iterable[str] | str | None, every: bool = False) -> list[str]:
    """The given test metrics, checked; without any the usual ones (or ``every`` one) that the source has."""
    columns = set(load(source).columns)
    usual = [record for record in METRICS.values() if every or record.default]
    present = [record for record in METRICS.values() if record.column in columns]
    return _checked([metric(name) for name in listed(given)], usual, present)


def criteria_of(source: Source, given: Iterable[str] | str | None, every: bool = False) -> list[str]:
    """The given criteria, checked; without any the usual ones of the profile (or ``every`` one) that the source has."""
    curves = load(source)
    present = [record for record in CRITERIA.values() if _available(record, curves.columns)]
    if given is not None or every:
        return _checked([criterion(name) for name in listed(given)], list(CRITERIA.values()), present)
    with reading(source):
        profiles = [row[0] for row in ask(curves, "SELECT DISTINCT profile FROM curves").fetchall()]
    usual = default_criteria(profiles[0] if len(profiles) == 1 else "")
    return _checked([], [CRITERIA[name] for name in usual], present)


def listed(given: Iterable[str] | str | None) -> list[str]:
    """Names given as one text or as several."""
    return [given] if isinstance(given, str) else list(given or ())


def _checked(given: list[AnyRecord], usual: list[AnyRecord], present: list[AnyRecord]) -> list[str]:
    """Names in their order without repetition; what was asked for and is not there is an error."""
    for record in given:
        if record not in present:
            titles = ", ".join(r.title for r in present) or "none"
            raise UserError(f"these results have no {record.title} (no column '{record.column}'); they have {titles}")
    names = list(dict.fromkeys(record.name for record in given or [r for r in usual if r in present]))
    if not names:
        kind = type(usual[0]).__name__.lower()
        raise UserError(f"these results have no column of a {kind} that this version knows")
    return names


def _available(record: Criterion, columns: Iterable[str]) -> bool:
    """Is the criterion stored, or made of counts that are stored?"""
    present = set(columns)
    return record.column in present or (record.needs == "counts" and present >= set(COUNTS))


def absent(source: Source) -> list[str]:
    """Sentences about the usual criteria that the source does not have."""
    columns = load(source).columns
    lacking = [record for record in CRITERIA.values() if record.default and not _available(record, columns)]
    return [f"These results have no {record.title}: it was not stored with them." for record in lacking]


def with_criteria(curves: DuckDBPyRelation, criteria: Iterable[str]) -> DuckDBPyRelation:
    """The curves with these criteria as columns: those made of counts are computed where they were not stored."""
    import numpy as np

    counted = [CRITERIA[name] for name in criteria if CRITERIA[name].needs == "counts"]
    if not counted or not set(curves.columns) >= set(COUNTS):
        return curves
    holes = ", ".join(f"bool_or({c.column} IS NULL)" if c.column in curves.columns else "true" for c in counted)
    answer = ask(curves, f"SELECT {holes} FROM curves").fetchall()[0]
    missing = [record for record, lacks in zip(counted, answer, strict=True) if lacks]
    if not missing:
        return curves
    keys = ", ".join(("setting", "prior_used", *COUNTS))
    computed = ask(curves, f"SELECT DISTINCT {keys} FROM curves").df()
    one_sample = {code: setting.one_sample for code, setting in settings().items()}
    positive_p, size_p, positive_u, size_u, prior = (computed[key].to_numpy(float) for key in (*COUNTS, "prior_used"))
    settings_of = np.array([one_sample.get(code, False) for code in computed["setting"]], bool)
    counts = Counts(positive_p, size_p, positive_u, size_u, prior, settings_of)
    with np.errstate(all="ignore"):  # 0/0 of an empty set is NaN, and never chosen
        computed = computed.assign(**{record.column: record.compute(counts) for record in missing})
    old = [record.column for record in missing if record.column in curves.columns]
    kept = f"c.* EXCLUDE ({', '.join(old)})" if old else "c.*"
    fresh = [f"coalesce(c.{name}, computed.{name}) AS {name}" for name in old]
    fresh += [f"computed.{record.column}" for record in missing if record.column not in old]
    same = " AND ".join(f"c.{key} = computed.{key}" for key in keys.split(", "))
    query = f"SELECT {kept}, {', '.join(fresh)} FROM puarena_stored AS c LEFT JOIN computed ON {same}"
    joined = curves.query("puarena_stored", query)
    assert joined is not None  # a SELECT always gives a relation
    return joined
