"""Commands that read results: report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from puarena.cli import options as opt
from puarena.cli.options import many


def report(
    folder: opt.Folder,
    markdown: Annotated[Path | None, typer.Option(metavar="F", help="write a Markdown table")] = None,
    latex: Annotated[Path | None, typer.Option(metavar="F", help="write a LaTeX table")] = None,
    csv: Annotated[Path | None, typer.Option(metavar="F", help="write a CSV table")] = None,
    html: Annotated[Path | None, typer.Option(metavar="F", help="write the page")] = None,
    metric: Annotated[str | None, typer.Option(metavar="M,N", help="test metrics to show")] = None,
    criterion: Annotated[str | None, typer.Option(metavar="C,D", help="criteria that choose the models")] = None,
    error: Annotated[str, typer.Option(metavar="std|stderr", help="what stands after the ±")] = "stderr",
) -> None:
    """Choose models by the stored curves and print the table."""
    from puarena import report as reports

    metrics, criteria = many(metric, "metric", str), many(criterion, "criterion", str)
    spread: Any = error  # checked where the table is made
    table = reports.table(folder, metrics=metrics, criteria=criteria, error=spread)
    reports.to_terminal(table)
    for path, render in ((markdown, reports.to_markdown), (latex, reports.to_latex), (csv, reports.to_csv)):
        if path is not None:
            render(table, path)
    if html is not None:
        reports.write_page(folder, html, metrics=metrics, criteria=criteria, error=spread)
    for path in (markdown, latex, csv, html):
        if path is not None:
            typer.echo(f"wrote {path}", err=True)


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    for command in (report,):
        app.command()(command)
