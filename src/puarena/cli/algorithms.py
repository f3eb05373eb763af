"""Commands about what there is: list, explain, check."""

from __future__ import annotations

from typing import Annotated

import typer

from puarena.cli import options as opt
from puarena.cli.manners import answer, manners
from puarena.errors import UserError, unknown_name


def list_(
    what: Annotated[
        str, typer.Argument(metavar="algorithms|datasets|criteria|networks|suites|engines")
    ],
    as_json: opt.AsJson = False,
) -> None:
    """List what there is."""
    from puarena.cli.listing import LISTINGS, print_listing

    if what not in LISTINGS:
        raise unknown_name("list", what, LISTINGS)
    if as_json:
        answer(LISTINGS[what].read())
        return
    print_listing(LISTINGS[what])
    if what == "algorithms" and not manners.quiet:
        typer.echo("'puarena explain NAME' says what one does; --json prints everything", err=True)


def explain(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="an algorithm; see 'list algorithms'")
    ],
    plugin: opt.Plugins = None,
    as_json: opt.AsJson = False,
) -> None:
    """Print an algorithm's objective, hyperparameters and differences from the published code."""
    from puarena import catalog, plugins

    for path in plugin or ():
        plugins.load(path)
    info = catalog.get(name)
    if as_json:
        answer(info.to_json())
    else:
        typer.echo(catalog.explain(info))


def check(
    target: Annotated[
        str,
        typer.Argument(
            metavar="FILE|NAME", help="a Python file with algorithms, or a registered name"
        ),
    ],
    device: opt.Device = "cpu",
    as_json: opt.AsJson = False,
) -> None:
    """Check that an algorithm, or each of a file with its calibrated form, keeps the contract of the benchmark."""
    from puarena import catalog, plugins
    from puarena.experiments.machine import choose_device
    from puarena.testing import contract

    names = plugins.load(target) if target.endswith(".py") else [catalog.get(target).name]
    if not names:
        raise UserError(f"'{target}' defines no algorithm; there is nothing to check")
    if catalog.get(names[0]).is_classic:
        raise UserError(
            f"'{target}' is fitted at once; the contract is about algorithms that are trained by steps"
        )
    broken, checked = 0, []
    for name, promise, problem in contract.check_all(names, choose_device(device)):
        broken += problem is not None
        checked.append({"algorithm": name, "promise": promise, "problem": problem})
        if as_json:
            continue
        typer.echo(
            f"{name}: {'ok    ' if problem is None else 'BROKEN'} {promise}{f': {problem}' if problem else ''}"
        )
    if as_json:
        answer(checked)
    if broken:
        raise UserError(
            f"{broken} promise(s) of the contract do not hold; see the lines marked BROKEN"
        )


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.command("list")(list_)
    for command in (explain, check):
        app.command()(command)
