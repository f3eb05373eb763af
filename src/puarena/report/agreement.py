"""Numbers in the columns of the paper's published tables, and how far two such tables agree."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from puarena import catalog
from puarena.metrics import CRITERIA, METRICS
from puarena.report.compare import NEEDED, Comparison, Line, published_criterion, slug
from puarena.report.methods import Method, in_order
from puarena.report.problems import PROBLEM, Problem, read_all
from puarena.report.render import out
from puarena.report.select import aggregate, select
from puarena.report.sources import Source, opened
from puarena.utils.files import escape_cell

MORE = (
    "setting",
    "rate",
    "prior",
    "labeling",
    "n",
    "configs",
)  # after the paper's columns, which take the problem for granted
POINTS, ERRORS = (
    2.0,
    3.0,
)  # a cell agrees within so many points, or so many combined standard errors
TABULATED = ("accuracy", "auc", "f1")


def to_published_csv(source: Source, path: str | Path | None = None) -> str:
    """The mean and standard error of every cell, one per line, as ``compare --published`` reads them.

    A profile's own form of a criterion stands under the name of the criterion it takes the place of.
    """
    curves = opened(source)
    numbers = aggregate(select(curves))
    places = {
        method: i for i, method in enumerate(in_order(dict.fromkeys(read_all(Method, numbers))))
    }
    metrics, lines = list(METRICS), []
    rows = zip(
        read_all(Problem, numbers),
        read_all(Method, numbers),
        numbers.to_dict("records"),
        strict=True,
    )
    for problem, method, row in rows:
        criterion = published_criterion(method.profile, row["criterion"])
        if not criterion or math.isnan(row["mean"]):
            continue
        error = "" if math.isnan(row["stderr"]) else f"{row['stderr']:.2f}"
        name = _title(method)
        cell = (
            problem.dataset,
            problem.case,
            name,
            int(method.calibrated),
            row["metric"],
            criterion,
        )
        where = (problem.setting, f"{problem.rate:g}", f"{problem.prior:g}", problem.labeling)
        counts = int(row["n"]), int(row["configs"])
        order = tuple(str(getattr(problem, field)) for field in PROBLEM), places[method]
        last = metrics.index(row["metric"]), list(CRITERIA).index(criterion)
        lines.append((*order, *last, (*cell, f"{row['mean']:.2f}", error, *where, *counts)))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow((*NEEDED, *MORE))
    writer.writerows(map(escape_cell, line[-1]) for line in sorted(lines))
    return out(text.getvalue(), path)


def _title(method: Method) -> str:
    """The method's plain form as the paper writes it, and what is not as usual about how it was run."""
    entry = catalog.get_all().get(method.base)
    title = entry.title if entry and slug(entry.title) == method.base else method.base
    return f"{title} ({', '.join(method.unusual)})" if method.unusual else title


@dataclass(frozen=True)
class Outside:
    """A cell that does not agree."""

    comparison: Comparison
    line: Line

    @property
    def words(self) -> str:
        """The cell in a line."""
        item, line = self.comparison, self.line
        where = f"{item.dataset}, case {item.case}: {line.algorithm}, {METRICS[item.metric].title}"
        by = CRITERIA[item.published_criterion].title
        return (
            f"{where} by {by}: {line.ours:.2f} ± {line.ours_error:.2f}, published {line.published:.2f} ± "
            + (f"{line.published_error:.2f} ({line.difference:+.2f})")
        )


@dataclass(frozen=True)
class Agreement:
    """Of so many cells so many agree; the others."""

    cells: int
    outside: tuple[Outside, ...]

    @property
    def within(self) -> int:
        """Cells that agree."""
        return self.cells - len(self.outside)

    @property
    def words(self) -> str:
        """The share in a sentence."""
        share = f"{100 * self.within / self.cells:.1f}%" if self.cells else "none"
        titles = ", ".join(METRICS[name].title for name in TABULATED)
        return (
            f"{self.within} of {self.cells} cells ({share}; {titles}) lie within "
            f"{POINTS:g} points or {ERRORS:g} combined standard errors, whichever is more."
        )


def agreement(comparisons: Sequence[Comparison], metrics: Sequence[str] = TABULATED) -> Agreement:
    """How many cells of these metrics agree with what was published, and which do not."""
    pairs = [(item, line) for item in comparisons if item.metric in metrics for line in item.lines]
    return Agreement(
        len(pairs), tuple(Outside(item, line) for item, line in pairs if not agrees(line))
    )


def agrees(line: Line) -> bool:
    """Is the difference within two points, or three combined standard errors? One that is not known counts as none."""
    errors = [
        0.0 if math.isnan(error) else error for error in (line.ours_error, line.published_error)
    ]
    return abs(line.difference) <= max(POINTS, ERRORS * math.hypot(*errors))
