"""Commands about what there is: list, explain, check."""

from __future__ import annotations

from typing import Annotated

import typer

from puarena.cli import options as opt
from puarena.cli.output import App, emit, log
from puarena.errors import UserError, unknown_name

app = App()


@app.command("list")
def list_(
    ctx: typer.Context,
    what: Annotated[
        str,
        typer.Argument(metavar="algorithms|datasets|criteria|networks|suites|engines|mechanisms"),
    ],
) -> None:
    """List what there is."""
    from puarena.cli.listing import LISTINGS

    if what not in LISTINGS:
        raise unknown_name("list", what, LISTINGS)
    listing = LISTINGS[what]
    headings = {
        column: column.removeprefix("needs_").replace("_", " ") for column in listing.columns
    }
    emit(ctx, listing.read(), headings)
    if what == "algorithms" and not ctx.obj.json:
        log.info("'puarena explain NAME' describes one; --json prints everything")


@app.command()
def explain(
    ctx: typer.Context,
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="an algorithm; see 'list algorithms'",
            autocompletion=opt.complete_names(opt.list_algorithms),
        ),
    ],
    plugin: opt.Plugins = None,
) -> None:
    """Print an algorithm's objective, hyperparameters and differences from published code."""
    from puarena import catalog

    opt.load_plugins(plugin)
    info = catalog.get(name)
    emit(ctx, info.to_json(), catalog.explain(info))


@app.command()
def check(
    ctx: typer.Context,
    target: Annotated[
        str,
        typer.Argument(
            metavar="FILE|NAME", help="a Python file with algorithms, or a registered name"
        ),
    ],
    device: opt.Device = "cpu",
) -> None:
    """Check that an algorithm, or every one of a file, keeps the contract of the benchmark."""
    from puarena import catalog, plugins
    from puarena.experiments.machine import choose_device
    from puarena.testing import contract

    names = plugins.load(target) if target.endswith(".py") else [catalog.get(target).name]
    if not names:
        raise UserError(f"'{target}' defines no algorithm to check", "invalid-plugin")
    if catalog.get(names[0]).is_classic:
        message = f"'{target}' is fitted at once; the contract is for algorithms trained by steps"
        raise UserError(message, "not-supported")
    if target.endswith(".py"):
        contract.check_plugins(names)  # what cannot be trained at all is one error, as of 'run'
    checked = []
    seen: set[str] = set()
    for name, promise, problem in contract.check_all(names, choose_device(device)):
        checked.append({"algorithm": name, "promise": promise, "problem": problem})
        if problem is not None:
            log.error(f"{name}: BROKEN {promise}: {'as above' if problem in seen else problem}")
            seen.add(problem)
        elif not ctx.obj.json:
            log.info(f"{name}: ok     {promise}")
    broken = sum(each["problem"] is not None for each in checked)
    emit(ctx, checked, f"{len(checked) - broken} of {len(checked)} promises hold")
    if broken:
        raise UserError(f"{broken} promises of the contract do not hold", "invalid-plugin")
