"""Tables and statistics for the terminal, Markdown, LaTeX and CSV, from the same objects."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from puarena.metrics import METRICS
from puarena.metrics.measures import Metric
from puarena.pu.problem import PROBLEM_COLUMNS
from puarena.report.statistics.bootstrap import ALPHA
from puarena.report.tables import ResultCell, ResultRow, ResultTable, format_number
from puarena.utils.files import escape_cell, write_file

if TYPE_CHECKING:
    from pandas import DataFrame
    from rich.console import Console

    from puarena.report.statistics import Statistics

NO_RESULTS = "There are no results yet."
MAX_PAIRS = 20  # significant pairs that are printed
INTERVAL = "95%"  # head of the column of an interval


# grids: heads and rows of text


@dataclass(frozen=True)
class Grid:
    """Heads and rows of text; the first column is the head of a row."""

    heads: list[str]
    rows: list[list[str]]

    def split(self, width: int) -> list[Grid]:
        """Return grids of at most ``width`` characters, each with the first column.

        An interval is not separated from the column before it.
        """
        columns = list(zip(self.heads, *self.rows, strict=True))
        widths = [max(map(len, column)) + 3 for column in columns]
        units: list[list[int]] = []
        for i, head in enumerate(self.heads[1:], 1):
            if head == INTERVAL:
                units[-1].append(i)
            else:
                units.append([i])
        blocks: list[list[int]] = [[0]]
        for unit in units:
            if sum(widths[i] for i in blocks[-1] + unit) > width + 3 and len(blocks[-1]) > 1:
                blocks.append([0])
            blocks[-1] += unit
        return [
            Grid([self.heads[i] for i in block], [[row[i] for i in block] for row in self.rows])
            for block in blocks
        ]

    def to_markdown(self) -> str:
        """Return a Markdown table; the texts must be escaped already."""
        lines = [self.heads, ["---", *["---:"] * (len(self.heads) - 1)], *self.rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def to_terminal(self, console: Console, styles: Sequence[str] = ()) -> None:
        """Print it; ``styles`` are those of the rows."""
        from rich import box
        from rich.table import Table
        from rich.text import Text

        grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        for i, head in enumerate(self.heads):
            # A number is never cut: without room it continues in the next line.
            justify: Any = "right" if i else "left"
            grid.add_column(Text(head), justify=justify, no_wrap=not i, overflow="fold")
        for i, row in enumerate(self.rows):
            grid.add_row(*map(Text, row), style=styles[i] if styles else "")
        console.print(grid)


# tables to the terminal


def to_terminal(tables: Sequence[ResultTable], console: Console | None = None) -> None:
    """Print the tables as wide as they need to be, or tighter, or one metric below the other."""
    from rich.console import Console
    from rich.text import Text

    console = console or Console()
    if not tables:
        console.print(NO_RESULTS)
    star = "" if console.is_terminal else "*"  # marks the best if bold cannot be seen
    marks = ("marked *", "") if star else ("bold", "in italics")
    for table in tables:
        console.print(Text(table.title, style="bold"))
        for columns, tight in _choose_layout(table, console.width, star):
            console.print(_make_grid(table, columns, tight, star))
            console.print()
        console.print(Text(table.caption(*marks), style="dim"), end="\n\n")


def _choose_layout(table: ResultTable, width: int, star: str) -> list[tuple[list[int], bool]]:
    """Return blocks of columns, and whether they are tight: one per metric if one is too wide."""
    everything = list(range(len(table.columns)))
    label = max(len(row.method.label) for row in table.rows)
    for tight in (False, True):
        gap = 1 if tight else 2  # blanks before each column
        widths = _measure_columns(table, everything, tight, star)
        if label + sum(gap + each for each in widths) <= width:
            return [(everything, tight)]
    indices = {column: i for i, column in enumerate(table.columns)}
    return [([indices[c] for c in columns], False) for _, columns in table.group_columns()]


def _measure_columns(table: ResultTable, columns: list[int], tight: bool, star: str) -> list[int]:
    """Return the width of each column; a tight table has one more blank between metrics."""
    widths = []
    before = None
    for i in columns:
        column = table.columns[i]
        texts = [_mark_cell(row.cells[i], tight, star) for row in table.rows]
        width = max(map(len, (*texts, *column.titles)))
        if tight and before not in (None, column.metric):
            width += 1
        widths.append(width)
        before = column.metric
    return widths


def _mark_cell(cell: ResultCell, tight: bool, star: str) -> str:
    return cell.text(tight) + (star if cell.best else " " * len(star))


def _make_grid(table: ResultTable, columns: list[int], tight: bool, star: str) -> object:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    gap = 0 if tight else 1  # in addition to the blank that the box puts between columns
    grid = Table(box=box.SIMPLE_HEAD, padding=(0, gap, 0, 0), pad_edge=False, show_edge=False)
    grid.add_column("", no_wrap=True)
    before = ""
    for i, width in zip(columns, _measure_columns(table, columns, tight, star), strict=True):
        metric, criterion = table.columns[i].titles
        head = Text(f"{metric if metric != before else ''}\n{criterion}")
        grid.add_column(head, justify="right", no_wrap=True, min_width=width)
        before = metric
    for row, ends in _mark_sections(table):
        cells = []
        for cell in (row.cells[i] for i in columns):
            style = "bold not dim" if cell.best else ""
            cells.append(Text(_mark_cell(cell, tight, star), style=style))
        style = {"baseline": "dim", "calibrated": "italic"}.get(row.method.kind, "")
        grid.add_row(Text(row.method.label), *cells, style=style, end_section=ends)
    return grid


def _mark_sections(table: ResultTable) -> list[tuple[ResultRow, bool]]:
    """Return each row, and whether a line separates it from the next: around the baselines."""
    kinds = [row.method.kind == "baseline" for row in table.rows]
    ends = [a != b for a, b in pairwise(kinds)]
    return list(zip(table.rows, [*ends, False], strict=True))


# Markdown


def to_markdown(tables: Sequence[ResultTable], path: str | Path | None = None) -> str:
    """Return the tables as GitHub Markdown; also write them to ``path`` if it is given."""
    parts = []
    for table in tables:
        heads = ["{} ({})".format(*column.titles) for column in table.columns]
        rows = []
        for row in table.rows:
            texts = [f"**{cell.text()}**" if cell.best else cell.text() for cell in row.cells]
            rows.append([escape_markdown(row.method.label), *texts])
        grid = Grid(["algorithm", *map(escape_markdown, heads)], rows)
        title, caption = escape_markdown(table.title), escape_markdown(table.caption())
        parts.append(f"### {title}\n\n{grid.to_markdown()}\n\n{caption}\n")
    return save_text("\n".join(parts) or f"{NO_RESULTS}\n", path)


def escape_markdown(text: str) -> str:
    """Return text that Markdown, and the HTML inside it, leaves as it is."""
    text = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|~#])", r"\\\1", text)


# LaTeX

TEX_CHARACTERS = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
    "±": r"$\pm$",
    **{special: f"\\{special}" for special in "&%$#_"},
}
TEX_HEAD = r"""% The preamble needs \usepackage{booktabs}, and \usepackage{colortbl} for shaded rows.
\providecommand{\rowcolor}[2][]{}
"""


def to_latex(tables: Sequence[ResultTable], path: str | Path | None = None) -> str:
    r"""Return the tables as LaTeX ``table`` environments; also write them to ``path``.

    They need ``\usepackage{booktabs}``; with ``\usepackage{colortbl}`` calibrated rows are shaded.
    """
    parts = [_make_latex(table) for table in tables] or [f"% {NO_RESULTS}\n"]
    return save_text("\n".join([TEX_HEAD, *parts]), path)


def _make_latex(table: ResultTable) -> str:
    rules, tops, start = [], [], 2
    for metric, columns in table.group_columns():
        stop = start + len(columns) - 1
        rules.append(f"\\cmidrule(lr){{{start}-{stop}}}")
        title = escape_latex(METRICS[metric].title)
        tops.append(f"\\multicolumn{{{len(columns)}}}{{c}}{{{title}}}")
        start = stop + 1
    caption = f"{table.title}. {table.caption(calibrated='shaded')}"
    lines = [
        "\\begin{table*}[t]",
        "\\centering",
        f"\\caption{{{escape_latex(caption)}}}",
        f"\\label{{tab:{_make_slug(table)}}}",
        "\\scriptsize",
        "\\setlength{\\tabcolsep}{3pt}",
        f"\\begin{{tabular}}{{l{'r' * len(table.columns)}}}",
        "\\toprule",
        f" & {' & '.join(tops)} \\\\",
        " ".join(rules),
        f" & {' & '.join(escape_latex(column.titles[1]) for column in table.columns)} \\\\",
        "\\midrule",
    ]
    for row, ends in _mark_sections(table):
        shade = "\\rowcolor[gray]{0.93} " if row.method.calibrated else ""
        cells = " & ".join(map(_format_latex_cell, row.cells))
        lines.append(f"{shade}{escape_latex(row.method.label)} & {cells} \\\\")
        if ends:
            lines.append("\\midrule")
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}", "\\end{table*}", ""])


def escape_latex(text: str) -> str:
    """Return text that LaTeX prints as it is; control characters are left out."""
    letters = [letter for letter in " ".join(text.split()) if letter.isprintable()]
    return "".join(TEX_CHARACTERS.get(letter, letter) for letter in letters)


def _format_latex_cell(cell: ResultCell) -> str:
    """Return the mean, bold if best, and its error in small type: nine such columns fit a page."""
    mean, _, error = cell.text().partition(" ± ")
    mean = f"\\textbf{{{mean}}}" if cell.best else escape_latex(mean)
    return mean + (f"{{\\tiny\\,$\\pm$\\,{error}}}" if error else "")


def _make_slug(table: ResultTable) -> str:
    problem = table.problem
    parts = (
        problem.dataset,
        problem.case,
        problem.setting,
        f"{problem.rate:g}",
        f"{problem.prior:g}",
    )
    text = "-".join(map(str, parts)) + problem.labeling_note
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


# CSV

CSV_METHOD = ("algorithm", "profile", "prior_source", "precision")
CSV_NUMBERS = ("mean", "error", "std_population", "std_sample", "stderr_sample")


def to_csv(tables: Sequence[ResultTable], path: str | Path | None = None) -> str:
    """Return tidy CSV, one line per problem, algorithm, metric and criterion; also write it."""
    heads = [
        *PROBLEM_COLUMNS,
        *CSV_METHOD,
        "metric",
        "criterion",
        "text",
        "mean",
        "error",
        "error_kind",
    ]
    heads += [*CSV_NUMBERS[2:], "n", "best"]
    lines = []
    for table in tables:
        values = table.problem.columns().values()
        problem = [format_exact(x) if isinstance(x, float) else x for x in values]
        for row in table.rows:
            method = [getattr(row.method, name) for name in CSV_METHOD]
            for column, cell in zip(table.columns, row.cells, strict=True):
                numbers = [format_exact(getattr(cell, name)) for name in CSV_NUMBERS]
                numbers.insert(2, table.error)
                where = map(escape_cell, (*problem, *method, column.metric, column.criterion))
                lines.append((*where, cell.text(), *numbers, cell.n, int(cell.best)))
    return save_csv(heads, lines, path)


def save_csv(heads: Sequence[str], lines: Iterable[Sequence[Any]], path: str | Path | None) -> str:
    """Return CSV; also write it to ``path`` if it is given. Words must be escaped already."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows(lines)
    return save_text(text.getvalue(), path)


def format_exact(value: float) -> str:
    """Return a number with all digits; an empty text for NaN."""
    return "" if math.isnan(value) else repr(float(value))


def save_text(text: str, path: str | Path | None) -> str:
    """Return the text; also write it to ``path`` if it is given."""
    if path is not None:
        write_file(path, text)
    return text


# statistics

# Title and form of the statistics that are columns of a row per algorithm, in their order. A row
# of a pair counts if it is with the reference, which is ``{}`` in a title.
ALGORITHM_COLUMNS = {
    "place": ("place", "place"),
    "mean": ("mean", "metric"),
    "difference-from-best": ("from the best", "difference"),
    "difference": ("from {}", "difference"),
    "mean-rank": ("mean rank", "rank"),
    "elo": ("Elo", "whole"),
    "gap-closed": ("gap closed", "share"),
    "improvability": ("improvable", "share"),
    "iqm": ("IQM", "metric"),
    "wins": ("won", "whole"),
    "ties": ("tied", "whole"),
    "losses": ("lost", "whole"),
    "probability-better": ("better", "probability"),
    "probability-same": ("same", "probability"),
    "probability-worse": ("worse", "probability"),
}
FORMATS = {"rank": ".2f", "whole": ".0f", "share": ".1%", "probability": ".2f"}
PAIR_STATISTICS = ("wins", "ties", "losses")
MEANINGS = {
    "elo": "Elo: rating from battles of splits; {origin}.",
    "gap-closed": "gap closed: share of the way from the naive baseline to the oracle.",
    "improvability": "improvable: share of the error that the best does not make.",
    "iqm": "IQM: interquartile mean over splits.",
    "wins": "won, tied, lost: number of problems, against {reference}.",
    "probability-better": "better, same, worse: Bayesian signed-rank test against {reference}.",
}
TESTS = {
    "friedman-chi2": "Friedman's chi2, corrected for ties",
    "friedman-p": "p of Friedman's chi2",
    "friedman-f": "F form of Friedman's test",
    "friedman-f-p": "p of the F form",
    "critical-difference": "Nemenyi's critical difference of mean ranks",
}


def show_statistics(everything: Sequence[Statistics], console: Console | None = None) -> None:
    """Print the statistics of every metric and criterion."""
    from rich.console import Console
    from rich.text import Text

    console = console or Console()
    for item in everything:
        console.print(Text(item.title, style="bold"))
        console.print(Text(item.verdict), end="\n\n")
        for grid in arrange_statistics(item):
            for part in grid.split(console.width):
                part.to_terminal(console)
                console.print()
        for line in describe_statistics(item):
            console.print(Text(line))
        console.print()


def arrange_statistics(item: Statistics) -> list[Grid]:
    """Return the statistics of algorithms, of tests and of significant pairs as grids."""
    metric = METRICS[item.metric]
    names = list(ALGORITHM_COLUMNS)
    if item.reference in item.standings.table.index[:1]:
        names.remove("difference")  # the same as from the best
    grids = [
        arrange_algorithms(item.frame, metric, names, item.reference),
        _arrange_tests(item),
        _arrange_pairs(item, metric),
    ]
    return [grid for grid in grids if grid.rows]


def arrange_algorithms(
    frame: DataFrame, metric: Metric, names: Iterable[str], reference: str = ""
) -> Grid:
    """Return a row per algorithm, and per statistic a column and one for its interval, if any."""
    parts = {name: _select_rows(frame, name, reference) for name in names}
    algorithms = list(dict.fromkeys(name for part in parts.values() for name in part.index))
    grid = Grid(["algorithm"], [[name] for name in algorithms])
    for name, part in parts.items():
        if part.empty:
            continue
        title, form = ALGORITHM_COLUMNS[name]
        has_interval = bool(part["low"].notna().any())
        grid.heads.append(title.format(reference))
        grid.heads.extend([INTERVAL] * has_interval)
        places = list(part["value"])
        for algorithm, row in zip(algorithms, grid.rows, strict=True):
            if algorithm not in part.index:
                row.extend([""] * (1 + has_interval))
                continue
            value, low, high = part.loc[algorithm, ["value", "low", "high"]]
            if form == "place":
                row.append(format_place(value, places))
            else:
                row.append(_format_statistic(value, form, metric))
            if has_interval:
                row.append(_format_range(low, high, form, metric))
    return grid


def _select_rows(frame: DataFrame, statistic: str, reference: str) -> DataFrame:
    """Return the rows of a statistic that have a value, by algorithm."""
    rows = frame[(frame["statistic"] == statistic) & frame["value"].notna()]
    if statistic in PAIR_STATISTICS:
        rows = rows[rows["other"] == reference]
    return rows.set_index("algorithm")


def _arrange_tests(item: Statistics) -> Grid:
    """Return the numbers of tests of all algorithms together."""
    rows = []
    for name, title in TESTS.items():
        for row in item.of(name).dropna(subset="value").to_dict("records"):
            value = float(row["value"])
            text = _format_p(value) if name.endswith("-p") else f"{value:.2f}"
            rows.append([title, text, str(row["n"])])
    return Grid(["test", "value", f"n ({item.over})"], rows)


def _arrange_pairs(item: Statistics, metric: Metric) -> Grid:
    """Return the pairs that differ, the better algorithm first."""
    p = item.of("wilcoxon-p-holm").reset_index(drop=True)
    gaps = item.of("wilcoxon-difference").reset_index(drop=True)
    rows = []
    for i in p.index[p["value"] < ALPHA][:MAX_PAIRS]:
        names = [p["algorithm"][i], p["other"][i]]
        gap = gaps["value"][i]
        if metric.sign * gap < 0:
            names.reverse()
            gap = -gap
        difference = _format_statistic(gap, "difference", metric)
        rows.append([" - ".join(names), difference, _format_p(p["value"][i])])
    return Grid(["pair", "difference", "p (Wilcoxon, Holm)"], rows)


def describe_statistics(item: Statistics) -> list[str]:
    """Return the meanings of the columns, and the notes of all statistics."""
    elo = item.of("elo")["other"].max()
    words = {"reference": item.reference, "origin": f"{elo or 'the mean'} has 1000"}
    present = set(item.frame.dropna(subset="value")["statistic"])
    lines = [text.format(**words) for name, text in MEANINGS.items() if name in present]
    holm = item.of("wilcoxon-p-holm")["value"]
    if len(holm):
        differ = int((holm < ALPHA).sum())
        shown = f"; the first {MAX_PAIRS} are shown" if differ > MAX_PAIRS else ""
        lines.append(f"{differ} of {len(holm)} pairs differ at {ALPHA:g} (Wilcoxon, Holm){shown}.")
    noted = item.frame[item.frame["note"] != ""]
    for (statistic, note), rows in noted.groupby(["statistic", "note"], sort=False):
        names = list(rows["algorithm"])
        everyone = len(names) == len(item.of(str(statistic)))
        lines.append(str(note) if everyone else f"{', '.join(names)}: {note}")
    return [*lines, *item.notes]


def format_place(rank: float, ranks: Sequence[float]) -> str:
    """Return a rank as a place: ``3``, or ``2=`` if several share it."""
    return f"{1 + sum(other < rank for other in ranks)}{'=' * (ranks.count(rank) > 1)}"


def format_places(low: float, high: float) -> str:
    """Return the interval of a place."""
    if math.isnan(low):
        return "--"
    first, last = math.floor(low), math.ceil(high)
    return f"{first}" if first == last else f"{first} to {last}"


def _format_statistic(value: float, form: str, metric: Metric) -> str:
    if form in FORMATS:
        return f"{value:{FORMATS[form]}}"
    return format_number(value, metric.decimals, sign=form == "difference")


def _format_range(low: float, high: float, form: str, metric: Metric) -> str:
    if math.isnan(low):
        return "--"
    if form == "place":
        return format_places(low, high)
    spec = FORMATS.get(form, f".{metric.decimals}f")
    return f"{low:{spec}} to {high:{spec}}"


def _format_p(value: float) -> str:
    return "< 0.0001" if value < 1e-4 else f"{value:.2g}"
