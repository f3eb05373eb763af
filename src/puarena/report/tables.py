"""Tables in the paper's layout: one per problem, rows are methods, columns metric x criterion."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from puarena.catalog import MethodInfo
from puarena.errors import unknown_name
from puarena.metrics import CRITERIA, METRICS, NO_TRUTH, list_cautions
from puarena.pu import labeling
from puarena.pu.labeling import SCAR
from puarena.pu.problem import PROBLEM_COLUMNS, Problem
from puarena.report.methods import METHOD_COLUMNS, Method, in_order, read_methods, read_problems
from puarena.report.select import aggregate, keep_algorithms, select
from puarena.report.sources import Source, open_curves
from puarena.utils.notebook import Bold, HtmlList, html_table

if TYPE_CHECKING:
    from pandas import DataFrame

ErrorKind = Literal["stderr", "stderr-sample", "std"]
ERROR_KINDS = {
    "stderr": (
        "standard error over splits (population standard deviation / sqrt(n), as in the paper)"
    ),
    "stderr-sample": "standard error over splits (sample standard deviation / sqrt(n))",
    "std": "sample standard deviation over splits",
}
ERROR_COLUMNS = {"stderr": "stderr", "stderr-sample": "stderr_sample", "std": "std_sample"}
CELL_NUMBERS = ("mean", "error", "std_population", "std_sample", "stderr_sample", "n")


def format_number(value: float, decimals: int = 2, sign: bool = False) -> str:
    """Return a number as every table, page and file prints it; two dashes for NaN."""
    if math.isnan(value):
        return "--"
    # Rounding to nine digits first makes values that differ only by the order of a sum print alike.
    text = f"{round(value, 9):{'+' if sign else ''}.{decimals}f}"
    if float(text):
        return text
    return text.replace("-", "+" if sign else "")  # no minus before a zero


@dataclass(frozen=True)
class ResultColumn:
    """One column: a test metric of the models that one criterion chose."""

    metric: str
    criterion: str

    @property
    def titles(self) -> tuple[str, str]:
        """The titles of the metric and of the criterion."""
        return METRICS[self.metric].title, CRITERIA[self.criterion].title


@dataclass(frozen=True)
class ResultCell:
    """Mean over splits and its errors, as shown; NaN if nothing could be selected."""

    mean: float = math.nan
    error: float = math.nan
    std_population: float = math.nan
    std_sample: float = math.nan
    stderr_sample: float = math.nan
    n: int = 0
    decimals: int = 2
    best: bool = False
    chance: bool = False  # not better than a constant answer

    def text(self) -> str:
        """Return ``mean ± error``; the mean alone if there is no error."""
        mean = format_number(self.mean, self.decimals)
        if math.isnan(self.mean) or math.isnan(self.error):
            return mean
        return f"{mean} ± {format_number(self.error, self.decimals)}"


@dataclass(frozen=True)
class ResultRow:
    """The results of one method."""

    method: Method
    cells: tuple[ResultCell, ...]
    name: str = ""  # as a paper writes the method, if it is known

    @property
    def title(self) -> str:
        """The method as a paper writes it, and what is unusual about how it was run."""
        label = self.method.label
        return self.name + label.removeprefix(self.method.algorithm) if self.name else label


@dataclass(frozen=True)
class ResultTable:
    """The results on one problem."""

    problem: Problem
    columns: tuple[ResultColumn, ...]
    rows: tuple[ResultRow, ...]
    error: ErrorKind
    notes: tuple[str, ...]

    @property
    def title(self) -> str:
        """The title of the problem."""
        return self.problem.title

    def group_columns(self) -> list[tuple[str, list[ResultColumn]]]:
        """Return the columns of each metric."""
        return [
            (metric, [column for column in self.columns if column.metric == metric])
            for metric in dict.fromkeys(column.metric for column in self.columns)
        ]

    def list_heads(self) -> list[str]:
        """Return the heads of the columns in two lines: the metric and the criterion."""
        return ["algorithm", *("\n".join(column.titles) for column in self.columns)]

    def list_texts(self) -> list[list[str]]:
        """Return the label and the numbers of every row as text; the best are ``Bold``."""
        lines = []
        for row in self.rows:
            line = [row.method.label]
            for cell in row.cells:
                line.append(Bold(cell.text()) if cell.best else cell.text())
            lines.append(line)
        return lines

    def caption(self, best: str = "bold", calibrated: str = "") -> str:
        """Return what is needed to read the numbers.

        ``best`` and ``calibrated`` say how the best cells and the calibrated rows are marked.
        """
        methods = [row.method for row in self.rows]
        apart = list(dict.fromkeys(method.label for method in methods if method.supervised))
        rule = ""
        if apart:
            names = ", ".join(apart)
            rule = f" ({names}, trained with true labels or propensities, not competing)"
        what = "Test results"
        if {column.metric for column in self.columns} == {NO_TRUTH}:
            what = (
                "No true labels are known, so these are the values of the criteria on held-out data"
            )
        first = f"{what}{self._describe_unit()}, mean over splits {self._describe_error()}."
        parts = [first, f"Best of each column {best}{rule}."]
        if calibrated and any(method.calibrated for method in methods):
            parts.append(f"Calibrated forms {calibrated}.")
        return " ".join((*parts, *self.notes))

    def _describe_unit(self) -> str:
        records = [METRICS[metric] for metric, _ in self.group_columns()]
        percent = [record.title for record in records if record.percent]
        lower = [record.title for record in records if not record.higher]
        unit = ""
        if len(percent) == len(records):
            unit = " in percent"
        elif percent:
            unit = f" ({', '.join(percent)} in percent)"
        return unit + (f" ({', '.join(lower)}: lower is better)" if lower else "")

    def _describe_error(self) -> str:
        counts = sorted({cell.n for row in self.rows for cell in row.cells if cell.n}) or [0]
        if counts[-1] == 1:
            return "(n = 1 split, so no error can be given)"
        text = f"± {ERROR_KINDS[self.error]}, n = {counts[0]}"
        if len(counts) > 1:
            return f"{text} to {counts[-1]}"
        if self.error == "stderr" and counts[0]:
            ratio = math.sqrt(counts[0] / (counts[0] - 1))
            text += f" (the sample standard error is {ratio:.2f} times that)"
        return text

    def to_frame(self) -> DataFrame:
        """Return one row per method and column: exact numbers, and ``text`` as it is printed."""
        import pandas

        problem = self.problem.to_columns()
        lines = []
        for row in self.rows:
            method = {name: getattr(row.method, name) for name in METHOD_COLUMNS}
            for column, cell in zip(self.columns, row.cells, strict=True):
                numbers = {name: getattr(cell, name) for name in (*CELL_NUMBERS, "best", "chance")}
                where = {"metric": column.metric, "criterion": column.criterion}
                lines.append(problem | method | where | {"text": cell.text()} | numbers)
        return pandas.DataFrame(lines)

    def _repr_html_(self) -> str:
        """Return the table for a notebook."""
        return html_table(self.list_heads(), self.list_texts(), self.title, [self.caption()])


def table(
    source: Source,
    metrics: Iterable[str] | None = None,
    criteria: Iterable[str] | None = None,
    error: ErrorKind = "stderr",
    algorithms: Sequence[str] | None = None,
    selection: DataFrame | None = None,
) -> HtmlList[ResultTable]:
    """Make one table per problem.

    Parameters
    ----------
    source
        A results folder, an exported summary, or what ``load`` returns.
    metrics, criteria
        Names of records of ``puarena.metrics`` (default: the usual ones, and those of the profile).
    error
        ``stderr`` (as in the paper), ``stderr-sample`` or ``std``.
    algorithms
        The algorithms to show, in this order (default: all).
    selection
        The result of ``select`` for these criteria, if it is known already.
    """
    curves = open_curves(source)
    chosen, by = curves.metrics(metrics), curves.criteria(criteria)
    if error not in ERROR_KINDS:
        raise unknown_name("error", error, ERROR_KINDS)
    selection = select(curves, by) if selection is None else selection
    notes = [*curves.notes, *(curves.absent() if criteria is None else [])]
    numbers = aggregate(selection, chosen)
    return build_tables(numbers, chosen, by, error, algorithms, notes, curves.methods)


def build_tables(
    numbers: DataFrame,
    metrics: Sequence[str],
    criteria: Sequence[str],
    error: ErrorKind = "stderr",
    algorithms: Sequence[str] | None = None,
    notes: Sequence[str] = (),
    methods: Mapping[str, MethodInfo] | None = None,
) -> HtmlList[ResultTable]:
    """Make one table per problem from the numbers of ``aggregate``, which may have more metrics."""
    columns = tuple(ResultColumn(metric, criterion) for metric in metrics for criterion in criteria)
    wanted = keep_algorithms(numbers[numbers["metric"].isin(list(metrics))], algorithms)
    problems = wanted.groupby(list(PROBLEM_COLUMNS), dropna=False, sort=True)
    tables: HtmlList[ResultTable] = HtmlList()
    for _, part in problems:
        tables.append(_make_table(part, columns, error, algorithms, notes, methods or {}))
    return tables


def keep(
    tables: Sequence[ResultTable],
    datasets: Sequence[str] | None = None,
    cases: Sequence[int] | None = None,
    settings: Sequence[str] | None = None,
    rates: Sequence[float] | None = None,
) -> list[ResultTable]:
    """Return the tables of these problems in the given order; ``None`` keeps all."""
    if settings is not None:
        settings = [_find_setting_code(setting) for setting in settings]
    given = {"dataset": datasets, "case": cases, "setting": settings, "rate": rates}
    wanted = {field: list(values) for field, values in given.items() if values is not None}
    for field, values in wanted.items():
        present = [str(getattr(item.problem, field)) for item in tables]
        for value in values:
            if str(value) not in present:
                raise unknown_name(field, str(value), present)

    def find_places(item: ResultTable) -> list[int]:
        places = []
        for field, values in wanted.items():
            value = getattr(item.problem, field)
            places.append(values.index(value) if value in values else -1)
        return places

    kept = [item for item in tables if -1 not in find_places(item)]
    return sorted(kept, key=find_places)


def _find_setting_code(setting: str) -> str:
    """Return the code of a setting given by its code or title."""
    for known in labeling.list_settings():
        if setting.lower() in (known.code, known.title):
            return known.code
    return setting


def _make_table(
    numbers: DataFrame,
    columns: tuple[ResultColumn, ...],
    error: ErrorKind,
    order: Sequence[str] | None,
    notes: Iterable[str],
    methods: Mapping[str, MethodInfo],
) -> ResultTable:
    """Return the table of one problem."""
    problem = read_problems(numbers[:1])[0]
    lines: dict[Method, dict[ResultColumn, ResultCell]] = {}
    records = numbers.to_dict("records")
    for method, record in zip(read_methods(numbers), records, strict=True):
        column = ResultColumn(record["metric"], record["criterion"])
        cell = _make_cell(record, ERROR_COLUMNS[error], problem.prior)
        lines.setdefault(method, {})[column] = cell
    rows = []
    for method in in_order(list(lines), order):
        info = methods.get(method.algorithm)
        cells = tuple(lines[method][column] for column in columns)
        name = info.title if info else ""
        if info and info.variant and f"@{info.variant}" in name:
            name = f"{name.replace(f'@{info.variant}', '')} ({info.variant})"
        rows.append(ResultRow(method, cells, name))
    own_notes = []
    if problem.labeling != SCAR:
        criteria = dict.fromkeys(column.criterion for column in columns)
        own_notes += [f"{text}." for text in list_cautions(criteria)]
    if problem.observed:
        own_notes += _describe_unknown(numbers)
        numbers = numbers[numbers.groupby("criterion")["n"].transform("sum") > 0]
    own_notes += _describe_gaps(numbers)
    own_notes += _describe_chance(rows, columns)
    own_notes += _list_method_notes(rows, problem.dataset, methods)
    marked = tuple(_mark_best(rows, columns))
    return ResultTable(problem, columns, marked, error, (*dict.fromkeys(own_notes), *notes))


def _make_cell(record: dict[Any, Any], error_column: str, prior: float | None) -> ResultCell:
    """Return the cell of a row of ``aggregate``."""
    metric = METRICS[record["metric"]]
    mean, error = float(record["mean"]), float(record[error_column])
    chance = False
    if metric.chance is not None and prior is not None:
        lowest = mean if math.isnan(error) else mean - error
        chance = lowest <= metric.factor * metric.chance(prior)
    return ResultCell(
        mean=mean,
        error=error,
        std_population=float(record["std_population"]),
        std_sample=float(record["std_sample"]),
        stderr_sample=float(record["stderr_sample"]),
        n=int(record["n"]),
        decimals=metric.decimals,
        chance=chance,
    )


def _mark_best(rows: list[ResultRow], columns: tuple[ResultColumn, ...]) -> list[ResultRow]:
    """Return the rows with the best of each column, as printed; supervised rows do not compete."""
    grid = [list(row.cells) for row in rows]
    competing = [cells for row, cells in zip(rows, grid, strict=True) if not row.method.supervised]
    for i, column in enumerate(columns):
        record = METRICS[column.metric]
        printed = [record.sign * round(cells[i].mean, record.decimals) for cells in competing]
        best = max((mean for mean in printed if not math.isnan(mean)), default=None)
        for cells, mean in zip(competing, printed, strict=True):
            cells[i] = replace(cells[i], best=mean == best)
    return [replace(row, cells=tuple(cells)) for row, cells in zip(rows, grid, strict=True)]


def _describe_chance(rows: list[ResultRow], columns: tuple[ResultColumn, ...]) -> list[str]:
    """Return a note on methods that are no better than a constant answer, within one error."""
    criteria = list(dict.fromkeys(column.criterion for column in columns))
    marked = []
    for row in rows:
        pairs = zip(columns, row.cells, strict=True)
        where = {column.criterion for column, cell in pairs if cell.chance}
        titles = [CRITERIA[name].title for name in criteria if name in where]
        if len(where) == len(criteria):
            marked.append(row.method.label)
        elif where:
            marked.append(f"{row.method.label} by {', '.join(titles)}")
    if not marked:
        return []
    return [f"At chance level, no better than always the same answer: {', '.join(marked)}."]


def _list_method_notes(
    rows: list[ResultRow], dataset: str, methods: Mapping[str, MethodInfo]
) -> list[str]:
    """Return the notes of methods on their results on a dataset."""
    notes = []
    for row in rows:
        info = methods.get(row.method.base)
        note = info.notes.get(dataset) if info else None
        if note:
            notes.append(f"{row.method.label}: {note}.")
    return notes


def _describe_unknown(numbers: DataFrame) -> list[str]:
    """Return a note on what observed labels without truth cannot tell."""
    found = numbers.groupby("criterion", sort=False)["n"].sum() > 0
    if not found.any():
        return ["No true label is known here, so nothing was tested."]
    lacking = [CRITERIA[str(name)].title for name in found.index[~found]]
    return [f"The truth that {title} needs is not known here." for title in lacking]


def _describe_gaps(numbers: DataFrame) -> list[str]:
    """Return notes on missing splits, uneven numbers of configurations, and missing selections."""
    notes = []
    for column, noun in (("splits", "Splits"), ("configs", "Configurations to choose from")):
        counts = numbers.groupby("algorithm", sort=True)[column].min()
        if counts.nunique() > 1:
            usual = int(counts.mode().max())
            others = [f"{name} {count}" for name, count in counts.items() if count != usual]
            notes.append(f"{noun} differ: {usual}, but {', '.join(others)}.")
    lacking = numbers[numbers["n"] < numbers["splits"]]
    cells = []
    for row in lacking.to_dict("records"):
        missing = f"{row['splits'] - row['n']} of {row['splits']} splits"
        cells.append(f"{row['algorithm']} by {CRITERIA[row['criterion']].title} ({missing})")
    if cells:
        notes.append(f"Not a number (NaN), and so left out: {', '.join(dict.fromkeys(cells))}.")
    return notes
