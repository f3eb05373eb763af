"""Check a results folder file by file: checksums, columns, and the runs against the plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from puarena.errors import UserError
from puarena.experiments.checkpoints import parse_marks
from puarena.results import Folder
from puarena.results.folder import FLEET_NAME
from puarena.results.parquet import check_resources, connect, quote_name, scan
from puarena.results.planned import FILE as PLANNED
from puarena.results.records import FailureNote, read_record
from puarena.results.schema import COLUMNS, find_wrong_rows
from puarena.utils.files import describe_error

CHECKED_FOLDERS = {"shards": ".parquet", "progress": ".safetensors", "failures": ".json"}


@dataclass
class Finding:
    """Something wrong with a file, and where it was moved to, if it was."""

    file: str
    what: str
    moved: str = ""


@dataclass
class Checkup:
    """What was checked, and what is wrong."""

    folder: str
    shards: int = 0
    states: int = 0
    runs: int = 0
    planned: int | None = None
    findings: list[Finding] = field(default_factory=list)

    @property
    def line(self) -> str:
        """The result in one sentence."""
        of = "" if self.planned is None else f" of {self.planned:,}"
        result = "everything is as it was written"
        if self.findings:
            result = f"{len(self.findings)} things are wrong"
        counts = f"{self.shards:,} shards with {self.runs:,}{of} runs, {self.states:,} states"
        return f"{self.folder}: {counts}; {result}"


def examine(path: Path, repair: bool = False) -> Checkup:
    """Check every file of a results folder; ``repair`` moves damaged ones to ``damaged/``.

    Only files with names that puarena gives are moved, and no link is followed.
    """
    store = Folder(path)
    checkup = Checkup(str(path))
    # Symbolic links could have files outside the folder moved.
    for name in (*CHECKED_FOLDERS, "damaged"):
        if repair and (path / name).is_symlink():
            message = f"'{path / name}' is a symbolic link; replace it by the folder to repair it"
            raise UserError(message, "not-supported")
    for file, what in _find_damage(store, checkup):
        moved = str(store.set_aside(file)) if repair and _is_own(file) else ""
        checkup.findings.append(Finding(str(file), what, moved))
    return checkup


def _is_own(file: Path) -> bool:
    """Return whether a file has a name that puarena gives, and is no link."""
    named = file.suffix == CHECKED_FOLDERS.get(file.parent.name) and FLEET_NAME.fullmatch(file.stem)
    return (bool(named) or file.name == PLANNED) and not file.is_symlink()


def _find_damage(store: Folder, checkup: Checkup) -> Iterator[tuple[Path, str]]:
    planned: set[str] | None = None
    try:
        kept = store.planned()
        if kept is not None:
            planned = set(kept.runs)
            checkup.planned = len(planned)
    except UserError:
        yield store.path / PLANNED, "is damaged"
    yield from _check_shards(store, checkup, planned)
    for file, marks in sorted(store.states().items()):
        what = _check_checkpoint(marks, planned)
        if not what:
            checkup.states += 1
        # A run that ended just now has removed its checkpoint.
        elif file.exists():
            yield file, what
    for file in sorted((store.path / "failures").glob("[!.]*")):
        try:
            read_record(FailureNote, file, "a note of a failed fleet", "remove it")
        except UserError:
            yield file, "is not a note of a failed fleet"


def _check_shards(
    store: Folder, checkup: Checkup, planned: set[str] | None
) -> Iterator[tuple[Path, str]]:
    owners: dict[str, Path] = {}
    faults = store.inspect_shards()
    sound = [file for file, fault in faults.items() if not fault]
    runs, wrong = _read_runs(sound)
    faults |= wrong
    for file, fault in faults.items():
        if fault:
            yield file, fault
            continue
        own = runs.get(file, set())
        doubled = [run for run in own if owners.setdefault(run, file) != file]
        checkup.shards += 1
        checkup.runs += len(own) - len(doubled)
        foreign = own - planned if planned is not None else set()
        if foreign:
            yield file, f"has {len(foreign)} runs that were not planned"
        elif doubled:
            yield file, f"has {len(doubled)} runs that {owners[doubled[0]].name} has, too"


def _read_runs(files: Sequence[Path]) -> tuple[dict[Path, set[str]], dict[Path, str]]:
    """Return the runs of intact shards, and what is wrong with the records of some."""
    import duckdb

    runs: dict[Path, set[str]] = {}
    if not files:
        return runs, {}
    with connect() as con:
        try:
            names = ", ".join(map(quote_name, COLUMNS))
            rows = f"SELECT filename, {names} FROM {scan(files, named=True)}"
            query = "SELECT filename, run, count(*), count(DISTINCT step) FROM ({}) GROUP BY ALL"
            found = con.execute(query.format(rows)).fetchall()
            wrong = find_wrong_rows(con, f"SELECT * REPLACE (filename AS fleet) FROM ({rows})")
        except (duckdb.Error, OSError) as error:
            check_resources(error)
            if len(files) == 1:
                return runs, {files[0]: f"cannot be read ({describe_error(error)})"}
            faults: dict[Path, str] = {}
            for file in files:
                own, fault = _read_runs([file])
                runs |= own
                faults |= fault
            return runs, faults
    faults = {Path(file): what for file, what in wrong}
    for file, run, records, steps in found:
        runs.setdefault(Path(file), set()).add(run)
        if records > steps:
            faults.setdefault(Path(file), "has two records of one run and step")
    return runs, faults


def _check_checkpoint(marks: Mapping[str, str], planned: set[str] | None) -> str:
    """Return what is wrong with a checkpoint; a damaged file has no marks."""
    if not marks:
        return "is damaged"
    try:
        runs, _ = parse_marks(marks)
    except (ValueError, TypeError, KeyError):
        return "is not the checkpoint of a fleet"
    foreign = set(runs) - planned if planned is not None else set()
    return f"has {len(foreign)} runs that were not planned" if foreign else ""
