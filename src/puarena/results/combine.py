"""Several results read as one, and ``merge``, which writes them into one folder.

A run is named by its content, so that the same run has the same name in all results. Results can
be joined if they follow one protocol: their specs may differ in problems, algorithms, splits and
configurations.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from puarena import __version__
from puarena.errors import UserError, unknown_name
from puarena.experiments.spec import EVERY_ALGORITHM, Spec, is_path
from puarena.pu.problem import PROBLEM_COLUMNS, Problem
from puarena.results import published
from puarena.results.folder import (
    PACKED,
    Folder,
    Results,
    Summary,
    have_same_numbers,
    write_info,
)
from puarena.results.parquet import ask, connect, quote_name, scan
from puarena.results.planned import Planned, unite_planned
from puarena.results.records import FailureNote, ResultsInfo
from puarena.results.schema import COMPUTATION_COLUMNS, METHOD_COLUMNS, is_value
from puarena.utils.files import cannot_write
from puarena.utils.identity import digest

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

Source: TypeAlias = "Results | str | Path"

TOLERANCE = 1e-6  # between two results of a run: sums are rounded otherwise in another fleet
EXTENT_FIELDS = ("splits", "configs")  # of a spec: how much was run
# Specs that differ in these fields only follow one protocol; `hyper` is compared by algorithm.
JOINED_FIELDS = (*EXTENT_FIELDS, "problems", "algorithms", "prior_source", "plugins", "hyper")
GROUP_COLUMNS = (*PROBLEM_COLUMNS, *METHOD_COLUMNS)
MERGE_RULES = {
    "refuse": "two results of a run that differ are an error",
    "first": "take the result of the folder named first",
}
# For reading: the rows of a method on a problem are those of the first results that have it.
# Rows of two experiments are then never averaged, so their protocols may differ.
BY_METHOD = "by-method"


def open_results(source: Source | Sequence[Source], overlap: str = "refuse") -> Results:
    """Open a results folder, a summary, ``published:NAME``, or several of them as one.

    ``overlap`` is one of ``MERGE_RULES``, or ``BY_METHOD``.
    """
    if isinstance(source, Results):
        return source
    if not isinstance(source, (str, Path)):
        parts = [open_results(part) for part in source]
        return parts[0] if len(parts) == 1 else Combined(parts, overlap)
    if published.is_published(source):
        return Summary(published.find(source))
    return Summary(source) if Path(source).is_file() else Folder(source)


class Combined(Results):
    """Several results read as one; ``counts`` is the number of runs taken from each."""

    def __init__(
        self, parts: Sequence[Results], overlap: str = "refuse", tolerance: float = TOLERANCE
    ) -> None:
        if overlap not in {*MERGE_RULES, BY_METHOD}:
            raise unknown_name("way to treat runs with two results", overlap, MERGE_RULES)
        self.parts = list(parts)
        self.overlap, self.tolerance = overlap, tolerance
        if overlap != BY_METHOD:
            check_same_protocol(self.parts)
        self._assign_runs()
        super().__init__(parts[0].path, self._join_info())

    def _assign_runs(self) -> None:
        """Decide which part each run is taken from, and compare runs that several parts have."""
        with connect() as con:
            views = self._create_views(con)
            self._owners = con.execute(_assignment_query(views, self.overlap)).df()
            self.difference = 0.0
            if self.overlap == "refuse":
                for pair in combinations(range(len(self.parts)), 2):
                    self.difference = max(self.difference, self._compare(con, views, pair))
        self.shared = int((self._owners["copies"] > 1).sum())
        owners = self._owners["part"].tolist()
        self.counts = tuple(owners.count(number) for number in range(len(self.parts)))

    def _create_views(self, con: DuckDBPyConnection) -> list[str]:
        views = []
        for number, part in enumerate(self.parts):
            views.append(f"puarena_part_{id(self)}_{number}")
            part.relation(con).create_view(views[-1], replace=True)
        return views

    def _compare(
        self, con: DuckDBPyConnection, views: Sequence[str], pair: tuple[int, int]
    ) -> float:
        """Return by how much results of the same runs differ; refuse more than the tolerance."""
        first, second = (views[number] for number in pair)
        columns = {*con.table(first).columns} & {*con.table(second).columns}
        with self.reading():
            worst = con.execute(_difference_query(first, second, columns)).fetchone()
        if worst is None:
            return 0.0
        run, algorithm, dataset, split, config, gap = worst
        if not gap <= self.tolerance:
            paths = [self.parts[number].path for number in pair]
            raise UserError(
                f"'{paths[0]}' and '{paths[1]}' have different results of the same run ({run}: "
                f"{algorithm} on {dataset}, split {split}, configuration {config}: they differ by "
                f"{gap:.3g}, and may by {self.tolerance:g}); leave one out, or take the first "
                "with --overlap first",
                "conflict",
            )
        return float(gap)

    def _join_info(self) -> ResultsInfo:
        first = self.parts[0]
        origins = [
            origin
            for part, count in zip(self.parts, self.counts, strict=True)
            for origin in part.origins(count)
        ]
        methods: dict[str, dict[str, Any]] = {}
        for part in self.parts:
            for facts in part.info.methods:
                methods.setdefault(str(facts.get("name")), facts)
        changes: dict[str, Any] = {"sources": tuple(origins), "methods": tuple(methods.values())}
        if self.overlap == BY_METHOD:
            changes["notes"] = (*_describe_parts(self.parts), *first.info.notes)
        else:
            spec, changes["spec_hash"] = join_specs(self.parts)
            changes["spec"] = spec.to_dict()
            if changes["spec_hash"] != first.spec_hash:
                changes["command"] = ""  # the first part's command makes that part only
            changes["notes"] = _join(part.info.notes for part in self.parts)
            changes["revisions"] = _join_revisions(self.parts)
        return first.info.model_copy(update=changes)

    def relation(self, con: DuckDBPyConnection | None = None) -> DuckDBPyRelation:
        """Return the rows that are taken from each part as one relation."""
        con = con or connect()
        owners = f"puarena_owners_{id(self)}"
        con.register(owners, self._owners)
        rows = [
            f"SELECT part.* FROM {view} AS part "
            f"SEMI JOIN (SELECT run FROM {owners} WHERE part = {number}) USING (run)"
            for number, view in enumerate(self._create_views(con))
        ]
        return con.sql(" UNION ALL BY NAME ".join(rows))

    def shards(self) -> list[Path]:
        """Return the verified files of all parts."""
        return [file for part in self.parts for file in part.shards()]

    def verify(self) -> None:
        """Verify the files of all parts again."""
        for part in self.parts:
            part.verify()

    def failures(self) -> list[FailureNote]:
        """Return the notes of fleets with runs that no part has."""
        notes = [note for part in self.parts for note in part.failures()]
        done = set(self._owners["run"])
        left = [[run for run in note.runs if run not in done] for note in notes]
        return [
            note.model_copy(update={"runs": tuple(runs)})
            for note, runs in zip(notes, left, strict=True)
            if runs
        ]

    def planned(self) -> Planned | None:
        """Return the planned runs of all parts; None if one of them has none.

        By method, they are those of the first part, which the others only complement.
        """
        if self.overlap == BY_METHOD:
            return self.parts[0].planned()
        return unite_planned([part.planned() for part in self.parts])

    def runs_of(self, number: int) -> list[str]:
        """Return the runs that are taken from a part."""
        return self._owners.loc[self._owners["part"] == number, "run"].tolist()


@dataclass(frozen=True)
class Merged:
    """What a merge did."""

    out: Path
    runs: int
    shared: int  # runs that several folders have
    counts: tuple[int, ...]  # runs taken from each
    tolerance: float = TOLERANCE
    difference: float = 0.0  # the largest between two results of a shared run


def merge(
    paths: Sequence[Source],
    out: str | Path,
    overlap: str = "refuse",
    tolerance: float = TOLERANCE,
) -> Merged:
    """Write several results into the new folder ``out``.

    Results of the same run may differ by ``tolerance``, unless ``overlap`` is ``first``.
    """
    out = Path(out)
    if len(paths) < 2:
        raise UserError("merging needs at least two results folders", "invalid-value")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(
            f"'{out}' already exists; merge into a new folder with another --out", "conflict"
        )
    joined = Combined([open_results(path) for path in paths], overlap, tolerance)
    # The folder is renamed when it is complete.
    temp = out.resolve().with_name(f".{out.name}.{os.getpid()}.tmp")
    try:
        _write(joined, temp)
        if out.exists():
            out.rmdir()
        os.replace(temp, out)
    except OSError as error:
        raise cannot_write(out, error) from error
    finally:
        shutil.rmtree(temp, ignore_errors=True)
    runs = sum(joined.counts)
    return Merged(out, runs, joined.shared, joined.counts, tolerance, joined.difference)


def _write(joined: Combined, folder: Path) -> None:
    """Write joined results as a results folder."""
    for name in ("shards", "failures"):
        (folder / name).mkdir(parents=True)
    changes = {
        "spec_seal": digest(joined.info.spec),
        "merged_by": __version__,
        "summary": None,
    }
    info = joined.info.model_copy(update=changes)
    write_info(folder, info)
    merged = Folder(folder)
    planned = joined.planned()
    if planned is not None:
        merged.keep_planned(planned)
    names: set[str] = set()
    for number, part in enumerate(joined.parts):
        _copy_shards(part, joined.runs_of(number), merged, names)
    names.clear()
    for note in joined.failures():
        fleet = _choose_name(note.fleet, names)
        facts = note.model_dump(exclude_unset=True, exclude={"fleet", "runs", "reason"})
        merged.write_failure(fleet, note.runs, note.reason, **facts)


def _copy_shards(part: Results, runs: list[str], merged: Folder, names: set[str]) -> None:
    """Copy the rows of some runs, one shard for each of the part's."""
    import pandas as pd

    if not runs:
        return
    with connect() as con, part.reading():
        con.register("taken", pd.DataFrame({"run": runs}))
        for file in part.shards():
            rows = f"SELECT * FROM {scan([file])} SEMI JOIN taken USING (run)"
            found = con.execute(f"SELECT DISTINCT run FROM ({rows}) ORDER BY run").fetchall()
            if found:
                name = (
                    digest([run for (run,) in found])
                    if part.info.summary
                    else file.stem.removeprefix(PACKED)
                )
                fleet = _choose_name(name, names)
                merged.write_rows(
                    con, f"SELECT * REPLACE ('{fleet}' AS fleet) FROM ({rows})", fleet
                )


def _choose_name(fleet: str, names: set[str]) -> str:
    """Return a name that no other fleet has: two folders may hold different runs of one fleet."""
    name, number = fleet, 1
    while name in names:
        number += 1
        name = f"{fleet[:180]}+{number}"
    names.add(name)
    return name


# -- what may be joined ------------------------------------------------------------------


def find_differences(
    first: Results, other: Results, ignore: Sequence[str] = JOINED_FIELDS
) -> list[str]:
    """Return why two results are not of one experiment, in words; nothing if they may be joined.

    ``ignore`` are fields of the spec that may differ.
    """
    words = [
        f"{field}: {_format(own)} and {_format(their)}"
        for field, (own, their) in first.spec.differences(other.spec, ignore).items()
    ]
    shared = {*first.spec.algorithms} & {*other.spec.algorithms}
    for name in (EVERY_ALGORITHM, *sorted(shared)):
        own, their = (results.spec.hyper.get(name, {}) for results in (first, other))
        if own != their:
            what = "every algorithm" if name == EVERY_ALGORITHM else name
            words.append(f"hyper of {what}: {json.dumps(own)} and {json.dumps(their)}")
    known = _name_revisions(other)
    for dataset, revision in _name_revisions(first).items():
        if known.get(dataset, revision) != revision:
            words.append(f"the dataset '{dataset}' differs")
    if not have_same_numbers(first.version, other.version):
        words.append(f"puarena {first.version} and {other.version}, whose numbers may differ")
    return words


def check_same_protocol(parts: Sequence[Results]) -> None:
    """Raise an error unless all results may be joined."""
    for first, other in combinations(parts, 2):
        differences = find_differences(first, other)
        if differences:
            raise UserError(
                f"'{first.path}' and '{other.path}' have different protocols "
                f"({'; '.join(differences)}) and cannot be joined",
                "conflict",
            )


def join_specs(parts: Sequence[Results]) -> tuple[Spec, str]:
    """Return the smallest spec that has all runs of results of one protocol, and its hash."""
    hashes = sorted({part.spec_hash for part in parts})
    if len(hashes) == 1:
        # A summary names a user's files without their folders.
        whole = [part for part in parts if not part.is_summarized]
        return (whole or parts)[0].spec, hashes[0]
    joined = _join_different(parts)
    # Plugins and users' tables are not read: the hashes of the parts represent their content.
    revisions = _join_revisions(parts)
    tables = {problem.dataset for problem in joined.problems if problem.has_path()}
    unknown = joined.plugins or tables - revisions.keys()
    return joined, digest(hashes) if unknown else joined.hash(revisions)


def _join_different(parts: Sequence[Results]) -> Spec:
    specs = [part.spec for part in parts]
    changes = {
        "problems": _join_problems(parts),
        "algorithms": _join(spec.algorithms for spec in specs),
        "prior_source": _join(spec.prior_source for spec in specs),
        "splits": max(spec.splits for spec in specs),
        "configs": max(spec.configs for spec in specs),
        "hyper": _join_hyper(specs),
        "plugins": _join(spec.plugins for spec in specs),
    }
    if len({spec.name for spec in specs}) > 1:
        changes["name"] = "merged"
    if len({(spec.name, spec.title, spec.description) for spec in specs}) > 1:
        changes |= {"title": "", "description": ""}
    return specs[0].model_copy(update=changes)


def _join_hyper(specs: Sequence[Spec]) -> dict[str, Any]:
    """Return the fixed hyperparameters of all algorithms that were run."""
    hyper: dict[str, Any] = {}
    for spec in specs:
        used = {EVERY_ALGORITHM, *spec.algorithms}
        hyper.update((name, values) for name, values in spec.hyper.items() if name in used)
    return hyper


def _join_problems(parts: Sequence[Results]) -> tuple[Any, ...]:
    """Return all problems; a user's table that is in several places has the first of its paths."""
    paths: dict[str, str] = {}  # by content
    problems = []
    for part in parts:
        for problem in part.spec.problems:
            content = part.info.revisions.get(problem.dataset)
            if content is not None and is_path(problem.dataset):
                path = paths.setdefault(content, problem.dataset)
                problem = problem.model_copy(update={"dataset": path})
            problems.append(problem)
    return tuple(dict.fromkeys(problems))


def _join_revisions(parts: Sequence[Results]) -> dict[str, str]:
    revisions: dict[str, str] = {}
    for part in reversed(parts):
        revisions |= part.info.revisions
    return revisions


def _name_revisions(results: Results) -> dict[str, str]:
    """Return revisions by name; those of users' tables are stored by path, as ``NAME:REVISION``."""
    revisions = {}
    for dataset, revision in results.info.revisions.items():
        if is_path(dataset):
            name, _, digits = revision.rpartition(":")
            revisions[name] = digits
        else:
            revisions[dataset] = revision
    return revisions


def _describe_parts(parts: Sequence[Results]) -> list[str]:
    """Return notes on results that are read together: how they differ, and whose rows are shown."""
    first, *others = parts
    fields = [field for field in JOINED_FIELDS if field not in EXTENT_FIELDS]
    problems = _find_problems(first)
    notes = []
    for other in others:
        theirs = _find_problems(other)
        if not set(problems) & set(theirs):
            raise UserError(
                f"'{other.name}' has none of the problems of '{first.name}' ({_label(theirs)}; "
                f"{_label(problems)})",
                "missing-data",
            )
        differences = find_differences(first, other, fields)
        if differences:
            notes.append(
                f"{other.name} was run under another protocol than {first.name}, so the two are "
                f"not one experiment ({'; '.join(differences)})."
            )
        lacking = [problem.label() for problem in problems if problem not in theirs]
        if lacking:
            notes.append(f"{other.name} has no results on {'; '.join(lacking)}.")
    # A row is a method as it was run: the same algorithm can be run in two ways, and has two rows.
    own, *rest = [set(_find_values(part, METHOD_COLUMNS)) for part in parts]
    names = " and ".join(other.name for other in others)
    rows = f"Every row of {first.name} is shown; the others are of {names}."
    both = len(own & set().union(*rest))
    if both:
        rows += f" {both} {'is' if both == 1 else 'are'} in both, and shown from {first.name}."
    return [*notes, rows]


def _find_problems(results: Results) -> list[Problem]:
    rows = _find_values(results, PROBLEM_COLUMNS)
    return [Problem.from_columns(dict(zip(PROBLEM_COLUMNS, row, strict=True))) for row in rows]


def _find_values(results: Results, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    names = ", ".join(map(quote_name, columns))
    query = f"SELECT DISTINCT {names} FROM curves ORDER BY ALL"
    with results.reading():
        return ask(results.relation(), query).fetchall()


def _label(problems: Sequence[Problem]) -> str:
    return ", ".join(problem.label(prior=True) for problem in problems)


def _join(values: Iterable[Iterable[Any]]) -> tuple[Any, ...]:
    """Return all values, each once."""
    return tuple(dict.fromkeys(value for group in values for value in group))


def _format(value: Any) -> str:
    return "unset" if value is None else str(value)


# -- queries -----------------------------------------------------------------------------


def _assignment_query(views: Sequence[str], overlap: str) -> str:
    """Return SQL for every run with the part it is taken from and the number of ``copies``."""
    method = ", ".join(f"{quote_name(name)} := {quote_name(name)}" for name in GROUP_COLUMNS)
    runs = " UNION ALL ".join(
        f"SELECT {number} AS part, run, count(*) AS records, "
        f"any_value(struct_pack({method})) AS method FROM {view} GROUP BY run"
        for number, view in enumerate(views)
    )
    if overlap == BY_METHOD:
        ranked = f"SELECT *, min(part) OVER (PARTITION BY method) AS owner FROM ({runs})"
        return f"SELECT run, part, 1 AS copies FROM ({ranked}) WHERE part = owner"
    # Of whole curves and a summary's, the whole ones; otherwise the first.
    longest = "arg_max(part, struct_pack(records := records, place := -part))"
    owner = "min(part)" if overlap == "first" else longest
    return f"SELECT run, {owner} AS part, count(*) AS copies FROM ({runs}) GROUP BY run"


def _difference_query(first: str, second: str, columns: Iterable[str]) -> str:
    """Return SQL for the run by which two results differ most, and by how much."""
    compared = sorted(set(columns) - {*COMPUTATION_COLUMNS, "run", "step"})
    gaps, differs = [], []
    for column in compared:
        a, b = f"a.{quote_name(column)}", f"b.{quote_name(column)}"
        if is_value(column) or column == "loss":
            gaps.append(
                f"CASE WHEN {a} IS NOT DISTINCT FROM {b} THEN 0 "
                f"WHEN isfinite({a} - {b}) THEN abs({a} - {b}) ELSE 'inf'::DOUBLE END"
            )
        else:
            differs.append(f"{a} IS DISTINCT FROM {b}")
    gap = (
        f"CASE WHEN {' OR '.join(differs)} THEN 'inf'::DOUBLE ELSE greatest({', '.join(gaps)}) END"
    )
    return (
        f"SELECT a.run, a.algorithm, a.dataset, a.split, a.config, {gap} AS gap "
        f"FROM {first} AS a JOIN {second} AS b USING (run, step) ORDER BY gap DESC, a.run LIMIT 1"
    )
