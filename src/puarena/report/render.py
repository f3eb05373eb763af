"""Tables to the terminal, Markdown, LaTeX and CSV, all from the same objects."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from puarena.metrics import CRITERIA, METRICS
from puarena.report.problems import PROBLEM
from puarena.report.table import Cell, Column, Row, Table
from puarena.utils.files import escape_cell, write_file

if TYPE_CHECKING:
    from rich.console import Console

NOTHING = "There are no results yet."


# terminal


def to_terminal(tables: Sequence[Table], console: Console | None = None) -> None:
    """Print the tables; as wide as they need to be, or tighter, or one metric below the other."""
    from rich.console import Console
    from rich.text import Text

    console = console or Console()
    if not tables:
        console.print(NOTHING)
    for item in tables:
        console.print(Text(item.title, style="bold"))
        for columns, tight in _layout(item, console.width, _star(console)):
            console.print(_grid(item, columns, tight, _star(console)))
            console.print()
        how = ("bold", "in italics") if not _star(console) else ("marked *", "")
        console.print(Text(item.caption(*how), style="dim"), end="\n\n")


def _star(console: Console) -> str:
    """What marks the best where bold cannot be seen: in a file or a pipe."""
    return "" if console.is_terminal else "*"


def _layout(table: Table, width: int, star: str) -> list[tuple[list[int], bool]]:
    """Blocks of columns, and whether they are tight: one block if it fits into ``width``, else one per metric."""
    everything = list(range(len(table.columns)))
    label = max(len(row.label) for row in table.rows)
    for tight in (False, True):
        gap = 1 if tight else 2  # blanks before each column
        if label + sum(gap + w for w in _widths(table, everything, tight, star)) <= width:
            return [(everything, tight)]
    return [
        ([table.columns.index(column) for column in columns], False)
        for _, columns in table.metrics()
    ]


def _widths(table: Table, columns: list[int], tight: bool, star: str) -> list[int]:
    """How wide each column is; a tight table has a little more room between metrics."""
    widths = []
    for before, i in zip((None, *columns), columns, strict=False):
        texts = [_plain(row.cells[i], tight, star) for row in table.rows]
        apart = before is not None and table.columns[before].metric != table.columns[i].metric
        widths.append(max(map(len, (*texts, *_head(table.columns[i])))) + (tight and apart))
    return widths


def _head(column: Column) -> tuple[str, str]:
    return METRICS[column.metric].title, CRITERIA[column.criterion].title


def _plain(cell: Cell, tight: bool, star: str) -> str:
    return cell.text(tight) + (star if cell.best else " " * len(star))


def _grid(table: Table, columns: list[int], tight: bool, star: str) -> object:
    from rich import box
    from rich.table import Table as Grid
    from rich.text import Text

    gap = 0 if tight else 1  # beside the one that the box puts between columns
    grid = Grid(box=box.SIMPLE_HEAD, padding=(0, gap, 0, 0), pad_edge=False, show_edge=False)
    grid.add_column("", no_wrap=True)
    before = None
    for i, width in zip(columns, _widths(table, columns, tight, star), strict=True):
        metric, criterion = _head(table.columns[i])
        head = Text(f"{metric if metric != before else ''}\n{criterion}")
        grid.add_column(head, justify="right", no_wrap=True, min_width=width)
        before = metric
    for row, following in zip(table.rows, (*table.rows[1:], None), strict=True):
        cells = [
            Text(
                _plain(row.cells[i], tight, star), style="bold not dim" if row.cells[i].best else ""
            )
            for i in columns
        ]
        style = {"baseline": "dim", "calibrated": "italic"}.get(row.kind, "")
        grid.add_row(Text(row.label), *cells, style=style, end_section=_ends(row, following))
    return grid


def _ends(row: Row, following: Row | None) -> bool:
    """Is there a line below this row, between a reference baseline and the methods?"""
    return following is not None and (row.kind == "baseline") != (following.kind == "baseline")


# Markdown


def to_markdown(tables: Sequence[Table], path: str | Path | None = None) -> str:
    """The tables as GitHub Markdown; also written to ``path`` if given."""
    parts = []
    for table in tables:
        heads = ["{} ({})".format(*_head(column)) for column in table.columns]
        lines = [
            f"### {md(table.title)}",
            "",
            f"| algorithm | {' | '.join(map(md, heads))} |",
            f"| --- |{' ---: |' * len(heads)}",
        ]
        for row in table.rows:
            cells = [f"**{cell.text()}**" if cell.best else cell.text() for cell in row.cells]
            lines.append(f"| {md(row.label)} | {' | '.join(cells)} |")
        parts.append("\n".join([*lines, "", md(table.caption()), ""]))
    return out("\n".join(parts) or f"{NOTHING}\n", path)


def md(text: str) -> str:
    """Text that Markdown and the HTML inside it leave as it is."""
    text = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|~#])", r"\\\1", text)


# LaTeX

_TEX = {
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


def to_latex(tables: Sequence[Table], path: str | Path | None = None) -> str:
    r"""The tables as LaTeX ``table`` environments; also written to ``path``.

    They need ``\usepackage{booktabs}``; with ``\usepackage{colortbl}`` calibrated rows are shaded.
    """
    head = (
        "% Made by puarena. In the preamble: \\usepackage{booktabs}, and \\usepackage{colortbl} for shaded rows\n"
        "\\providecommand{\\rowcolor}[2][]{}\n"
    )
    return out(
        "\n".join([head, *map(_latex, tables)] if tables else [head, f"% {NOTHING}\n"]), path
    )


def _latex(table: Table) -> str:
    groups = table.metrics()
    spans, start = [], 2
    for _, columns in groups:
        spans.append(f"\\cmidrule(lr){{{start}-{start + len(columns) - 1}}}")
        start += len(columns)
    tops = [
        f"\\multicolumn{{{len(columns)}}}{{c}}{{{_tex(METRICS[metric].title)}}}"
        for metric, columns in groups
    ]
    caption = f"{table.title}. {table.caption(calibrated='shaded')}"
    lines = [
        "\\begin{table*}[t]",
        "\\centering",
        f"\\caption{{{_tex(caption)}}}",
        f"\\label{{tab:{_slug(table)}}}",
        "\\scriptsize",
        "\\setlength{\\tabcolsep}{3pt}",
        f"\\begin{{tabular}}{{l{'r' * len(table.columns)}}}",
        "\\toprule",
        f" & {' & '.join(tops)} \\\\",
        " ".join(spans),
        f" & {' & '.join(_tex(_head(column)[1]) for column in table.columns)} \\\\",
        "\\midrule",
    ]
    for row, following in zip(table.rows, (*table.rows[1:], None), strict=True):
        shade = "\\rowcolor[gray]{0.93} " if row.calibrated else ""
        lines.append(f"{shade}{_tex(row.label)} & {' & '.join(map(_tex_cell, row.cells))} \\\\")
        if _ends(row, following):
            lines.append("\\midrule")
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}", "\\end{table*}", ""])


def _tex(text: str) -> str:
    """Text that LaTeX prints as it is; characters that no font has (controls) are left out."""
    return "".join(
        _TEX.get(letter, letter) for letter in " ".join(text.split()) if letter.isprintable()
    )


def _tex_cell(cell: Cell) -> str:
    """The mean, bold if best, and its error in small type: nine such columns fit a page."""
    mean, *error = cell.text().split(" ± ")
    return (f"\\textbf{{{mean}}}" if cell.best else _tex(mean)) + "".join(
        f"{{\\tiny\\,$\\pm$\\,{e}}}" for e in error
    )


def _slug(table: Table) -> str:
    words = f"{table.dataset}-{table.case}-{table.setting}-{table.rate:g}-{table.prior:g}{table.labeling_note}"
    return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")


# CSV


def to_csv(tables: Sequence[Table], path: str | Path | None = None) -> str:
    """Tidy CSV, one line per problem, algorithm, metric and criterion; also written to ``path`` if given."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    about = ("algorithm", "profile", "prior_source", "precision")
    numbers = (
        "text",
        "mean",
        "error",
        "error_kind",
        "std_population",
        "std_sample",
        "stderr_sample",
        "n",
        "best",
    )
    writer.writerow((*PROBLEM, *about, "metric", "criterion", *numbers))
    for table in tables:
        problem = [
            number(x) if isinstance(x, float) else x
            for x in (getattr(table, name) for name in PROBLEM)
        ]
        for row in table.rows:
            method = [getattr(row, name) for name in about]
            for column, cell in zip(table.columns, row.cells, strict=True):
                values = [cell.text(), number(cell.mean), number(cell.error), table.error]
                values += [
                    number(x) for x in (cell.std_population, cell.std_sample, cell.stderr_sample)
                ]
                words = map(escape_cell, [*problem, *method, column.metric, column.criterion])
                writer.writerow([*words, *values, cell.n, int(cell.best)])
    return out(text.getvalue(), path)


def number(value: float) -> str:
    """All digits; nothing for NaN."""
    return "" if math.isnan(value) else repr(float(value))


def out(text: str, path: str | Path | None) -> str:
    if path is not None:
        write_file(path, text)
    return text
