"""What a report is made from: stored curves, and the criteria and test metrics that they have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from puarena.catalog import MethodInfo
from puarena.errors import UserError
from puarena.metrics import (
    CRITERIA,
    METRICS,
    NO_TRUTH,
    Counts,
    Criterion,
    Metric,
    get_criterion,
    get_metric,
    list_default_criteria,
)
from puarena.pu.labeling import OBSERVED, SCAR
from puarena.pu.problem import PROBLEM_COLUMNS, find_setting
from puarena.results import Results, ask, open_results
from puarena.results.folder import OUTCOMES
from puarena.results.parquet import connect
from puarena.results.schema import METHOD_COLUMNS, is_value

if TYPE_CHECKING:
    from duckdb import DuckDBPyRelation
    from pandas import DataFrame

GROUP = (*PROBLEM_COLUMNS, *METHOD_COLUMNS)  # a row of a table
NEEDED_COLUMNS = (*GROUP, "split", "config", "run", "step", "selectable")
COUNT_COLUMNS = ("val_positive_p", "val_size_p", "val_positive_u", "val_size_u")
COUNT_KEYS = ("setting", "prior_used", *COUNT_COLUMNS)  # determine the criteria made of counts
AnyRecord = TypeVar("AnyRecord", Criterion, Metric)


class CurveTable:
    """Stored curves, opened once for all queries; ``store`` has their results, if any."""

    def __init__(self, relation: DuckDBPyRelation, store: Results | None = None) -> None:
        missing = [name for name in NEEDED_COLUMNS if name not in relation.columns]
        if missing:
            raise UserError(
                f"this is not a table of curves: it has no column {', '.join(missing)}",
                "wrong-format",
            )
        if store and not any(map(is_value, relation.columns)):
            relation = relation.project(f"*, {_list_empty_values()}")
        elif not any(record.column in relation.columns for record in METRICS.values()):
            # No truth is known: ``select`` fills in the value of the criterion.
            empty = METRICS[NO_TRUTH].column
            relation = relation.project(f"*, CAST(NULL AS DOUBLE) AS {empty}")
        self.relation = relation
        self.store = store
        self.columns = set(relation.columns)
        self.notes = store.info.notes if store else ()  # for readers of any table
        methods = [MethodInfo.from_json(facts) for facts in store.info.methods] if store else []
        self.methods = {info.name: info for info in methods}  # as far as the results have them

    def frame(self, sql: str, criteria: Iterable[str] = ()) -> DataFrame:
        """Return the answer to a query over ``curves``, which has these criteria as columns."""
        with self._reading():
            return ask(self._with_criteria(criteria), sql).df()

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the answer to a query over ``curves`` as plain rows."""
        with self._reading():
            return ask(self.relation, sql).fetchall()

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Turn an error of a query into one that names what could not be read."""
        import duckdb

        if self.store is not None:
            with self.store.reading():
                yield
            return
        try:
            yield
        except duckdb.Error as error:
            reason = " ".join(str(error).split())[:200]
            raise UserError(
                f"this is not a table of curves like the one that puarena.load returns: {reason}",
                "wrong-format",
            ) from None

    # criteria and metrics

    def metrics(self, given: Iterable[str] | str | None = None, every: bool = False) -> list[str]:
        """Return the given test metrics, otherwise the default (or ``every``) stored ones."""
        default = [record for record in METRICS.values() if every or record.default]
        present = [record for record in METRICS.values() if record.column in self.columns]
        if present == [METRICS[NO_TRUTH]]:
            default = present
        return _choose([get_metric(name) for name in as_list(given)], default, present)

    def criteria(self, given: Iterable[str] | str | None = None, every: bool = False) -> list[str]:
        """Return the given criteria, otherwise the profile's (or ``every``) that are stored."""
        present = [record for record in CRITERIA.values() if self._has(record)]
        default = list(CRITERIA)
        if given is None and not every:
            profile = self.profiles[0] if len(self.profiles) == 1 else ""
            default = list_default_criteria(profile, self.biased)
        records = [get_criterion(name) for name in as_list(given)]
        return _choose(records, [CRITERIA[name] for name in default], present)

    @cached_property
    def outcomes(self) -> dict[str, str]:
        """The status of every run."""
        return dict(self.rows(OUTCOMES))

    @cached_property
    def profiles(self) -> list[str]:
        """The profiles of the runs."""
        return [row[0] for row in self.rows("SELECT DISTINCT profile FROM curves ORDER BY ALL")]

    @cached_property
    def biased(self) -> bool:
        """Whether there are problems whose labels were not given at random."""
        return bool(self.rows(f"SELECT 1 FROM curves WHERE labeling <> '{SCAR}' LIMIT 1"))

    @cached_property
    def observed(self) -> bool:
        """Whether there are problems whose labels were observed and not simulated."""
        return bool(self.rows(f"SELECT 1 FROM curves WHERE labeling = '{OBSERVED}' LIMIT 1"))

    def absent(self) -> list[str]:
        """Return sentences about the default criteria that are not stored."""
        lacking = [
            record.title for record in CRITERIA.values() if record.default and not self._has(record)
        ]
        reason = "it was not stored with them"
        if self._observed_only:
            reason = "the truth about the validation rows is not known"
        return [f"These results have no {title}: {reason}." for title in lacking]

    @cached_property
    def _observed_only(self) -> bool:
        """Whether the labels of every problem were observed."""
        return not self.rows(f"SELECT 1 FROM curves WHERE labeling <> '{OBSERVED}' LIMIT 1")

    def _has(self, record: Criterion) -> bool:
        """Return whether a criterion is stored, or can be computed from stored counts."""
        counts = record.needs == "counts" and self.columns >= set(COUNT_COLUMNS)
        return record.column in self.columns or counts

    def _with_criteria(self, criteria: Iterable[str]) -> DuckDBPyRelation:
        """Return the relation with criteria computed from counts where they are not stored."""
        missing = self._find_missing(criteria)
        if not missing:
            return self.relation
        computed = self._compute(missing)  # noqa: F841, the query reads it by this name
        stored = [record.column for record in missing if record.column in self.columns]
        kept = f"c.* EXCLUDE ({', '.join(stored)})" if stored else "c.*"
        columns = [f"coalesce(c.{name}, computed.{name}) AS {name}" for name in stored]
        columns += [
            f"computed.{record.column}" for record in missing if record.column not in stored
        ]
        same = " AND ".join(f"c.{key} = computed.{key}" for key in COUNT_KEYS)
        joined = self.relation.query(
            "puarena_stored",
            f"SELECT {kept}, {', '.join(columns)} "
            f"FROM puarena_stored AS c LEFT JOIN computed ON {same}",
        )
        assert joined is not None  # a SELECT always gives a relation
        return joined

    def _find_missing(self, criteria: Iterable[str]) -> list[Criterion]:
        """Return those criteria that are made of counts and are not stored with every record."""
        records = [CRITERIA[name] for name in criteria if CRITERIA[name].needs == "counts"]
        if not records or not self.columns >= set(COUNT_COLUMNS):
            return []
        missing = [record for record in records if record.column not in self.columns]
        stored = [record for record in records if record.column in self.columns]
        if stored:
            holes = ", ".join(f"bool_or({record.column} IS NULL)" for record in stored)
            ((*lacking,),) = self.rows(f"SELECT {holes} FROM curves")
            missing += [record for record, lacks in zip(stored, lacking, strict=True) if lacks]
        return [record for record in records if record in missing]

    def _compute(self, records: Sequence[Criterion]) -> DataFrame:
        """Return the criteria of all distinct counts."""
        import numpy as np

        distinct = f"SELECT DISTINCT {', '.join(COUNT_KEYS)} FROM curves"
        frame = ask(self.relation, distinct).df()
        settings = [find_setting(code) for code in frame["setting"]]
        one_sample = [setting is not None and setting.one_sample for setting in settings]
        numbers = {name.removeprefix("val_"): frame[name].to_numpy(float) for name in COUNT_COLUMNS}
        prior = frame["prior_used"].to_numpy(float)
        counts = Counts(**numbers, prior=prior, one_sample=np.array(one_sample, bool))
        # 0/0 of an empty set is NaN, which is never selected.
        with np.errstate(all="ignore"):
            values = {record.column: record.compute(counts) for record in records}
        return frame.assign(**values)


Single: TypeAlias = "CurveTable | Results | str | Path | DuckDBPyRelation | DataFrame"
Source: TypeAlias = "Single | Sequence[Results | str | Path]"


def open_curves(source: Source) -> CurveTable:
    """Open results (or several), or a relation or frame like the one that ``load`` returns."""
    import duckdb
    import pandas

    if isinstance(source, CurveTable):
        return source
    if isinstance(source, (str, Path, Results, list, tuple)):
        store = open_results(source)
        return CurveTable(store.relation(), store)
    relation = source
    if isinstance(relation, pandas.DataFrame) and len(relation.columns):
        relation = connect().from_df(relation)
    if not isinstance(relation, duckdb.DuckDBPyRelation):
        kind = "an empty frame" if isinstance(source, pandas.DataFrame) else repr(source)[:100]
        raise UserError(
            f"{kind} is not a table of curves; give a results folder, or what puarena.load returns",
            "invalid-value",
        )
    return CurveTable(relation)


def load(source: Source) -> DuckDBPyRelation:
    """Return stored curves as a DuckDB relation, one row per run and record.

    ``.df()`` of the relation gives a pandas frame. The source is a results folder, an exported
    summary, ``published:NAME``, a list of these, or a relation or frame like the one returned.
    """
    return open_curves(source).relation


def as_list(given: Iterable[str] | str | None) -> list[str]:
    """Return names that were given as one text or as several."""
    if given is not None and not isinstance(given, Iterable):
        raise UserError(
            f"names are given as one text or as a list of them, and {given!r} is neither",
            "invalid-value",
        )
    return [given] if isinstance(given, str) else list(given or ())


def _list_empty_values() -> str:
    """Return SQL for the columns of criteria and metrics of a folder without results."""
    columns = [record.column for record in CRITERIA.values()]
    columns += [record.column for record in METRICS.values()]
    return ", ".join(f"CAST(NULL AS DOUBLE) AS {column}" for column in columns)


def _choose(
    given: Sequence[AnyRecord], default: Sequence[AnyRecord], present: Sequence[AnyRecord]
) -> list[str]:
    """Return the names of the given records, otherwise of the default ones that are present."""
    for record in given:
        if record not in present:
            titles = ", ".join(other.title for other in present) or "none"
            raise UserError(
                f"these results have no {record.title} (no column '{record.column}'); they have "
                f"{titles}",
                "missing-data",
            )
    chosen = given or [record for record in default if record in present]
    if not chosen:
        kind = type(default[0]).__name__.lower()
        raise UserError(
            f"these results have no {kind} that this version of puarena knows", "missing-data"
        )
    return list(dict.fromkeys(record.name for record in chosen))
