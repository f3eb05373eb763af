"""Command about the class prior: priors estimate."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from puarena.cli import options as opt
from puarena.cli import tables
from puarena.cli.manners import App, answer, say
from puarena.errors import UserError, unknown_name

priors_app = App(
    help="Estimate the class prior.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
MANY, DEFAULT = "all", "saturation"


@priors_app.command("estimate")
def estimate(
    table: tables.Table,
    label: tables.Label,
    positive: tables.Positive = None,
    setting: tables.SettingName = "one-sample",
    features: tables.Features = None,
    drop: tables.Drop = None,
    method: Annotated[str, typer.Option(metavar="NAME|all", help="how to estimate it")] = DEFAULT,
    compare: Annotated[
        bool, typer.Option("--compare", help="run other methods too and warn if they disagree")
    ] = False,
    seed: Annotated[
        int, typer.Option("--seed", "--random-state", metavar="N", help="of folds and resamples")
    ] = 0,
    as_json: opt.AsJson = False,
) -> None:
    """Estimate the class prior of a table of positives and unlabeled rows."""
    import warnings

    from puarena.datasets.encoding import TableWarning
    from puarena.priors import METHODS, PriorWarning, estimate_prior, method_named
    from puarena.pu import labeling

    if method_named(method) not in (*METHODS, MANY):
        raise unknown_name("method", method, [*METHODS, MANY])
    setting = labeling.get_setting(setting).title
    if seed < 0:
        raise UserError(f"--seed is {seed}; give 0 or more")
    frame = tables.read_table(table)
    x = tables.read_features(frame, table, label, features, drop)
    marks = tables.read_marks(frame, table, label, positive)
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("ignore")
        for kind in (PriorWarning, TableWarning):
            warnings.simplefilter("always", kind)
        try:
            found = estimate_prior(x, marks == 1, setting, method, seed, compare=compare)
        except ValueError as error:
            raise UserError(tables.describe(error)) from None
    for warning in notes:
        say(f"note: {warning.message}")
    everything = {found.method: found, **found.details.get("others", {})}
    if as_json:
        answer({name: plain(each) for name, each in everything.items()})
        return
    where = "unlabeled rows" if found.details["setting"] == "ts" else "all rows"
    typer.echo(f"share of positives in {where}, and where it lies with 95% confidence")
    for name, each in everything.items():
        low, high = each.interval
        typer.echo(f"{name:<12}{each.value:.3f}  ({low:.3f} to {high:.3f})")


def plain(answer: Any) -> dict[str, Any]:
    """An estimate as plain data."""
    details = {key: value for key, value in answer.details.items() if key != "others"}
    return {
        "value": answer.value,
        "interval": list(answer.interval),
        "method": answer.method,
        **details,
    }


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.add_typer(priors_app, name="priors")
