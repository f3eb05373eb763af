"""Stored results, to be read: a results folder or an exported summary."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from puarena.errors import UserError
from puarena.results.planned import Planned
from puarena.results.schema import COLUMNS, OK, is_value, select_list
from puarena.results.sql import ask, check_handles, scan, sql_name, sql_text

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation


class Results:
    """Results that can be read. ``info`` has the spec, its hash, and the versions that made them."""

    def __init__(self, path: Path, info: dict[str, Any]) -> None:
        self.path = path
        self.info = info
        self.spec: dict[str, Any] = info["spec"]
        self.spec_hash: str = info["spec_hash"]

    @property
    def summarized(self) -> bool:
        """Is it, or a part of it, an exported summary, which has few records of a run?"""
        return "summary" in self.info or any(
            part.get("kind") == "summary" for part in self.info.get("sources", ())
        )

    def shards(self) -> list[Path]:
        """The Parquet files, each checked."""
        raise NotImplementedError

    def failures(self) -> list[dict[str, Any]]:
        """``fleet``, ``runs`` and ``reason`` of every fleet that could not be finished."""
        raise NotImplementedError

    def planned(self) -> Planned | None:
        """The runs that are meant to be there, as they were kept; None if they were not."""
        return None

    def runs_with_state(self) -> set[str]:
        """The runs in training or interrupted of which there is a state."""
        return set()

    def damaged(self, file: Path) -> UserError:
        """The error for a file that cannot be read to its end."""
        raise NotImplementedError

    def rows(self, files: list[Path]) -> str:
        """SQL for the rows of these files, facts filled in where an older version wrote them."""
        return scan(files)

    def relation(self, con: DuckDBPyConnection | None = None) -> DuckDBPyRelation:
        """All rows as one DuckDB relation (``.df()`` for pandas); empty, with the columns, if there are none."""
        import duckdb

        con = con or duckdb.connect()
        files = self.shards()
        if not files:
            nothing = ", ".join(
                f"CAST(NULL AS {kind}) AS {sql_name(name)}" for name, kind in COLUMNS.items()
            )
            return con.sql(f"SELECT {nothing} LIMIT 0")
        table = con.sql(f"SELECT * FROM {self.rows(files)}")
        twice = self.doubled(con, files)
        if twice:
            kept = ", ".join(
                f"({sql_text(run)}, {sql_text(fleet)})" for run, fleet in twice.items()
            )
            chosen = f"SELECT * FROM (VALUES {kept}) AS kept(run, fleet)"
            table = ask(
                table,
                f"SELECT * FROM curves WHERE run NOT IN (SELECT run FROM ({chosen})) OR (run, fleet) IN ({chosen})",
            )
        return table.project(select_list(table.columns))

    def doubled(self, con: DuckDBPyConnection, files: list[Path]) -> dict[str, str]:
        """The runs that two fleets have stored, and the fleet whose curve counts: the first by name, for everybody."""
        with self.reading():
            query = f"SELECT run, min(fleet) FROM {scan(files)} GROUP BY run HAVING min(fleet) <> max(fleet)"
            return dict(con.execute(query).fetchall()) if len(files) > 1 else {}

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Around a query over the relation: a file damaged in its middle becomes an error that names it."""
        import duckdb

        try:
            yield
        except duckdb.Error as failure:
            check_handles(failure)
            for file in self.shards():
                try:
                    duckdb.connect().execute(
                        f"SELECT hash(COLUMNS(*)) FROM {scan([file])}"
                    ).fetchall()
                except duckdb.Error as error:
                    raise self.damaged(file) from error
            raise

    def outcomes(self) -> dict[str, str]:
        """The status of every run that has a curve."""
        worst = f"coalesce(min(status) FILTER (WHERE status <> {sql_text(OK)}), {sql_text(OK)})"
        with self.reading():
            return dict(
                ask(self.relation(), f"SELECT run, {worst} FROM curves GROUP BY run").fetchall()
            )

    def done_runs(self) -> set[str]:
        """Runs that need not be computed again: all that have a curve, also those that diverged."""
        return set(self.outcomes())

    def diverged(self, outcomes: dict[str, str] | None = None) -> dict[str, str]:
        """Run and status of every run whose loss ran away: done, and data; ``outcomes`` if they are known already."""
        outcomes = self.outcomes() if outcomes is None else outcomes
        return {run: status for run, status in outcomes.items() if status != OK}

    def failed(self, outcomes: dict[str, str] | None = None) -> dict[str, str]:
        """Run and reason of every run without a curve whose fleet broke; ``outcomes`` if they are known already."""
        outcomes = self.outcomes() if outcomes is None else outcomes
        return {
            run: note["reason"]
            for note in self.failures()
            for run in note["runs"]
            if run not in outcomes
        }


def has_schema(columns: dict[str, str]) -> bool:
    """Return whether these are the columns of a table that puarena wrote."""
    extra = {name: kind for name, kind in columns.items() if name not in COLUMNS}
    return COLUMNS.items() <= columns.items() and all(
        is_value(n) and k == "DOUBLE" for n, k in extra.items()
    )
