"""What a report is made from: the stored curves, and which criteria and test metrics they have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from puarena.errors import UserError
from puarena.metrics import (
    CRITERIA,
    METRICS,
    Counts,
    Criterion,
    Metric,
    get_criterion,
    get_metric,
    list_default_criteria,
)
from puarena.pu.labeling import SCAR
from puarena.report.methods import METHOD
from puarena.report.problems import PROBLEM, settings
from puarena.results import Results, ask, open_results
from puarena.results.schema import is_value

if TYPE_CHECKING:
    from duckdb import DuckDBPyRelation
    from pandas import DataFrame

GROUP = (*PROBLEM, *METHOD)
NEEDED = (*GROUP, "split", "config", "run", "step", "selectable")
COUNTS = ("val_positive_p", "val_size_p", "val_positive_u", "val_size_u")
_COLUMNS = [*(c.column for c in CRITERIA.values()), *(m.column for m in METRICS.values())]
_NO_VALUES = ", ".join(
    f"CAST(NULL AS DOUBLE) AS {name}" for name in _COLUMNS
)  # of a folder without results
AnyRecord = TypeVar("AnyRecord", Criterion, Metric)


@contextmanager
def _of_a_frame() -> Iterator[None]:
    """What goes wrong while a relation or frame is read that came from outside is said of it."""
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        words = " ".join(str(error).split())[:200]
        raise UserError(
            f"this is not a table of curves like the one that puarena.load returns: {words}"
        ) from None


class Curves:
    """Stored curves that are opened once, however often they are asked: a relation, and its store if it has one."""

    def __init__(self, relation: DuckDBPyRelation, store: Results | None = None) -> None:
        missing = [name for name in NEEDED if name not in relation.columns]
        if missing:
            raise UserError(f"this is not a table of curves: it has no column {', '.join(missing)}")
        if store and not any(map(is_value, relation.columns)):
            relation = relation.project(f"*, {_NO_VALUES}")
        self.relation = relation
        self.store = store
        self.columns = set(relation.columns)
        self.notes = tuple(
            map(str, store.info.get("notes", ()) if store else ())
        )  # for a reader of any table

    def frame(self, sql: str, criteria: Iterable[str] = ()) -> DataFrame:
        """The answer to a query over ``curves``, which has these criteria as columns; a damaged file is named."""
        with self.store.reading() if self.store else _of_a_frame():
            return ask(self._with_criteria(criteria), sql).df()

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """The answer to a query over ``curves``, as plain rows."""
        with self.store.reading() if self.store else _of_a_frame():
            return ask(self.relation, sql).fetchall()

    # criteria and metrics

    def metrics(self, given: Iterable[str] | str | None = None, every: bool = False) -> list[str]:
        """The given test metrics, checked; without any the usual ones (or ``every`` one) that there are."""
        usual = [record for record in METRICS.values() if every or record.default]
        present = [record for record in METRICS.values() if record.column in self.columns]
        return _checked([get_metric(name) for name in listed(given)], usual, present)

    def criteria(self, given: Iterable[str] | str | None = None, every: bool = False) -> list[str]:
        """The given criteria, checked; without any the usual ones of the profile (or ``every`` one) that there are."""
        present = [record for record in CRITERIA.values() if self._has(record)]
        usual = list(CRITERIA)
        if given is None and not every:
            usual = list_default_criteria(
                self.profiles[0] if len(self.profiles) == 1 else "", self.biased
            )
        return _checked(
            [get_criterion(name) for name in listed(given)],
            [CRITERIA[name] for name in usual],
            present,
        )

    @cached_property
    def profiles(self) -> list[str]:
        """The profiles that there are."""
        return [row[0] for row in self.rows("SELECT DISTINCT profile FROM curves ORDER BY ALL")]

    @cached_property
    def biased(self) -> bool:
        """Are there problems whose labels were not given at random?"""
        return bool(self.rows(f"SELECT 1 FROM curves WHERE labeling <> '{SCAR}' LIMIT 1"))

    def absent(self) -> list[str]:
        """Sentences about the usual criteria that were not stored."""
        lacking = [
            record.title for record in CRITERIA.values() if record.default and not self._has(record)
        ]
        return [f"These results have no {title}: it was not stored with them." for title in lacking]

    def _has(self, record: Criterion) -> bool:
        """Is the criterion stored, or made of counts that are stored?"""
        return record.column in self.columns or (
            record.needs == "counts" and self.columns >= set(COUNTS)
        )

    def _with_criteria(self, criteria: Iterable[str]) -> DuckDBPyRelation:
        """The relation, with criteria made of counts computed where they were not stored."""
        import numpy as np

        counted = [CRITERIA[name] for name in criteria if CRITERIA[name].needs == "counts"]
        if not counted or not self.columns >= set(COUNTS):
            return self.relation
        holes = ", ".join(
            f"bool_or({c.column} IS NULL)" if c.column in self.columns else "true" for c in counted
        )
        missing = [
            c
            for c, lacks in zip(counted, self.rows(f"SELECT {holes} FROM curves")[0], strict=True)
            if lacks
        ]
        if not missing:
            return self.relation
        keys = ("setting", "prior_used", *COUNTS)
        computed = ask(self.relation, f"SELECT DISTINCT {', '.join(keys)} FROM curves").df()
        one_sample = [
            code in settings() and settings()[code].one_sample for code in computed["setting"]
        ]
        numbers = {name.removeprefix("val_"): computed[name].to_numpy(float) for name in COUNTS}
        counts = Counts(
            **numbers,
            prior=computed["prior_used"].to_numpy(float),
            one_sample=np.array(one_sample, bool),
        )
        with np.errstate(all="ignore"):  # 0/0 of an empty set is NaN, and never chosen
            computed = computed.assign(
                **{record.column: record.compute(counts) for record in missing}
            )
        old = [record.column for record in missing if record.column in self.columns]
        kept = f"c.* EXCLUDE ({', '.join(old)})" if old else "c.*"
        fresh = [f"coalesce(c.{name}, computed.{name}) AS {name}" for name in old]
        fresh += [f"computed.{record.column}" for record in missing if record.column not in old]
        same = " AND ".join(f"c.{key} = computed.{key}" for key in keys)
        query = f"SELECT {kept}, {', '.join(fresh)} FROM puarena_stored AS c LEFT JOIN computed ON {same}"
        joined = self.relation.query("puarena_stored", query)
        assert joined is not None  # a SELECT always gives a relation
        return joined


Source: TypeAlias = "Curves | Results | str | Path | DuckDBPyRelation | DataFrame"


def opened(source: Source) -> Curves:
    """A results folder, an exported summary, or a relation or frame like ``load``'s, to be asked."""
    import duckdb
    import pandas

    if isinstance(source, Curves):
        return source
    store = open_results(source) if isinstance(source, (str, Path)) else source
    if isinstance(store, Results):
        con = duckdb.connect()
        con.execute("SET parquet_metadata_cache = true")  # many queries over the same files follow
        return Curves(store.relation(con), store)
    if isinstance(store, pandas.DataFrame) and len(store.columns):
        store = duckdb.connect().from_df(store)
    if not isinstance(store, duckdb.DuckDBPyRelation):
        kind = "an empty frame" if isinstance(store, pandas.DataFrame) else repr(store)[:100]
        raise UserError(
            f"{kind} is not a table of curves; give a results folder, or what puarena.load returns"
        )
    return Curves(store)


def load(source: Source) -> DuckDBPyRelation:
    """The stored curves as a DuckDB relation, one row per run and record; ``.df()`` gives a pandas frame.

    The source is a results folder, an exported summary, ``published:NAME``, or a relation or frame like the one
    returned.
    """
    return opened(source).relation


def listed(given: Iterable[str] | str | None) -> list[str]:
    """Names given as one text or as several."""
    if given is not None and not isinstance(given, Iterable):
        raise UserError(
            f"names are given as one text or as a list of them, and {given!r} is neither"
        )
    return [given] if isinstance(given, str) else list(given or ())


def _checked(
    given: Sequence[AnyRecord], usual: Sequence[AnyRecord], present: Sequence[AnyRecord]
) -> list[str]:
    """Names in their order without repetition; what was asked for and is not there is an error."""
    for record in given:
        if record not in present:
            titles = ", ".join(r.title for r in present) or "none"
            raise UserError(
                f"these results have no {record.title} (no column '{record.column}'); they have {titles}"
            )
    names = list(
        dict.fromkeys(record.name for record in given or [r for r in usual if r in present])
    )
    if not names:
        raise UserError(
            f"these results have no {type(usual[0]).__name__.lower()} that this version knows"
        )
    return names
