"""The little SQL that the house speaks."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from puarena.errors import UserError

if TYPE_CHECKING:
    from duckdb import DuckDBPyRelation


def ask(relation: DuckDBPyRelation, sql: str) -> DuckDBPyRelation:
    """Ask a query that calls the relation ``curves``; no view or table of that name is touched."""
    answer = relation.query(
        "puarena_curves", f"WITH curves AS (FROM puarena_curves) SELECT * FROM ({sql})"
    )
    assert answer is not None  # a SELECT always gives a relation
    return answer


def sql_text(value: object) -> str:
    """A string literal."""
    return "'" + str(value).replace("'", "''") + "'"


def sql_name(column: str) -> str:
    """A column's name, quoted."""
    return '"' + column.replace('"', '""') + '"'


def sql_file(path: Path) -> str:
    """A file's path as a literal that matches this file and no other: DuckDB takes paths for patterns."""
    return sql_text(re.sub(r"([*?\[])", r"[\1]", str(path)))


def scan(files: Iterable[Path]) -> str:
    """Parquet files as one table, columns joined by name; a folder named ``a=b`` is not a column."""
    return f"read_parquet([{', '.join(map(sql_file, files))}], hive_partitioning = false, union_by_name = true)"


def check_handles(error: Exception) -> None:
    """Say it if DuckDB, which has all files of a query open, may open no more."""
    if "Too many open files" in str(error):
        raise UserError(
            "this process may not have as many files open as there are shards; allow it more ('ulimit -n 4096')"
        ) from error
