"""The command that draws the figures as files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from puarena.cli import options as opt
from puarena.cli.manners import say
from puarena.cli.options import many


def figures(
    folder: opt.Folder,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="where the files go")],
    format: Annotated[str, typer.Option(metavar="svg,pdf,png", help="kinds of files")] = "svg",
    metric: opt.Metrics = None,
    criterion: opt.Criteria = None,
) -> None:
    """Draw the figures of a results folder as files."""
    from puarena.report.figures import save_figures

    metrics, criteria = many(metric, "metric", str), many(criterion, "criterion", str)
    files, missing = save_figures(
        folder, out, many(format, "format", str) or ["svg"], metrics, criteria
    )
    for path in files:
        say(f"wrote {path}")
    for name, reason in missing.items():
        say(f"left out {name}: {reason}")


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command()(figures)
