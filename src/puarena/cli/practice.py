"""Commands for a user's table: fit, predict."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from puarena.cli import options as opt
from puarena.cli import tables
from puarena.cli.manners import answer, manners, say
from puarena.cli.options import many
from puarena.errors import UserError

if TYPE_CHECKING:
    import pandas as pd


def fit(
    data: tables.Table,
    label: tables.Label,
    out: Annotated[Path, typer.Option(metavar="FILE", help="file for the fitted model")],
    algorithm: Annotated[
        str, typer.Option(metavar="A", help="auto, or a name of 'puarena list algorithms'")
    ] = "auto",
    prior: Annotated[
        str, typer.Option(metavar="P|estimate[:METHOD]", help="share of positives")
    ] = "estimate",
    setting: tables.SettingName = "one-sample",
    positive: tables.Positive = None,
    negative: tables.Negative = None,
    features: tables.Features = None,
    drop: tables.Drop = None,
    selection: Annotated[
        str, typer.Option(metavar="NAME", help="criterion that chooses: see 'list criteria'")
    ] = "pa",
    threshold: Annotated[str, typer.Option(metavar="model|pa", help="where to cut")] = "model",
    search: Annotated[
        int,
        typer.Option(
            "--search",
            "--n-iter",
            metavar="N",
            help="try N configurations of a network, keep the best",
        ),
    ] = 1,
    steps: Annotated[
        int, typer.Option(metavar="N", help="training steps of a named algorithm")
    ] = 2000,
    seed: Annotated[
        int,
        typer.Option(
            "--seed",
            "--random-state",
            metavar="N",
            help="decides the held-out rows and the training",
        ),
    ] = 0,
    plugin: opt.Plugins = None,
    device: opt.Device = "auto",
    as_json: opt.AsJson = False,
) -> None:
    """Fit a model to a table of labeled positives and unlabeled rows."""
    import sys
    from contextlib import redirect_stdout

    from puarena.experiments.machine import choose_device
    from puarena.pu import labeling

    if search < 1 or steps < 1:
        raise UserError(
            f"--search is {search} and --steps {steps}; both are whole numbers of 1 or more"
        )
    if seed < 0:
        raise UserError(f"--seed is {seed}; give 0 or more")
    choose_device(device)
    setting = labeling.get_setting(setting).title
    opt.check_files(out)
    frame = tables.read_table(data)
    X = tables.read_features(frame, data, label, features, drop)
    marks = tables.read_marks(frame, data, label, positive, negative)
    from puarena import plugins
    from puarena.estimators.table_fit import fit_table

    for path in plugin or ():
        plugins.load(path)
    try:
        with redirect_stdout(sys.stderr):
            fitted = fit_table(
                X,
                marks,
                algorithm=algorithm,
                prior=_prior(prior),
                setting=setting,
                selection=selection,
                threshold=threshold,
                steps=steps,
                search=search,
                random_state=seed,
                device=device,
                verbose=manners.verbose,
            )
    except ValueError as error:
        raise UserError(tables.describe(error)) from None
    for text in fitted.notes:
        say(f"note: {text.replace('give prior=… if you know it', 'if you know it, give --prior')}")
    try:
        fitted.model.save(out)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UserError(
            f"the model was fitted and cannot be saved in '{out}' ({reason}); use another --out"
        ) from None
    if fitted.bias_warning:
        say(f"warning: {fitted.bias_warning}")
    if as_json:
        answer({"out": out} | fitted.to_dict())
        return
    typer.echo(
        f"{fitted.describe()}\n"
        f"model in {out}; next: puarena predict {out} TABLE --out scores.csv"
        + "".join(f" --plugin {path}" for path in plugin or ())
    )


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="the file of a fitted model")],
    data: tables.Table,
    out: Annotated[Path, typer.Option(metavar="FILE", help="a .csv or .parquet file to write")],
    keep: Annotated[
        str | None, typer.Option(metavar="A,B", help="columns to copy to the result")
    ] = None,
    plugin: opt.Plugins = None,
    as_json: opt.AsJson = False,
) -> None:
    """Predict the rows of a table: probability, predicted (1 or 0) and decision (above 0 is positive)."""
    from puarena.datasets.tables import file_kind

    if file_kind(out) not in ("csv", "parquet"):
        raise UserError(
            f"'{out.name}' is neither a .csv nor a .parquet file; give --out one of these"
        )
    if out.resolve() == data.resolve():
        raise UserError(
            f"--out is the table itself, '{data}', which would be lost; give another file"
        )
    opt.check_files(out)
    frame = tables.read_table(data)
    import pandas as pd

    from puarena import plugins
    from puarena.estimators.persistence import load_model

    for path in plugin or ():
        plugins.load(path)
    clf = load_model(model)
    names = list(getattr(clf, "feature_names_in_", frame.columns))
    X = frame[tables.check_columns(names, frame, data)]
    try:
        decision, probability = clf.decision_function(X), clf.predict_proba(X)[:, 1]
    except ValueError as error:
        raise UserError(tables.describe(error)) from None
    copied = {
        name: frame[name]
        for name in tables.check_columns(many(keep, "keep", str) or [], frame, data)
    }
    result = pd.DataFrame(
        {
            **copied,
            "probability": probability,
            "predicted": (decision > 0).astype(int),
            "decision": decision,
        }
    )
    _write(result, out)
    positive = int(result["predicted"].sum())
    if as_json:
        answer({"out": out, "rows": len(result), "predicted_positive": positive})
    else:
        typer.echo(f"{len(result):,} rows, {positive:,} predicted positive: {out}")


def _prior(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _write(frame: pd.DataFrame, file: Path) -> None:
    from puarena.datasets.tables import file_kind
    from puarena.utils.files import atomic_write, describe_error, escape_cell, write_file

    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if file_kind(file) == "csv":
            text = [
                name
                for name in frame.columns
                if frame[name].dtype == object or frame[name].dtype == "string"
            ]
            guarded = frame.assign(
                **{name: frame[name].map(escape_cell, na_action="ignore") for name in text}
            )
            write_file(file, guarded.rename(columns=escape_cell).to_csv(index=False))
            return
        import duckdb

        with atomic_write(file.resolve()) as temp, duckdb.connect() as connection:
            connection.from_df(frame).write_parquet(str(temp))
    except OSError as error:
        raise UserError(f"'{file}' cannot be written ({describe_error(error)})") from None


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    for command in (fit, predict):
        app.command()(command)
