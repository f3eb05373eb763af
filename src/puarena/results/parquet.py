"""Parquet files that are there whole, and whose every bit is checked when they are read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from puarena.results.sql import scan, sql_file, sql_text
from puarena.utils.files import SEAL, add_seal, atomic_write, cannot_write, is_intact

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SEALED = "puarena_seal"  # the mark that holds the checksum


def write_parquet(
    con: DuckDBPyConnection,
    query: str,
    target: Path,
    marks: Mapping[str, str],
    exclusive: bool = False,
) -> None:
    """Write what a query gives, with marks and a checksum over the whole file; ``exclusive``: if there is none yet."""
    import duckdb

    listed = ", ".join(
        f"{key}: {sql_text(value)}" for key, value in {**marks, SEALED: SEAL}.items()
    )
    options = f"FORMAT parquet, COMPRESSION zstd, USE_TMP_FILE false, KV_METADATA {{{listed}}}"
    with atomic_write(target, exclusive) as temp:
        try:
            con.execute(f"COPY ({query}) TO {sql_text(temp)} ({options})")
        except duckdb.IOException as error:
            raise cannot_write(target, error) from error
        temp.write_bytes(add_seal(temp.read_bytes()))


def footer(con: DuckDBPyConnection, file: Path) -> tuple[dict[str, str], dict[bytes, bytes]]:
    """The columns with their types, and the marks, of a Parquet file, from its footer alone."""
    columns = con.execute(f"DESCRIBE SELECT * FROM {scan([file])}").fetchall()
    marks = con.execute(f"SELECT key, value FROM parquet_kv_metadata({sql_file(file)})").fetchall()
    return {name: kind for name, kind, *_ in columns}, dict(marks)


def is_damaged(file: Path, has_seal: bool) -> bool:
    """Has a bit of the file changed? One without a seal is damaged where all have one."""
    whole = is_intact(file.read_bytes())
    return not whole and (has_seal or whole is not None)
