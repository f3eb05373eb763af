"""Tables and statistics for the terminal, Markdown, LaTeX and CSV, from the same objects."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from puarena.metrics import METRICS
from puarena.metrics.measures import Metric
from puarena.paper import DATASET_TITLES
from puarena.pu.problem import PROBLEM_COLUMNS
from puarena.report.statistics.bootstrap import ALPHA
from puarena.report.tables import ResultTable, format_number
from puarena.utils.files import escape_cell, write_file
from puarena.utils.notebook import Bold
from puarena.utils.terminal import open_console

if TYPE_CHECKING:
    from pandas import DataFrame
    from rich.console import Console

    from puarena.report.statistics import Statistics

NO_RESULTS = "There are no results yet."
MAX_PAIRS = 20  # significant pairs that are printed
INTERVAL = "95%"  # head of the column of an interval


# grids: heads and rows of text, of which the first column is the head of a row


@dataclass(frozen=True)
class Grid:
    """Heads and rows of text; ``Bold`` cells stand out. A head may have a group in a first line."""

    heads: list[str]
    rows: list[list[str]]
    styles: list[str] = field(default_factory=list)  # of the rows
    ends: list[bool] = field(default_factory=list)  # is a line below the row?

    def measure(self) -> list[int]:
        """Return the width of every column in characters, with the gap before it."""
        columns = zip(self.heads, *self.rows, strict=True)
        return [
            max(len(line) for text in column for line in text.split("\n")) + 3 for column in columns
        ]

    def split(self, width: int) -> list[list[int]]:
        """Return the columns of blocks of at most ``width`` characters, each with the first column.

        The columns of a group, and an interval and the column before it, are not separated.
        """
        widths, units, before = self.measure(), [[0]], ""
        for i, head in enumerate(self.heads[1:], 1):
            group, _, name = head.rpartition("\n")
            if name == INTERVAL or (group and group == before):
                units[-1].append(i)
            else:
                units.append([i])
            before = group
        blocks = [units[0]]
        for unit in units[1:]:
            used = sum(widths[i] for i in blocks[-1] + unit)
            if used > width and len(blocks[-1]) > 1:
                blocks.append(units[0])
            blocks[-1] = blocks[-1] + unit
        return blocks

    def to_markdown(self) -> str:
        """Return a Markdown table."""
        heads = [re.sub(r"(.*)\n(.*)", r"\1 (\2)", head) for head in self.heads]
        lines = [list(map(escape_markdown, heads))]
        lines.append(["---", *["---:"] * (len(heads) - 1)])
        for row in self.rows:
            texts = []
            for cell in row:
                text = escape_markdown(cell)
                texts.append(f"**{text}**" if isinstance(cell, Bold) else text)
            lines.append(texts)
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def to_terminal(self, console: Console) -> None:
        """Print it in blocks that fit; where bold cannot be seen, its cells are marked ``*``."""
        from rich import box
        from rich.table import Table
        from rich.text import Text

        has_bold = any(isinstance(cell, Bold) for row in self.rows for cell in row)
        star = "*" if has_bold and not console.is_terminal else ""
        widths, room = self.measure(), console.width + 3  # there is no gap before the first column
        for block in self.split(room - len(star) * len(widths)):
            fits = sum(widths[i] for i in block) <= room
            grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
            for i, head in zip(block, self._head_block(block), strict=True):
                # A number is never cut: without room it continues in the next line.
                justify: Any = "right" if i else "left"
                grid.add_column(Text(head), justify=justify, no_wrap=fits, overflow="fold")
            for at, row in enumerate(self.rows):
                cells = [Text(row[0])]
                for i in block[1:]:
                    if isinstance(row[i], Bold):
                        cells.append(Text(star + row[i], style="bold not dim"))
                    else:
                        cells.append(Text(row[i]))
                style = self.styles[at] if self.styles else ""
                grid.add_row(*cells, style=style, end_section=bool(self.ends) and self.ends[at])
            console.print(grid)
            console.print()

    def _head_block(self, block: Sequence[int]) -> list[str]:
        """Return the heads of columns; only the first of a group is headed by the group's name."""
        heads, before = [], ""
        for i in block:
            group, _, name = self.heads[i].rpartition("\n")
            heads.append(f"{group if group != before else ''}\n{name}" if group else name)
            before = group
        return heads


# tables to the terminal


def to_terminal(tables: Sequence[ResultTable], console: Console | None = None) -> None:
    """Print the tables; without room for all columns one metric below the other."""
    from rich.text import Text

    console = console or open_console()
    if not tables:
        console.print(NO_RESULTS)
    marks = ("bold", "in italics") if console.is_terminal else ("marked *", "")
    for table in tables:
        console.print(Text(table.title, style="bold"))
        kinds = [row.method.kind for row in table.rows]
        styles = [{"baseline": "dim", "calibrated": "italic"}.get(kind, "") for kind in kinds]
        grid = Grid(table.list_heads(), table.list_texts(), styles, _find_sections(table))
        grid.to_terminal(console)
        console.print(Text(table.caption(*marks), style="dim"), end="\n\n")


def _find_sections(table: ResultTable) -> list[bool]:
    """Return whether a line is below each row: it separates the reference baselines."""
    baselines = [row.method.kind == "baseline" for row in table.rows]
    return [a != b for a, b in pairwise([*baselines, baselines[-1]])]


# Markdown


def to_markdown(tables: Sequence[ResultTable], path: str | Path | None = None) -> str:
    """Return the tables as GitHub Markdown; also write them to ``path`` if it is given."""
    parts = []
    for table in tables:
        title, caption = escape_markdown(table.title), escape_markdown(table.caption())
        grid = Grid(table.list_heads(), table.list_texts())
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
TEX_HEAD = r"""% Needs \usepackage{booktabs}; with \usepackage{graphicx} wide tables fit the page,
% and with \usepackage{colortbl} calibrated rows are shaded.
\providecommand{\rowcolor}[2][]{}
\providecommand{\resizebox}[3]{#3}
"""
TEX_COLUMNS = 9  # of a block: more would be too small on 5.5 inches


def to_latex(tables: Sequence[ResultTable], path: str | Path | None = None) -> str:
    r"""Return the tables as LaTeX ``table`` environments; also write them to ``path``.

    They need ``\usepackage{booktabs}``. With ``\usepackage{graphicx}`` they are at most as wide as
    the text, and with ``\usepackage{colortbl}`` calibrated rows are shaded. Methods and datasets
    have their titles. Metrics without room are in another block below.
    """
    parts = [_make_latex(table) for table in tables] or [f"% {NO_RESULTS}\n"]
    return save_text("\n".join([TEX_HEAD, *parts]), path)


def _make_latex(table: ResultTable) -> str:
    words = _name_methods(table.caption(calibrated="shaded"), table)
    caption = f"{_make_tex_title(table)}. {words}"
    lines = [
        "\\begin{table*}[t]",
        "\\centering",
        f"\\caption{{{escape_latex(caption)}}}",
        f"\\label{{tab:{_make_slug(table)}}}",
        "\\scriptsize",
        "\\setlength{\\tabcolsep}{3pt}",
    ]
    blocks: list[list[str]] = [[]]
    used = 0
    for metric, columns in table.group_columns():
        if used + len(columns) > TEX_COLUMNS and blocks[-1]:
            blocks.append([])
            used = 0
        blocks[-1].append(metric)
        used += len(columns)
    for place, metrics in enumerate(blocks):
        lines += ["\\par\\medskip"] * (place > 0)
        # A table that is narrower than the text keeps its size.
        width = "\\ifdim\\width>\\textwidth\\textwidth\\else\\width\\fi"
        lines.append(f"\\resizebox{{{width}}}{{!}}{{%")
        lines += _make_latex_block(table, metrics)
        lines.append("}")
    return "\n".join([*lines, "\\end{table*}", ""])


def _make_latex_block(table: ResultTable, metrics: Sequence[str]) -> list[str]:
    """Return a ``tabular`` with the columns of these metrics."""
    rules, tops, start = [], [], 2
    for metric, columns in table.group_columns():
        if metric not in metrics:
            continue
        stop = start + len(columns) - 1
        rules.append(f"\\cmidrule(lr){{{start}-{stop}}}")
        title = escape_latex(METRICS[metric].title)
        tops.append(f"\\multicolumn{{{len(columns)}}}{{c}}{{{title}}}")
        start = stop + 1
    shown = [i for i, column in enumerate(table.columns) if column.metric in metrics]
    heads = [escape_latex(table.columns[i].titles[1]) for i in shown]
    lines = [
        f"\\begin{{tabular}}{{l{'r' * len(shown)}}}",
        "\\toprule",
        f" & {' & '.join(tops)} \\\\",
        " ".join(rules),
        f" & {' & '.join(heads)} \\\\",
        "\\midrule",
    ]
    rows = zip(table.rows, table.list_texts(), _find_sections(table), strict=True)
    for row, (_, *texts), ends in rows:
        shade = "\\rowcolor[gray]{0.93} " if row.method.calibrated else ""
        cells = " & ".join(_format_latex_cell(texts[i]) for i in shown)
        lines.append(f"{shade}{escape_latex(row.title)} & {cells} \\\\")
        if ends:
            lines.append("\\midrule")
    return [*lines, "\\bottomrule", "\\end{tabular}"]


def _make_tex_title(table: ResultTable) -> str:
    """Return the title of the problem, with the dataset as the paper writes it."""
    name = table.problem.dataset
    return DATASET_TITLES.get(name, name) + table.title.removeprefix(name)


def _name_methods(text: str, table: ResultTable) -> str:
    """Return text with the titles of the table's methods instead of their names."""
    titles = {row.method.label: row.title for row in table.rows}
    longest = sorted(map(re.escape, titles), key=len, reverse=True)
    pattern = rf"(?<![\w@-])(?:{'|'.join(longest)})(?![\w@-])"
    return re.sub(pattern, lambda found: titles[found[0]], text) if titles else text


def escape_latex(text: str) -> str:
    """Return text that LaTeX prints as it is; control characters are left out."""
    letters = [letter for letter in " ".join(text.split()) if letter.isprintable()]
    return "".join(TEX_CHARACTERS.get(letter, letter) for letter in letters)


def _format_latex_cell(text: str) -> str:
    """Return the mean, bold if best, and its error in small type: nine such columns fit a page."""
    mean, _, error = text.partition(" ± ")
    mean = f"\\textbf{{{mean}}}" if isinstance(text, Bold) else escape_latex(mean)
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
CSV_CELL = ("text", "mean", "error", "error_kind", "std_population", "std_sample", "stderr_sample")


def to_csv(tables: Sequence[ResultTable], path: str | Path | None = None) -> str:
    """Return tidy CSV, one line per problem, algorithm, metric and criterion; also write it."""
    frames = [table.to_frame().assign(error_kind=table.error) for table in tables]
    columns = [*PROBLEM_COLUMNS, *CSV_METHOD, "metric", "criterion", *CSV_CELL, "n", "best"]
    return save_csv(frames, columns, path)


def save_csv(
    frames: Sequence[DataFrame], columns: Sequence[str], path: str | Path | None = None
) -> str:
    """Return frames as CSV; also write it to ``path`` if it is given."""
    import pandas

    frame = pandas.concat(frames) if frames else pandas.DataFrame(columns=list(columns))
    safe = frame[list(columns)].map(escape_cell)
    if "text" in columns:
        safe["text"] = frame["text"]  # two dashes are no formula
    for name in safe.columns[frame[list(columns)].dtypes == "bool"]:
        safe[name] = frame[name].astype(int)
    return save_text(safe.to_csv(index=False, lineterminator="\n"), path)


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
NUMBER_FORMATS = {"rank": ".2f", "whole": ".0f", "share": ".1%", "probability": ".2f"}
PAIR_STATISTICS = ("wins", "ties", "losses")
MEANINGS = {
    "elo": "Elo: rating from battles of splits; {origin}.",
    "gap-closed": "gap closed: share of the way from the best naive baseline to the oracle.",
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
    from rich.text import Text

    console = console or open_console()
    for item in everything:
        console.print(Text(item.title, style="bold"))
        console.print(Text(" ".join(filter(None, [item.verdict, item.naive]))), end="\n\n")
        for grid in arrange_statistics(item):
            grid.to_terminal(console)
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
    if form in NUMBER_FORMATS:
        return f"{value:{NUMBER_FORMATS[form]}}"
    return format_number(value, metric.decimals, sign=form == "difference")


def _format_range(low: float, high: float, form: str, metric: Metric) -> str:
    if math.isnan(low):
        return "--"
    if form == "place":
        return format_places(low, high)
    spec = NUMBER_FORMATS.get(form, f".{metric.decimals}f")
    return f"{low:{spec}} to {high:{spec}}"


def _format_p(value: float) -> str:
    return "< 0.0001" if value < 1e-4 else f"{value:.2g}"
