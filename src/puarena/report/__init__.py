"""The report: model selection over the stored curves, tables in the paper's layout, figures, and one page to read."""

from puarena.report.completeness import completeness
from puarena.report.page import write_page
from puarena.report.render import to_csv, to_latex, to_markdown, to_terminal
from puarena.report.select import aggregate, select
from puarena.report.sources import load
from puarena.report.table import Table, table

__all__ = [
    "Table",
    "aggregate",
    "completeness",
    "load",
    "select",
    "table",
    "to_csv",
    "to_latex",
    "to_markdown",
    "to_terminal",
    "write_page",
]
