"""An exported summary: one Parquet file that is read like a results folder.

It has the columns of the store, and of every run only its last record and the records that a criterion chose, so that
the same selection over it gives the same tables. What ``spec.json`` and ``failures/`` hold is in the file's metadata.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from puarena import __version__
from puarena.errors import UserError
from puarena.results.base import Results, has_schema
from puarena.results.parquet import SEALED, footer, is_damaged, write_parquet
from puarena.results.schema import FORMAT, select_list
from puarena.utils.files import parse_json

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MARK = "puarena_summary"  # the key of the metadata


class Summary(Results):
    """A summary; ``info["summary"]`` says what it was made from."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(Path(path), _read(Path(path)))

    def shards(self) -> list[Path]:
        """The file itself."""
        return [self.path]

    def damaged(self, file: Path) -> UserError:
        """The error for a summary that cannot be read to its end."""
        return UserError(f"the summary '{file}' is damaged; get it again")

    def failures(self) -> list[dict[str, Any]]:
        """What the results folder had noted."""
        return list(self.info["summary"]["failures"])


def write_summary(
    con: DuckDBPyConnection, query: str, info: dict[str, Any], path: str | Path
) -> None:
    """Write what a query gives, with the ``info``, as a summary."""
    columns = select_list(con.sql(query).columns)
    write_parquet(
        con, f"SELECT {columns} FROM ({query})", Path(path).resolve(), {MARK: json.dumps(info)}
    )


def _read(path: Path) -> dict[str, Any]:
    """The metadata, if this is a summary that this version can read."""
    import duckdb

    try:
        with duckdb.connect() as con:
            columns, marks = footer(con, path)
        info: dict[str, Any] = parse_json(marks[MARK.encode()])
    except (duckdb.Error, KeyError, ValueError):
        raise UserError(
            f"'{path}' is neither a results folder nor a summary that 'puarena export' wrote"
        ) from None
    if is_damaged(path, SEALED.encode() in marks):
        raise UserError(f"the summary '{path}' is damaged; get it again")
    if info.get("format") != FORMAT or not has_schema(columns):
        raise UserError(
            f"'{path}' is a summary in format {info.get('format')} and this puarena {__version__} reads "
            f"format {FORMAT}"
        )
    return info
