"""Tables in the paper's layout, as plain data: one per problem, rows are algorithms, columns metric x criterion."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING, Any, Literal

from puarena.errors import unknown_name
from puarena.metrics import CRITERIA, METRICS, cautions
from puarena.pu.labeling import SCAR
from puarena.report.methods import METHOD, Method, in_order
from puarena.report.problems import PROBLEM, Problem, read_all
from puarena.report.problems import settings as settings_by_code
from puarena.report.select import aggregate, select
from puarena.report.sources import Source, listed, opened
from puarena.utils.notebook import Shown

if TYPE_CHECKING:
    from pandas import DataFrame

ErrorKind = Literal["stderr", "stderr-sample", "std"]
ERRORS = {
    "stderr": "standard error over splits (population standard deviation / sqrt(n), as in the paper)",
    "stderr-sample": "standard error over splits (sample standard deviation / sqrt(n))",
    "std": "sample standard deviation over splits",
}
_COLUMN = {"stderr": "stderr", "stderr-sample": "stderr_sample", "std": "std_sample"}


def shown(value: float, decimals: int = 2, sign: bool = False) -> str:
    """A number as every table, list, page and file prints it; two dashes where there is none."""
    if math.isnan(value):
        return "--"
    text = f"{round(value, 9):{'+' if sign else ''}.{decimals}f}"
    return text if float(text) else text.replace("-", "+" if sign else "")  # no minus before a zero


@dataclass(frozen=True)
class Column:
    """One column: a test metric of the models that one criterion chose."""

    metric: str
    criterion: str


@dataclass(frozen=True)
class Cell:
    """Mean over splits and its errors, as shown; NaN where nothing could be selected."""

    mean: float = math.nan
    error: float = math.nan
    std_population: float = math.nan
    std_sample: float = math.nan
    stderr_sample: float = math.nan
    n: int = 0
    decimals: int = 2
    best: bool = False
    chance: bool = False  # not above what a constant answer gets

    def text(self, tight: bool = False) -> str:
        """``mean ± error``; the mean alone when there is no error, two dashes when there is no mean."""
        mean = shown(self.mean, self.decimals)
        if math.isnan(self.mean) or math.isnan(self.error):
            return mean
        return f"{mean}{'±' if tight else ' ± '}{shown(self.error, self.decimals)}"


@dataclass(frozen=True)
class Row(Method):
    """The results of one method."""

    cells: tuple[Cell, ...]


@dataclass(frozen=True, kw_only=True)
class Table(Problem):
    """The results on one problem."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    error: ErrorKind
    notes: tuple[str, ...]

    def caption(self, best: str = "bold", calibrated: str = "") -> str:
        """What a reader must know to read the numbers; how the best and the calibrated rows are marked, if they are."""
        apart = list(dict.fromkeys(row.label for row in self.rows if row.supervised))
        rule = (
            f" ({', '.join(apart)}, trained with true labels or propensities, not competing)"
            if apart
            else ""
        )
        first = f"Test results{self._unit()}, mean over splits {self._spread()}. Best of each column {best}{rule}."
        marked = calibrated and any(row.calibrated for row in self.rows)
        return " ".join(
            (first, *([f"Calibrated forms {calibrated}."] if marked else []), *self.notes)
        )

    def to_frame(self) -> DataFrame:
        """A pandas frame, one row per method and column: exact numbers, and ``text`` as it is printed."""
        import pandas

        names = (
            "mean",
            "error",
            "std_population",
            "std_sample",
            "stderr_sample",
            "n",
            "best",
            "chance",
        )
        lines = [
            {name: getattr(self, name) for name in PROBLEM}
            | {name: getattr(row, name) for name in METHOD}
            | {"metric": column.metric, "criterion": column.criterion, "text": cell.text()}
            | {name: getattr(cell, name) for name in names}
            for row in self.rows
            for column, cell in zip(self.columns, row.cells, strict=True)
        ]
        return pandas.DataFrame(lines)

    def _repr_html_(self) -> str:
        """The table in a notebook."""
        heads = [
            f"{METRICS[c.metric].title}<br>{CRITERIA[c.criterion].title}" for c in self.columns
        ]
        lines = []
        for row in self.rows:
            cells = "".join(
                f"<td>{f'<b>{c.text()}</b>' if c.best else c.text()}</td>" for c in row.cells
            )
            lines.append(f"<tr><th>{escape(row.label)}</th>{cells}</tr>")
        head = "".join(f"<th>{text}</th>" for text in ("", *heads))
        return (
            f"<table><caption>{escape(self.title)}</caption><thead><tr>{head}</tr></thead>"
            f"<tbody>{''.join(lines)}</tbody></table><p>{escape(self.caption())}</p>"
        )

    def _unit(self) -> str:
        records = [METRICS[metric] for metric, _ in self.metrics()]
        percent = [record.title for record in records if record.percent]
        lower = [record.title for record in records if not record.higher]
        some = f" ({', '.join(percent)} in percent)" if percent else ""
        unit = " in percent" if len(percent) == len(records) else some
        return unit + (f" ({', '.join(lower)}: lower is better)" if lower else "")

    def _spread(self) -> str:
        counts = sorted({cell.n for row in self.rows for cell in row.cells if cell.n})
        splits = (
            f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else f"{counts[0]}" if counts else "0"
        )
        if counts and counts[-1] == 1:
            return "(n = 1 split, so no error can be given)"
        beside = ""
        if self.error == "stderr" and len(counts) == 1:
            beside = f" (the sample standard error is {math.sqrt(counts[0] / (counts[0] - 1)):.2f} times that)"
        return f"± {ERRORS[self.error]}, n = {splits}{beside}"

    def metrics(self) -> list[tuple[str, list[Column]]]:
        """The columns, grouped by metric."""
        return [
            (metric, [column for column in self.columns if column.metric == metric])
            for metric in dict.fromkeys(column.metric for column in self.columns)
        ]


def table(
    source: Source,
    metrics: Iterable[str] | None = None,
    criteria: Iterable[str] | None = None,
    error: ErrorKind = "stderr",
    algorithms: Sequence[str] | None = None,
    selection: DataFrame | None = None,
) -> Shown[Table]:
    """Make one table per problem from a results folder (a path or a ``Results``) or a relation like ``load``'s.

    ``metrics`` and ``criteria``: names of records of ``puarena.metrics``; the usual ones, and those of the profile,
    unless told. ``error``: ``stderr`` (the paper's), ``stderr-sample`` or ``std``. ``algorithms``: which, in order.
    ``selection``: what ``select`` gave for these criteria, if that is known already. A table has ``to_frame()``; it and
    the list of them show themselves in a notebook.
    """
    curves = opened(source)
    chosen, by = curves.metrics(metrics), curves.criteria(criteria)
    if error not in ERRORS:
        raise unknown_name("error", error, ERRORS)
    numbers = only(
        aggregate(select(curves, by) if selection is None else selection, chosen), algorithms
    )
    columns = tuple(Column(metric, criterion) for metric in chosen for criterion in by)
    notes = [*curves.notes, *(curves.absent() if criteria is None else [])]
    problems = numbers.groupby(list(PROBLEM), dropna=False, sort=True)
    return Shown(_one(part, columns, error, algorithms, notes) for _, part in problems)


def only(frame: DataFrame, algorithms: Sequence[str] | None) -> DataFrame:
    """The rows of these algorithms; ``None`` keeps all."""
    if algorithms is None:
        return frame
    algorithms = listed(algorithms)
    for name in algorithms:
        if name not in set(frame["algorithm"]):
            raise unknown_name("algorithm", name, frame["algorithm"])
    return frame[frame["algorithm"].isin(list(algorithms))]


def keep(
    tables: Sequence[Table],
    datasets: Sequence[str] | None = None,
    cases: Sequence[int] | None = None,
    settings: Sequence[str] | None = None,
    rates: Sequence[float] | None = None,
) -> list[Table]:
    """The tables of these problems only, in the given order; ``None`` keeps all."""
    settings = None if settings is None else [_code(setting) for setting in settings]
    wanted = {"dataset": datasets, "case": cases, "setting": settings, "rate": rates}
    for field, values in wanted.items():
        present = [f"{getattr(item, field)}" for item in tables]
        for value in values or ():
            if f"{value}" not in present:
                raise unknown_name(field, f"{value}", present)
    lists = {field: list(values) for field, values in wanted.items() if values is not None}
    kept = [
        item
        for item in tables
        if all(getattr(item, field) in values for field, values in lists.items())
    ]
    return sorted(
        kept,
        key=lambda item: [values.index(getattr(item, field)) for field, values in lists.items()],
    )


def _code(setting: str) -> str:
    """A setting as it is stored, also by its title."""
    return next(
        (
            code
            for code, known in settings_by_code().items()
            if setting.lower() in (code, known.title)
        ),
        setting,
    )


def _one(
    numbers: DataFrame,
    columns: tuple[Column, ...],
    error: ErrorKind,
    order: Sequence[str] | None,
    notes: Sequence[str],
) -> Table:
    """The table of one problem."""
    problem = read_all(Problem, numbers[:1])[0]
    lines: dict[Method, dict[Column, Cell]] = {}
    for method, record in zip(read_all(Method, numbers), numbers.to_dict("records"), strict=True):
        metric, mean, noise = (
            METRICS[record["metric"]],
            float(record["mean"]),
            float(record[_COLUMN[error]]),
        )
        lowest = math.nan if metric.chance is None else metric.factor * metric.chance(problem.prior)
        cell = Cell(
            mean=mean,
            error=noise,
            std_population=float(record["std_population"]),
            std_sample=float(record["std_sample"]),
            stderr_sample=float(record["stderr_sample"]),
            n=int(record["n"]),
            decimals=metric.decimals,
            chance=mean - (0.0 if math.isnan(noise) else noise) <= lowest,
        )
        lines.setdefault(method, {})[Column(record["metric"], record["criterion"])] = cell
    rows = [
        Row(**_facts(m, METHOD), cells=tuple(lines[m][c] for c in columns))
        for m in in_order(list(lines), order)
    ]
    warned = (
        []
        if problem.labeling == SCAR
        else cautions(dict.fromkeys(column.criterion for column in columns))
    )
    from puarena import catalog

    infos = catalog.get_all()
    told = {
        row.label: infos[row.base].notes.get(problem.dataset) for row in rows if row.base in infos
    }
    about = (
        *(f"{text}." for text in warned),
        *_notes(numbers),
        *_at_chance(rows, columns),
        *(f"{label}: {note}." for label, note in told.items() if note),
        *notes,
    )
    marked = tuple(_marked(rows, columns))
    return Table(
        **problem.columns(), check=False, columns=columns, rows=marked, error=error, notes=about
    )


def _facts(item: object, names: Sequence[str]) -> dict[str, Any]:
    return {name: getattr(item, name) for name in names}


def _marked(rows: list[Row], columns: tuple[Column, ...]) -> list[Row]:
    """Mark the best of each column, as printed; what sees the true labels does not compete."""
    for i, column in enumerate(columns):
        record = METRICS[column.metric]
        means = [
            record.sign * round(row.cells[i].mean, record.decimals)
            for row in rows
            if not row.supervised
        ]
        best = max((mean for mean in means if not math.isnan(mean)), default=None)
        for j, row in enumerate(rows):
            if (
                not row.supervised
                and record.sign * round(row.cells[i].mean, record.decimals) == best
            ):
                cells = (*row.cells[:i], replace(row.cells[i], best=True), *row.cells[i + 1 :])
                rows[j] = replace(row, cells=cells)
    return rows


def _at_chance(rows: list[Row], columns: tuple[Column, ...]) -> list[str]:
    """Which methods are no better than a constant answer, within one error."""
    criteria = dict.fromkeys(column.criterion for column in columns)
    marked = []
    for row in rows:
        where = {c.criterion for c, cell in zip(columns, row.cells, strict=True) if cell.chance}
        by = ", ".join(CRITERIA[name].title for name in criteria if name in where)
        if where:
            marked.append(row.label if len(where) == len(criteria) else f"{row.label} by {by}")
    return (
        [f"At chance level, no better than always the same answer: {', '.join(marked)}."]
        if marked
        else []
    )


def _notes(numbers: DataFrame) -> list[str]:
    """What is uneven about the results: missing splits, different numbers of configurations, nothing selectable."""
    notes = []
    for column, words in (("splits", "Splits"), ("configs", "Configurations to choose from")):
        counts = numbers.groupby("algorithm", sort=True)[column].min()
        if counts.nunique() > 1:
            usual = int(counts.mode().max())
            others = ", ".join(
                f"{name} {count}" for name, count in counts.items() if count != usual
            )
            notes.append(f"{words} differ: {usual}, but {others}.")
    lacking = numbers[numbers["n"] < numbers["splits"]]
    if len(lacking):
        cells = dict.fromkeys(
            f"{row.algorithm} by {CRITERIA[row.criterion].title} ({row.splits - row.n} of {row.splits} splits)"
            for row in lacking.itertuples()
        )
        notes.append(f"Not a number (NaN), and so left out: {', '.join(cells)}.")
    return notes
