"""Commands about the class prior: priors estimate, priors bench."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from puarena.cli import options as opt
from puarena.cli import tables
from puarena.cli.manners import App, answer, say
from puarena.cli.options import many
from puarena.errors import UserError, unknown_name

priors_app = App(
    help="Estimate the class prior, and see how well that works.",
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
    setting = labeling.get(setting).title
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
            raise UserError(tables.sentence(error)) from None
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


@priors_app.command("bench")
def bench(
    datasets: Annotated[
        str, typer.Option(metavar="A,B", help="datasets, or real tables as in 'practice bench'")
    ] = "digits",
    priors: Annotated[
        str, typer.Option(metavar="0.2,...", help="true class priors")
    ] = "0.2,0.4,0.6,0.8",
    methods: Annotated[
        str | None, typer.Option(metavar="A,B", help="methods (default: all)")
    ] = None,
    settings: opt.Settings = "one-sample",
    trials: Annotated[int, typer.Option(metavar="N", help="data draws per problem")] = 1,
    frequencies: Annotated[
        str, typer.Option(metavar="0.1,...", help="of real tables: label frequencies, biased, 20")
    ] = "0.1,0.3,0.5,20",
    data: opt.Data = None,
    as_json: opt.AsJson = False,
) -> None:
    """Compare the methods where the true prior is known: mean absolute error, and how often the interval covers."""
    from puarena.priors import bench as room

    values = many(priors, "priors", float)
    if wrong := [value for value in values or () if not 0 < value < 1]:
        raise UserError(f"a class prior lies strictly between 0 and 1, and {wrong[0]:g} does not")
    names, kinds = many(datasets, "datasets", str), many(settings, "settings", str)
    rows = []
    for row in room.measure(
        names or (),
        values or (),
        many(methods, "methods", str),
        kinds or (),
        trials,
        data,
        labelings=many(frequencies, "frequencies", str) or (),
    ):
        rows.append(row)
        say(f"{row['dataset']} {row['setting']} {row['at']} {row['method']}: {row['estimate']:.3f}")
    errors = room.table(rows)
    if as_json:
        answer({"errors": errors, "estimates": rows})
        return
    shown = list(dict.fromkeys(at for line in errors for at in line["errors"]))
    head = "".join(f"{f'at {at}':>9}" for at in shown)
    titles = f"{'dataset':<14}{'setting':<12}{'method':<12}{head}{'mean':>9}{'covered':>9}"
    typer.echo(
        f"{titles}   mean absolute error of the prior, at true priors (of real tables: label frequencies)"
    )
    for line in errors:
        cells = "".join(
            f"{line['errors'][at]:>9.3f}" if at in line["errors"] else f"{'':>9}" for at in shown
        )
        covered = "" if line["covered"] is None else f"{line['covered']:.2f}"
        words = f"{line['dataset']:<14}{line['setting']:<12}{line['method']:<12}"
        typer.echo(f"{words}{cells}{line['mean']:>9.3f}{covered:>9}")


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.add_typer(priors_app, name="priors")
