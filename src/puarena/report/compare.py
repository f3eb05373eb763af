"""Our numbers beside published ones: differences in published standard errors, and whether the ranking agrees."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from puarena.data import labelling
from puarena.errors import UserError
from puarena.report.render import md, number, out
from puarena.report.select import CRITERIA, METRICS, aggregate, names, select
from puarena.report.table import CRITERION_WORDS, METRIC_WORDS, ORDER, base

if TYPE_CHECKING:
    from rich.console import Console

    from puarena.report.select import Source

PUBLISHED = Path(__file__).parent / "published" / "results-case1.csv"
# Of the published tables, where their file does not say.
PROTOCOL = {"setting": labelling.DEFAULT, "rate": "0.3", "prior": "0.5"}
NEEDED = ("dataset", "case", "algorithm", "calibrated", "test_metric", "criterion", "mean", "error")
SAME_CRITERION = {"pa-released": "pa"}  # under another name: the published PA is what the published code computed
LEAST = 3  # algorithms of a ranking
Key = tuple[Any, ...]


@dataclass(frozen=True)
class Line:
    """One algorithm: ours and published, in percent."""

    algorithm: str
    ours: float
    ours_error: float
    n: int
    published: float
    published_error: float

    @property
    def difference(self) -> float:
        """Ours minus published, in percentage points."""
        return self.ours - self.published

    @property
    def in_errors(self) -> float:
        """The difference in published standard errors; NaN where none was published."""
        return self.difference / self.published_error if self.published_error > 0 else math.nan


@dataclass(frozen=True)
class Comparison:
    """One metric of the models one criterion chose, on one problem."""

    dataset: str
    case: int
    setting: str
    rate: float
    prior: float
    profile: str
    metric: str
    criterion: str
    published_criterion: str
    lines: tuple[Line, ...]
    spearman: float
    note: str

    @property
    def title(self) -> str:
        """The problem, the profile and what was measured, in a few words."""
        setting = labelling.get(self.setting).title
        problem = f"{self.dataset}, case {self.case}, {setting}, {100 * self.rate:.4g}% positive rate"
        by = CRITERION_WORDS[self.criterion]
        if self.published_criterion != self.criterion:
            by += f" (published as {CRITERION_WORDS[self.published_criterion]})"
        return f"{problem}: {METRIC_WORDS[self.metric]} by {by}, profile {self.profile}"

    @property
    def verdict(self) -> str:
        """How well it agrees, in a sentence or two, with n."""
        gaps = [line.in_errors for line in self.lines if not math.isnan(line.in_errors)]
        near = sum(abs(gap) <= 2 for gap in gaps)
        mean = sum(line.difference for line in self.lines) / len(self.lines)
        rank = self.note or f"Spearman correlation of the ranking {self.spearman:.2f} (n = {len(self.lines)})."
        return f"{rank} {near} of {len(gaps)} within two published standard errors; mean difference {mean:+.2f} points."


def read_published(path: str | Path | None = None) -> dict[Key, tuple[float, float]]:
    """Published means and errors in percent, by problem, algorithm (named as here), metric and criterion."""
    file = Path(path) if path is not None else PUBLISHED
    try:
        with file.open(encoding="utf-8", newline="") as text:
            reader = csv.DictReader(text)
            missing = [name for name in NEEDED if name not in (reader.fieldnames or ())]
            if missing:
                raise UserError(f"'{file}' has no column {', '.join(missing)}; it needs {', '.join(NEEDED)}")
            found: dict[Key, tuple[float, float]] = {}
            for row in reader:
                found[_key(row)] = float(row["mean"]), float(row["error"] or "nan")
    except OSError as error:
        raise UserError(f"cannot read '{file}' ({(error.strerror or str(error)).lower()})") from None
    except UnicodeDecodeError:
        raise UserError(f"'{file}' is not a CSV file in UTF-8") from None
    except (ValueError, TypeError, AttributeError, csv.Error) as error:
        raise UserError(f"line {reader.line_num} of '{file}' cannot be understood ({error})") from None
    return found


def _key(row: dict[str, str]) -> Key:
    where = {name: row.get(name) or default for name, default in PROTOCOL.items()}
    numbers = round(float(where["rate"]), 6), round(float(where["prior"]), 6)
    return (
        row["dataset"].strip().lower(),
        int(row["case"]),
        where["setting"],
        *numbers,
        slug(row["algorithm"], row["calibrated"].strip().lower() in {"1", "true", "yes"}),
        row["test_metric"].strip().lower(),
        row["criterion"].strip().lower(),
    )


def slug(name: str, calibrated: bool = False) -> str:
    """A published name as it is written here: ``Count Loss`` is ``count-loss``, calibrated nnPU ``nnpu-c``."""
    plain = "-".join(name.lower().split())
    return f"{plain}-c" if calibrated else plain


def compare(
    source: Source,
    published: str | Path | None = None,
    metrics: Iterable[str] | str | None = None,
    criteria: Iterable[str] | str | None = None,
) -> list[Comparison]:
    """One comparison per problem, profile, metric and criterion that both have; an error if there is none.

    All metrics and criteria unless told. Runs of the profile ``released`` chosen by ``pa-released`` compare with the
    published PA, and their ``nnpu@released`` with the published nnPU; ``pa`` of such runs compares with nothing.
    """
    chosen = names("metric", metrics, METRICS, METRICS)
    by = names("criterion", criteria, CRITERIA, CRITERIA)
    theirs = read_published(published)
    mine = aggregate(select(source, by), chosen)
    if not len(mine):
        raise UserError("there are no results yet to compare with published numbers")
    tables: dict[Key, list[Line]] = {}
    for row in mine.to_dict("records"):
        criterion = _published_criterion(row["profile"], row["criterion"])
        problem = (
            row["dataset"].lower(),
            int(row["case"]),
            row["setting"],
            round(row["rate"], 6),
            round(row["prior"], 6),
        )
        algorithm = str(row["algorithm"]).partition("@")[0]
        numbers = theirs.get((*problem, algorithm, row["metric"], criterion))
        if criterion and numbers and not math.isnan(row["mean"]):
            key = (*problem, row["profile"], row["metric"], row["criterion"], criterion)
            line = Line(algorithm, float(row["mean"]), float(row["stderr"]), int(row["n"]), *numbers)
            tables.setdefault(key, []).append(line)
    if not tables:
        raise UserError(_nothing(theirs, {row["dataset"].lower() for row in mine.to_dict("records")}))

    def order(key: Key) -> Key:
        return (*key[:-3], chosen.index(key[-3]), by.index(key[-2]))

    found = []
    for key in sorted(tables, key=order):
        lines, spearman, note = _judged(tables[key])
        found.append(Comparison(*key, lines=lines, spearman=spearman, note=note))
    return found


def _published_criterion(profile: str, criterion: str) -> str:
    """The criterion of the published tables that one of ours compares with; empty if there is none."""
    released = profile.partition("+")[0] == "released"  # after the plus: where the prior comes from
    if criterion == "pa" and released:
        return ""
    if criterion in SAME_CRITERION:
        return SAME_CRITERION[criterion] if released else ""
    return criterion


def _nothing(theirs: dict[Key, Any], ours: set[str]) -> str:
    """Why nothing overlaps, in one sentence."""
    known = sorted({key[0] for key in theirs})
    if not ours & set(known):
        return f"nothing to compare: published are {', '.join(known)}, and the results are of {', '.join(sorted(ours))}"
    cases = ", ".join(sorted({f"case {key[1]} {key[2].upper()} rate {key[3]:g} prior {key[4]:g}" for key in theirs}))
    return f"nothing to compare: published are {cases}, and the results have no such problem, algorithm and criterion"


def _judged(lines: list[Line]) -> tuple[tuple[Line, ...], float, str]:
    """The lines in the paper's order, and the rank correlation, or why there is none."""
    from scipy.stats import spearmanr

    listed = sorted(lines, key=lambda line: (*_place(line.algorithm), line.algorithm))
    ours, theirs = [line.ours for line in listed], [line.published for line in listed]
    if len(listed) < LEAST:
        return (
            tuple(listed),
            math.nan,
            f"No rank correlation: it needs {LEAST} algorithms, and there are {len(listed)}.",
        )
    if len(set(ours)) == 1 or len(set(theirs)) == 1:
        return tuple(listed), math.nan, f"No rank correlation: all {len(listed)} algorithms are tied."
    return tuple(listed), float(spearmanr(ours, theirs).statistic), ""


def _place(algorithm: str) -> tuple[int, int]:
    plain = base(algorithm)
    return ORDER.index(plain) if plain in ORDER else len(ORDER), int(plain != algorithm)


# forms

HEADS = ("algorithm", "ours", "published", "difference", "in published errors")


def _cells(line: Line) -> tuple[str, ...]:
    ours = f"{line.ours:.2f}" + ("" if math.isnan(line.ours_error) else f" ± {line.ours_error:.2f}")
    theirs = f"{line.published:.2f}" + ("" if math.isnan(line.published_error) else f" ± {line.published_error:.2f}")
    errors = "--" if math.isnan(line.in_errors) else f"{line.in_errors:+.1f}"
    return line.algorithm, ours, theirs, f"{line.difference:+.2f}", errors


def show_comparison(found: list[Comparison], console: Console | None = None) -> None:
    """Print the comparisons, and at the end the rank correlations of all of them."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = console or Console()
    for item in found:
        console.print(Text(item.title, style="bold"))
        grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        for i, head in enumerate(HEADS):
            grid.add_column(head, justify="right" if i else "left", no_wrap=True)
        for line in item.lines:
            far = not math.isnan(line.in_errors) and abs(line.in_errors) > 2
            grid.add_row(*map(Text, _cells(line)), style="" if far else "dim")
        console.print(grid)
        console.print(Text(item.verdict), end="\n\n")
    console.print(Text(overview(found)))


def overview(found: list[Comparison]) -> str:
    """All rankings together, in a sentence per profile."""
    parts = []
    for profile in dict.fromkeys(item.profile for item in found):
        mine = [item for item in found if item.profile == profile]
        ranked = sorted(item.spearman for item in mine if not math.isnan(item.spearman))
        lines = [line for item in mine for line in item.lines if not math.isnan(line.in_errors)]
        near = sum(abs(line.in_errors) <= 2 for line in lines)
        middle = (ranked[(len(ranked) - 1) // 2] + ranked[len(ranked) // 2]) / 2 if ranked else math.nan
        told = f"median Spearman correlation {middle:.2f} over n = {len(ranked)} tables" if ranked else "no ranking"
        parts.append(
            f"Runs of the profile '{profile}': {told}; {near} of {len(lines)} numbers within two published standard "
            f"errors ('±' is the standard error over splits, in both)."
        )
    return " ".join(parts)


def comparison_to_markdown(found: list[Comparison], path: str | Path | None = None) -> str:
    """The comparisons as GitHub Markdown; also written to ``path`` if given."""
    parts = [overview(found), ""]
    for item in found:
        rows = [f"| {' | '.join(map(md, _cells(line)))} |" for line in item.lines]
        heads = [f"| {' | '.join(HEADS)} |", "| --- | ---: | ---: | ---: | ---: |"]
        parts += [f"### {md(item.title)}", "", *heads, *rows, "", item.verdict, ""]
    return out("\n".join(parts), path)


def comparison_to_csv(found: list[Comparison], path: str | Path | None = None) -> str:
    """Tidy CSV, one line per problem, profile, metric, criterion and algorithm; also written to ``path`` if given."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    about = ("dataset", "case", "setting", "rate", "prior", "profile", "metric", "criterion", "published_criterion")
    numbers = ("ours", "ours_error", "published", "published_error", "difference", "in_errors")
    writer.writerow((*about, "algorithm", *numbers, "n", "spearman", "algorithms"))
    for item in found:
        for line in item.lines:
            values = [number(getattr(line, name)) for name in numbers]
            where = [getattr(item, name) for name in about]
            writer.writerow([*where, line.algorithm, *values, line.n, number(item.spearman), len(item.lines)])
    return out(text.getvalue(), path)
