"""Reports: model selection over the stored curves, tables, statistics, figures and the page."""

from puarena.report.completeness import describe_missing_runs, describe_untrained_runs
from puarena.report.page import write_page
from puarena.report.render import to_csv, to_latex, to_markdown, to_terminal
from puarena.report.select import aggregate, select
from puarena.report.sources import load
from puarena.report.tables import ResultTable, table

__all__ = [
    "ResultTable",
    "aggregate",
    "describe_missing_runs",
    "describe_untrained_runs",
    "load",
    "select",
    "table",
    "to_csv",
    "to_latex",
    "to_markdown",
    "to_terminal",
    "write_page",
]
