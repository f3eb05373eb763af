"""Rerun one row of a published table, and say whether it came out the same."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from puarena import catalog
from puarena.errors import UserError, unknown_name
from puarena.experiments.plan import RunSpec, make_plan
from puarena.experiments.run import run
from puarena.experiments.spec import PROFILES, Spec, load_plugins
from puarena.metrics import CRITERIA, METRICS
from puarena.report.compare import (
    AGREEMENT_ERRORS,
    AGREEMENT_POINTS,
    PAPER_METRICS,
    ComparedCell,
    find_published_criterion,
)
from puarena.report.methods import Method
from puarena.report.problems import Problem, read_all
from puarena.report.select import aggregate, select
from puarena.results import Results, Summary, ask, open_results
from puarena.results.sql import sql_name, sql_text

if TYPE_CHECKING:
    from duckdb import DuckDBPyRelation

    from puarena.experiments.progress import Progress

TOLERANCE = (
    f"{AGREEMENT_POINTS:g} points, or {AGREEMENT_ERRORS:g} combined standard errors if that is more"
)
Cell = tuple[Problem, str, str]  # problem, metric, criterion


@dataclass(frozen=True)
class Reproduction:
    """A row that was run again."""

    algorithm: str
    runs: int
    known: int  # runs that the published results have under the same name
    records: int  # published records of these runs
    equal: int  # of them, those with the same numbers to the last bit
    devices: tuple[str, str]  # published, here
    cells: dict[Cell, ComparedCell]

    @property
    def identical(self) -> bool:
        """Is every published record of every run the same to the last bit?"""
        return self.known == self.runs and 0 < self.records == self.equal

    @property
    def same(self) -> bool:
        """Did it come out the same, to the bit or to tolerance?"""
        return self.identical or all(cell.agrees for cell in self.cells.values())

    @property
    def verdict(self) -> str:
        """Whether it came out the same, in a few sentences."""
        computed = f"{self.runs} {'run' if self.runs == 1 else 'runs'} of {self.algorithm}"
        if self.identical:
            return f"The same to the last bit: {computed}, {self.records} published records."
        outside = sum(not line.agrees for line in self.cells.values())
        words = [
            f"The same to tolerance: all {len(self.cells)} cells"
            if self.same
            else f"Not the same: {outside} of {len(self.cells)} cells are outside"
        ]
        words = [f"{words[0]} ({computed}; tolerance: {TOLERANCE})."]
        if self.known < self.runs:
            words.append(
                f"This version plans {self.runs - self.known} of the runs differently than the published one."
            )
        published, here = self.devices
        if published != here:
            words.append(
                f"Published on {published} and run here on {here}, so equal bits cannot be expected."
            )
        else:
            words.append(
                f"{self.equal} of {self.records} published records are the same to the last bit."
            )
        return " ".join(words)


def reproduce(
    source: str | Path,
    algorithm: str,
    datasets: Sequence[str] | None = None,
    cases: Sequence[int] | None = None,
    split: int | None = None,
    plugins: Sequence[str] = (),
    out: str | Path | None = None,
    progress: Progress | None = None,
    **how: Any,
) -> Reproduction:
    """Run one method of published results again (on some problems, or one split only) and compare.

    ``out`` keeps the new results; ``how`` goes to ``bench.run`` (device, data, workers).
    """
    store = open_results(source)
    spec = _runnable(store, plugins)
    load_plugins(spec.plugins)
    wanted = (
        catalog.find_form(algorithm, PROFILES[spec.profile].variant)
        if algorithm in catalog.names()
        else algorithm
    )
    name = algorithm if algorithm in spec.algorithms else wanted
    if name not in spec.algorithms:
        raise unknown_name("row", algorithm, spec.algorithms)
    for given, what in ((datasets, "dataset"), (cases, "cases")):
        present = {
            str(v)
            for part in spec.problems
            for v in ([part.dataset] if what == "dataset" else part.cases)
        }
        for value in given or ():
            if str(value) not in present:
                raise unknown_name(what.removesuffix("s"), str(value), present)
    spec = spec.override(algorithms=(name,), datasets=datasets, cases=cases)
    planned = [one for one in make_plan(spec).runs if split is None or one.split == split]
    if not planned:
        raise UserError(
            f"there is no split {split}: the published results have {spec.splits}, numbered from 0"
        )

    def chosen(one: RunSpec) -> bool:
        return split is None or one.split == split

    with (
        nullcontext(str(out))
        if out is not None
        else tempfile.TemporaryDirectory(prefix="puarena-") as folder
    ):
        outcome = run(
            spec,
            Path(folder) / "again" if out is None else folder,
            progress=progress or False,
            only=chosen,
            **how,
        )
        if outcome.failures:
            raise UserError(f"the row could not be run again: {outcome.failures[0].reason}")
        again = open_results(outcome.out)
        return _compared(store, again, name, planned, split)


def _runnable(store: Results, plugins: Sequence[str]) -> Spec:
    """The spec of the store; a summary names plugins without their folders, and a submission brings them along."""
    spec = Spec.load(store.spec)
    if not isinstance(store, Summary) or not spec.plugins:
        return spec
    given = {Path(plugin).name: str(plugin) for plugin in plugins}
    places = tuple(
        given.get(name, str(store.path.resolve().parent / name)) for name in spec.plugins
    )
    for place in places:
        if not Path(place).is_file():
            raise UserError(
                f"the plugin '{Path(place).name}' is not beside the results; give it with --plugin"
            )
    return spec.model_copy(update={"plugins": places})


def _compared(
    store: Results, again: Results, name: str, planned: list[RunSpec], split: int | None
) -> Reproduction:
    """Record by record, and cell by cell."""
    import duckdb

    names = {one.run_id for one in planned}
    known = names & store.done_runs()
    con = duckdb.connect()
    with store.reading(), again.reading():
        before, after = (_rows(each, name, planned, split, con) for each in (store, again))
        both = {*before.columns} & {*after.columns}
        stored = [
            *(record.column for record in METRICS.values()),
            *(record.column for record in CRITERIA.values()),
        ]
        values = [column for column in stored if column in both]
        differs = " OR ".join(
            f"a.{sql_name(column)} IS DISTINCT FROM b.{sql_name(column)}" for column in values
        )
        before.create_view("before_rows")
        after.create_view("after_rows")
        ((records, equal),) = con.execute(
            f"SELECT count(*), count(*) FILTER (WHERE b.run IS NOT NULL AND NOT ({differs})) "
            "FROM before_rows AS a LEFT JOIN after_rows AS b USING (run, step)"
        ).fetchall()
        devices = tuple(
            ", ".join(
                row[0]
                for row in ask(each, "SELECT DISTINCT device FROM curves ORDER BY ALL").fetchall()
            )
            for each in (before, after)
        )
        spread = _cells(_rows(store, name, planned, None, con))
        old, new = _cells(before), _cells(after)
    cells = {}
    for cell, (method, mean, error, n, _) in new.items():
        if cell in old:
            was = old[cell]
            # One split has no error of its own: its scale is the deviation between the published splits.
            errors = [spread[cell][4] if math.isnan(e) else e for e in (error, was[2])]
            cells[cell] = ComparedCell(method, mean, errors[0], n, was[1], errors[1])
    if not cells:
        raise UserError(f"the published results have no numbers of {name} on these problems")
    ours, theirs = devices
    return Reproduction(name, len(names), len(known), records, equal, (ours, theirs), cells)


def _rows(
    store: Results, name: str, planned: list[RunSpec], split: int | None, con: Any
) -> DuckDBPyRelation:
    """The rows of this method on these problems."""
    keys = {
        (p.dataset, p.case, p.setting, p.rate, p.labeling) for p in (one.problem for one in planned)
    }
    where = " OR ".join(
        f'(dataset = {sql_text(d)} AND "case" = {c} AND setting = {sql_text(s)} AND rate = {r} AND '
        f"labeling = {sql_text(m)})"
        for d, c, s, r, m in sorted(keys)
    )
    only = "" if split is None else f" AND split = {int(split)}"
    return store.relation(con).filter(f"algorithm = {sql_text(name)} AND ({where}){only}")


def _cells(rows: DuckDBPyRelation) -> dict[Cell, tuple[Method, float, float, int, float]]:
    """Method, mean, standard error, splits and deviation between splits of every cell that tables show."""
    numbers = aggregate(select(rows), PAPER_METRICS)
    cells = {}
    for problem, method, row in zip(
        read_all(Problem, numbers),
        read_all(Method, numbers),
        numbers.to_dict("records"),
        strict=True,
    ):
        if find_published_criterion(method.profile, row["criterion"]) and not math.isnan(
            row["mean"]
        ):
            values = (
                method,
                float(row["mean"]),
                float(row["stderr"]),
                int(row["n"]),
                float(row["std_sample"]),
            )
            cells[problem, row["metric"], row["criterion"]] = values
    return cells
