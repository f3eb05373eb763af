"""Commands about the class prior: priors estimate, priors bench."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from puarena.cli import options as opt
from puarena.cli.options import many
from puarena.errors import UserError, unknown

priors_app = typer.Typer(
    help="Estimate the class prior, and see how well that works.", no_args_is_help=True, rich_markup_mode=None
)
MANY = "all"


@priors_app.command("estimate")
def estimate(
    table: Annotated[Path, typer.Argument(metavar="CSV", help="a table with a header; numbers but for the label")],
    label: Annotated[str, typer.Option(metavar="COLUMN", help="the column that marks labeled positives")],
    positive: Annotated[str, typer.Option(metavar="VALUE", help="its value for a labeled positive")] = "1",
    setting: Annotated[str, typer.Option(metavar="os|ts", help="one sample, or two")] = "os",
    method: Annotated[str, typer.Option(metavar="NAME|all", help="how to estimate it")] = "bbe",
    compare: Annotated[bool, typer.Option("--compare", help="run other methods too and warn if they disagree")] = False,
    seed: Annotated[int, typer.Option(metavar="N", help="of folds and resamples")] = 0,
    as_json: opt.AsJson = False,
) -> None:
    """Estimate the class prior of a table of positives and unlabeled rows."""
    import warnings

    from puarena.priors import METHODS, PriorWarning, estimate_prior

    if method not in METHODS and method != MANY:
        raise unknown("method", method, [*METHODS, MANY])
    x, labeled = read(table, label, positive)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", PriorWarning)
        try:
            found = estimate_prior(x, labeled, setting, method, seed, compare=compare)
        except ValueError as error:
            raise UserError(str(error)) from None
    for warning in told:
        typer.echo(f"note: {warning.message}", err=True)
    everything = {found.method: found, **found.details.get("others", {})}
    if as_json:
        typer.echo(json.dumps({name: plain(each) for name, each in everything.items()}))
        return
    for name, each in everything.items():
        low, high = each.interval
        typer.echo(f"{name:<12}{each.value:.3f}  ({low:.3f} to {high:.3f})")


def plain(found: Any) -> dict[str, Any]:
    """An estimate as plain data."""
    details = {key: value for key, value in found.details.items() if key != "others"}
    return {"value": found.value, "interval": list(found.interval), "method": found.method, **details}


def read(table: Path, label: str, positive: str) -> tuple[Any, Any]:
    """The numbers of a CSV file, and which rows are labeled."""
    import pandas as pd

    try:
        frame = pd.read_csv(table)
    except FileNotFoundError:
        raise UserError(f"there is no table {table}") from None
    except (OSError, UnicodeDecodeError, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise UserError(f"the table {table} cannot be read: {' '.join(str(error).split())}") from None
    if label not in frame.columns:
        raise unknown("column", label, list(map(str, frame.columns)))
    marks = frame.pop(label)
    wordy = [str(name) for name in frame.columns if not pd.api.types.is_numeric_dtype(frame[name])]
    if wordy:
        raise UserError(f"column '{wordy[0]}' of {table} is not numeric; encode it as numbers or leave it out")
    if marks.isna().any():
        raise UserError(f"column '{label}' of {table} has missing values; use {positive} and another value")
    text = marks.astype(str).str.strip()
    number = pd.to_numeric(marks, errors="coerce") == pd.to_numeric(pd.Series([positive]), errors="coerce")[0]
    flags = (text.str.lower() == positive.lower()) | number
    if positive == "1":
        flags |= text.str.lower() == "true"
    return frame.to_numpy(float), flags.to_numpy(bool)


@priors_app.command("bench")
def bench(
    datasets: Annotated[str, typer.Option(metavar="A,B", help="datasets")] = "digits",
    priors: Annotated[str, typer.Option(metavar="0.2,...", help="true class priors")] = "0.2,0.4,0.6,0.8",
    methods: Annotated[str | None, typer.Option(metavar="A,B", help="methods; all unless told")] = None,
    settings: Annotated[str, typer.Option(metavar="os,ts", help="one sample, two samples")] = "os",
    trials: Annotated[int, typer.Option(metavar="N", help="data draws per problem")] = 1,
    data: opt.Data = None,
    as_json: opt.AsJson = False,
) -> None:
    """Compare the methods where the true prior is known: mean absolute error."""
    from puarena.priors import bench as room

    values = many(priors, "priors", float)
    names, kinds = many(datasets, "datasets", str), many(settings, "settings", str)
    rows = []
    for row in room.measure(names or (), values or (), many(methods, "methods", str), kinds or (), trials, data):
        rows.append(row)
        typer.echo(
            f"{row['dataset']} {row['setting']} {row['prior']:g} {row['method']}: {row['estimate']:.3f}", err=True
        )
    found = room.table(rows)
    if as_json:
        typer.echo(json.dumps({"errors": found, "estimates": rows}))
        return
    shown = list(dict.fromkeys(row["prior"] for row in rows))
    head = "".join(f"{f'at {prior:g}':>9}" for prior in shown)
    typer.echo(f"{'dataset':<12}{'setting':<9}{'method':<12}{head}{'mean':>9}   mean absolute error of the prior")
    for line in found:
        cells = "".join(f"{line['errors'][prior]:>9.3f}" for prior in shown)
        typer.echo(f"{line['dataset']:<12}{line['setting']:<9}{line['method']:<12}{cells}{line['mean']:>9.3f}")


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.add_typer(priors_app, name="priors")
