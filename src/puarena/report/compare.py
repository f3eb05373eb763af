"""Our numbers beside published ones: differences in published standard errors, and whether the ranking agrees."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from puarena import paper
from puarena.errors import UserError
from puarena.metrics import CRITERIA, METRICS
from puarena.pu import labeling
from puarena.report.methods import Method, in_order
from puarena.report.problems import PROBLEM, Problem, read_all
from puarena.report.render import md, number, out
from puarena.report.select import aggregate, select
from puarena.report.sources import Source, opened
from puarena.report.table import Cell, shown
from puarena.results import Results
from puarena.utils.files import escape_cell
from puarena.utils.notebook import Shown, html_table

if TYPE_CHECKING:
    from rich.console import Console

PUBLISHED = Path(__file__).parent / "published" / "results-case1.csv"
NEEDED = ("dataset", "case", "algorithm", "calibrated", "test_metric", "criterion", "mean", "error")
LEAST = 3  # algorithms of a ranking
PUBLISHED_PROTOCOL = {  # of the published tables
    "steps": (paper.STEPS, "training steps"),
    "configs": (paper.CONFIGS, "configurations"),
    "splits": (paper.SPLITS, "splits"),
    "warmup": (paper.WARMUP_STEPS, "steps of a first stage"),
}
Key = tuple[Any, ...]


@dataclass(frozen=True)
class Line:
    """One method: ours and published, as shown (most metrics in percent)."""

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
        """The difference in published standard errors; NaN where none was published."""
        return self.difference / self.published_error if self.published_error > 0 else math.nan


@dataclass(frozen=True, kw_only=True)
class Comparison(Problem):
    """One metric of the models one criterion chose, on one problem."""

    profile: str  # and what else is not as usual about all lines, in words
    metric: str
    criterion: str
    published_criterion: str
    lines: tuple[Line, ...]
    spearman: float
    note: str
    differs: str = ""  # in what the protocol is not the published one

    @property
    def title(self) -> str:
        """The problem, the profile and what was measured, in a few words."""
        by = CRITERIA[self.criterion].title
        if self.published_criterion != self.criterion:
            by += f" (published as {CRITERIA[self.published_criterion].title})"
        return f"{super().title}: {METRICS[self.metric].title} by {by}, profile {self.profile}"

    @property
    def verdict(self) -> str:
        """How well it agrees, in a sentence or two, with n."""
        mean = sum(line.difference for line in self.lines) / len(self.lines)
        rank = (
            self.note
            or f"Spearman correlation of the ranking {self.spearman:.2f} (n = {len(self.lines)})."
        )
        points = f"mean difference {shown(mean, sign=True)} points."
        if self.differs:
            return f"{rank} Another protocol than the published one, so differences are not counted in errors; {points}"
        gaps = [line.in_errors for line in self.lines if not math.isnan(line.in_errors)]
        near = sum(abs(gap) <= 2 for gap in gaps)
        return f"{rank} {near} of {len(gaps)} within two published standard errors; {points}"

    def _repr_html_(self) -> str:
        """The comparison in a notebook."""
        return html_table(
            HEADS,
            (_cells(line, self) for line in self.lines),
            self.title,
            [*caveats([self]), self.verdict],
        )


def read_published(path: str | Path | None = None) -> dict[Key, tuple[float, float]]:
    """Published means and errors, by problem, plain algorithm (named as here), calibrated, metric and criterion."""
    file = Path(path) if path is not None else PUBLISHED
    try:
        with file.open(encoding="utf-8", newline="") as text:
            reader = csv.DictReader(text)
            missing = [name for name in NEEDED if name not in (reader.fieldnames or ())]
            if missing:
                raise UserError(
                    f"'{file}' has no column {', '.join(missing)}; it needs {', '.join(NEEDED)}"
                )
            return {_key(row): (float(row["mean"]), float(row["error"] or "nan")) for row in reader}
    except UserError:
        raise
    except OSError as error:
        raise UserError(
            f"cannot read '{file}' ({(error.strerror or str(error)).lower()})"
        ) from None
    except UnicodeDecodeError:
        raise UserError(f"'{file}' is not a CSV file in UTF-8") from None
    except (ValueError, TypeError, AttributeError, csv.Error) as error:
        raise UserError(
            f"line {reader.line_num} of '{file}' cannot be understood ({error})"
        ) from None


def _key(row: dict[str, str]) -> Key:
    """Where the file does not say otherwise, the problem is that of the published tables."""
    protocol = {
        "setting": labeling.DEFAULT_SETTING,
        "rate": str(paper.RATE),
        "prior": "0.5",
        "labeling": labeling.SCAR,
    }
    where = {name: row.get(name) or usual for name, usual in protocol.items()}
    return (
        Problem(
            row["dataset"].strip().lower(),
            int(row["case"]),
            where["setting"],
            round(float(where["rate"]), 6),
            round(float(where["prior"]), 6),
            where["labeling"],
            check=False,
        ),
        slug(row["algorithm"]),
        row["calibrated"].strip().lower() in {"1", "true", "yes"},
        row["test_metric"].strip().lower(),
        row["criterion"].strip().lower(),
    )


def slug(name: str) -> str:
    """A published name as it is written here: ``Count Loss`` is ``count-loss``."""
    return "-".join(name.lower().split())


def compare(
    source: Source,
    published: str | Path | None = None,
    metrics: Iterable[str] | str | None = None,
    criteria: Iterable[str] | str | None = None,
) -> Shown[Comparison]:
    """One comparison per problem, profile, metric and criterion that both have; an error if there is none.

    All metrics and criteria unless told. Where a profile has its own form of a criterion, that form compares with the
    published criterion (``pa-released`` of runs of the profile ``released`` with PA), and the plain one with nothing.
    """
    curves = opened(source)
    chosen, by = curves.metrics(metrics, every=True), curves.criteria(criteria, every=True)
    theirs = read_published(published)
    numbers = aggregate(select(curves, by), chosen)
    if not len(numbers):
        raise UserError("there are no results yet to compare with published numbers")
    tables: dict[Key, list[Line]] = {}
    where = zip(
        read_all(Problem, numbers),
        read_all(Method, numbers),
        numbers.to_dict("records"),
        strict=True,
    )
    for stored, method, row in where:
        rate, prior = round(stored.rate, 6), round(stored.prior, 6)
        problem = replace(
            stored, check=False, dataset=stored.dataset.lower(), rate=rate, prior=prior
        )
        criterion = published_criterion(method.profile, row["criterion"])
        ways = [
            slug(f"{method.base} ({', '.join(method.unusual)})"),
            method.base,
        ]  # the row run alike comes first
        keys = [(problem, name, method.calibrated, row["metric"], criterion) for name in ways]
        values = next((theirs[key] for key in keys if key in theirs), None)
        if values and not math.isnan(row["mean"]):
            profile = ", ".join([method.profile, *method.unusual])
            line = Line(method, float(row["mean"]), float(row["stderr"]), int(row["n"]), *values)
            tables.setdefault(
                (problem, profile, row["metric"], row["criterion"], criterion), []
            ).append(line)
    if not tables:
        raise UserError(_nothing(theirs, set(numbers["dataset"].str.lower())))

    differs = protocol_differences(curves.store)

    def order(key: Key) -> Key:
        return (*astuple(key[0]), key[1], chosen.index(key[2]), by.index(key[3]))

    comparisons: Shown[Comparison] = Shown()
    for key in sorted(tables, key=order):
        about = dict(
            zip(("profile", "metric", "criterion", "published_criterion"), key[1:], strict=True)
        )
        lines, spearman, note = _judged(tables[key])
        facts = key[0].columns() | about | {"spearman": spearman, "note": note, "differs": differs}
        comparisons.append(Comparison(**facts, check=False, lines=lines))
    return comparisons


def protocol_differences(store: Results | None) -> str:
    """In what a folder's protocol differs from the published one, in words; nothing where it does not."""
    if store is None:
        return ""
    specs = [part["spec"] for part in store.info.get("sources", ())] or [store.spec]
    words: dict[str, None] = {}
    for spec in specs:
        for key, (published, noun) in PUBLISHED_PROTOCOL.items():
            value = spec.get(key, published)
            if value != published:
                words[f"{noun}: {value:,} here, {published:,} published"] = None
        fixed = spec.get("hyper") or {}
        if fixed:
            words[
                f"hyperparameters fixed here ({', '.join(sorted({name for v in fixed.values() for name in v}))})"
            ] = None
    return "; ".join(words)


def published_criterion(profile: str, name: str) -> str:
    """The criterion of the published tables that one of ours compares with; empty if there is none."""
    record = CRITERIA[name]
    if record.profile:
        return record.replaces if record.profile == profile else ""
    replaced = any(
        other.replaces == name and other.profile == profile for other in CRITERIA.values()
    )
    return "" if replaced or not record.default else name


def _nothing(theirs: Iterable[Key], ours: set[str]) -> str:
    """Why nothing overlaps, in one sentence."""
    problems = {key[0] for key in theirs}
    known = sorted({problem.dataset for problem in problems})
    if not ours & set(known):
        return f"nothing to compare: published are {', '.join(known)}, and the results are of {', '.join(sorted(ours))}"
    words = sorted({f"case {p.case} {p.short} rate {p.rate:g} prior {p.prior:g}" for p in problems})
    listed = ", ".join(words)
    return f"nothing to compare: published are {listed}, and the results have no such problem, algorithm and criterion"


def _judged(lines: list[Line]) -> tuple[tuple[Line, ...], float, str]:
    """The lines in the paper's order, and the rank correlation, or why there is none."""
    from scipy.stats import spearmanr

    by_method = {line.method: line for line in lines}
    listed = [by_method[method] for method in in_order(by_method)]
    ours, theirs = [line.ours for line in listed], [line.published for line in listed]
    if len(listed) < LEAST:
        note = f"No rank correlation: it needs {LEAST} algorithms, and there are {len(listed)}."
        return tuple(listed), math.nan, note
    if len(set(ours)) == 1 or len(set(theirs)) == 1:
        return (
            tuple(listed),
            math.nan,
            f"No rank correlation: all {len(listed)} algorithms are tied.",
        )
    return tuple(listed), float(spearmanr(ours, theirs).statistic), ""


# forms

HEADS = ("algorithm", "ours", "published", "difference", "in published errors")


def _cells(line: Line, item: Comparison) -> tuple[str, ...]:
    digits = METRICS[item.metric].decimals
    ours = Cell(line.ours, line.ours_error, decimals=digits).text()
    theirs = Cell(line.published, line.published_error, decimals=digits).text()
    errors = "--" if item.differs else shown(line.in_errors, 1, sign=True)
    return line.algorithm, ours, theirs, shown(line.difference, digits, sign=True), errors


def show_comparison(comparisons: list[Comparison], console: Console | None = None) -> None:
    """Print the comparisons, and at the end the rank correlations of all of them."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = console or Console()
    for sentence in caveats(comparisons):
        console.print(Text(sentence, style="bold"), end="\n\n")
    for item in comparisons:
        console.print(Text(item.title, style="bold"))
        grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        for i, head in enumerate(HEADS):
            grid.add_column(head, justify="right" if i else "left", no_wrap=True)
        for line in item.lines:
            far = item.differs or (not math.isnan(line.in_errors) and abs(line.in_errors) > 2)
            grid.add_row(*map(Text, _cells(line, item)), style="" if far else "dim")
        console.print(grid)
        console.print(Text(item.verdict), end="\n\n")
    console.print(Text(overview(comparisons)))


def caveats(comparisons: list[Comparison]) -> list[str]:
    """What must be known before the numbers."""
    differing = dict.fromkeys(item.differs for item in comparisons if item.differs)
    return [f"The two protocols differ: {words}." for words in differing]


def overview(comparisons: list[Comparison]) -> str:
    """All rankings together, in a sentence per profile."""
    parts = []
    for profile in dict.fromkeys(item.profile for item in comparisons):
        mine = [item for item in comparisons if item.profile == profile]
        ranked = [item.spearman for item in mine if not math.isnan(item.spearman)]
        lines = [line for item in mine for line in item.lines if not math.isnan(line.in_errors)]
        near = sum(abs(line.in_errors) <= 2 for line in lines)
        spearman = f"median Spearman correlation {median(ranked):.2f}" if ranked else ""
        ranking = f"{spearman} over n = {len(ranked)} tables" if ranked else "no ranking"
        counted = f"; {near} of {len(lines)} numbers within two published standard errors"
        if any(item.differs for item in mine):
            counted = "; differences are not counted in published errors, which belong to another protocol"
        parts.append(
            f"Runs of the profile '{profile}': {ranking}{counted} ('±' is the standard error over splits, in both)."
        )
    return " ".join(parts)


def comparison_to_markdown(comparisons: list[Comparison], path: str | Path | None = None) -> str:
    """The comparisons as GitHub Markdown; also written to ``path`` if given."""
    parts = [
        *caveats(comparisons),
        *([""] if caveats(comparisons) else []),
        overview(comparisons),
        "",
    ]
    for item in comparisons:
        rows = [f"| {' | '.join(map(md, _cells(line, item)))} |" for line in item.lines]
        heads = [f"| {' | '.join(HEADS)} |", "| --- | ---: | ---: | ---: | ---: |"]
        parts += [f"### {md(item.title)}", "", *heads, *rows, "", item.verdict, ""]
    return out("\n".join(parts), path)


def comparison_to_csv(comparisons: list[Comparison], path: str | Path | None = None) -> str:
    """Tidy CSV, one line per problem, profile, metric, criterion and algorithm; also written to ``path`` if given."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    about = (*PROBLEM, "profile", "metric", "criterion", "published_criterion")
    numbers = ("ours", "ours_error", "published", "published_error", "difference", "in_errors")
    writer.writerow(
        (*about, "algorithm", "base", "calibrated", *numbers, "n", "spearman", "algorithms")
    )
    for item in comparisons:
        for line in item.lines:
            values = [
                "" if name == "in_errors" and item.differs else number(getattr(line, name))
                for name in numbers
            ]
            where = [getattr(item, name) for name in about]
            words = map(
                escape_cell, [*where, line.algorithm, line.method.base, int(line.method.calibrated)]
            )
            writer.writerow([*words, *values, line.n, number(item.spearman), len(item.lines)])
    return out(text.getvalue(), path)
