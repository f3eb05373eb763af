"""Commands that read results: report, stats, compare, figures, merge, export."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from puarena.cli import options as opt
from puarena.cli.output import App, emit, log, print_text
from puarena.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

    from puarena.report.sources import CurveTable

app = App()


@app.command()
def report(
    ctx: typer.Context,
    folders: opt.Folders,
    markdown: opt.Markdown = None,
    latex: Annotated[
        Path | None, typer.Option(metavar="F", parser=opt.parse_file, help="write LaTeX tables")
    ] = None,
    csv: opt.Csv = None,
    html: Annotated[
        Path | None, typer.Option(metavar="F", parser=opt.parse_file, help="write the page")
    ] = None,
    metric: opt.Metrics = None,
    criterion: opt.Criteria = None,
    error: Annotated[
        Literal["stderr", "stderr-sample", "std"],
        typer.Option(help="what stands after the ±; the paper's is stderr"),
    ] = "stderr",
    algorithms: opt.Algorithms = None,
    datasets: opt.ShownDatasets = None,
    cases: opt.Cases = None,
    settings: opt.Settings = None,
    rates: opt.Rates = None,
    others: opt.With = None,
) -> None:
    """Choose models by the stored curves and print the tables, in the order of the options."""
    from puarena import report as reports
    from puarena.report import compare as comparing
    from puarena.report.tables import keep

    opt.check_outputs((markdown, latex, csv, html), folders)
    with_paper = comparing.PAPER in (others or ())
    curves = _open(folders, [name for name in others or () if name != comparing.PAPER])
    choice: dict[str, Any] = {
        "metrics": metric,
        "criteria": criterion,
        "error": error,
        "algorithms": algorithms,
        "selection": reports.select(curves, curves.criteria(criterion)),
    }
    tables = keep(reports.table(curves, **choice), datasets, cases, settings, rates)
    if with_paper:
        tables = comparing.add_paper_rows(tables, others=algorithms is None)
    cells = [{"title": one.title, "cells": one.to_frame().to_dict("records")} for one in tables]
    missing = [*reports.describe_missing_runs(curves), *reports.describe_untrained_runs(curves)]
    _log_missing(ctx, missing)
    emit(ctx, cells, lambda console: _print(console, missing, reports.to_terminal, tables))
    renderers = (
        (markdown, reports.to_markdown),
        (latex, reports.to_latex),
        (csv, reports.to_csv),
    )
    for path, render in renderers:
        if path is not None:
            render(tables, path)
    if html is not None:
        reports.write_page(curves, html, **choice)
    _log_written((markdown, latex, csv, html))


@app.command()
def stats(
    ctx: typer.Context,
    folders: opt.Folders,
    metric: opt.Metrics = None,
    criterion: opt.Criteria = None,
    over: Annotated[
        Literal["problems", "splits"], typer.Option(help="what counts as one result")
    ] = "problems",
    algorithms: opt.Algorithms = None,
    reference: Annotated[
        str | None,
        typer.Option(
            "--against", "--reference", metavar="A", help="compare only with this algorithm"
        ),
    ] = None,
    rope: Annotated[
        float | None,
        typer.Option(metavar="X", help="smaller differences count as none (default: one point)"),
    ] = None,
    others: opt.With = None,
) -> None:
    """Rank the algorithms and test their differences: Elo, gap closed, intervals, each with n."""
    from puarena.report import describe_missing_runs
    from puarena.report.render import show_statistics
    from puarena.report.statistics import summarize

    curves = _open(folders, others)
    results = summarize(curves, metric, criterion, over, algorithms, reference, rope=rope)
    missing = describe_missing_runs(curves)
    _log_missing(ctx, missing)
    answer = [item.to_dict() for item in results]
    emit(ctx, answer, lambda console: _print(console, missing, show_statistics, results))


@app.command()
def compare(
    ctx: typer.Context,
    folder: opt.Folder,
    published: Annotated[
        Path | None,
        typer.Option(metavar="F", help="a CSV of published numbers (default: the paper's)"),
    ] = None,
    markdown: opt.Markdown = None,
    csv: opt.Csv = None,
    metric: opt.Metrics = None,
    criterion: opt.Criteria = None,
) -> None:
    """Compare the results with published numbers, and the ranking of the algorithms."""
    from puarena.report import compare as comparing
    from puarena.report import describe_missing_runs

    opt.check_outputs((markdown, csv), [folder, published])
    curves = _open([folder])
    comparisons = comparing.compare(curves, published, metric, criterion)
    agreement = comparing.count_agreement(comparisons)
    missing = describe_missing_runs(curves)
    _log_missing(ctx, missing)
    listed = []
    for item in comparisons:
        listed.append(asdict(item) | {"title": item.title, "verdict": item.verdict})
    outside = list(agreement.outside)
    answer = {"comparisons": listed, "verdict": agreement.verdict, "outside": outside}

    def view(console: Console) -> None:
        _print(console, missing, comparing.show_comparison, comparisons)
        if agreement.n:
            print_text(agreement.verdict)
        for cell in outside:
            print_text(f"  outside: {cell}")

    emit(ctx, answer, view)
    if markdown is not None:
        comparing.comparison_to_markdown(comparisons, markdown)
    if csv is not None:
        comparing.comparison_to_csv(comparisons, csv)
    _log_written((markdown, csv))


@app.command()
def figures(
    ctx: typer.Context,
    folder: opt.Folder,
    out: Annotated[
        Path, typer.Option(metavar="DIR", parser=opt.parse_folder, help="where the files go")
    ],
    format: Annotated[
        Sequence[str] | None,
        typer.Option(metavar="svg,pdf,png", parser=opt.parse_names, help="kinds of files"),
    ] = None,
    only: Annotated[
        Sequence[str] | None,
        typer.Option(metavar="A,B", parser=opt.parse_names, help="only these figures"),
    ] = None,
    metric: opt.Metrics = None,
    criterion: opt.Criteria = None,
) -> None:
    """Draw the figures of a results folder as files."""
    from puarena.report.figures import save_figures

    files, missing = save_figures(folder, out, format or ["svg"], metric, criterion, only)
    for name, reason in missing.items():
        log.info(f"left out {name}: {reason}")
    _log_written(files)
    emit(ctx, {"files": files, "left_out": missing}, None)


@app.command()
def merge(
    ctx: typer.Context,
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR DIR...", help="results folders or summaries")
    ],
    out: Annotated[
        Path, typer.Option(metavar="DIR", parser=opt.parse_folder, help="the new results folder")
    ],
    overlap: Annotated[
        Literal["refuse", "first"],
        typer.Option(help="when two folders have different results of one run"),
    ] = "refuse",
    tolerance: Annotated[
        float,
        typer.Option(metavar="X", min=0, help="how far two results of one run may be apart"),
    ] = 1e-6,
) -> None:
    """Join the results folders of several people or machines."""
    from puarena.results.combine import merge as join

    done = join(folders, out, overlap, tolerance)
    counts = zip(folders, done.counts, strict=True)
    parts = ", ".join(f"{count:,} from {folder}" for folder, count in counts)
    text = f"{out}: {done.runs:,} runs ({parts}; {done.shared:,} were in several"
    if done.shared and overlap == "refuse":
        text += f", the same within {done.tolerance:g} (at most {done.difference:.2g} apart)"
    emit(ctx, done, f"{text})")


@app.command()
def export(
    ctx: typer.Context,
    folder: opt.Folder,
    out: Annotated[
        Path,
        typer.Option(metavar="F", parser=opt.parse_file, help="the summary, a Parquet file"),
    ],
) -> None:
    """Write a small summary that can be published and is read like a results folder."""
    from puarena.report.export import export as write

    if out.suffix.lower() != ".parquet":
        message = f"a summary is a Parquet file; give --out a name ending in .parquet, not '{out}'"
        raise UserError(message, "wrong-format")
    opt.check_outputs([out], [folder])
    counts = write(folder, out)
    size = out.stat().st_size
    text = (
        f"{out}: {counts['runs']:,} runs, {counts['records']:,} of {counts['of']:,} records, "
        f"{size / 1e6:.2f} MB"
    )
    emit(ctx, {"out": out, **counts, "bytes": size}, text)


def _open(folders: list[Path], others: list[str] | None = None) -> CurveTable:
    """Open results, also with those of others; differences are logged."""
    from puarena.report.sources import open_curves
    from puarena.results import open_results
    from puarena.results.combine import BY_METHOD

    results = open_results(folders)
    if not others:
        return open_curves(results)
    curves = open_curves(open_results([results, *others], BY_METHOD))
    for note in curves.notes:
        log.info(f"note: {note}")
    return curves


def _log_missing(ctx: typer.Context, missing: list[str]) -> None:
    """Log what is missing, failed or diverged if JSON has no place for it."""
    if ctx.obj.json:
        for sentence in missing:
            log.info(sentence)


def _print(console: Console, missing: list[str], show: Any, results: Any) -> None:
    """Print what is missing, failed or diverged, and then the results."""
    for sentence in missing:
        print_text(sentence)
    if missing:
        print_text("")
    show(results, console)


def _log_written(files: Iterable[Path | None]) -> None:
    for file in files:
        if file is not None:
            log.info(f"wrote {file}")
