"""The report: model selection over the stored curves, tables in the paper's layout, and one page to read."""

from puarena.report.page import write_page
from puarena.report.render import to_csv, to_latex, to_markdown, to_terminal
from puarena.report.select import CRITERIA, METRICS, aggregate, load, select
from puarena.report.table import Table, table

__all__ = [
    "CRITERIA",
    "METRICS",
    "Table",
    "aggregate",
    "load",
    "select",
    "table",
    "to_csv",
    "to_latex",
    "to_markdown",
    "to_terminal",
    "write_page",
]
