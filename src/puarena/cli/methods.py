"""Commands about what there is: list, explain, check."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

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


Rows = list[dict[str, Any]]
DATASET_FIELDS = (
    "name",
    "title",
    "description",
    "kind",
    "examples",
    "size",
    "network",
    "license",
    "citation",
)


@dataclass(frozen=True)
class Listing:
    """One kind of thing that can be listed: its rows, and the columns for the terminal."""

    read: Callable[[], Rows]
    columns: tuple[str, ...]


def list_algorithms() -> Rows:
    """Return every registered method."""
    from puarena import catalog

    rows = []
    for entry in catalog.get_all().values():
        years = re.findall(r"\b(?:19|20)\d\d\b", entry.paper)
        rows.append(entry.to_json() | {"year": years[-1] if years else ""})
    return rows


def list_datasets() -> Rows:
    """Return every built-in dataset."""
    from puarena import datasets

    rows = []
    for info in map(datasets.info, datasets.names()):
        row = {name: getattr(info, name) for name in DATASET_FIELDS}
        row |= {"shape": list(info.shape), "classes": info.class_count}
        known = info.default_prior == info.default_prior  # NaN: not known
        row |= {"cases": {}, "prior": info.default_prior if known else None}
        row["labels"] = "observed" if info.observed_setting else "simulated"
        for case, positive in info.cases.items():
            row["cases"][str(case)] = [info.class_names[index] for index in positive]
        rows.append(row)
    return rows


def list_criteria() -> Rows:
    """Return every criterion of model selection."""
    from puarena.metrics import CRITERIA

    return [
        {"name": c.name, "title": c.title, "meaning": c.meaning, "needs_true_labels": c.oracle}
        for c in CRITERIA.values()
    ]


def list_networks() -> Rows:
    """Return every network."""
    from puarena.networks import get, names

    return [
        {"name": cls.name, "family": cls.family, "needs_images": cls.images, "meaning": cls.meaning}
        for cls in map(get, names())
    ]


def list_suites() -> Rows:
    """Return every named experiment."""
    from puarena.experiments import suites

    fields = ("name", "title", "description")
    return [{name: getattr(suite, name) for name in fields} for suite in suites.SUITES]


def list_engines() -> Rows:
    """Return every executor."""
    from puarena.experiments import executors

    rows = []
    for name, kind in executors.executor_types().items():
        meaning = (inspect.getdoc(kind) or "").partition("\n")[0]
        rows.append({"name": name, "devices": list(kind.devices), "meaning": meaning})
    return rows


def list_mechanisms() -> Rows:
    """Return every labeling mechanism."""
    from puarena.pu import labeling

    rows = []
    for mechanism in map(labeling.get_mechanism, labeling.list_mechanisms()):
        names = {"name": mechanism.text, "aliases": list(mechanism.aliases)}
        rows.append(names | {"meaning": mechanism.meaning})
    return rows


LISTINGS = {
    "algorithms": Listing(list_algorithms, ("name", "setting", "needs_prior", "year")),
    "datasets": Listing(
        list_datasets, ("name", "examples", "classes", "labels", "network", "description")
    ),
    "criteria": Listing(list_criteria, ("name", "needs_true_labels", "meaning")),
    "networks": Listing(list_networks, ("name", "needs_images", "meaning")),
    "suites": Listing(list_suites, ("name", "description")),
    "engines": Listing(list_engines, ("name", "devices", "meaning")),
    "mechanisms": Listing(list_mechanisms, ("name", "aliases", "meaning")),
}
