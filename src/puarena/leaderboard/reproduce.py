"""Computing one row of a published table again, and whether it came out the same."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from puarena import catalog
from puarena.errors import UserError, unknown_name
from puarena.experiments.plan import FleetSpec, RunSpec, make_plan, to_planned
from puarena.experiments.run import run
from puarena.experiments.spec import PROFILES, Spec, load_plugins
from puarena.metrics import CRITERIA, METRICS
from puarena.pu.problem import PROBLEM_COLUMNS, Problem
from puarena.report.compare import (
    AGREEMENT_ERRORS,
    AGREEMENT_POINTS,
    PAPER_METRICS,
    ComparedCell,
    find_published_criterion,
)
from puarena.report.methods import Method, read_methods, read_problems
from puarena.report.select import aggregate, select
from puarena.report.statistics.bootstrap import TIE_DIGITS
from puarena.report.statistics.ranking import run_signed_rank_test
from puarena.results import Results, Summary, ask, open_results
from puarena.results.parquet import connect, quote_name, quote_text
from puarena.results.planned import FILE as PLANNED
from puarena.results.planned import Planned, write_planned
from puarena.utils.files import cannot_write

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

    from puarena.experiments.progress import Progress

CellKey = tuple[Problem, str, str]  # problem, metric, criterion
# Columns of runs that, with the machine, decide their bits; and the words before their values.
ORIGIN = {"device": "", "torch": "torch ", "version": "puarena "}
FALSE_ALARMS = 0.01  # share of honest rows that the test of shifts calls changed
# For the test of shifts: with fewer pairs its smallest p, after Bonferroni, is above the limit.
MIN_PAIRS = 12
MIN_RUNS = 20  # fewer would hardly ever be called changed


@dataclass(frozen=True)
class Shift:
    """How far one number moved, over the runs, or the problems and splits, that both have."""

    what: str
    mean: float  # here minus published
    n: int
    p: float  # two-sided, of no shift


@dataclass(frozen=True)
class Reproduction:
    """A row that was computed again."""

    algorithm: str
    runs: int
    known: int  # runs that the published results have under the same id
    records: int  # published records of these runs
    equal: int  # of them, those with the same numbers to the last bit
    origins: tuple[tuple[str, ...], tuple[str, ...]]  # published, here; see ``ORIGIN``
    machines: tuple[str, str]
    cells: dict[CellKey, ComparedCell]
    shifts: tuple[Shift, ...]  # the least probable first

    @property
    def identical(self) -> bool:
        """Whether every published record of every run is the same to the last bit."""
        return self.known == self.runs and 0 < self.records == self.equal

    @property
    def must_be_identical(self) -> bool:
        """Whether device, torch, version and the machine are those of the published results."""
        machine, here = self.machines
        return self.origins[0] == self.origins[1] and bool(machine) and machine == here

    @property
    def p(self) -> float:
        """The probability of so large a shift without a change; after Bonferroni. NaN: unknown."""
        return min(1.0, len(self.shifts) * self.shifts[0].p) if self.shifts else math.nan

    @property
    def same(self) -> bool:
        """Whether it came out the same: to the bit, or no shift is found and all cells are near."""
        if self.identical or self.must_be_identical:
            return self.identical
        near = all(cell.agrees for cell in self.cells.values())
        return near and self.p >= FALSE_ALARMS

    @property
    def verdict(self) -> str:
        """Whether it came out the same, in a few sentences."""
        computed = f"{self.runs} {'run' if self.runs == 1 else 'runs'} of {self.algorithm}"
        if self.identical:
            return f"The same to the last bit: {computed}, {self.records} published records."
        outside = sum(not cell.agrees for cell in self.cells.values())
        sentences = [self._describe_test(computed)]
        if self.known < self.runs:
            others = self.runs - self.known
            sentences.append(f"This version plans {others} of the runs differently.")
        published, here = (", ".join(filter(None, origin)) for origin in self.origins)
        equal = f"{self.equal} of {self.records} published records are the same to the last bit"
        if self.must_be_identical:
            sentences.append(f"{equal}, and on {here}, the same machine, all must be.")
        elif published == here:
            sentences.append(f"{equal} (both {here}; another processor may round differently).")
        else:
            sentences.append(
                f"Published with {published} and run here with {here}, so equal bits cannot be "
                "expected."
            )
        sentences.append(
            f"{len(self.cells) - outside} of {len(self.cells)} cells are within "
            f"{AGREEMENT_POINTS:g} points or {AGREEMENT_ERRORS:g} combined standard errors."
        )
        return " ".join(sentences)

    def _describe_test(self, computed: str) -> str:
        if not self.shifts:
            return (
                f"Not shown to be the same ({computed}): a test of shifts needs {MIN_RUNS} runs "
                "that both have; compute more splits or problems of the row."
            )
        first = self.shifts[0]
        found = (
            f"{first.what} moved by {first.mean:+.4f} on average, n = {first.n}, "
            f"p = {self.p:.2g} after correction"
        )
        if self.same:
            return f"The same as far as a test can tell: {computed}; no shift ({found})."
        if self.p < FALSE_ALARMS:
            return f"Not the same: {computed}; {found}."
        return f"Not the same: {computed}."


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

    What a run is trained with changes its rounding: the whole fleets of the published runs are
    trained. ``out`` keeps the new results; the ``options`` are those of ``puarena.run`` (device,
    data, workers).
    """
    store = open_results(source)
    spec = _find_plugins(store, plugins)
    load_plugins(spec.plugins)
    name = _choose_row(spec, algorithm)
    planned = _plan_row(spec, name, datasets, cases, split)
    fleets = _find_fleets(store, {one.run_id for one in planned})
    wanted = {one.run_id for one in planned} | {*fleets}
    # The other rows of these fleets, in the order of the spec.
    names = [each for each in spec.algorithms if each == name or each in {*fleets.values()}]
    spec = spec.override(algorithms=tuple(names))
    place = tempfile.TemporaryDirectory(prefix="puarena-") if out is None else nullcontext(str(out))
    with place as folder:
        target = Path(folder) / "again" if out is None else Path(folder)
        _keep_published_fleets(store, target, make_plan(spec).runs, wanted)
        outcome = run(
            spec,
            target,
            progress=progress or False,
            only=lambda one: one.run_id in wanted,
            **options,
        )
        if outcome.failures:
            raise UserError(
                f"the row could not be run again: {outcome.failures[0].reason}", "no-results"
            )
        return _compare(store, open_results(outcome.out), name, planned, split)


def _plan_row(
    spec: Spec,
    algorithm: str,
    datasets: Sequence[str] | None,
    cases: Sequence[int] | None,
    split: int | None,
) -> list[RunSpec]:
    """Return the published runs of a method, of some problems or one split only."""
    _check_choice("dataset", datasets, {part.dataset for part in spec.problems})
    _check_choice("case", cases, {case for part in spec.problems for case in part.cases})
    row = make_plan(spec.override(algorithms=(algorithm,), datasets=datasets, cases=cases)).runs
    planned = [one for one in row if split is None or one.split == split]
    if not planned:
        raise UserError(
            f"there is no split {split}: the published results have {spec.splits}, numbered from 0",
            "invalid-value",
        )
    return planned


def _find_fleets(store: Results, runs: set[str]) -> dict[str, str]:
    """Return the runs that were trained together with any of these, with their algorithms."""
    with store.reading():
        rows = ask(
            store.relation(), "SELECT DISTINCT run, fleet, algorithm FROM curves ORDER BY ALL"
        ).fetchall()
    fleets = {fleet for run_id, fleet, _ in rows if run_id in runs}
    return {run_id: algorithm for run_id, fleet, algorithm in rows if fleet in fleets}


def _keep_published_fleets(
    store: Results, target: Path, runs: Sequence[RunSpec], wanted: set[str]
) -> None:
    """Group the wanted runs of a new folder as they were published."""
    if (target / "spec.json").is_file() or (target / PLANNED).is_file():
        return  # continued
    with store.reading():
        rows = ask(store.relation(), "SELECT DISTINCT run, fleet FROM curves").fetchall()
    known = dict(rows)
    members: dict[str, list[RunSpec]] = {}
    for one in runs:
        if one.run_id in wanted and one.run_id in known:
            members.setdefault(known[one.run_id], []).append(one)
    if not members:
        return
    try:
        target.mkdir(parents=True, exist_ok=True)
        fleets = [FleetSpec(tuple(some)) for some in members.values()]
        write_planned(target, Planned(to_planned(fleets)))
    except OSError as error:
        raise cannot_write(target, error) from error


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
    """Compare record by record, run by run, and cell by cell."""
    names = {one.run_id for one in planned}
    con = connect()
    with store.reading(), again.reading():
        before, after = (_filter_rows(each, name, planned, split, con) for each in (store, again))
        records, equal = _count_equal(con, before, after)
        every = f"algorithm = {quote_text(name)}"
        whole = (each.relation(con).filter(every) for each in (store, again))
        last = pair_last_records(con, *whole)
        shifts: tuple[Shift, ...] = ()
        if min(map(len, last.values())) >= MIN_RUNS:
            shifts = find_shifts(last | _pair_choices(before, after))
        origins = (_list_origins(before), _list_origins(after))
        all_splits = _filter_rows(store, name, planned, None, con)
        cells = _compare_cells(_read_cells(before), _read_cells(after), _read_cells(all_splits))
        known = len(names & store.done_runs())
    if not cells:
        raise UserError(
            f"the published results have no numbers of {name} on these problems", "missing-data"
        )
    machines = (store.info.machine, again.info.machine)
    counts = (len(names), known, records, equal)
    return Reproduction(name, *counts, origins, machines, cells, shifts)


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


def pair_last_records(
    con: DuckDBPyConnection, before: DuckDBPyRelation, after: DuckDBPyRelation
) -> dict[str, list[float | None]]:
    """Return, for the loss and every metric, how far the last records of common runs moved.

    Also of runs that were trained only because they are in the same fleet.
    """
    both = {*before.columns} & {*after.columns}
    stored = ["loss", *(record.column for record in METRICS.values())]
    columns = [name for name in stored if name in both]
    before.create_view("before_row")
    after.create_view("after_row")
    names = ", ".join(f"b.{name} - a.{name}" for name in columns)
    rows = con.execute(
        f"SELECT {names} FROM before_row AS a JOIN after_row AS b USING (run, step) "
        "JOIN (SELECT run, max(step) AS step FROM before_row GROUP BY run) USING (run, step)"
    ).fetchall()
    return {
        f"{name} of the last records": [row[i] for row in rows] for i, name in enumerate(columns)
    }


def _pair_choices(
    before: DuckDBPyRelation, after: DuckDBPyRelation
) -> dict[str, list[float | None]]:
    """Return, for every criterion, how far the chosen model of each problem and split moved.

    A chosen record is compared with the one that is chosen here, and not with that of the same
    step: it was chosen because it is high.
    """
    keys = [*PROBLEM_COLUMNS, "split", "criterion"]
    pairs = select(before).merge(select(after), on=keys, suffixes=("_before", "_after"))
    gaps = {}
    for criterion, part in pairs.groupby("criterion"):
        for metric in PAPER_METRICS:
            name = METRICS[metric].column
            gap = part[f"{name}_after"] - part[f"{name}_before"]
            gaps[f"{name} by {CRITERIA[str(criterion)].title}"] = list(gap)
    return gaps


def find_shifts(gaps: Mapping[str, Sequence[float | None]]) -> tuple[Shift, ...]:
    """Test whether these numbers moved, the least probable shift first.

    Two trainings of one run that round differently end apart, but to either side alike; a changed
    method, or changed numbers, move many of them to one side.
    """
    import numpy as np

    shifts = []
    for name, values in gaps.items():
        known = np.array(values, float)
        known = known[~np.isnan(known)].round(TIE_DIGITS)
        if len(known) >= MIN_PAIRS:
            p = run_signed_rank_test(known)[1]
            shifts.append(Shift(name, float(known.mean()), len(known), p))
    return tuple(sorted(shifts, key=lambda shift: shift.p))


def _list_origins(rows: DuckDBPyRelation) -> tuple[str, ...]:
    """Return device, torch and version of the rows, each as text."""
    texts = []
    for column, word in ORIGIN.items():
        found = ask(rows, f"SELECT DISTINCT {column} FROM curves ORDER BY ALL").fetchall()
        texts.append(f"{word}{', '.join(str(value) for (value,) in found)}")
    return tuple(texts)


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
