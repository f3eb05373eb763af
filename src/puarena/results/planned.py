"""``planned.parquet``: the runs a results folder is meant to have, and which of them are trained together.

It is written once, so nobody who reads the folder has to run what its spec names, and whoever adds to it groups runs
into the same fleets: what a run is trained with decides how its sums are rounded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from puarena.errors import UserError
from puarena.results.parquet import footer, is_damaged, write_parquet
from puarena.results.sql import scan

FILE, LIMIT = "planned.parquet", "puarena_fleet_size"


@dataclass(frozen=True)
class PlannedRun:
    """A run that is meant to be there: its name, the fleet it belongs to, and what tables tell runs apart by."""

    run_id: str
    fleet: str
    dataset: str
    case: int
    setting: str
    rate: float
    prior: float
    labeling: str
    algorithm: str
    profile: str
    prior_source: str
    split: int
    config: int


@dataclass(frozen=True)
class Planned:
    """All of them, and the largest number of runs in a fleet that was asked for, if one was."""

    runs: tuple[PlannedRun, ...]
    limit: int | None = None


def write_planned(folder: Path, planned: Planned, first: bool = False) -> None:
    """Keep the planned runs of a results folder; ``first``: a ``FileExistsError`` if somebody has just done that."""
    import duckdb
    import pandas as pd

    frame = pd.DataFrame(
        [astuple(run) for run in planned.runs], columns=[field.name for field in fields(PlannedRun)]
    )
    with duckdb.connect() as con:
        con.register("frame", frame)
        write_parquet(
            con, "SELECT * FROM frame", folder / FILE, {LIMIT: str(planned.limit or "")}, first
        )


def read_planned(folder: Path) -> Planned | None:
    """The planned runs of a results folder; None if they were not kept."""
    import duckdb

    file = folder / FILE
    if not file.is_file():
        return None
    names = ", ".join(f'"{field.name}"' for field in fields(PlannedRun))
    try:
        if is_damaged(file, has_seal=True):
            raise ValueError("its checksum differs")
        with duckdb.connect() as con:
            _, marks = footer(con, file)
            rows = con.execute(f"SELECT {names} FROM {scan([file])}").fetchall()
        limit = marks[LIMIT.encode()].decode()
        return Planned(tuple(PlannedRun(*row) for row in rows), int(limit) if limit else None)
    except (duckdb.Error, OSError, ValueError, KeyError) as error:
        raise UserError(
            f"'{file}' is damaged; remove it, and 'puarena run' writes it again"
        ) from error


def united(parts: Sequence[Planned | None]) -> Planned | None:
    """The runs of several folders, each once; None if one of them did not keep its own."""
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    limits = {part.limit for part in known}
    return Planned(
        _once(run for part in known for run in part.runs),
        limits.pop() if len(limits) == 1 else None,
    )


def _once(runs: Iterable[PlannedRun]) -> tuple[PlannedRun, ...]:
    return tuple({run.run_id: run for run in reversed(tuple(runs))}.values())[::-1]
