"""Tables in the paper's layout, as plain data: one per problem, rows are algorithms, columns metric x criterion."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from puarena.data import labelling
from puarena.errors import unknown
from puarena.report.select import CRITERIA, METRICS, PROBLEM, aggregate, default_criteria, names, opened, select

if TYPE_CHECKING:
    from pandas import DataFrame

    from puarena.report.select import Source

ErrorKind = Literal["stderr", "std"]
ERRORS = {
    "stderr": "standard error over splits (population standard deviation / sqrt(n))",
    "std": "sample standard deviation over splits",
}
ORACLE, NAIVE = "pn-oracle", "pn-naive"  # the frames: trained with the true labels; unlabeled taken as negative
ORDER = (  # of the paper's tables
    "upu",
    "nnpu",
    "nnpu-ga",
    "nnpu-ss",
    "pusb",
    "pubn",
    "vpu",
    "pan",
    "cvir",
    "dist-pu",
    "p3mix-e",
    "p3mix-c",
    "lbe",
    "count-loss",
    "robust-pu",
    "holistic-pu",
    "pue",
    "glws",
)
METRIC_WORDS = {"accuracy": "Accuracy", "auc": "AUC", "f1": "F1", "precision": "Precision", "recall": "Recall"}
CRITERION_WORDS = {"pa": "PA", "pauc": "PAUC", "oa": "OA", "pa-released": "PA released"}


@dataclass(frozen=True)
class Column:
    """One column: a test metric of the models that one criterion chose."""

    metric: str
    criterion: str


@dataclass(frozen=True)
class Cell:
    """Mean over splits and its errors, in percent; NaN where nothing could be selected."""

    mean: float = math.nan
    error: float = math.nan
    std_population: float = math.nan
    std_sample: float = math.nan
    n: int = 0
    best: bool = False

    def text(self, decimals: int = 2, join: str = " ± ") -> str:
        """``mean ± error``; the mean alone when there is no error, two dashes when there is no mean."""
        if math.isnan(self.mean):
            return "--"
        mean = f"{self.mean:.{decimals}f}"
        return mean if math.isnan(self.error) else f"{mean}{join}{self.error:.{decimals}f}"


@dataclass(frozen=True)
class Row:
    """One algorithm."""

    algorithm: str
    profile: str
    cells: tuple[Cell, ...]

    @property
    def label(self) -> str:
        """The algorithm's name, and whose choices it follows when not the definition's."""
        profile, _, prior = self.profile.partition("+")
        known = profile == "definition" or self.algorithm.endswith(f"@{profile}")
        words = [*([] if known else [profile]), *([f"prior by {prior}"] if prior else [])]
        return f"{self.algorithm} ({', '.join(words)})" if words else self.algorithm

    @property
    def frame(self) -> bool:
        """Is it one of the two lines that frame the table?"""
        return self.algorithm in (ORACLE, NAIVE)

    @property
    def calibrated(self) -> bool:
        """Is it the calibrated form of an algorithm?"""
        return self.algorithm != base(self.algorithm)


@dataclass(frozen=True)
class Table:
    """The results on one problem."""

    dataset: str
    case: int
    setting: str
    rate: float
    prior: float
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    error: ErrorKind
    notes: tuple[str, ...]

    @property
    def title(self) -> str:
        """The problem in a few words."""
        known = labelling.get(self.setting)
        setting = f"{known.title} ({known.short})"
        prior = "" if math.isnan(self.prior) else f", class prior {self.prior:.3g}"
        return f"{self.dataset}, case {self.case}, {setting}, {100 * self.rate:.4g}% positive rate{prior}"

    def caption(self, best: str = "bold", calibrated: str = "") -> str:
        """What a reader must know to read the numbers; how the best and the calibrated rows are marked, if they are."""
        oracle = f" ({ORACLE}, which sees the true labels, does not compete)" if self.has(ORACLE) else ""
        first = f"Test results in percent, mean over splits {self._spread()}. Best of each column {best}{oracle}."
        marked = calibrated and any(row.calibrated for row in self.rows)
        return " ".join((first, *([f"Calibrated forms {calibrated}."] if marked else []), *self.notes))

    def _spread(self) -> str:
        counts = sorted({cell.n for row in self.rows for cell in row.cells if cell.n})
        splits = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else f"{counts[0]}" if counts else "0"
        if counts and counts[-1] == 1:
            return "(n = 1 split, so no error can be given)"
        return f"± {ERRORS[self.error]}, n = {splits}"

    def has(self, algorithm: str) -> bool:
        """Is this algorithm in the table?"""
        return any(row.algorithm == algorithm for row in self.rows)

    def metrics(self) -> list[tuple[str, list[Column]]]:
        """The columns, grouped by metric."""
        return [
            (metric, [column for column in self.columns if column.metric == metric])
            for metric in dict.fromkeys(column.metric for column in self.columns)
        ]


def base(algorithm: str) -> str:
    """The plain algorithm of a variant: ``nnpu`` for ``nnpu-c`` and ``nnpu-c@released``; ``p3mix-c`` stays itself."""
    name = algorithm.partition("@")[0]
    return name if name in ORDER else name.removesuffix("-c")


def table(
    source: Source,
    metrics: Iterable[str] | None = None,
    criteria: Iterable[str] | None = None,
    error: ErrorKind = "stderr",
    algorithms: Sequence[str] | None = None,
) -> list[Table]:
    """Make one table per problem from a results folder (a path or a ``Store``) or a relation like ``load``'s.

    ``metrics``: of accuracy, auc, f1 (these three unless told), precision, recall. ``criteria``: of pa, pauc, oa,
    pa-released (those of the profile unless told). ``error``: ``stderr`` or ``std``. ``algorithms``: which, in order.
    """
    source = opened(source)
    chosen = names("metric", metrics, METRICS, ("accuracy", "auc", "f1"))
    by = names("criterion", criteria, CRITERIA, default_criteria(source))
    if error not in ERRORS:
        raise unknown("error", error, ERRORS)
    numbers = aggregate(select(source, by), chosen)
    if algorithms is not None:
        for name in algorithms:
            if name not in set(numbers["algorithm"]):
                raise unknown("algorithm", name, numbers["algorithm"])
        numbers = numbers[numbers["algorithm"].isin(list(algorithms))]
    columns = tuple(Column(metric, criterion) for metric in chosen for criterion in by)
    problems = numbers.groupby(list(PROBLEM), dropna=False, sort=True)
    return [_one(problem, part, columns, error, algorithms) for problem, part in problems]


def keep(
    tables: Sequence[Table],
    datasets: Sequence[str] | None = None,
    cases: Sequence[int] | None = None,
    settings: Sequence[str] | None = None,
    rates: Sequence[float] | None = None,
) -> list[Table]:
    """The tables of these problems only, in the given order; ``None`` keeps all."""
    wanted = {"dataset": datasets, "case": cases, "setting": settings, "rate": rates}
    for field, values in wanted.items():
        present = [f"{getattr(item, field)}" for item in tables]
        for value in values or ():
            if f"{value}" not in present:
                raise unknown(field, f"{value}", present)
    lists = {field: list(values) for field, values in wanted.items() if values is not None}
    kept = [item for item in tables if all(getattr(item, field) in values for field, values in lists.items())]
    return sorted(kept, key=lambda item: [values.index(getattr(item, field)) for field, values in lists.items()])


def _one(
    problem: Any, numbers: DataFrame, columns: tuple[Column, ...], error: ErrorKind, order: Sequence[str] | None
) -> Table:
    """The table of one problem."""
    kind = "stderr" if error == "stderr" else "std_sample"
    lines: dict[tuple[str, str], dict[Column, Cell]] = {}
    for record in numbers.to_dict("records"):
        errors = float(record[kind]), float(record["std_population"]), float(record["std_sample"])
        cell = Cell(float(record["mean"]), *errors, n=int(record["n"]))
        key = str(record["algorithm"]), str(record["profile"])
        lines.setdefault(key, {})[Column(record["metric"], record["criterion"])] = cell
    rows = [Row(*key, tuple(lines[key][column] for column in columns)) for key in sorted(lines, key=_rank(order))]
    dataset, case, setting, rate, prior = problem
    return Table(
        str(dataset),
        int(case),
        str(setting),
        float(rate),
        float(prior),
        columns,
        tuple(_marked(rows)),
        error,
        tuple(_notes(numbers)),
    )


def _rank(order: Sequence[str] | None) -> Any:
    """Sort key of a row: the given order, or the oracle, the paper's order with "-c" after its plain row, the naive."""
    if order is not None:
        return lambda key: (list(order).index(key[0]), key[1])

    def rank(key: tuple[str, str]) -> tuple[Any, ...]:
        algorithm, profile = key
        place = {ORACLE: -1, NAIVE: len(ORDER) + 1}.get(algorithm)
        if place is None:
            plain = base(algorithm)
            place = ORDER.index(plain) if plain in ORDER else len(ORDER)
        return place, base(algorithm), algorithm, profile

    return rank


def _marked(rows: list[Row]) -> list[Row]:
    """Mark the best of each column, as printed with two decimals; the oracle does not compete."""
    for i in range(len(rows[0].cells)):
        means = [round(row.cells[i].mean, 2) for row in rows if row.algorithm != ORACLE]
        best = max((mean for mean in means if not math.isnan(mean)), default=None)
        for j, row in enumerate(rows):
            if row.algorithm != ORACLE and round(row.cells[i].mean, 2) == best:
                cells = (*row.cells[:i], replace(row.cells[i], best=True), *row.cells[i + 1 :])
                rows[j] = replace(row, cells=cells)
    return rows


def _notes(numbers: DataFrame) -> list[str]:
    """What is uneven about the results: missing splits, different numbers of configurations, nothing selectable."""
    notes = []
    for column, words in (("splits", "Splits"), ("configs", "Configurations to choose from")):
        counts = numbers.groupby("algorithm", sort=True)[column].min()
        if counts.nunique() > 1:
            usual = int(counts.mode().max())
            others = ", ".join(f"{name} {count}" for name, count in counts.items() if count != usual)
            notes.append(f"{words} differ: {usual}, but {others}.")
    lacking = numbers[numbers["n"] < numbers["splits"]]
    if len(lacking):
        cells = dict.fromkeys(
            f"{row.algorithm} by {CRITERION_WORDS[row.criterion]} ({row.splits - row.n} of {row.splits} splits)"
            for row in lacking.itertuples()
        )
        notes.append(f"Not a number (NaN), and so left out: {', '.join(cells)}.")
    return notes
