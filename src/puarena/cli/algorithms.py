"""Commands about what there is: list, explain, check."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from puarena.cli import options as opt
from puarena.errors import UserError, unknown


def list_(
    what: Annotated[str, typer.Argument(metavar="algorithms|datasets|criteria|networks|suites|engines")],
    as_json: opt.AsJson = False,
) -> None:
    """List what there is."""
    from puarena.bench import listing

    if what not in listing.KINDS:
        raise unknown("list", what, listing.KINDS)
    if as_json:
        typer.echo(json.dumps(listing.KINDS[what](), indent=2))
    else:
        listing.show(what)


def explain(
    name: Annotated[str, typer.Argument(metavar="NAME", help="an algorithm; see 'list algorithms'")],
    plugin: opt.Plugins = None,
) -> None:
    """Print an algorithm's objective, hyperparameters and differences from the published code."""
    from puarena import catalogue, plugins
    from puarena.algorithms.core.describe import explain as text

    for path in plugin or ():
        plugins.load(path)
    typer.echo(text(catalogue.get(name)))


def check(
    target: Annotated[
        str, typer.Argument(metavar="FILE|NAME", help="a Python file with algorithms, or a registered name")
    ],
    device: opt.Device = "cpu",
) -> None:
    """Check that an algorithm, or each of a file with its calibrated form, keeps the contract of the benchmark."""
    from puarena import catalogue, contract, plugins
    from puarena.bench.device import choose_device

    names = plugins.load(target) if target.endswith(".py") else [catalogue.get(target).name]
    if not names:
        raise UserError(f"'{target}' defines no algorithm; there is nothing to check")
    if catalogue.get(names[0]).fits:
        raise UserError(f"'{target}' is fitted at once; the contract is about algorithms that are trained by steps")
    broken = 0
    for name, promise, problem in contract.check_all(names, choose_device(device)):
        broken += problem is not None
        typer.echo(f"{name}: {'ok    ' if problem is None else 'BROKEN'} {promise}{f': {problem}' if problem else ''}")
    if broken:
        raise UserError(f"{broken} promise(s) of the contract do not hold; see the lines marked BROKEN")


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.command("list")(list_)
    for command in (explain, check):
        app.command()(command)
