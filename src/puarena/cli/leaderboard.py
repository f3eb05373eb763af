"""Commands about published results: publish, submit, reproduce, site."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from puarena.cli import options as opt
from puarena.cli.experiments import INTERRUPTED, make_progress
from puarena.cli.output import App, emit, log

if TYPE_CHECKING:
    from puarena.leaderboard.reproduce import Reproduction

SITE = Path("site/leaderboard")

app = App()


@app.command()
def publish(
    ctx: typer.Context,
    folder: opt.Folder,
    out: Annotated[
        Path,
        typer.Option(
            metavar="DIR", parser=opt.parse_folder, help="the folder of published results"
        ),
    ] = Path("results"),
    name: Annotated[
        str | None,
        typer.Option(
            "--name",
            metavar="NAME",
            help="default: SUITE-PROFILE, with -authors for their optimizers",
        ),
    ] = None,
    commit: Annotated[str, typer.Option(metavar="HASH", help="the commit that ran it")] = "",
    machine: Annotated[str, typer.Option(metavar="TEXT", help="the machine that ran it")] = "",
    wall: Annotated[
        float | None, typer.Option(metavar="SECONDS", min=0, help="how long it took")
    ] = None,
    partial: Annotated[
        bool, typer.Option("--partial", help="accept incomplete results; the card says so")
    ] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="change numbers that are already published")
    ] = False,
    question: Annotated[
        str, typer.Option(metavar="TEXT", help="what the results answer, for the front page")
    ] = "",
) -> None:
    """Write a summary, a CSV with the paper's columns and a card, to be published."""
    from puarena.leaderboard.publish import MAX_PUBLISHED_BYTES
    from puarena.leaderboard.publish import publish as write

    done = write(folder, out, name, commit, machine, wall, partial, replace, question)
    lines = [f"wrote {file} ({file.stat().st_size / 1e3:,.0f} kB)" for file in done.files]
    lines.append(done.status.line)
    if done.departs:
        departures = "; ".join(done.departs)
        lines.append(f"card, tables and leaderboard list what differs from the suite: {departures}")
    answer = {"files": done.files, "counts": done.status.counts, "departs": done.departs}
    emit(ctx, answer, "\n".join(lines))
    if done.shelf_bytes > MAX_PUBLISHED_BYTES:
        sizes = [number / 1e6 for number in (done.shelf_bytes, MAX_PUBLISHED_BYTES)]
        log.warning(f"warning: {out} has {sizes[0]:.1f} MB; the package takes {sizes[1]:g} MB")


@app.command()
def submit(
    ctx: typer.Context,
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="the results folder of a suite with your method")
    ],
    name: Annotated[str, typer.Option(metavar="TEXT", help="what to call it")],
    code: Annotated[str, typer.Option(metavar="URL", help="where the method's code can be read")],
    author: Annotated[str, typer.Option(metavar="TEXT", help="who made it")] = "",
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", parser=opt.parse_folder, help="the folder to write"),
    ] = None,
) -> None:
    """Check results and pack them for a pull request to results/community; nothing is sent."""
    from puarena.leaderboard.submit import submit as pack

    packed = pack(folder, name, code, out, lambda text: log.info(f"ok: {text}"), author)
    emit(ctx, packed, packed.instructions)


@app.command()
def reproduce(
    ctx: typer.Context,
    source: opt.Folder,
    row: Annotated[str, typer.Argument(metavar="ALGORITHM", help="a row of its tables")],
    dataset: Annotated[
        Sequence[str] | None,
        typer.Option(
            "--dataset", metavar="A,B", parser=opt.parse_names, help="only these datasets"
        ),
    ] = None,
    case: Annotated[
        Sequence[int] | None,
        typer.Option("--case", metavar="1,2", parser=opt.parse_integers, help="only these cases"),
    ] = None,
    split: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="only this split, counted from 0")
    ] = None,
    plugin: opt.Plugins = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", parser=opt.parse_folder, help="keep the new results here"),
    ] = None,
    device: opt.Device = "auto",
    data: opt.Data = None,
    workers: opt.Workers = None,
) -> None:
    """Run one row of published results again and compare the numbers.

    The exit code is 1 if they differ.
    """
    from puarena.leaderboard.reproduce import reproduce as run_again

    try:
        done = run_again(
            source,
            row,
            dataset,
            case,
            split,
            plugins=[str(path) for path in plugin or ()],
            out=out,
            progress=make_progress(ctx),
            device=device,
            data=data,
            workers=workers,
        )
    except KeyboardInterrupt as interrupt:
        if out is not None:
            raise
        log.error("interrupted, and nothing is kept; with --out DIR, the same command continues")
        raise typer.Exit(getattr(interrupt, "code", INTERRUPTED)) from None
    cells, lines = _describe_cells(done)
    answer = {"same": done.same, "verdict": done.verdict, "cells": cells}
    emit(ctx, answer, "\n".join([*lines, done.verdict]))
    raise typer.Exit(0 if done.same else 1)


def _describe_cells(done: Reproduction) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the compared numbers as rows for JSON, and as lines of text."""
    from puarena.metrics import CRITERIA, METRICS

    rows, lines = [], []
    for (problem, metric, criterion), line in done.cells.items():
        rows.append(
            {
                "problem": problem.label(),
                "metric": metric,
                "criterion": criterion,
                "published": line.published,
                "now": line.ours,
                "agrees": line.agrees,
            }
        )
        outside = "" if line.agrees else "  OUTSIDE"
        lines.append(
            f"{problem.label()}: {METRICS[metric].title} by {CRITERIA[criterion].title}: published "
            f"{line.published:.2f}, now {line.ours:.2f} ({line.difference:+.2f}){outside}"
        )
    return rows, lines


@app.command()
def site(
    ctx: typer.Context,
    results: Annotated[
        Path, typer.Argument(metavar="DIR", help="the folder of published results")
    ] = Path("results"),
    out: Annotated[
        Path,
        typer.Option(metavar="DIR", parser=opt.parse_folder, help="where to write the site"),
    ] = SITE,
) -> None:
    """Build the leaderboards of all published results as static files."""
    from puarena.leaderboard.site import build

    pages = [f"{out / board.place}.html" for board in build(results, out, say=log.info)]
    emit(ctx, {"pages": pages}, "\n".join(f"wrote {page} and .csv" for page in pages))
