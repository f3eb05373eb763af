"""An exported summary: one Parquet file that is read like a results folder.

It has the columns of the store, and of every run only its last record and the records that a criterion chose, so that
the same selection over it gives the same tables. What ``spec.json`` and ``failures/`` hold is in the file's metadata.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from puarena import __version__
from puarena.errors import UserError
from puarena.store.folder import COLUMNS, FORMAT, Store, scan, sql_text, written_aside

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pandas import DataFrame

MARK = "puarena_summary"  # the key of the metadata


class Summary(Store):
    """A summary as a store that can only be read; ``info["summary"]`` says what it was made from."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.info = _read(self.path)
        self.spec: dict[str, Any] = self.info["spec"]
        self.spec_hash: str = self.info["spec_hash"]
        self._verified: dict[Path, tuple[int, int]] = {}

    def shards(self) -> list[Path]:
        """The file itself."""
        return [self.path]

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Around a query: a damaged file becomes an error that names it."""
        import duckdb

        try:
            yield
        except duckdb.Error as error:
            try:
                duckdb.connect().execute(f"SELECT hash(COLUMNS(*)) FROM {scan([self.path])}").fetchall()
            except duckdb.Error:
                raise UserError(f"the summary '{self.path}' is damaged; get it again") from error
            raise

    def failures(self) -> list[dict[str, Any]]:
        """What the results folder had noted."""
        return list(self.info["summary"]["failures"])

    def write_shard(self, fleet: str, frame: DataFrame) -> None:
        """Not possible."""
        raise self._read_only()

    def write_failure(self, fleet: str, runs: list[str], reason: str) -> None:
        """Not possible."""
        raise self._read_only()

    def clear_failure(self, fleet: str) -> None:
        """Not possible."""
        raise self._read_only()

    def _read_only(self) -> UserError:
        return UserError(f"'{self.path}' is an exported summary, and nothing can be added to it; use a results folder")


def write_summary(con: DuckDBPyConnection, query: str, info: dict[str, Any], path: str | Path) -> None:
    """Write what a query gives, with the ``info``, as a summary."""
    import duckdb

    target = Path(path).resolve()
    columns = ", ".join(f'"{name}"' for name in COLUMNS)
    marks = f"{{{MARK}: {sql_text(json.dumps(info))}}}"
    options = f"FORMAT parquet, COMPRESSION zstd, USE_TMP_FILE false, KV_METADATA {marks}"
    with written_aside(target) as temp:
        try:
            con.execute(f"COPY (SELECT {columns} FROM ({query})) TO {sql_text(temp)} ({options})")
        except duckdb.IOException as error:
            raise UserError(f"cannot write '{target}' ({' '.join(str(error).split())})") from error


def _read(path: Path) -> dict[str, Any]:
    """The metadata, if this is a summary that this version can read."""
    import duckdb

    try:
        with duckdb.connect() as con:
            marks = dict(con.execute(f"SELECT key, value FROM parquet_kv_metadata({sql_text(path)})").fetchall())
            found = con.execute(f"DESCRIBE SELECT * FROM {scan([path])}").fetchall()
        info: dict[str, Any] = json.loads(marks[MARK.encode()])
    except (duckdb.Error, KeyError, ValueError):
        raise UserError(f"'{path}' is neither a results folder nor a summary that 'puarena export' wrote") from None
    if info.get("format") != FORMAT or {name: kind for name, kind, *_ in found} != COLUMNS:
        raise UserError(
            f"'{path}' is a summary in format {info.get('format')} and this puarena {__version__} reads format {FORMAT}"
        )
    return info
