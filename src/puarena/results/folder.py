"""The results folder: ``spec.json``, ``planned.parquet``, ``shards/<fleet>.parquet``, ``failures/<fleet>.json``,
``progress/<fleet>.safetensors``, ``claims/<fleet>.<n>``.

One shard holds the curves of one fleet, one row per run and record; until it is there, ``progress`` has the state of
the fleet a few minutes ago. A file that has its name is whole, and a checksum inside says if it stayed so.
"""

from __future__ import annotations

import json
import os
import platform
import re
from contextlib import suppress
from importlib import metadata
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from puarena import __version__
from puarena.errors import UserError
from puarena.results import claims
from puarena.results.base import Results, has_schema
from puarena.results.parquet import SEALED, footer, is_damaged, write_parquet
from puarena.results.planned import Planned, read_planned, write_planned
from puarena.results.schema import FORMAT, check_frame, select_list
from puarena.results.sql import check_handles
from puarena.utils.files import (
    allow_open_files,
    cannot_write,
    check_writable,
    describe_error,
    is_intact,
    parse_json,
    remove_temporary_files,
    write_file,
)
from puarena.utils.identity import digest

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pandas import DataFrame

PARTS = ("shards", "failures", "progress", "claims")


class Folder(Results):
    """A results folder. ``create`` to write into it, the constructor to read it."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(Path(path), _read_info(Path(path)))
        self._verified: dict[Path, tuple[int, int]] = {}

    @classmethod
    def create(cls, path: str | Path, spec: dict[str, Any], spec_hash: str, **about: Any) -> Folder:
        """Make a results folder for this spec, or open the one that this spec made before.

        ``about`` is kept beside the spec of a new one.
        """
        path = Path(path)
        folders = [path / name for name in PARTS]
        try:
            if not (path / "spec.json").exists() and any((path / "shards").glob("*.parquet")):
                raise UserError(
                    f"'{path}' holds shards but no spec.json, so their spec is unknown; use another --out"
                )
            if (path / "spec.json").exists():
                cls(path)._check_same(spec_hash)
            for folder in folders:
                folder.mkdir(parents=True, exist_ok=True)
            remove_temporary_files(path, *folders)
        except UserError:
            raise
        except (OSError, ValueError) as error:
            raise UserError(
                f"cannot use the results folder '{path}' ({describe_error(error)}); use another --out"
            ) from error
        check_writable(*folders)
        kept = {
            "format": FORMAT,
            "spec_hash": spec_hash,
            "spec_seal": digest(spec),
            "versions": versions(),
        }
        info = {**kept, "sealed": True, **about, "spec": spec}
        with suppress(FileExistsError):
            if not (path / "spec.json").exists():
                write_file(path / "spec.json", json.dumps(info, indent=2), exclusive=True)
        store = cls(path)
        store._check_same(spec_hash)  # somebody else may have been first just now
        return store

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
        check_frame(frame, fleet)
        marks = {
            "puarena_format": str(FORMAT),
            "puarena_spec": self.spec_hash,
            "puarena_fleet": fleet,
        }
        with duckdb.connect() as con:
            con.register("frame", frame)
            write_parquet(con, f"SELECT {select_list(frame.columns)} FROM frame", target, marks)
        self.clear_failure(fleet)
        with suppress(OSError):
            self._file("progress", fleet, "safetensors").unlink(missing_ok=True)

    def keep_planned(self, planned: Planned, first: bool = False) -> None:
        """Note which runs are meant to be there, and in which fleets; ``first``: of several at once one succeeds."""
        write_planned(self.path, planned, first)

    def has_shard(self, fleet: str) -> bool:
        """Is this fleet stored?"""
        return self._file("shards", fleet, "parquet").exists()

    def claim(self, fleet: str) -> claims.Claim | None:
        """Claim a fleet for this process; None if a living process has it."""
        return claims.claim(self._file("claims", fleet, "1").parent, fleet)

    def claimed(self) -> set[str]:
        """The fleets that living processes have claimed."""
        return claims.claimed(self.path / "claims")

    def write_failure(self, fleet: str, runs: list[str], cause: str, **facts: Any) -> None:
        """Note that a fleet could not be finished, and why; ``facts`` are what else is known of it."""
        content = {"fleet": fleet, "runs": runs, "reason": cause, **facts}
        write_file(self._file("failures", fleet, "json"), json.dumps(content, indent=2))

    def set_aside(self, file: Path) -> Path:
        """Move a damaged file out of the way, where nobody reads it; return where it is then."""
        folder = self.path / "damaged"
        names = (
            f"{file.stem}-{number}{file.suffix}" if number else file.name for number in count()
        )
        try:
            folder.mkdir(exist_ok=True)
            target = next(folder / name for name in names if not (folder / name).exists())
            os.replace(file, target)
        except OSError as error:
            raise cannot_write(file, error) from error
        return target

    def clear_failure(self, fleet: str) -> None:
        """Forget a fleet's failure, if there is one."""
        target = self._file("failures", fleet, "json")
        try:
            target.unlink(missing_ok=True)
        except OSError as error:
            raise cannot_write(target, error) from error

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
            raise UserError(
                f"cannot read the results folder '{self.path}' ({describe_error(error)})"
            ) from error
        fresh = [file for file in files if self._verified.get(file) != stamps[file]]
        if fresh:
            with duckdb.connect() as con:
                for file in fresh:
                    self.check_shard(con, file)
        self._verified = stamps
        allow_open_files(len(files))
        return files

    def check_shard(self, con: DuckDBPyConnection, file: Path) -> None:
        """Is this a whole Parquet file with our columns, spec and fleet, and every bit as it was written?"""
        import duckdb

        try:
            columns, marks = footer(con, file)
        except (duckdb.Error, ValueError) as error:
            check_handles(error)
            raise _bad_shard(file, "is truncated or not a Parquet file") from error
        if marks.get(b"puarena_format") != str(FORMAT).encode() or not has_schema(columns):
            raise _bad_shard(file, "is a Parquet file that puarena did not write")
        if marks.get(b"puarena_spec") != self.spec_hash.encode():
            raise _bad_shard(file, "holds results of another spec")
        if marks.get(b"puarena_fleet") != file.name.removesuffix(".parquet").encode():
            raise _bad_shard(file, "is a renamed copy of another shard")
        if is_damaged(file, SEALED.encode() in marks or "sealed" in self.info):
            raise self.damaged(file)

    def planned(self) -> Planned | None:
        """The runs that are meant to be there, as they were kept; None if they were not."""
        return read_planned(self.path)

    def damaged(self, file: Path) -> UserError:
        """The error for a shard that cannot be read to its end."""
        return _bad_shard(file, "is damaged")

    def failures(self) -> list[dict[str, Any]]:
        """What ``write_failure`` noted: ``fleet``, ``runs`` and ``reason`` of each fleet, and what else is known."""
        notes = []
        for file in sorted(self.path.glob("failures/[!.]*.json")):
            try:
                content = parse_json(file.read_text(encoding="utf-8"))
                needed = {
                    "fleet": content["fleet"],
                    "runs": list(content["runs"]),
                    "reason": str(content["reason"]),
                }
                notes.append({**content, **needed})
            except (OSError, ValueError, KeyError, TypeError) as error:
                raise UserError(f"'{file}' is not a note of a failed fleet; remove it") from error
        return notes

    def states(self) -> dict[Path, dict[str, str]]:
        """The states of fleets in training or interrupted, newest first, with their marks; none if one is damaged."""
        from safetensors import SafetensorError, safe_open

        times: dict[Path, int] = {}
        for file in self.path.glob("progress/[!.]*.safetensors"):
            with suppress(OSError):  # removed just now
                times[file] = file.stat().st_mtime_ns
        states: dict[Path, dict[str, str]] = {}
        for file in sorted(times, key=lambda file: times[file], reverse=True):
            states[file] = {}
            with suppress(OSError, SafetensorError), safe_open(file, framework="np") as opened:
                marks = opened.metadata() or {}
                if is_intact(file.read_bytes()):
                    states[file] = marks
        return states

    def runs_with_state(self) -> set[str]:
        """The runs of which there is a state."""
        runs: set[str] = set()
        for marks in self.states().values():
            with suppress(ValueError, TypeError):
                runs.update(map(str, parse_json(marks.get("runs", "[]"))))
        return runs


def versions() -> dict[str, str]:
    """The versions that matter for a number: of puarena, Python and the libraries that compute and store it."""
    known = {"puarena": __version__, "python": platform.python_version()}
    for package in ("torch", "numpy", "duckdb"):
        with suppress(metadata.PackageNotFoundError):
            known[package] = metadata.version(package)
    return known


def _read_info(path: Path) -> dict[str, Any]:
    """Read ``spec.json`` and check that this version can read the folder."""
    file = path / "spec.json"
    if "\0" in str(path):
        raise UserError("the name of a results folder has a NUL character in it")
    try:
        if not path.exists():
            raise UserError(f"there is no results folder '{path}'")
        if not file.is_file():
            raise UserError(f"'{path}' is not a results folder of puarena: it has no spec.json")
        info = parse_json(file.read_text(encoding="utf-8"))
    except UserError:
        raise
    except OSError as error:
        raise UserError(f"cannot read '{file}' ({describe_error(error)})") from error
    except ValueError as error:
        raise UserError(
            f"'{file}' is truncated or not JSON; restore it, or use another results folder"
        ) from error
    needed: dict[str, type] = {"format": int, "spec_hash": str, "versions": dict, "spec": dict}
    if not isinstance(info, dict) or not all(
        isinstance(info.get(key), kind) for key, kind in needed.items()
    ):
        raise UserError(f"'{file}' was not written by puarena; use another results folder")
    if "spec_seal" in info and info["spec_seal"] != digest(info["spec"]):
        raise UserError(
            f"'{file}' was edited after its runs were made; restore it, or run the new spec with another --out"
        )
    if info["format"] != FORMAT:
        raise UserError(
            f"'{path}' has results in format {info['format']} (puarena {info['versions'].get('puarena', 'unknown')}) "
            f"and this puarena {__version__} reads format {FORMAT}; use another results folder"
        )
    return info


def _bad_shard(file: Path, what: str) -> UserError:
    return UserError(f"'{file}' {what}; remove it, and 'puarena run' recomputes only what it held")
