"""Commands about published results: publish, submit, reproduce, site."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from puarena.cli import options as opt
from puarena.cli.manners import answer, manners, say


def publish(
    folder: opt.Folder,
    out: Annotated[Path, typer.Option(metavar="DIR", help="where published results lie")] = Path(
        "results"
    ),
    name: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="default: SUITE-PROFILE, with -authors for their optimizers"
        ),
    ] = None,
    commit: Annotated[str, typer.Option(metavar="HASH", help="the commit that ran it")] = "",
    machine: Annotated[str, typer.Option(metavar="TEXT", help="the machine that ran it")] = "",
    wall: Annotated[
        float | None, typer.Option(metavar="SECONDS", min=0, help="how long it took")
    ] = None,
    partial: Annotated[
        bool, typer.Option("--partial", help="accept incomplete results; what is missing is named")
    ] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="change numbers that are already published")
    ] = False,
) -> None:
    """Write a summary, a CSV in the paper's columns and a card of what made them, to be published."""
    from puarena.leaderboard.publish import LIMIT
    from puarena.leaderboard.publish import publish as write

    done = write(folder, out, name, commit, machine, wall, partial, replace)
    for file in done.files:
        typer.echo(f"wrote {file} ({file.stat().st_size / 1e3:,.0f} kB)")
    typer.echo(done.standing.line)
    if done.departs:
        typer.echo(
            f"its card, tables and leaderboard say: not the suite as it stands: {'; '.join(done.departs)}"
        )
    if done.shelf_size > LIMIT:
        size = f"{done.shelf_size / 1e6:.1f} MB"
        say(f"warning: {out} has {size}, and the package takes {LIMIT / 1e6:g} MB of them")


def submit(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="the results folder of a suite with your method")
    ],
    name: Annotated[str, typer.Option(metavar="TEXT", help="what to call it")],
    code: Annotated[str, typer.Option(metavar="URL", help="where the method's code can be read")],
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="the folder to write")] = None,
) -> None:
    """Check results and pack them for a pull request to results/community; nothing is sent."""
    from puarena.leaderboard.submit import submit as pack

    typer.echo(pack(folder, name, code, out, say=lambda text: say(f"ok: {text}")).what_to_do)


def reproduce(
    source: opt.Folder,
    row: Annotated[str, typer.Argument(metavar="ALGORITHM", help="a row of its tables")],
    dataset: Annotated[
        str | None, typer.Option("--dataset", metavar="A,B", help="only these datasets")
    ] = None,
    case: Annotated[
        str | None, typer.Option("--case", metavar="1,2", help="only these cases")
    ] = None,
    split: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="only this split, counted from 0")
    ] = None,
    plugin: opt.Plugins = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="keep the new results here")
    ] = None,
    device: opt.Device = "auto",
    data: opt.Data = None,
    workers: opt.Workers = None,
    as_json: opt.AsJson = False,
) -> None:
    """Run one row of published results again and say whether it came out the same (exit code 1 if not)."""
    from puarena.experiments.progress import for_terminal
    from puarena.leaderboard.reproduce import reproduce as again
    from puarena.metrics import CRITERIA, METRICS

    which = opt.many(dataset, "dataset", str), opt.many(case, "case", int), split
    files = [str(path) for path in plugin or ()]
    how: dict[str, Any] = {"device": device, "data": data, "workers": workers}
    live = None if manners.quiet else for_terminal(thorough=manners.verbose)
    done = again(source, row, *which, plugins=files, out=out, progress=live, **how)
    if as_json:
        cells = [
            {
                "problem": problem.label(),
                "metric": metric,
                "criterion": criterion,
                "published": line.published,
                "now": line.ours,
                "agrees": line.agrees,
            }
            for (problem, metric, criterion), line in done.cells.items()
        ]
        answer({"same": done.same, "verdict": done.verdict, "cells": cells})
        raise typer.Exit(0 if done.same else 1)
    for (problem, metric, criterion), line in done.cells.items():
        what = f"{problem.label()}: {METRICS[metric].title} by {CRITERIA[criterion].title}"
        apart = "" if line.agrees else "  OUTSIDE"
        typer.echo(
            f"{what}: published {line.published:.2f}, now {line.ours:.2f} ({line.difference:+.2f}){apart}"
        )
    typer.echo(done.verdict)
    raise typer.Exit(0 if done.same else 1)


def site(
    results: Annotated[
        Path, typer.Argument(metavar="DIR", help="the folder of published results")
    ] = Path("results"),
    out: Annotated[Path, typer.Option(metavar="DIR", help="where to write the site")] = Path(
        "site/leaderboard"
    ),
) -> None:
    """Build the leaderboards of all published results as static files."""
    from puarena.leaderboard.site import build

    for board in build(results, out, say=say):
        typer.echo(f"wrote {out / board.place}.html and .csv")


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    for command in (publish, submit, reproduce, site):
        app.command()(command)
