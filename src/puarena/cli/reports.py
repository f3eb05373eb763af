"""Commands that read results: report, stats, compare, merge, export."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from puarena.cli import options as opt
from puarena.cli.manners import answer, say
from puarena.cli.options import many
from puarena.errors import UserError


def report(
    folder: opt.Folder,
    markdown: Annotated[
        Path | None, typer.Option(metavar="F", help="write a Markdown table")
    ] = None,
    latex: Annotated[Path | None, typer.Option(metavar="F", help="write a LaTeX table")] = None,
    csv: Annotated[Path | None, typer.Option(metavar="F", help="write a CSV table")] = None,
    html: Annotated[Path | None, typer.Option(metavar="F", help="write the page")] = None,
    metric: opt.Metrics = None,
    criterion: opt.Criteria = None,
    error: Annotated[
        str,
        typer.Option(
            metavar="stderr|stderr-sample|std",
            help="what stands after the ±; the paper's is stderr",
        ),
    ] = "stderr",
    algorithms: opt.Algorithms = None,
    datasets: opt.ShownDatasets = None,
    cases: opt.Cases = None,
    settings: opt.Settings = None,
    rates: opt.Rates = None,
    plugin: opt.Plugins = None,
    others: opt.With = None,
    as_json: opt.AsJson = False,
) -> None:
    """Choose models by the stored curves and print the tables; lists also give the order.

    With --plugin the page describes algorithms of your own in their own words.
    """
    opt.check_files(markdown, latex, csv, html, source=folder)
    from puarena import report as reports
    from puarena.report.tables import keep

    curves = _together(folder, others)
    metrics, criteria = many(metric, "metric", str), many(criterion, "criterion", str)
    names = many(algorithms, "algorithms", str)
    options: dict[str, Any] = {
        "metrics": metrics,
        "criteria": criteria,
        "error": error,
        "algorithms": names,
        "selection": reports.select(curves, curves.criteria(criteria)),
    }
    table = keep(
        reports.table(curves, **options),
        many(datasets, "datasets", str),
        many(cases, "cases", int),
        many(settings, "settings", str),
        many(rates, "rates", float),
    )
    if plugin:
        from puarena import plugins

        for file in plugin:
            plugins.load(file)
    say_incomplete(curves, err=as_json)
    if as_json:
        answer([{"title": one.title, "cells": one.to_frame().to_dict("records")} for one in table])
    else:
        reports.to_terminal(table)
    for path, render in (
        (markdown, reports.to_markdown),
        (latex, reports.to_latex),
        (csv, reports.to_csv),
    ):
        if path is not None:
            render(table, path)
    if html is not None:
        reports.write_page(curves, html, **options)
    for path in (markdown, latex, csv, html):
        if path is not None:
            say(f"wrote {path}")


def stats(
    folder: opt.Folder,
    metric: opt.Metrics = None,
    criterion: opt.Criteria = None,
    over: Annotated[
        str, typer.Option(metavar="problems|splits", help="what counts as one result")
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
        typer.Option(metavar="X", help="differences up to this count as none (default: one point)"),
    ] = None,
    others: opt.With = None,
    as_json: opt.AsJson = False,
) -> None:
    """Say who won and how sure that is: places and ties, Elo, gap closed, tests, each with its n."""
    from puarena.report.render import show_statistics
    from puarena.report.statistics import summarize

    metrics, criteria = many(metric, "metric", str), many(criterion, "criterion", str)
    names = many(algorithms, "algorithms", str)
    curves = _together(folder, others)
    everything = summarize(curves, metrics, criteria, over, names, reference, rope=rope)
    say_incomplete(curves, err=as_json)
    if as_json:
        answer([item.to_dict() for item in everything])
    else:
        show_statistics(everything)


def compare(
    folder: opt.Folder,
    published: Annotated[
        Path | None,
        typer.Option(
            metavar="F", help="a CSV of published numbers (default: the benchmark paper's)"
        ),
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option(metavar="F", help="write Markdown tables")
    ] = None,
    csv: Annotated[Path | None, typer.Option(metavar="F", help="write a CSV table")] = None,
    metric: opt.Metrics = None,
    criterion: opt.Criteria = None,
    as_json: opt.AsJson = False,
) -> None:
    """Put the results beside published numbers, and say whether the ranking agrees."""
    opt.check_files(markdown, csv, source=folder)
    opt.check_files(markdown, csv, source=published)
    from puarena.report import compare as comparing
    from puarena.report.sources import opened

    metrics, criteria = many(metric, "metric", str), many(criterion, "criterion", str)
    curves = opened(folder)
    comparisons = comparing.compare(curves, published, metrics, criteria)
    say_incomplete(curves, err=as_json)
    agreement = comparing.count_agreement(comparisons)
    if as_json:
        listed = [
            asdict(item) | {"title": item.title, "verdict": item.verdict} for item in comparisons
        ]
        outside = list(agreement.outside)
        answer({"comparisons": listed, "verdict": agreement.verdict, "outside": outside})
    else:
        comparing.show_comparison(comparisons)
        if agreement.n:
            typer.echo(agreement.verdict)
        for cell in agreement.outside:
            typer.echo(f"  outside: {cell}")
    for path, write in (
        (markdown, comparing.comparison_to_markdown),
        (csv, comparing.comparison_to_csv),
    ):
        if path is not None:
            write(comparisons, path)
            say(f"wrote {path}")


def merge(
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR DIR...", help="results folders or summaries")
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="the new results folder")],
    overlap: Annotated[
        str,
        typer.Option(
            metavar="refuse|first", help="when two folders have different results of one run"
        ),
    ] = "refuse",
    tolerance: Annotated[
        float,
        typer.Option(
            metavar="X", min=0, help="by how much two results of one run may differ to be the same"
        ),
    ] = 1e-6,
    as_json: opt.AsJson = False,
) -> None:
    """Join the results folders of several people or machines."""
    from puarena.experiments.joint_spec import unite
    from puarena.results.merge import merge as join

    done = join(folders, out, unite, overlap, tolerance)
    if as_json:
        answer(done)
        return
    parts = ", ".join(
        f"{count:,} from {folder}" for folder, count in zip(folders, done.counts, strict=True)
    )
    same = (
        f", the same within {done.tolerance:g} (at most {done.difference:.2g} apart)"
        if overlap == "refuse"
        else ""
    )
    typer.echo(
        f"{out}: {done.runs:,} runs ({parts}; {done.shared:,} were in several{same if done.shared else ''})"
    )


def export(
    folder: opt.Folder,
    out: Annotated[Path, typer.Option(metavar="F", help="the summary, a Parquet file")],
    as_json: opt.AsJson = False,
) -> None:
    """Make a small summary that can be published and is read like a results folder."""
    if out.suffix.lower() != ".parquet":
        raise UserError(
            f"a summary is a Parquet file, and --out is '{out}'; give a name that ends in .parquet"
        )
    opt.check_files(out, source=folder)
    from puarena.report.export import export as write

    counts = write(folder, out)
    if as_json:
        answer({"out": out, **counts, "bytes": out.stat().st_size})
        return
    size = out.stat().st_size / 1e6
    typer.echo(
        f"{out}: {counts['runs']:,} runs, {counts['records']:,} of {counts['of']:,} records, {size:.2f} MB"
    )


def say_incomplete(source: Any, err: bool = False) -> None:
    """Print which runs are missing, failed or diverged, if any."""
    from puarena.report import describe_missing_runs

    sentences = describe_missing_runs(source)
    for sentence in sentences:
        (say if err else typer.echo)(sentence)
    if sentences and not err:
        typer.echo()


def _together(folder: Path, others: list[str] | None) -> Any:
    """Open the results, also with those of others; print first what differs between them."""
    from puarena.report.sources import opened

    if not others:
        return opened(folder)
    from puarena.report.among_published import beside

    curves = beside(folder, others)
    for note in curves.notes:
        say(f"note: {note}")
    return curves


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    for command in (report, stats, compare, merge, export):
        app.command()(command)
