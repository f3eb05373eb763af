"""Computing one row of a published table again, and whether it came out the same."""

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
from puarena.pu.problem import Problem
from puarena.report.compare import (
    AGREEMENT_ERRORS,
    AGREEMENT_POINTS,
    PAPER_METRICS,
    ComparedCell,
    find_published_criterion,
)
from puarena.report.methods import Method, read_methods, read_problems
from puarena.report.select import aggregate, select
from puarena.results import Results, Summary, ask, open_results
from puarena.results.parquet import quote_name, quote_text

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

    from puarena.experiments.progress import Progress

TOLERANCE = (
    f"{AGREEMENT_POINTS:g} points, or {AGREEMENT_ERRORS:g} combined standard errors if that is more"
)
CellKey = tuple[Problem, str, str]  # problem, metric, criterion


@dataclass(frozen=True)
class Reproduction:
    """A row that was computed again."""

    algorithm: str
    runs: int
    known: int  # runs that the published results have under the same id
    records: int  # published records of these runs
    equal: int  # of them, those with the same numbers to the last bit
    devices: tuple[str, str]  # published, here
    cells: dict[CellKey, ComparedCell]

    @property
    def identical(self) -> bool:
        """Whether every published record of every run is the same to the last bit."""
        return self.known == self.runs and 0 < self.records == self.equal

    @property
    def same(self) -> bool:
        """Whether it came out the same, to the bit or to tolerance."""
        return self.identical or all(cell.agrees for cell in self.cells.values())

    @property
    def verdict(self) -> str:
        """Whether it came out the same, in a few sentences."""
        computed = f"{self.runs} {'run' if self.runs == 1 else 'runs'} of {self.algorithm}"
        if self.identical:
            return f"The same to the last bit: {computed}, {self.records} published records."
        outside = sum(not cell.agrees for cell in self.cells.values())
        result = f"Not the same: {outside} of {len(self.cells)} cells are outside"
        if self.same:
            result = f"The same to tolerance: all {len(self.cells)} cells"
        sentences = [f"{result} ({computed}; tolerance: {TOLERANCE})."]
        if self.known < self.runs:
            others = self.runs - self.known
            sentences.append(f"This version plans {others} of the runs differently.")
        published, here = self.devices
        if published != here:
            sentences.append(
                f"Published on {published} and run here on {here}, so equal bits cannot be "
                "expected."
            )
        else:
            sentences.append(
                f"{self.equal} of {self.records} published records are the same to the last bit."
            )
        return " ".join(sentences)


def reproduce(
    source: str | Path,
    algorithm: str,
    datasets: Sequence[str] | None = None,
    cases: Sequence[int] | None = None,
    split: int | None = None,
    plugins: Sequence[str] = (),
    out: str | Path | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Reproduction:
    """Run one method of published results again (on some problems, or one split only) and compare.

    ``out`` keeps the new results; the ``options`` are those of ``puarena.run`` (device, data,
    workers).
    """
    store = open_results(source)
    spec = _find_plugins(store, plugins)
    load_plugins(spec.plugins)
    name = _choose_row(spec, algorithm)
    _check_choice("dataset", datasets, {part.dataset for part in spec.problems})
    _check_choice("case", cases, {case for part in spec.problems for case in part.cases})
    spec = spec.override(algorithms=(name,), datasets=datasets, cases=cases)
    planned = [one for one in make_plan(spec).runs if split is None or one.split == split]
    if not planned:
        raise UserError(
            f"there is no split {split}: the published results have {spec.splits}, numbered from 0",
            "invalid-value",
        )

    def is_chosen(one: RunSpec) -> bool:
        return split is None or one.split == split

    place = tempfile.TemporaryDirectory(prefix="puarena-") if out is None else nullcontext(str(out))
    with place as folder:
        target = Path(folder) / "again" if out is None else folder
        outcome = run(spec, target, progress=progress or False, only=is_chosen, **options)
        if outcome.failures:
            raise UserError(
                f"the row could not be run again: {outcome.failures[0].reason}", "no-results"
            )
        return _compare(store, open_results(outcome.out), name, planned, split)


def _find_plugins(store: Results, plugins: Sequence[str]) -> Spec:
    """Return the spec with the plugins' places; a submission has them next to its summary."""
    spec = store.spec
    if not isinstance(store, Summary) or not spec.plugins:
        return spec
    given = {Path(plugin).name: str(plugin) for plugin in plugins}
    folder = store.path.resolve().parent
    places = tuple(given.get(name, str(folder / Path(name).name)) for name in spec.plugins)
    for place in places:
        if not Path(place).is_file():
            raise UserError(
                f"the plugin '{Path(place).name}' is not in the folder of the results; give it "
                "with --plugin",
                "missing-file",
            )
    return spec.model_copy(update={"plugins": places})


def _choose_row(spec: Spec, algorithm: str) -> str:
    """Return the algorithm as the spec names it: in the form of the profile, if it has one."""
    name = algorithm
    if algorithm not in spec.algorithms and algorithm in catalog.names():
        name = catalog.find_form(algorithm, PROFILES[spec.profile].variant)
    if name not in spec.algorithms:
        raise unknown_name("row", algorithm, spec.algorithms)
    return name


def _check_choice(what: str, given: Sequence[Any] | None, present: set[Any]) -> None:
    for value in given or ():
        if value not in present:
            raise unknown_name(what, str(value), map(str, present))


def _compare(
    store: Results, again: Results, name: str, planned: list[RunSpec], split: int | None
) -> Reproduction:
    """Compare record by record, and cell by cell."""
    import duckdb

    names = {one.run_id for one in planned}
    con = duckdb.connect()
    with store.reading(), again.reading():
        before, after = (_filter_rows(each, name, planned, split, con) for each in (store, again))
        records, equal = _count_equal(con, before, after)
        published, here = (_list_devices(rows) for rows in (before, after))
        all_splits = _filter_rows(store, name, planned, None, con)
        cells = _compare_cells(_read_cells(before), _read_cells(after), _read_cells(all_splits))
        known = len(names & store.done_runs())
    if not cells:
        raise UserError(
            f"the published results have no numbers of {name} on these problems", "missing-data"
        )
    return Reproduction(name, len(names), known, records, equal, (published, here), cells)


def _filter_rows(
    store: Results,
    name: str,
    planned: Sequence[RunSpec],
    split: int | None,
    con: DuckDBPyConnection,
) -> DuckDBPyRelation:
    """Return the rows of a method on the problems of these runs."""
    conditions = set()
    for problem in {one.problem for one in planned}:
        conditions.add(
            f'(dataset = {quote_text(problem.dataset)} AND "case" = {problem.case} '
            f"AND setting = {quote_text(problem.setting)} AND rate = {problem.rate} "
            f"AND labeling = {quote_text(problem.labeling)})"
        )
    only = "" if split is None else f" AND split = {int(split)}"
    where = f"algorithm = {quote_text(name)} AND ({' OR '.join(sorted(conditions))}){only}"
    return store.relation(con).filter(where)


def _count_equal(
    con: DuckDBPyConnection, before: DuckDBPyRelation, after: DuckDBPyRelation
) -> tuple[int, int]:
    """Return the number of published records, and of those with the same numbers again."""
    both = {*before.columns} & {*after.columns}
    stored = [record.column for record in METRICS.values()]
    stored += [record.column for record in CRITERIA.values()]
    differs = " OR ".join(
        f"a.{quote_name(column)} IS DISTINCT FROM b.{quote_name(column)}"
        for column in stored
        if column in both
    )
    before.create_view("before_rows")
    after.create_view("after_rows")
    ((records, equal),) = con.execute(
        f"SELECT count(*), count(*) FILTER (WHERE b.run IS NOT NULL AND NOT ({differs})) "
        "FROM before_rows AS a LEFT JOIN after_rows AS b USING (run, step)"
    ).fetchall()
    return records, equal


def _list_devices(rows: DuckDBPyRelation) -> str:
    devices = ask(rows, "SELECT DISTINCT device FROM curves ORDER BY ALL").fetchall()
    return ", ".join(device for (device,) in devices)


@dataclass(frozen=True)
class RowCell:
    """One cell of a row."""

    method: Method
    mean: float
    error: float
    n: int
    deviation: float  # between splits


def _read_cells(rows: DuckDBPyRelation) -> dict[CellKey, RowCell]:
    """Return every cell that tables show."""
    numbers = aggregate(select(rows), PAPER_METRICS)
    problems, methods = read_problems(numbers), read_methods(numbers)
    cells = {}
    for problem, method, row in zip(problems, methods, numbers.to_dict("records"), strict=True):
        criterion = find_published_criterion(method.profile, row["criterion"])
        if criterion and not math.isnan(row["mean"]):
            facts = float(row["mean"]), float(row["stderr"]), int(row["n"])
            cell = RowCell(method, *facts, float(row["std_sample"]))
            cells[problem, row["metric"], row["criterion"]] = cell
    return cells


def _compare_cells(
    before: dict[CellKey, RowCell], after: dict[CellKey, RowCell], whole: dict[CellKey, RowCell]
) -> dict[CellKey, ComparedCell]:
    """Return the cells that both have; ``whole`` has the published ones over all splits."""
    lines = {}
    for key, new in after.items():
        if key in before:
            old = before[key]
            # One split has no error of its own: the deviation between the published splits is its
            # scale.
            errors = [
                whole[key].deviation if math.isnan(error) else error
                for error in (new.error, old.error)
            ]
            lines[key] = ComparedCell(new.method, new.mean, errors[0], new.n, old.mean, errors[1])
    return lines
