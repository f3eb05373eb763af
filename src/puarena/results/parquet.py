"""Sealed Parquet files, and the SQL to read them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from puarena.errors import UserError
from puarena.utils.files import SEAL, add_seal, atomic_write, cannot_write, is_intact

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

SEAL_KEY = "puarena_seal"  # the key of the file's metadata that holds its checksum
MIN_ADDRESS_SPACE_BYTES = 1_500_000_000  # below, DuckDB ends the process when an allocation fails


@dataclass(frozen=True)
class Footer:
    """The columns of a Parquet file with their types, and its metadata."""

    columns: dict[str, str]
    metadata: dict[str, str]


def connect() -> DuckDBPyConnection:
    """Return a new connection; raises an error if the process may not use enough memory for one."""
    import duckdb

    limit = _read_address_limit()
    if limit is not None and limit < MIN_ADDRESS_SPACE_BYTES:
        raise UserError(
            f"this process may use {limit / 1e9:.1f} GB of address space ('ulimit -v'), and needs "
            f"{MIN_ADDRESS_SPACE_BYTES / 1e9:g} GB for results; raise the limit",
            "out-of-resources",
        )
    try:
        return duckdb.connect()
    except duckdb.Error as error:
        check_resources(error)
        raise


def _read_address_limit() -> int | None:
    """Return how many bytes of address space this process may use; None: any number."""
    try:
        import resource
    except ImportError:  # on Windows
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if soft == resource.RLIM_INFINITY else soft


def write_parquet(
    con: DuckDBPyConnection,
    query: str,
    target: Path,
    metadata: Mapping[str, str],
    exclusive: bool = False,
) -> None:
    """Write the rows of a query as a sealed file; see ``atomic_write`` for ``exclusive``."""
    import duckdb

    entries = {**metadata, SEAL_KEY: SEAL}
    listed = ", ".join(f"{key}: {quote_text(value)}" for key, value in entries.items())
    options = f"FORMAT parquet, COMPRESSION zstd, USE_TMP_FILE false, KV_METADATA {{{listed}}}"
    with atomic_write(target, exclusive) as temp:
        try:
            con.execute(f"COPY ({query}) TO {quote_text(temp)} ({options})")
        except duckdb.IOException as error:
            raise cannot_write(target, error) from error
        temp.write_bytes(add_seal(temp.read_bytes()))


def read_footers(con: DuckDBPyConnection, files: Sequence[Path]) -> dict[Path, Footer]:
    """Read the footers of Parquet files, all in two queries."""
    if not files:
        return {}
    paths = list_files(files)
    # Nearly all files have the same columns, so the lists of columns are fetched once each.
    columns = con.execute(f"""
        SELECT names, types, list(file_name) FROM (
            SELECT file_name, list(name ORDER BY column_id) AS names,
                   list(duckdb_type ORDER BY column_id) AS types
            FROM parquet_schema({paths}) WHERE duckdb_type IS NOT NULL GROUP BY file_name
        ) GROUP BY names, types
    """).fetchall()
    entries = con.execute(
        f"SELECT file_name, decode(key), decode(value) FROM parquet_kv_metadata({paths})"
    ).fetchall()
    metadata: dict[str, dict[str, str]] = {}
    for name, key, value in entries:
        metadata.setdefault(name, {})[key] = value
    footers = {}
    for names, types, members in columns:
        shared = dict(zip(names, types, strict=True))
        for name in members:
            footers[Path(name)] = Footer(shared, metadata.get(name, {}))
    return footers


def is_sealed(file: Path) -> bool:
    """Return whether a file holds its own checksum and is as it was written."""
    return is_intact(file.read_bytes()) is True


def ask(relation: DuckDBPyRelation, sql: str) -> DuckDBPyRelation:
    """Return the answer to a query that calls the relation ``curves``."""
    # The common table expression shadows a table or view of that name in the user's connection.
    answer = relation.query(
        "puarena_curves", f"WITH curves AS (FROM puarena_curves) SELECT * FROM ({sql})"
    )
    assert answer is not None  # a SELECT always gives a relation
    return answer


def scan(files: Iterable[Path], named: bool = False) -> str:
    """Return SQL for the rows of Parquet files that have the same columns.

    ``named`` adds a column ``filename``.
    """
    # A folder named ``a=b`` would be a column with hive partitioning.
    return f"read_parquet({list_files(files)}, hive_partitioning = false, filename = {named})"


def list_files(files: Iterable[Path]) -> str:
    """Return paths as a list of literals."""
    # DuckDB takes paths for patterns: in brackets, the special characters stand for themselves.
    escaped = [re.sub(r"([*?[])", r"[\1]", str(file)) for file in files]
    return f"[{', '.join(map(quote_text, escaped))}]"


def quote_text(value: object) -> str:
    """Return a string literal."""
    return "'" + str(value).replace("'", "''") + "'"


def quote_name(column: str) -> str:
    """Return a column's name, quoted."""
    return '"' + column.replace('"', '""') + '"'


def check_resources(error: Exception) -> None:
    """Raise the error for a query that ran out of memory or open files, if it did."""
    import duckdb

    if "Too many open files" in str(error):
        raise UserError(
            "this process may not open as many files as there are shards; raise the limit "
            "('ulimit -n 4096')",
            "out-of-resources",
        ) from error
    if isinstance(error, duckdb.OutOfMemoryException):
        raise UserError(
            "there is not enough memory for this query; free some, or use fewer results",
            "out-of-resources",
        ) from error
