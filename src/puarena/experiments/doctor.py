"""A results folder looked at file by file: is every bit of it as it was written, and is it what was planned?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from puarena.errors import UserError
from puarena.experiments.plan import make_plan
from puarena.experiments.spec import Spec
from puarena.experiments.state_marks import content_of
from puarena.results import Folder
from puarena.results.planned import FILE as PLANNED
from puarena.results.sql import scan
from puarena.utils.files import describe_error, parse_json


@dataclass
class Finding:
    """Something wrong with a file, and where it was moved to, if it was."""

    file: str
    what: str
    moved: str = ""


@dataclass
class Report:
    """What was looked at, and what is wrong."""

    folder: str
    shards: int = 0
    states: int = 0
    runs: int = 0
    planned: int | None = None
    findings: list[Finding] = field(default_factory=list)

    @property
    def line(self) -> str:
        """All in one sentence."""
        of = "" if self.planned is None else f" of {self.planned:,}"
        wrong = (
            f"{len(self.findings)} things are wrong"
            if self.findings
            else "everything is as it was written"
        )
        return f"{self.folder}: {self.shards:,} shards with {self.runs:,}{of} runs, {self.states:,} states; {wrong}"


def examine(path: Path, repair: bool = False) -> Report:
    """Verify the spec, the planned runs, every shard, state and note; ``repair`` moves what is damaged aside."""
    store, report = Folder(path), Report(str(path))
    for file, what in _damage(store, report):
        moved = ""
        if repair and file.name != "spec.json":
            moved = str(store.set_aside(file))
        report.findings.append(Finding(str(file), what, moved))
    return report


def _damage(store: Folder, report: Report) -> Iterator[tuple[Path, str]]:
    what = _spec_damage(store)
    if what:
        yield store.path / "spec.json", what
    planned: set[str] | None = None
    try:
        kept = store.planned()
        planned = set(kept.runs) if kept else None
        report.planned = None if planned is None else len(planned)
    except UserError:
        yield store.path / PLANNED, "is damaged"
    owners: dict[str, Path] = {}
    for file in sorted((store.path / "shards").glob("[!.]*")):
        try:
            runs = _runs_of(store, file)
        except UserError as error:
            yield file, str(error).removeprefix(f"'{file}' ").split(";")[0]
            continue
        report.shards += 1
        doubled = [run for run in runs if owners.setdefault(run, file) != file]
        foreign = runs - planned if planned is not None else set()
        report.runs += len(runs) - len(doubled)
        if foreign:
            yield file, f"has {len(foreign)} runs that were not planned"
        elif doubled:
            yield file, f"has {len(doubled)} runs that {owners[doubled[0]].name} has, too"
    for file, marks in sorted(store.states().items()):
        what = _state_damage(marks, planned)
        report.states += not what
        if what and file.exists():  # not removed just now
            yield file, what
    for file in sorted((store.path / "failures").glob("[!.]*")):
        try:
            note = parse_json(file.read_text(encoding="utf-8"))
            if not {"fleet", "runs", "reason"} <= set(note):
                raise ValueError
        except (OSError, ValueError, TypeError):
            yield file, "is not a note of a failed fleet"


def _state_damage(marks: Mapping[str, str], planned: set[str] | None) -> str:
    """What is wrong with a state that has these marks; a damaged one has none."""
    if not marks:
        return "is damaged"
    try:
        runs, _ = content_of(marks)
    except (ValueError, TypeError, KeyError):
        return "is not the state of a fleet"
    foreign = set(runs) - planned if planned is not None else set()
    return f"has {len(foreign)} runs that were not planned" if foreign else ""


def _runs_of(store: Folder, file: Path) -> set[str]:
    """The runs of a shard, after everything about it was checked and every value was read."""
    import duckdb

    with duckdb.connect() as con:
        try:
            store.check_shard(con, file)
            rows = con.execute(
                f"SELECT run, step, count(*) FROM {scan([file])} GROUP BY run, step"
            ).fetchall()
        except (duckdb.Error, OSError) as error:
            raise UserError(f"'{file}' cannot be read ({describe_error(error)})") from error
    if any(count > 1 for _, _, count in rows):
        raise UserError(f"'{file}' has two records of one run and step")
    return {run for run, _, _ in rows}


def _spec_damage(store: Folder) -> str:
    """What is wrong with a spec: it must be one, and have the hash that is noted with it."""
    info: dict[str, Any] = store.info
    try:
        spec = Spec.load(store.spec)
        if "sources" in info:  # of several
            return ""
        spec = spec if spec.plugins else make_plan(spec).spec
        if spec.hash(info.get("revisions")) != store.spec_hash:
            return "has a spec that is not the one its hash was made from"
    except UserError as error:
        return f"has a spec that cannot be used here ({error})"
    return ""
