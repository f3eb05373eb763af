"""Comparison with published numbers: differences in published standard errors, and the ranking.

``to_published_csv`` writes results in the columns of the paper's tables, which ``compare`` reads.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from puarena import paper
from puarena.catalog import MethodInfo
from puarena.errors import UserError
from puarena.experiments.spec import Spec
from puarena.metrics import CRITERIA, METRICS
from puarena.pu import labeling
from puarena.pu.problem import PROBLEM_COLUMNS, Problem
from puarena.report.methods import Method, in_order, read_methods, read_problems
from puarena.report.render import Grid, escape_markdown, save_csv, save_text
from puarena.report.select import aggregate, select
from puarena.report.sources import Source, open_curves
from puarena.report.tables import ResultCell, ResultRow, ResultTable, format_number
from puarena.results import Results
from puarena.utils.files import cannot_read
from puarena.utils.notebook import HtmlList, html_table
from puarena.utils.terminal import open_console

if TYPE_CHECKING:
    from pandas import DataFrame
    from rich.console import Console

PAPER_TABLES = Path(__file__).parent / "published"
PAPER_COLUMNS = (
    "dataset",
    "case",
    "algorithm",
    "calibrated",
    "test_metric",
    "criterion",
    "mean",
    "error",
)
# The paper's tables have one setting, rate, prior and mechanism; ours state them.
EXTRA_COLUMNS = ("setting", "rate", "prior", "labeling", "n", "configs")
PAPER_PROBLEM = {
    "setting": labeling.DEFAULT_SETTING,
    "rate": str(paper.RATE),
    "prior": "0.5",
    "labeling": labeling.SCAR,
}
PAPER_SPEC = {
    "steps": (paper.STEPS, "training steps"),
    "configs": (paper.CONFIGS, "configurations"),
    "splits": (paper.SPLITS, "splits"),
    "warmup": (paper.WARMUP_STEPS, "steps of a first stage"),
}
PAPER = "paper"  # names its numbers where results are asked for, and the profile of their rows
PAPER_METRICS = ("accuracy", "auc", "f1")  # that count for the agreement with the paper
MIN_RANKED = 3  # algorithms of a rank correlation
# A cell agrees within so many points, or so many combined standard errors.
AGREEMENT_POINTS = 2.0
AGREEMENT_ERRORS = 3.0
COMPARISON_COLUMNS = ("profile", "metric", "criterion", "published_criterion")
CELL_COLUMNS = (
    "algorithm",
    "base",
    "calibrated",
    "ours",
    "ours_error",
    "published",
    "published_error",
    "difference",
    "in_errors",
    "n",
)
HEADS = ("algorithm", "ours", "published", "difference", "in published errors")
Key = tuple[Any, ...]


@dataclass(frozen=True)
class ComparedCell:
    """The number of one method: ours and the published one, as shown."""

    method: Method
    ours: float
    ours_error: float
    n: int
    published: float
    published_error: float

    @property
    def algorithm(self) -> str:
        """The name of the algorithm."""
        return self.method.algorithm

    @property
    def difference(self) -> float:
        """Ours minus published."""
        return self.ours - self.published

    @property
    def in_errors(self) -> float:
        """The difference in published standard errors; NaN if none was published."""
        return self.difference / self.published_error if self.published_error > 0 else math.nan

    @property
    def agrees(self) -> bool:
        """Is the difference within two points, or three combined standard errors?"""
        known = [e for e in (self.ours_error, self.published_error) if not math.isnan(e)]
        tolerance = max(AGREEMENT_POINTS, AGREEMENT_ERRORS * math.hypot(*known))
        return abs(self.difference) <= tolerance


@dataclass(frozen=True)
class Comparison:
    """One metric of the models that one criterion chose, on one problem."""

    problem: Problem
    profile: str  # and what is unusual about all methods
    metric: str
    criterion: str
    published_criterion: str
    cells: tuple[ComparedCell, ...]
    spearman: float
    note: str  # why there is no rank correlation
    differs: str = ""  # how the protocol differs from the published one

    @property
    def title(self) -> str:
        """The problem, the metric, the criterion and the profile."""
        by = CRITERIA[self.criterion].title
        if self.published_criterion != self.criterion:
            by += f" (published as {CRITERIA[self.published_criterion].title})"
        what = f"{METRICS[self.metric].title} by {by}, profile {self.profile}"
        return f"{self.problem.title}: {what}"

    @property
    def verdict(self) -> str:
        """How well the two agree, with n."""
        mean = sum(cell.difference for cell in self.cells) / len(self.cells)
        n = len(self.cells)
        rank = self.note or f"Spearman correlation of the ranking {self.spearman:.2f} (n = {n})."
        points = f"mean difference {format_number(mean, sign=True)} points."
        if self.differs:
            return f"{rank} The protocols differ, so errors are not compared; {points}"
        gaps = [cell.in_errors for cell in self.cells if not math.isnan(cell.in_errors)]
        near = sum(abs(gap) <= 2 for gap in gaps)
        return f"{rank} {near} of {len(gaps)} within two published standard errors; {points}"

    def to_grid(self, styles: Sequence[str] = ()) -> Grid:
        """Return the numbers as text, a row per method, with styles of the rows."""
        digits = METRICS[self.metric].decimals
        rows = []
        for cell in self.cells:
            ours = ResultCell(cell.ours, cell.ours_error, decimals=digits).text()
            theirs = ResultCell(cell.published, cell.published_error, decimals=digits).text()
            difference = format_number(cell.difference, digits, sign=True)
            errors = "--" if self.differs else format_number(cell.in_errors, 1, sign=True)
            rows.append([cell.algorithm, ours, theirs, difference, errors])
        return Grid(list(HEADS), rows, list(styles))

    def to_frame(self) -> DataFrame:
        """Return one row per method."""
        import pandas

        facts = {name: getattr(self, name) for name in COMPARISON_COLUMNS}
        facts = self.problem.to_columns() | facts
        facts |= {"spearman": self.spearman, "algorithms": len(self.cells)}
        rows = []
        for cell in self.cells:
            method = {name: getattr(cell.method, name) for name in CELL_COLUMNS[:3]}
            numbers = {name: getattr(cell, name) for name in CELL_COLUMNS[3:]}
            if self.differs:
                numbers["in_errors"] = math.nan
            rows.append(facts | method | numbers)
        return pandas.DataFrame(rows)

    def describe_cell(self, cell: ComparedCell) -> str:
        """Return a cell in one line."""
        problem = self.problem
        where = f"{problem.dataset}, case {problem.case}: {cell.algorithm}"
        what = f"{METRICS[self.metric].title} by {CRITERIA[self.published_criterion].title}"
        ours = f"{cell.ours:.2f} ± {cell.ours_error:.2f}"
        theirs = f"published {cell.published:.2f} ± {cell.published_error:.2f}"
        return f"{where}, {what}: {ours}, {theirs} ({cell.difference:+.2f})"

    def _repr_html_(self) -> str:
        """Return the comparison for a notebook."""
        notes = [*describe_protocols([self]), self.verdict]
        return html_table(HEADS, self.to_grid().rows, self.title, notes)


@dataclass(frozen=True)
class Agreement:
    """How many cells agree with published ones, and which do not."""

    n: int
    outside: tuple[str, ...]  # each in one line

    @property
    def verdict(self) -> str:
        """The share of cells that agree."""
        within = self.n - len(self.outside)
        share = f"{within / self.n:.1%}" if self.n else "none"
        titles = ", ".join(METRICS[name].title for name in PAPER_METRICS)
        return (
            f"{within} of {self.n} cells ({share}; {titles}) lie within {AGREEMENT_POINTS:g} "
            f"points or {AGREEMENT_ERRORS:g} combined standard errors, whichever is more."
        )


def count_agreement(
    comparisons: Sequence[Comparison], metrics: Sequence[str] = PAPER_METRICS
) -> Agreement:
    """Count the cells of these metrics that agree with published ones."""
    chosen = [item for item in comparisons if item.metric in metrics]
    outside = [
        item.describe_cell(cell) for item in chosen for cell in item.cells if not cell.agrees
    ]
    return Agreement(sum(len(item.cells) for item in chosen), tuple(outside))


# published numbers


def read_published(path: str | Path | None = None) -> dict[Key, tuple[float, float]]:
    """Return published means and errors of a file, or of the paper.

    The keys are problem, plain algorithm (named as here), calibrated or not, metric and criterion.
    """
    files = sorted(PAPER_TABLES.glob("*.csv")) if path is None else [Path(path)]
    return {key: value for file in files for key, value in _read_file(file).items()}


def _read_file(file: Path) -> dict[Key, tuple[float, float]]:
    try:
        with file.open(encoding="utf-8", newline="") as text:
            reader = csv.DictReader(text)
            missing = [name for name in PAPER_COLUMNS if name not in (reader.fieldnames or ())]
            if missing:
                raise UserError(
                    f"'{file}' has no column {', '.join(missing)}; it needs "
                    f"{', '.join(PAPER_COLUMNS)}",
                    "wrong-format",
                )
            return {
                _read_key(row): (float(row["mean"]), float(row["error"] or "nan")) for row in reader
            }
    except UserError:
        raise
    except OSError as error:
        raise cannot_read(file, error) from None
    except UnicodeDecodeError:
        raise UserError(f"'{file}' is not a CSV file in UTF-8", "wrong-format") from None
    except (ValueError, TypeError, AttributeError, csv.Error) as error:
        raise UserError(
            f"line {reader.line_num} of '{file}' cannot be read ({error})", "wrong-format"
        ) from None


def _read_key(row: dict[str, str]) -> Key:
    """Return the key of a row; without a column for it, the problem is that of the paper."""
    where = {name: row.get(name) or usual for name, usual in PAPER_PROBLEM.items()}
    problem = Problem(
        row["dataset"].strip().lower(),
        int(row["case"]),
        where["setting"],
        round(float(where["rate"]), 6),
        round(float(where["prior"]), 6),
        where["labeling"],
        check=False,
    )
    return (
        problem,
        make_slug(row["algorithm"]),
        row["calibrated"].strip().lower() in {"1", "true", "yes"},
        row["test_metric"].strip().lower(),
        row["criterion"].strip().lower(),
    )


def make_slug(name: str) -> str:
    """Return a published name as it is written here: ``Count Loss`` is ``count-loss``."""
    return "-".join(name.lower().split())


def find_published_criterion(profile: str, name: str) -> str:
    """Return the published criterion that one of ours compares with; empty if there is none."""
    record = CRITERIA[name]
    if record.profile:
        return record.replaces if record.profile == profile else ""
    others = [other for other in CRITERIA.values() if other.replaces == name]
    replaced = any(other.profile == profile for other in others)
    return "" if replaced or not record.default else name


def to_published_csv(source: Source, path: str | Path | None = None) -> str:
    """Return the mean and standard error of every cell in the columns of the paper's tables.

    A profile's own form of a criterion has the name of the criterion that it replaces.
    """
    import pandas

    curves = open_curves(source)
    numbers = aggregate(select(curves))
    places = {method: i for i, method in enumerate(in_order(dict.fromkeys(read_methods(numbers))))}
    metrics, criteria, lines = list(METRICS), list(CRITERIA), []
    for problem, method, row in _iterate_rows(numbers):
        criterion = find_published_criterion(method.profile, row["criterion"])
        if not criterion or math.isnan(row["mean"]):
            continue
        line = problem.to_columns() | {
            "rate": f"{problem.rate:g}",
            "prior": f"{problem.prior:g}",
            "algorithm": _make_title(method, curves.methods),
            "calibrated": method.calibrated,
            "test_metric": row["metric"],
            "criterion": criterion,
            "mean": f"{row['mean']:.2f}",
            "error": "" if math.isnan(row["stderr"]) else f"{row['stderr']:.2f}",
            "n": row["n"],
            "configs": row["configs"],
        }
        place = (places[method], metrics.index(row["metric"]), criteria.index(criterion))
        lines.append((*map(str, problem.to_columns().values()), *place, line))
    lines.sort(key=lambda line: line[:-1])
    frames = [pandas.DataFrame([line[-1] for line in lines])] if lines else []
    return save_csv(frames, [*PAPER_COLUMNS, *EXTRA_COLUMNS], path)


def _make_title(method: Method, methods: Mapping[str, MethodInfo]) -> str:
    """Return the method's plain form as the paper writes it, and what is unusual about its runs."""
    info = methods.get(method.base)
    title = method.base
    if info and make_slug(info.title) == method.base:
        title = info.title
    return f"{title} ({', '.join(method.unusual)})" if method.unusual else title


def _iterate_rows(numbers: DataFrame) -> Iterator[tuple[Problem, Method, dict[Any, Any]]]:
    """Yield the problem, the method and the numbers of every row."""
    records = numbers.to_dict("records")
    return zip(read_problems(numbers), read_methods(numbers), records, strict=True)


# the paper's rows in tables


def add_paper_rows(tables: Sequence[ResultTable], others: bool = True) -> list[ResultTable]:
    """Return the tables with the paper's row of every method; ``others``: also those not run here.

    A profile's own form of a criterion is beside the criterion that it replaces.
    """
    published = read_published()
    if not {table.problem for table in tables} & {key[0] for key in published}:
        raise _explain_no_overlap(published, {table.problem.dataset for table in tables})
    return [_add_paper_rows(table, published, others) for table in tables]


def _add_paper_rows(
    table: ResultTable, published: Mapping[Key, tuple[float, float]], others: bool
) -> ResultTable:
    own = {(row.method.base, row.method.calibrated) for row in table.rows}
    rows = {row.method: row for row in table.rows}
    for base, calibrated in dict.fromkeys(key[1:3] for key in published if key[0] == table.problem):
        if others or (base, calibrated) in own:
            row = _make_paper_row(table, base, calibrated, published)
            rows[row.method] = row
    if len(rows) == len(table.rows):
        return table
    order = in_order(rows) if others else _order_beside(table, rows)
    note = (
        "Rows (paper): published numbers, which do not compete (standard errors of the population)."
    )
    ordered = tuple(rows[method] for method in order)
    return replace(table, rows=ordered, notes=(*table.notes, note))


def _order_beside(table: ResultTable, rows: Iterable[Method]) -> list[Method]:
    """Return the methods in the order of a table, each followed by the paper's row of it."""
    order = [row.method for row in table.rows]
    for method in [each for each in rows if each.profile == PAPER]:
        same = [(each.base, each.calibrated) for each in order]
        order.insert(same.index((method.base, method.calibrated)) + 1, method)
    return order


def _make_paper_row(
    table: ResultTable, base: str, calibrated: bool, published: Mapping[Key, tuple[float, float]]
) -> ResultRow:
    """Return the published numbers of a method in the columns of a table."""
    profiles = dict.fromkeys(row.method.profile for row in table.rows)
    cells = []
    for column in table.columns:
        names = (find_published_criterion(profile, column.criterion) for profile in profiles)
        criterion = next(filter(None, names), "")
        key = (table.problem, base, calibrated, column.metric, criterion)
        mean, error = published.get(key, (math.nan, math.nan))
        n = 0 if math.isnan(mean) else paper.SPLITS
        cells.append(ResultCell(mean, error, n=n, decimals=METRICS[column.metric].decimals))
    ending = "-c" if calibrated else ""
    usual = ("", False, False, PAPER, "true", "float32", "protocol")
    method = Method(f"{base}{ending}", base, calibrated, *usual)
    return ResultRow(method, tuple(cells), f"{_read_titles()[base]}{ending}")


@cache
def _read_titles() -> dict[str, str]:
    """Return the paper's methods by the names that they have here."""
    titles: dict[str, str] = {}
    for file in PAPER_TABLES.glob("*.csv"):
        with file.open(encoding="utf-8", newline="") as text:
            names = [row["algorithm"] for row in csv.DictReader(text)]
        titles |= {make_slug(name): name for name in names}
    return titles


# comparison


def compare(
    source: Source,
    published: str | Path | None = None,
    metrics: Iterable[str] | str | None = None,
    criteria: Iterable[str] | str | None = None,
) -> HtmlList[Comparison]:
    """Return one comparison per problem, profile, metric and criterion that both have.

    Default: the paper's numbers, all metrics and criteria. If a profile has its own form of a
    criterion, that form compares with the published criterion (``pa-released`` of runs of the
    profile ``released`` with PA), and the plain one with nothing.
    """
    curves = open_curves(source)
    chosen, by = curves.metrics(metrics, every=True), curves.criteria(criteria, every=True)
    theirs = read_published(published)
    numbers = aggregate(select(curves, by), chosen)
    if not len(numbers):
        raise UserError("there are no results yet to compare with published numbers", "no-results")
    groups: dict[Key, list[ComparedCell]] = {}
    for stored, method, row in _iterate_rows(numbers):
        prior = math.nan if stored.prior is None else round(stored.prior, 6)
        rate = round(stored.rate, 6)
        dataset = stored.dataset.lower()
        problem = replace(stored, dataset=dataset, rate=rate, prior=prior, check=False)
        criterion = find_published_criterion(method.profile, row["criterion"])
        # A published row that was run in the same unusual way comes before the usual one.
        unusual = make_slug(f"{method.base} ({', '.join(method.unusual)})")
        what = (method.calibrated, row["metric"], criterion)
        values = theirs.get((problem, unusual, *what)) or theirs.get((problem, method.base, *what))
        if values and not math.isnan(row["mean"]):
            profile = ", ".join([method.profile, *method.unusual])
            key = (problem, profile, row["metric"], row["criterion"], criterion)
            ours = float(row["mean"]), float(row["stderr"]), int(row["n"])
            groups.setdefault(key, []).append(ComparedCell(method, *ours, *values))
    if not groups:
        raise _explain_no_overlap(theirs, set(numbers["dataset"].str.lower()))

    def order(key: Key) -> Key:
        problem, profile, metric, criterion, _ = key
        return (*problem.to_columns().values(), profile, chosen.index(metric), by.index(criterion))

    differs = describe_protocol(curves.store)
    comparisons: HtmlList[Comparison] = HtmlList()
    for key in sorted(groups, key=order):
        by_method = {cell.method: cell for cell in groups[key]}
        cells = tuple(by_method[method] for method in in_order(by_method))
        comparisons.append(Comparison(*key, cells, *_correlate_ranks(cells), differs))
    return comparisons


def _correlate_ranks(cells: Sequence[ComparedCell]) -> tuple[float, str]:
    """Return the rank correlation, or NaN and the reason."""
    from scipy.stats import spearmanr

    ours, theirs = [cell.ours for cell in cells], [cell.published for cell in cells]
    n = len(cells)
    if n < MIN_RANKED:
        return (
            math.nan,
            f"No rank correlation: it needs {MIN_RANKED} algorithms, and there are {n}.",
        )
    if len(set(ours)) == 1 or len(set(theirs)) == 1:
        return math.nan, f"No rank correlation: all {n} algorithms are tied."
    return float(spearmanr(ours, theirs).statistic), ""


def describe_protocol(store: Results | None) -> str:
    """Return how a folder's protocol differs from the published one; empty if it does not."""
    if store is None:
        return ""
    specs = [Spec.load(part.spec) for part in store.info.sources] or [store.spec]
    texts = []
    for spec in specs:
        published = spec.model_copy(update={name: value for name, (value, _) in PAPER_SPEC.items()})
        for name, (here, there) in spec.differences(published).items():
            texts.append(f"{PAPER_SPEC[name][1]}: {here:,} here, {there:,} published")
        fixed = {name for values in spec.hyper.values() for name in values}
        if fixed:
            texts.append(f"hyperparameters fixed here ({', '.join(sorted(fixed))})")
    return "; ".join(dict.fromkeys(texts))


def _explain_no_overlap(theirs: Iterable[Key], ours: set[str]) -> UserError:
    """Return the error that says why nothing overlaps."""
    problems = {key[0] for key in theirs}
    known = sorted({problem.dataset for problem in problems})
    if not ours & set(known):
        return UserError(
            f"nothing to compare: published are {', '.join(known)}, and the results are of "
            f"{', '.join(sorted(ours))}",
            "missing-data",
        )
    listed = {f"case {p.case} {p.short} rate {p.rate:g} prior {p.prior:g}" for p in problems}
    return UserError(
        f"nothing to compare: published are {', '.join(sorted(listed))}, and the results have no "
        "such problem, algorithm and criterion",
        "missing-data",
    )


# output


def show_comparison(comparisons: Sequence[Comparison], console: Console | None = None) -> None:
    """Print the comparisons, and at the end the rank correlations of all of them."""
    from rich.text import Text

    console = console or open_console()
    for line in describe_protocols(comparisons):
        console.print(Text(line, style="bold"), end="\n\n")
    for item in comparisons:
        console.print(Text(item.title, style="bold"))
        far = [bool(item.differs) or abs(cell.in_errors) > 2 for cell in item.cells]
        item.to_grid(["" if each else "dim" for each in far]).to_terminal(console)
        console.print(Text(item.verdict), end="\n\n")
    console.print(Text(describe_rankings(comparisons)))


def describe_protocols(comparisons: Sequence[Comparison]) -> list[str]:
    """Return what must be known before the numbers."""
    differing = dict.fromkeys(item.differs for item in comparisons if item.differs)
    return [f"The two protocols differ: {text}." for text in differing]


def describe_rankings(comparisons: Sequence[Comparison]) -> str:
    """Return one sentence per profile about all rankings together."""
    parts = []
    for profile in dict.fromkeys(item.profile for item in comparisons):
        own = [item for item in comparisons if item.profile == profile]
        ranked = [item.spearman for item in own if not math.isnan(item.spearman)]
        ranking = "no ranking"
        if ranked:
            ranking = (
                f"median Spearman correlation {median(ranked):.2f} over n = {len(ranked)} tables"
            )
        gaps = [cell.in_errors for item in own for cell in item.cells]
        known = [gap for gap in gaps if not math.isnan(gap)]
        near = sum(abs(gap) <= 2 for gap in known)
        counted = f"{near} of {len(known)} numbers within two published standard errors"
        if any(item.differs for item in own):
            counted = "errors are not compared, because the protocols differ"
        parts.append(f"Profile '{profile}': {ranking}; {counted}.")
    return " ".join(parts) + " '±' is the standard error over splits, in both."


def comparison_to_markdown(
    comparisons: Sequence[Comparison], path: str | Path | None = None
) -> str:
    """Return the comparisons as GitHub Markdown; also write them to ``path`` if it is given."""
    parts = [*describe_protocols(comparisons), describe_rankings(comparisons)]
    for item in comparisons:
        title = f"### {escape_markdown(item.title)}"
        parts += [title, item.to_grid().to_markdown(), item.verdict]
    return save_text("\n\n".join(parts) + "\n", path)


def comparison_to_csv(comparisons: Sequence[Comparison], path: str | Path | None = None) -> str:
    """Return tidy CSV, one line per problem, profile, metric, criterion and algorithm."""
    columns = [*PROBLEM_COLUMNS, *COMPARISON_COLUMNS, *CELL_COLUMNS, "spearman", "algorithms"]
    return save_csv([item.to_frame() for item in comparisons], columns, path)
