"""Results that can be read, from a results folder or an exported summary.

A results folder has ``spec.json``, ``methods.json``, ``planned.parquet``, ``shards/FLEET.parquet``,
``failures/FLEET.json``, ``progress/FLEET.safetensors`` and ``claims/FLEET.*``. One shard holds the
curves of one fleet, one row per run and record; until it exists, ``progress`` has a recent state
of the fleet. Every file is written atomically, and Parquet files and states contain their own
checksum.

``compact`` joins the shards of many small fleets into ``shards/packed-*.parquet``, whose metadata
lists the fleets; a fleet that is listed is read from there, and its own shard is removed when the
next run begins. So it is always whole, and no file goes away while another process reads it.

A summary is one Parquet file with the same columns. Of every run it has only its last record and
those that a criterion selected, so that the same selection gives the same tables. Its metadata has
what ``spec.json`` and ``failures/`` have.
"""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from puarena import __version__
from puarena.errors import UserError
from puarena.experiments.spec import Spec
from puarena.results import claims
from puarena.results.parquet import (
    Footer,
    ask,
    check_resources,
    connect,
    is_sealed,
    quote_name,
    quote_text,
    read_footers,
    scan,
    write_parquet,
)
from puarena.results.planned import PLANNED_COLUMNS, Planned, read_planned, write_planned
from puarena.results.records import (
    FailureNote,
    Origin,
    ResultsInfo,
    SummaryFacts,
    parse_methods,
    parse_record,
    read_bytes,
    read_record,
)
from puarena.results.schema import (
    COLUMNS,
    FORMAT,
    OK,
    check_frame,
    find_wrong_rows,
    has_schema,
    select_list,
)
from puarena.utils.files import (
    allow_open_files,
    cannot_read,
    cannot_write,
    check_writable,
    describe_error,
    is_intact,
    is_text,
    parse_json,
    remove_temporary_files,
    write_file,
)
from puarena.utils.identity import digest

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation
    from pandas import DataFrame

PARTS = ("shards", "failures", "progress", "claims")
DAMAGED = "damaged"  # the folder for damaged files that were moved aside
METHODS_FILE = "methods.json"
SUMMARY_KEY = "puarena_summary"  # of a summary's metadata
FLEET_NAME = re.compile(r"\w[\w.+=-]{0,199}", re.ASCII)
MANY_FILES = 64  # from which shards are packed, and the rows are read once if they are few
PACKED = "packed-"  # the start of the names of shards that hold several fleets
FLEETS_KEY = "puarena_fleets"  # of their metadata
MAX_PACKED_BYTES = 4_000_000  # of a shard that is packed
MAX_PACK_BYTES = 64_000_000  # of the shards in one pack
FEW_ROWS = 300_000
OUTCOMES = (  # a query for the status of every run
    f"SELECT run, coalesce(min(status) FILTER (WHERE status <> '{OK}'), '{OK}') "
    "FROM curves GROUP BY run"
)
Stamp = tuple[int, int]  # size and time of a file


@dataclass(frozen=True)
class Shard:
    """What is known of a verified shard."""

    stamp: Stamp
    columns: tuple[str, ...]
    fleets: tuple[str, ...]  # of a packed one


class Results:
    """Results that can be read: base class of a folder, a summary, and several of them joined.

    ``info`` has the spec, its hash, and the versions that computed the results.
    """

    def __init__(self, path: Path, info: ResultsInfo) -> None:
        self.path = path
        self.info = info
        self.spec_hash = info.spec_hash
        self._checked: object = None  # the state of the files whose rows were checked

    @cached_property
    def spec(self) -> Spec:
        """The spec, checked.

        Checked when it is first used: curves stay readable where a method or a mechanism of the
        spec is not installed.
        """
        try:
            return Spec.load(self.info.spec)
        except UserError as error:
            raise UserError(
                f"the spec of '{self.path}' cannot be read: {error}", "wrong-format"
            ) from error

    # what subclasses have

    @property
    def name(self) -> str:
        """The name that a reader knows the results by."""
        return self.path.resolve().name

    def shards(self) -> list[Path]:
        """Return the Parquet files, each verified once; raises an error for a damaged one."""
        raise NotImplementedError

    def columns(self) -> dict[tuple[str, ...], list[Path]]:
        """Return the verified files by their columns."""
        raise NotImplementedError

    def failures(self) -> list[FailureNote]:
        """Return why fleets could not be finished."""
        raise NotImplementedError

    def planned(self) -> Planned | None:
        """Return the planned runs; None if they were not stored."""
        return None

    def runs_with_state(self) -> set[str]:
        """Return the unfinished runs that a state was saved of."""
        return set()

    # what follows

    @property
    def is_summarized(self) -> bool:
        """Whether some of the results are an exported summary, which has few records of a run."""
        parts = self.info.sources
        return self.info.summary is not None or any(part.kind == "summary" for part in parts)

    @property
    def version(self) -> str:
        """The version of puarena that computed the results."""
        return self.info.versions["puarena"]

    def origins(self, runs: int) -> list[Origin]:
        """Return where ``runs`` of these results come from; of joined results, their parts."""
        if self.info.sources:
            return [
                part.model_copy(update={"folder": f"{self.name}/{part.folder}"})
                for part in self.info.sources
            ]
        origin = Origin(
            folder=self.name,
            kind="results folder" if self.info.summary is None else "summary",
            runs=runs,
            spec_hash=self.spec_hash,
            versions=self.info.versions,
            spec=self.info.spec,
        )
        return [origin]

    def relation(self, con: DuckDBPyConnection | None = None) -> DuckDBPyRelation:
        """Return all rows as one DuckDB relation (``.df()`` for pandas); it may be empty."""
        con = con or connect()
        files = self.columns()
        if not files:
            nothing = ", ".join(
                f"CAST(NULL AS {kind}) AS {quote_name(name)}" for name, kind in COLUMNS.items()
            )
            return con.sql(f"SELECT {nothing} LIMIT 0")
        with self.reading():
            query = self._keep_few_rows(con, files)
            self._check_rows(con, query)
            table = con.sql(query)
            repeated = self._find_repeated_runs(table, files)
            if repeated:
                kept = ", ".join(
                    f"({quote_text(run)}, {quote_text(fleet)})" for run, fleet in repeated
                )
                chosen = f"SELECT * FROM (VALUES {kept}) AS kept(run, fleet)"
                table = ask(
                    table,
                    f"SELECT * FROM curves WHERE run NOT IN (SELECT run FROM ({chosen})) "
                    f"OR (run, fleet) IN ({chosen})",
                )
        return table

    def _keep_few_rows(
        self, con: DuckDBPyConnection, files: Mapping[tuple[str, ...], Sequence[Path]]
    ) -> str:
        """Return a query for the rows of files; of many files with few rows, a table of them.

        Every query would open all the files again.
        """
        query = _select_rows(files)
        if sum(map(len, files.values())) < MANY_FILES:
            return query
        name = f"puarena_rows_{id(self)}"
        few = f"SELECT * FROM ({query}) LIMIT {FEW_ROWS + 1}"
        con.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {few}")
        ((rows,),) = con.execute(f"SELECT count(*) FROM {name}").fetchall()
        if rows <= FEW_ROWS:
            return f"SELECT * FROM {name}"
        con.execute(f"DROP TABLE {name}")
        return query

    def _check_rows(self, con: DuckDBPyConnection, query: str) -> None:
        """Raise an error for rows that puarena would not write; once for the same files."""
        state = self._state()
        if self._checked != state:
            for fleet, what in find_wrong_rows(con, query)[:1]:
                raise UserError(
                    f"'{self.path}' has rows that puarena did not write (fleet {fleet!r}: {what})",
                    "wrong-format",
                )
            self._checked = state

    def _state(self) -> object:
        """Return what changes when a file does."""
        return True

    @staticmethod
    def _find_repeated_runs(
        table: DuckDBPyRelation, files: Mapping[Any, Sequence[Path]]
    ) -> list[tuple[str, str]]:
        """Return runs that two fleets have stored, with the one that counts: the first by name."""
        if sum(map(len, files.values())) < 2:
            return []
        query = "SELECT run, min(fleet) FROM curves GROUP BY run HAVING min(fleet) <> max(fleet)"
        return ask(table, query).fetchall()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Turn an error of a query over the relation into one that names the damaged file."""
        import duckdb

        try:
            yield
        except (duckdb.BinderException, duckdb.CatalogException, duckdb.ParserException):
            raise  # a wrong query
        except duckdb.Error as error:
            check_resources(error)
            self.verify()
            raise UserError(
                f"'{self.path}' cannot be read ({describe_error(error)})", "damaged-file"
            ) from error

    def verify(self) -> None:
        """Verify all files again; raises an error for the first that is damaged."""
        self.shards()

    def outcomes(self) -> dict[str, str]:
        """Return the status of every run that has a curve."""
        with self.reading():
            return dict(ask(self.relation(), OUTCOMES).fetchall())

    def done_runs(self) -> set[str]:
        """Return the runs that have a curve, including those that diverged."""
        return set(self.outcomes())

    def diverged(self, outcomes: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the status of every run that diverged; pass ``outcomes`` if they are known."""
        outcomes = self.outcomes() if outcomes is None else outcomes
        return {run: status for run, status in outcomes.items() if status != OK}

    def failed(self, outcomes: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the reason of every run without a curve whose fleet failed; see ``diverged``."""
        outcomes = self.outcomes() if outcomes is None else outcomes
        reasons: dict[str, str] = {}
        for note in self.failures():
            reasons.update((run, note.reason) for run in note.runs if run not in outcomes)
        return reasons

    def known_runs(self) -> dict[str, dict[str, Any]]:
        """Return the planned runs; where they were not stored, those that have a curve.

        The spec is not planned again: a reader runs no plugin and fetches no data that a spec
        names.
        """
        planned = self.planned()
        if planned is not None:
            return planned.runs
        names = ", ".join(map(quote_name, PLANNED_COLUMNS))
        with self.reading():
            rows = ask(self.relation(), f"SELECT DISTINCT {names} FROM curves").fetchall()
        runs = [dict(zip(PLANNED_COLUMNS, row, strict=True)) for row in rows]
        return {run["run"]: run for run in runs}


class Folder(Results):
    """A results folder: the constructor reads it, ``create`` prepares it for writing."""

    def __init__(self, path: str | Path) -> None:
        path = Path(path)
        super().__init__(path, _read_info(path))
        self._verified: dict[Path, Shard] = {}

    @classmethod
    def create(
        cls, path: str | Path, spec: Spec | Mapping[str, Any], spec_hash: str, **facts: Any
    ) -> Folder:
        """Create a results folder for a spec, or open the one that this spec has created.

        ``facts`` are other fields of ``ResultsInfo``, for a new folder.
        """
        path = Path(path)
        content = Spec.load(spec).to_dict()
        folders = [path / name for name in PARTS]
        try:
            exists = (path / "spec.json").exists()
            if not exists and any((path / "shards").glob("*.parquet")):
                raise UserError(
                    f"'{path}' has shards but no spec.json, so their spec is unknown; use another "
                    "--out",
                    "conflict",
                )
            if exists:
                cls(path)._check_same(spec_hash)
            for folder in folders:
                folder.mkdir(parents=True, exist_ok=True)
            remove_temporary_files(path, *folders)
        except UserError:
            raise
        except (OSError, ValueError) as error:
            raise UserError(
                f"cannot use the results folder '{path}' ({describe_error(error)}); use another "
                "--out",
                "cannot-write",
            ) from error
        check_writable(*folders)
        info = ResultsInfo(
            format=FORMAT,
            spec_hash=spec_hash,
            spec_seal=digest(content),
            versions=find_versions(),
            **facts,
            spec=content,
        )
        if not exists:
            with suppress(FileExistsError):
                write_info(path, info, exclusive=True)
        results = cls(path)
        # Another process may have created the folder in the meantime.
        results._check_same(spec_hash)
        results._remove_packed_shards()
        return results

    def _check_same(self, spec_hash: str) -> None:
        """Raise an error if another spec or another minor version created the folder."""
        if self.spec_hash != spec_hash:
            raise UserError(
                f"'{self.path}' has the results of another spec ('{self.spec.name}', "
                f"{self.spec_hash}; this one is {spec_hash}); use another --out",
                "conflict",
            )
        if not have_same_numbers(self.version, __version__):
            raise UserError(
                f"'{self.path}' was created by puarena {self.version} and this is {__version__}, "
                "whose numbers may differ; use another --out",
                "conflict",
            )

    # writing

    def write_shard(self, fleet: str, frame: DataFrame) -> None:
        """Store the curves of a finished fleet; remove its state and an older failure note."""

        check_frame(frame, fleet)
        with connect() as con:
            con.register("frame", frame)
            self.write_rows(con, "SELECT * FROM frame", fleet)
        self.clear_failure(fleet)
        with suppress(OSError):
            self._file("progress", fleet, "safetensors").unlink(missing_ok=True)

    def write_rows(
        self, con: DuckDBPyConnection, query: str, fleet: str, fleets: Sequence[str] = ()
    ) -> None:
        """Store the rows of a query, which must be those of one fleet, or of ``fleets``."""
        marks = {
            "puarena_format": str(FORMAT),
            "puarena_spec": self.spec_hash,
            "puarena_fleet": fleet,
        }
        if fleets:
            marks[FLEETS_KEY] = json.dumps(fleets)
        target = self._file("shards", fleet, "parquet")
        columns = select_list(con.sql(query).columns)
        write_parquet(con, f"SELECT {columns} FROM ({query})", target, marks)

    def keep_planned(self, planned: Planned, first: bool = False) -> None:
        """Store the planned runs; with ``first``, FileExistsError if there are some already."""
        write_planned(self.path, planned, first)

    def has_shard(self, fleet: str) -> bool:
        """Return whether a fleet is stored."""
        if self._file("shards", fleet, "parquet").exists():
            return True
        packs = list(self.path.glob(f"shards/{PACKED}*"))
        return bool(packs) and fleet in _list_fleets(_read_all_footers(packs).values())

    def compact(self) -> int:
        """Join the shards of small fleets into larger files if there are many; return how many."""

        small = [
            file
            for file in self.shards()
            if not self._verified[file].fleets and file.stat().st_size <= MAX_PACKED_BYTES
        ]
        if len(small) < MANY_FILES:
            return 0
        claim = claims.claim(self.path / "claims", "compaction")
        if claim is None:
            return 0
        try:
            for columns, files in self._group_by_columns(small).items():
                for part in _divide(files, MAX_PACK_BYTES):
                    fleets = [file.name.removesuffix(".parquet") for file in part]
                    rows = f"SELECT {select_list(columns)} FROM {scan(part)}"
                    with connect() as con:
                        self.write_rows(con, rows, PACKED + digest(fleets), fleets)
            return len(small)
        finally:
            claim.release()

    def _remove_packed_shards(self) -> None:
        """Remove the shards of fleets that intact packs have."""
        for pack in self.path.glob(f"shards/{PACKED}*"):
            footer = _read_all_footers([pack]).get(pack)
            if footer is not None and not self._find_fault(pack, footer):
                for fleet in _list_fleets([footer]):
                    with suppress(OSError):
                        self._file("shards", fleet, "parquet").unlink(missing_ok=True)

    def claim(self, fleet: str, part: str = "", runs: Iterable[str] = ()) -> claims.Claim | None:
        """Claim a fleet, or a part of it, for this process; None if a living process has it."""
        return claims.claim(self._file("claims", fleet, "1").parent, fleet, part, runs)

    def claimed(self) -> set[str]:
        """Return the fleets that living processes have claimed."""
        return claims.claimed(self.path / "claims")

    def write_failure(self, fleet: str, runs: Iterable[str], reason: str, **facts: Any) -> None:
        """Store why a fleet was not finished; ``facts`` are other fields of ``FailureNote``."""
        file = self._file("failures", fleet, "json")
        note = FailureNote(fleet=fleet, runs=tuple(runs), reason=reason, **facts)
        write_file(file, note.to_json())

    def clear_failure(self, fleet: str) -> None:
        """Remove the failure note of a fleet, if there is one."""
        target = self._file("failures", fleet, "json")
        try:
            target.unlink(missing_ok=True)
        except OSError as error:
            raise cannot_write(target, error) from error

    def set_aside(self, file: Path) -> Path:
        """Move a damaged file to a folder of such files; return its new path."""
        folder = self.path / DAMAGED
        for number in count():
            name = f"{file.stem}-{number}{file.suffix}" if number else file.name
            target = folder / name
            if not target.exists():
                break
        try:
            folder.mkdir(exist_ok=True)
            os.replace(file, target)
        except OSError as error:
            raise cannot_write(file, error) from error
        return target

    def _file(self, folder: str, fleet: str, suffix: str) -> Path:
        if not FLEET_NAME.fullmatch(fleet):
            raise ValueError(f"a fleet's name must be valid as a file name, and {fleet!r} is not")
        return self.path / folder / f"{fleet}.{suffix}"

    # reading

    def shards(self) -> list[Path]:
        """Return the verified shards, in order of their names; raises an error for a damaged one.

        A shard is verified again only if its file has changed since. Those of packed fleets are
        left out.
        """
        stamps = self._stat_shards()
        allow_open_files(len(stamps))
        before = self._verified
        packs = [file for file in stamps if file.name.startswith(PACKED)]
        self._verified = self._verify_shards(packs, stamps, before)
        owners: dict[str, Path] = {}
        for file in packs:
            for fleet in self._verified[file].fleets:
                if owners.setdefault(fleet, file) != file:
                    raise UserError(
                        f"'{file}' holds fleets that '{owners[fleet]}' has, too; remove it",
                        "damaged-file",
                    )
        others = [
            file
            for file in stamps
            if file not in self._verified and file.name.removesuffix(".parquet") not in owners
        ]
        self._verified |= self._verify_shards(others, stamps, before)
        return sorted(self._verified)

    def columns(self) -> dict[tuple[str, ...], list[Path]]:
        """Return the verified shards by their columns."""
        return self._group_by_columns(self.shards())

    def _group_by_columns(self, files: Sequence[Path]) -> dict[tuple[str, ...], list[Path]]:
        groups: dict[tuple[str, ...], list[Path]] = {}
        for file in files:
            groups.setdefault(self._verified[file].columns, []).append(file)
        return groups

    def _state(self) -> object:
        return {file: shard.stamp for file, shard in self._verified.items()}

    def verify(self) -> None:
        """Verify all shards again; raises an error for the first that is damaged."""
        self._verified = {}
        self.shards()

    def inspect_shards(self) -> dict[Path, str]:
        """Return what is wrong with each shard, empty if nothing, in order of their names."""
        files = list(self._stat_shards())
        allow_open_files(len(files))
        footers = _read_all_footers(files)
        packed = _list_fleets(footers.get(file) for file in files if file.name.startswith(PACKED))
        files = [file for file in files if file.name.removesuffix(".parquet") not in packed]
        return dict(zip(files, self._find_faults(files, footers), strict=True))

    def _verify_shards(
        self, files: Sequence[Path], stamps: Mapping[Path, Stamp], before: Mapping[Path, Shard]
    ) -> dict[Path, Shard]:
        """Return what is known of shards; raises an error for the first that is damaged."""
        known = {
            file: before[file]
            for file in files
            if file in before and before[file].stamp == stamps[file]
        }
        new = [file for file in files if file not in known]
        footers = _read_all_footers(new)
        for file, fault in zip(new, self._find_faults(new, footers), strict=True):
            if fault:
                raise UserError(
                    f"'{file}' {fault}; remove it, and 'puarena run' recomputes only what it held",
                    "damaged-file",
                )
            footer = footers[file]
            known[file] = Shard(stamps[file], tuple(footer.columns), _list_fleets([footer]))
        return known

    def _find_faults(self, files: Sequence[Path], footers: Mapping[Path, Footer]) -> Iterator[str]:
        """Yield what is wrong with each file, empty if nothing."""
        # Checksums are computed without the interpreter's lock, hence threads.
        with ThreadPoolExecutor() as pool:
            yield from pool.map(lambda file: self._find_fault(file, footers.get(file)), files)

    def _find_fault(self, file: Path, footer: Footer | None) -> str:
        """Return what is wrong with a shard, empty if nothing."""
        if footer is None:
            regular = file.is_file()
            return "is truncated or not a Parquet file" if regular else "is not a file"
        if not FLEET_NAME.fullmatch(file.name.removesuffix(".parquet")):
            return "has a name that puarena does not give"
        marks = footer.metadata
        if marks.get("puarena_format") != str(FORMAT) or not has_schema(footer.columns):
            return "is a Parquet file that puarena did not write"
        if marks.get("puarena_spec") != self.spec_hash:
            return "holds results of another spec"
        if marks.get("puarena_fleet") != file.name.removesuffix(".parquet"):
            return "is a renamed copy of another shard"
        try:
            return "" if is_sealed(file) else "is damaged"
        except OSError as error:
            return f"cannot be read ({describe_error(error)})"

    def _stat_shards(self) -> dict[Path, Stamp]:
        """Return the shards with the sizes and times of their files, in order of their names."""
        stamps = {}
        try:
            for file in sorted(self.path.glob("shards/[!.]*")):
                facts = file.stat()
                stamps[file] = facts.st_size, facts.st_mtime_ns
        except OSError as error:
            raise cannot_read(self.path, error) from error
        return stamps

    def planned(self) -> Planned | None:
        """Return the planned runs; None if they were not stored."""
        return read_planned(self.path)

    def failures(self) -> list[FailureNote]:
        """Return the notes that ``write_failure`` stored."""
        files = sorted(self.path.glob("failures/[!.]*.json"))
        return [
            read_record(FailureNote, file, "a note of a failed fleet", "remove it")
            for file in files
        ]

    def states(self) -> dict[Path, dict[str, str]]:
        """Return the states of unfinished fleets, newest first; a damaged one has no metadata."""
        from safetensors import SafetensorError, safe_open

        times: dict[Path, int] = {}
        for file in self.path.glob("progress/[!.]*.safetensors"):
            with suppress(OSError):  # it was removed just now
                times[file] = file.stat().st_mtime_ns
        states: dict[Path, dict[str, str]] = {}
        for file in sorted(times, key=lambda file: times[file], reverse=True):
            states[file] = {}
            if not file.is_file():  # a pipe would block, and a device may never end
                continue
            with suppress(OSError, SafetensorError), safe_open(file, framework="np") as opened:
                marks = opened.metadata() or {}
                if is_intact(file.read_bytes()):
                    states[file] = marks
        return states

    def runs_with_state(self) -> set[str]:
        """Return the unfinished runs that a state was saved of."""
        runs: set[str] = set()
        for marks in self.states().values():
            with suppress(ValueError, TypeError):
                runs.update(map(str, parse_json(marks.get("runs", "[]"))))
        return runs


class Summary(Results):
    """An exported summary: ``info.summary`` says what it was made from."""

    def __init__(self, path: str | Path) -> None:
        path = Path(path)
        info, self._columns = _read_summary(path)
        super().__init__(path, info)

    @property
    def facts(self) -> SummaryFacts:
        """What it was made from."""
        assert self.info.summary is not None  # checked when it was opened
        return self.info.summary

    @property
    def name(self) -> str:
        """The file's name without its ending; of a submission, that of its folder."""
        place = self.path.resolve()
        return place.parent.name if place.name == "summary.parquet" else place.stem

    def shards(self) -> list[Path]:
        """Return the file itself."""
        return [self.path]

    def columns(self) -> dict[tuple[str, ...], list[Path]]:
        """Return the file by its columns."""
        return {self._columns: [self.path]}

    def verify(self) -> None:
        """Verify the file again."""
        _read_summary(self.path)

    def failures(self) -> list[FailureNote]:
        """Return the failure notes of the results folder."""
        return list(self.facts.failures)


def _list_fleets(footers: Iterable[Footer | None]) -> tuple[str, ...]:
    """Return the fleets that packed shards hold by their metadata."""
    fleets: list[str] = []
    for footer in footers:
        text = "" if footer is None else footer.metadata.get(FLEETS_KEY, "")
        with suppress(ValueError):
            listed = parse_json(text)
            if isinstance(listed, list):
                fleets += [
                    name for name in listed if isinstance(name, str) and FLEET_NAME.fullmatch(name)
                ]
    return tuple(fleets)


def _divide(files: Sequence[Path], most: int) -> list[list[Path]]:
    """Return files in parts of at most so many bytes."""
    parts: list[list[Path]] = []
    total = most
    for file in files:
        total += file.stat().st_size
        if total > most:
            parts.append([])
            total = file.stat().st_size
        parts[-1].append(file)
    return parts


def write_info(folder: Path, info: ResultsInfo, exclusive: bool = False) -> None:
    """Write ``methods.json`` and ``spec.json``; with ``exclusive`` the latter must not exist."""
    methods = json.dumps(list(info.methods), indent=2, ensure_ascii=False)
    write_file(folder / METHODS_FILE, methods + "\n")
    text = info.model_dump_json(indent=2, exclude_unset=True, exclude={"methods"})
    write_file(folder / "spec.json", text, exclusive=exclusive)


def write_summary(con: DuckDBPyConnection, query: str, info: ResultsInfo, path: str | Path) -> None:
    """Write the rows of a query as a summary."""
    columns = select_list(con.sql(query).columns)
    marks = {SUMMARY_KEY: info.to_json()}
    write_parquet(con, f"SELECT {columns} FROM ({query})", Path(path).resolve(), marks)


def have_same_numbers(version: str, other: str) -> bool:
    """Return whether two versions of puarena compute the same numbers."""
    return version.split(".")[:2] == other.split(".")[:2]


def find_versions() -> dict[str, str]:
    """Return the versions of puarena, Python and the libraries that compute and store numbers."""
    known = {"puarena": __version__, "python": platform.python_version()}
    for package in ("torch", "numpy", "duckdb"):
        with suppress(metadata.PackageNotFoundError):
            known[package] = metadata.version(package)
    return known


def _select_rows(groups: Mapping[tuple[str, ...], Sequence[Path]]) -> str:
    """Return SQL for the rows of files, which are grouped by their columns."""
    # ``union_by_name`` of DuckDB would open all files for every query, and takes four times the
    # memory.
    parts = [
        f"SELECT {select_list(columns)} FROM {scan(files)}" for columns, files in groups.items()
    ]
    return " UNION ALL BY NAME ".join(parts)


def _read_all_footers(files: Sequence[Path]) -> dict[Path, Footer]:
    """Read the footers of files; files that are not Parquet files have none."""
    import duckdb

    # A pipe would block, and DuckDB takes no name that is not UTF-8.
    files = [file for file in files if file.is_file() and is_text(file)]
    with connect() as con:
        try:
            return read_footers(con, files)
        except (duckdb.Error, ValueError) as error:
            check_resources(error)
        footers = {}
        for file in files if len(files) > 1 else ():
            with suppress(duckdb.Error, ValueError):
                footers.update(read_footers(con, [file]))
    return footers


def _read_info(path: Path) -> ResultsInfo:
    """Read ``spec.json`` and check that this version can read the folder."""
    file = path / "spec.json"
    advice = "restore it, or use another results folder"
    try:
        if not is_text(path):
            raise UserError(f"the name '{path}' is not UTF-8; rename it", "cannot-read")
        if not path.exists():
            raise UserError(f"there is no results folder '{path}'", "missing-file")
        if not file.exists():
            raise UserError(
                f"'{path}' is not a results folder of puarena: it has no spec.json", "wrong-format"
            )
    except OSError as error:
        raise cannot_read(path, error) from error
    info = read_record(ResultsInfo, file, "the description of a results folder", advice)
    if info.spec_seal and info.spec_seal != digest(info.spec):
        raise UserError(
            f"'{file}' was edited after its runs were computed; restore it, or run the new spec "
            "with another --out",
            "damaged-file",
        )
    _check_format(info, path)
    return info.model_copy(update={"methods": _read_methods(path / METHODS_FILE)})


def _read_methods(file: Path) -> tuple[dict[str, Any], ...]:
    """Return the records of methods; none if the file does not exist."""
    if not os.path.lexists(file):
        return ()
    content = read_bytes(file, "restore or remove it")
    try:
        return parse_methods(content)
    except ValueError:
        raise UserError(
            f"'{file}' is not the list of methods that puarena wrote; restore or remove it",
            "damaged-file",
        ) from None


def _read_summary(path: Path) -> tuple[ResultsInfo, tuple[str, ...]]:
    """Read and verify a summary; return what it says of itself, and its columns."""
    footer = _read_all_footers([path]).get(path)
    if footer is None or SUMMARY_KEY not in footer.metadata:
        raise UserError(
            f"'{path}' is neither a results folder nor a summary that 'puarena export' wrote",
            "wrong-format",
        )
    if not is_sealed(path):
        raise UserError(f"the summary '{path}' is damaged; get it again", "damaged-file")
    content = footer.metadata[SUMMARY_KEY]
    info = parse_record(ResultsInfo, content, f"'{path}'", "a summary", "get it again")
    _check_format(info, path)
    if info.summary is None or not has_schema(footer.columns):
        raise UserError(f"'{path}' is not a summary that puarena wrote", "wrong-format")
    return info, tuple(footer.columns)


def _check_format(info: ResultsInfo, path: Path) -> None:
    """Raise an error for results in another format."""
    if info.format != FORMAT:
        raise UserError(
            f"'{path}' has results in format {info.format} (puarena {info.versions['puarena']}), "
            f"and this puarena {__version__} reads format {FORMAT}; use another results folder",
            "wrong-format",
        )
