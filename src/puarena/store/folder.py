"""The results folder: ``spec.json``, ``shards/<fleet>.parquet``, ``failures/<fleet>.json``,
``progress/<fleet>.safetensors``.

One shard holds the curves of one fleet, one row per run and record; until it is there, ``progress`` has the state of
the fleet a few minutes ago. Every file is written aside, flushed to the disk and renamed, so a file that has its name
is whole.
"""

from __future__ import annotations

import errno
import json
import os
import platform
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from puarena import __version__
from puarena.errors import UserError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation
    from pandas import DataFrame

FORMAT = 1  # of the results folder; another number cannot be read
OK = "ok"  # the status of a run that did not diverge

COLUMNS: dict[str, str] = {
    "run": "VARCHAR",
    "fleet": "VARCHAR",
    "dataset": "VARCHAR",
    "case": "INTEGER",
    "setting": "VARCHAR",
    "rate": "DOUBLE",
    "prior": "DOUBLE",
    "algorithm": "VARCHAR",
    "profile": "VARCHAR",
    "split": "INTEGER",
    "config": "INTEGER",
    "hyper": "VARCHAR",
    "lr": "DOUBLE",
    "batch_size": "INTEGER",
    "network": "VARCHAR",
    "seed": "BIGINT",
    "n_p": "INTEGER",
    "n_u": "INTEGER",
    "step": "INTEGER",
    "phase": "VARCHAR",
    "selectable": "BOOLEAN",
    "seconds": "DOUBLE",
    "status": "VARCHAR",
    "loss": "DOUBLE",
    "test_accuracy": "DOUBLE",
    "test_auc": "DOUBLE",
    "test_f1": "DOUBLE",
    "test_precision": "DOUBLE",
    "test_recall": "DOUBLE",
    "val_pa": "DOUBLE",
    "val_pauc": "DOUBLE",
    "val_oa": "DOUBLE",
    "val_pa_released": "DOUBLE",
    "device": "VARCHAR",
    "version": "VARCHAR",
    "torch": "VARCHAR",
}


class Store:
    """A results folder. ``create`` to write into it, ``open`` (or the constructor) to read it."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.info = _read_info(self.path)
        self.spec: dict[str, Any] = self.info["spec"]
        self.spec_hash: str = self.info["spec_hash"]
        self._verified: dict[Path, tuple[int, int]] = {}

    @classmethod
    def open(cls, path: str | Path) -> Store:
        """Open an existing results folder, or an exported summary, for reading."""
        if Path(path).is_file():
            from puarena.store.summary import Summary

            return Summary(path)
        return cls(path)

    @classmethod
    def create(cls, path: str | Path, spec: dict[str, Any], spec_hash: str) -> Store:
        """Make a results folder for this spec, or open the one that this spec made before."""
        path = Path(path)
        try:
            new = not (path / "spec.json").exists()
            if new and any((path / "shards").glob("*.parquet")):
                raise UserError(f"'{path}' holds shards but no spec.json, so their spec is unknown; use another --out")
            if not new:
                cls(path)._check_same(spec_hash)
            for folder in (path / "shards", path / "failures"):
                folder.mkdir(parents=True, exist_ok=True)
            for leftover in (*path.glob(".*.tmp"), *path.glob("*/.*.tmp"), *path.glob("progress/.tmp*")):
                leftover.unlink(missing_ok=True)
        except OSError as error:
            raise UserError(f"cannot use the results folder '{path}' ({_words(error)}); use another --out") from error
        if new:
            info = {"format": FORMAT, "spec_hash": spec_hash, "versions": versions(), "spec": spec}
            write_file(path / "spec.json", json.dumps(info, indent=2))
        return cls(path)

    def _check_same(self, spec_hash: str) -> None:
        """Refuse a folder that another spec or another minor version made."""
        if self.spec_hash != spec_hash:
            raise UserError(
                f"'{self.path}' holds the results of another spec ('{self.spec.get('name', 'unnamed')}', "
                f"{self.spec_hash}; this one is {spec_hash}); use another --out"
            )
        made_by = str(self.info["versions"].get("puarena", "unknown"))
        if made_by.split(".")[:2] != __version__.split(".")[:2]:
            raise UserError(
                f"'{self.path}' was made by puarena {made_by} and this is {__version__}, whose numbers may differ; "
                "use another --out"
            )

    # writing

    def write_shard(self, fleet: str, frame: DataFrame) -> None:
        """Store the curves of one finished fleet; its state, and an older failure, are forgotten."""
        import duckdb

        target = self._file("shards", fleet, "parquet")
        _check_columns(frame, fleet)
        columns = ", ".join(f"CAST({_name(name)} AS {kind}) AS {_name(name)}" for name, kind in COLUMNS.items())
        marks = {"puarena_format": str(FORMAT), "puarena_spec": self.spec_hash, "puarena_fleet": fleet}
        listed = ", ".join(f"{key}: {sql_text(value)}" for key, value in marks.items())
        options = f"FORMAT parquet, COMPRESSION zstd, USE_TMP_FILE false, KV_METADATA {{{listed}}}"
        with duckdb.connect() as con, written_aside(target) as temp:
            con.register("frame", frame)
            try:
                con.execute(f"COPY (SELECT {columns} FROM frame) TO {sql_text(temp)} ({options})")
            except duckdb.IOException as error:
                raise _cannot_write(target, error) from error
        self.clear_failure(fleet)
        with suppress(OSError):
            self._file("progress", fleet, "safetensors").unlink(missing_ok=True)

    def write_failure(self, fleet: str, runs: list[str], reason: str) -> None:
        """Note that a fleet could not be finished, and why; its runs are still to be done."""
        content = {"fleet": fleet, "runs": runs, "reason": reason}
        write_file(self._file("failures", fleet, "json"), json.dumps(content, indent=2))

    def clear_failure(self, fleet: str) -> None:
        """Forget a fleet's failure, if there is one."""
        target = self._file("failures", fleet, "json")
        try:
            target.unlink(missing_ok=True)
        except OSError as error:
            raise _cannot_write(target, error) from error

    def _file(self, folder: str, fleet: str, suffix: str) -> Path:
        if not re.fullmatch(r"\w[\w.+=-]{0,199}", fleet, re.ASCII):
            raise ValueError(f"a fleet's name must do as a file name, and {fleet!r} does not")
        return self.path / folder / f"{fleet}.{suffix}"

    # reading

    def shards(self) -> list[Path]:
        """The shards, in order of their names, each checked to be whole and to belong here."""
        import duckdb

        try:
            files = sorted(self.path.glob("shards/[!.]*"))
            stamps = {file: (file.stat().st_size, file.stat().st_mtime_ns) for file in files}
        except OSError as error:
            raise UserError(f"cannot read the results folder '{self.path}' ({_words(error)})") from error
        fresh = [file for file in files if self._verified.get(file) != stamps[file]]
        if fresh:
            with duckdb.connect() as con:
                for file in fresh:
                    self._check_shard(con, file)
        self._verified = stamps
        return files

    def _check_shard(self, con: DuckDBPyConnection, file: Path) -> None:
        """Read the footer only: is this a whole Parquet file with our columns, spec and fleet?"""
        import duckdb

        try:
            found = con.execute(f"DESCRIBE SELECT * FROM {scan([file])}").fetchall()
            marks = dict(con.execute(f"SELECT key, value FROM parquet_kv_metadata({sql_text(file)})").fetchall())
        except duckdb.Error as error:
            raise _bad_shard(file, "is truncated or not a Parquet file") from error
        if {name: kind for name, kind, *_ in found} != COLUMNS or marks.get(b"puarena_format") != str(FORMAT).encode():
            raise _bad_shard(file, "is a Parquet file that puarena did not write")
        if marks.get(b"puarena_spec") != self.spec_hash.encode():
            raise _bad_shard(file, "holds results of another spec")
        if marks.get(b"puarena_fleet") != file.name.removesuffix(".parquet").encode():
            raise _bad_shard(file, "is a renamed copy of another shard")

    def relation(self, con: DuckDBPyConnection | None = None) -> DuckDBPyRelation:
        """All shards as one DuckDB relation (``.df()`` for pandas); empty, with the columns, if there are none."""
        import duckdb

        con = con or duckdb.connect()
        files = self.shards()
        if not files:
            empty = ", ".join(f"CAST(NULL AS {kind}) AS {_name(name)}" for name, kind in COLUMNS.items())
            return con.sql(f"SELECT {empty} LIMIT 0")
        return con.sql(f"SELECT * FROM {scan(files)}")

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Around a query over the relation: a shard damaged in its middle becomes an error that names the file."""
        import duckdb

        try:
            yield
        except duckdb.Error:
            for file in self.shards():
                try:
                    duckdb.connect().execute(f"SELECT hash(COLUMNS(*)) FROM {scan([file])}").fetchall()
                except duckdb.Error as error:
                    raise _bad_shard(file, "is damaged") from error
            raise

    def outcomes(self) -> dict[str, str]:
        """The status of every run that has a curve."""
        worst = f"coalesce(min(status) FILTER (WHERE status <> {sql_text(OK)}), {sql_text(OK)})"
        with self.reading():
            return dict(ask(self.relation(), f"SELECT run, {worst} FROM curves GROUP BY run").fetchall())

    def done_runs(self) -> set[str]:
        """Runs that need not be computed again: all that have a curve, also those that diverged."""
        return set(self.outcomes())

    def failures(self) -> list[dict[str, Any]]:
        """What ``write_failure`` noted: ``fleet``, ``runs`` and ``reason`` of each fleet."""
        found = []
        for file in sorted(self.path.glob("failures/[!.]*.json")):
            try:
                content = json.loads(file.read_text(encoding="utf-8"))
                found.append({"fleet": content["fleet"], "runs": list(content["runs"]), "reason": content["reason"]})
            except (OSError, ValueError, KeyError, TypeError) as error:
                raise UserError(f"'{file}' is not a note of a failed fleet; remove it") from error
        return found

    def failed(self, outcomes: dict[str, str] | None = None) -> dict[str, str]:
        """Run and reason of every run that diverged or whose fleet failed; ``outcomes`` if they are known already."""
        outcomes = self.outcomes() if outcomes is None else outcomes
        reasons = {run: entry["reason"] for entry in self.failures() for run in entry["runs"] if run not in outcomes}
        return {run: status for run, status in outcomes.items() if status != OK} | reasons

    def begun(self) -> dict[Path, dict[str, str]]:
        """The states of fleets in training or interrupted, newest first, with their marks; none if one is damaged."""
        from safetensors import SafetensorError, safe_open

        times: dict[Path, int] = {}
        for file in self.path.glob("progress/[!.]*.safetensors"):
            with suppress(OSError):  # removed just now
                times[file] = file.stat().st_mtime_ns
        found: dict[Path, dict[str, str]] = {}
        for file in sorted(times, key=lambda file: times[file], reverse=True):
            found[file] = {}
            with suppress(OSError, SafetensorError), safe_open(file, framework="np") as opened:
                found[file] = opened.metadata() or {}
        return found

    def begun_runs(self) -> set[str]:
        """The runs of which there is a state."""
        runs: set[str] = set()
        for marks in self.begun().values():
            with suppress(ValueError, TypeError):
                runs.update(json.loads(marks.get("runs", "[]")))
        return runs

    def status(self, planned: Iterable[str]) -> dict[str, int]:
        """How many of the planned runs are done, failed (diverged, or their fleet failed) and missing."""
        runs, outcomes = set(planned), self.outcomes()
        failed = runs & set(self.failed(outcomes))
        done = runs & {run for run, status in outcomes.items() if status == OK}
        missing = len(runs) - len(done) - len(failed)
        return {"planned": len(runs), "done": len(done), "failed": len(failed), "missing": missing}


# files


@contextmanager
def written_aside(target: Path) -> Iterator[Path]:
    """Give the path of a temporary file beside ``target``; what was written there then takes the target's place."""
    temp = target.with_name(f".{target.name[:200]}.{os.getpid()}.tmp")
    try:
        yield temp
        _flush(temp)
        os.replace(temp, target)
        _flush(target.parent)
    except OSError as error:
        raise _cannot_write(target, error) from error
    finally:
        with suppress(OSError):
            temp.unlink(missing_ok=True)


def write_file(target: str | Path, text: str) -> None:
    """Write a text file so that it is there whole or not at all."""
    target = Path(target)
    try:
        if target.is_relative_to("/dev") or target.is_fifo():  # /dev/stdout, a pipe: there is nothing to rename
            with target.open("a", encoding="utf-8") as file:
                file.write(text)
            return
        target = target.resolve()
    except OSError as error:
        raise _cannot_write(target, error) from error
    with written_aside(target) as temp:
        temp.write_text(text, encoding="utf-8", newline="\n")


def versions() -> dict[str, str]:
    """The versions that matter for a number: of puarena, Python and the libraries that compute and store it."""
    found = {"puarena": __version__, "python": platform.python_version()}
    for package in ("torch", "numpy", "duckdb"):
        with suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


def _flush(path: Path) -> None:
    """Force a file, or the names in a folder, to the disk."""
    folder = path.is_dir()
    if folder and os.name == "nt":
        return
    handle = os.open(path, os.O_RDONLY if folder else os.O_RDWR)
    try:
        os.fsync(handle)
    except OSError as error:
        if not (folder and error.errno in {errno.EINVAL, errno.ENOTSUP}):  # some file systems cannot flush a folder
            raise
    finally:
        os.close(handle)


def _read_info(path: Path) -> dict[str, Any]:
    """Read ``spec.json`` and check that this version can read the folder."""
    file = path / "spec.json"
    try:
        if not path.exists():
            raise UserError(f"there is no results folder '{path}'")
        if not file.is_file():
            raise UserError(f"'{path}' is not a results folder of puarena: it has no spec.json")
        info = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"cannot read '{file}' ({_words(error)})") from error
    except ValueError as error:
        raise UserError(f"'{file}' is truncated or not JSON; restore it, or use another results folder") from error
    needed: dict[str, type] = {"format": int, "spec_hash": str, "versions": dict, "spec": dict}
    if not isinstance(info, dict) or not all(isinstance(info.get(key), kind) for key, kind in needed.items()):
        raise UserError(f"'{file}' was not written by puarena; use another results folder")
    if info["format"] != FORMAT:
        raise UserError(
            f"'{path}' has results in format {info['format']} (puarena {info['versions'].get('puarena', 'unknown')}) "
            f"and this puarena {__version__} reads format {FORMAT}; use another results folder"
        )
    return info


def _check_columns(frame: DataFrame, fleet: str) -> None:
    missing, foreign = set(COLUMNS) - set(frame.columns), set(frame.columns) - set(COLUMNS)
    if missing or foreign or len(frame.columns) != len(COLUMNS):
        raise ValueError(f"a shard's columns are wrong: missing {sorted(missing)}, foreign {sorted(map(str, foreign))}")
    if set(frame["fleet"]) - {fleet}:
        raise ValueError(f"the shard of fleet {fleet!r} has rows of {sorted(set(frame['fleet']) - {fleet})}")


def _cannot_write(target: Path, error: Exception) -> UserError:
    return UserError(f"cannot write '{target}' ({_words(error)}); everything stored before is still there")


def _bad_shard(file: Path, what: str) -> UserError:
    return UserError(f"'{file}' {what}; remove it, and 'puarena run' recomputes only what it held")


def _words(error: Exception) -> str:
    """The cause of a failed read or write, in a few words."""
    if (isinstance(error, OSError) and error.errno == errno.ENOSPC) or "No space left" in str(error):
        return "the disk is full"
    if isinstance(error, OSError):
        return (error.strerror or str(error)).lower()
    return " ".join(str(error).removeprefix("IO Error: ").split())


# SQL


def ask(relation: DuckDBPyRelation, sql: str) -> DuckDBPyRelation:
    """Ask a query that calls the relation ``curves``; no view or table of that name is touched."""
    found = relation.query("puarena_curves", f"WITH curves AS (FROM puarena_curves) SELECT * FROM ({sql})")
    assert found is not None  # a SELECT always gives a relation
    return found


def sql_text(value: object) -> str:
    return "'" + str(value).replace("'", "''") + "'"


def _name(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'


def scan(files: list[Path]) -> str:
    """The shards as a table; a folder named ``a=b`` is not a column."""
    return f"read_parquet([{', '.join(map(sql_text, files))}], hive_partitioning = false)"
