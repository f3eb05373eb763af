"""``planned.parquet``: the runs a results folder should have, and the fleets they are trained in.

It is written once. Readers of the folder then need not run what its spec names, and later runs use
the same fleets: which runs are trained together decides how their sums are rounded.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from puarena.errors import UserError
from puarena.pu.problem import PROBLEM_COLUMNS
from puarena.results.parquet import (
    check_resources,
    connect,
    is_sealed,
    read_footers,
    scan,
    write_parquet,
)
from puarena.results.schema import COLUMNS, name_wrong_value

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

CHOICE_COLUMNS = ("algorithm", "profile", "prior_source", "split", "config")
PLANNED_COLUMNS = ("run", "fleet", *PROBLEM_COLUMNS, *CHOICE_COLUMNS)
NEEDED_COLUMNS = ("run", "fleet", *PROBLEM_COLUMNS, "algorithm")
FILE, FLEET_SIZE_KEY = "planned.parquet", "puarena_fleet_size"


@dataclass(frozen=True)
class Planned:
    """Planned runs by run id, each as its columns (``run``, ``fleet``, its problem and choices).

    ``limit`` is the largest number of runs in a fleet, if it was set.
    """

    runs: dict[str, dict[str, Any]]
    limit: int | None = None


def write_planned(folder: Path, planned: Planned, first: bool = False) -> None:
    """Write the planned runs; ``first`` raises a ``FileExistsError`` if the file exists already."""
    import pandas as pd

    frame = pd.DataFrame(list(planned.runs.values()))
    limit = "" if planned.limit is None else str(planned.limit)
    with connect() as con:
        con.register("frame", frame)
        write_parquet(con, "SELECT * FROM frame", folder / FILE, {FLEET_SIZE_KEY: limit}, first)


def read_planned(folder: Path) -> Planned | None:
    """Read the planned runs; None if the folder has none."""
    import duckdb

    file = folder / FILE
    if not os.path.lexists(file):
        return None
    try:
        if not file.is_file() or not is_sealed(file):
            raise ValueError("it is no file, or its checksum differs")
        with connect() as con:
            footer = read_footers(con, [file])[file]
            _check_columns(con, file, footer.columns)
            rows = con.execute(f"SELECT * FROM {scan([file])}").fetchall()
        limit = footer.metadata[FLEET_SIZE_KEY]
        runs = [dict(zip(footer.columns, row, strict=True)) for row in rows]
        return Planned({run["run"]: run for run in runs}, int(limit) if limit else None)
    except UserError:
        raise
    except (duckdb.Error, OSError, ValueError, KeyError) as error:
        check_resources(error)
        raise UserError(
            f"'{file}' is damaged; remove it, and 'puarena run' writes it again", "damaged-file"
        ) from error


def _check_columns(con: DuckDBPyConnection, file: Path, columns: Mapping[str, str]) -> None:
    """Raise ValueError for columns or values that puarena would not write."""
    known = [name for name in PLANNED_COLUMNS if name in columns or name in NEEDED_COLUMNS]
    for name in known:
        # pandas holds whole numbers in eight bytes.
        if columns.get(name, "").replace("BIGINT", "INTEGER") != COLUMNS[name]:
            raise ValueError(f"it has no column {name} of that type")
    wrong = name_wrong_value(known)
    if found := con.execute(
        f"SELECT {wrong} AS what FROM {scan([file])} WHERE what <> '' LIMIT 1"
    ).fetchall():
        raise ValueError(found[0][0])


def unite_planned(parts: Sequence[Planned | None]) -> Planned | None:
    """Return the planned runs of several folders; None if one of them has none."""
    runs: dict[str, dict[str, Any]] = {}
    for part in parts:
        if part is None:
            return None
        for run, row in part.runs.items():
            runs.setdefault(run, row)
    limits = {part.limit for part in parts if part is not None}
    return Planned(runs, limits.pop() if len(limits) == 1 else None)
