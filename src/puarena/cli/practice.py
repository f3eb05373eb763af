"""Commands for a table of one's own: fit, predict."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from puarena.cli import options as opt
from puarena.cli.options import many
from puarena.errors import UserError, nearest

if TYPE_CHECKING:
    import pandas as pd

Table = Annotated[Path, typer.Argument(metavar="TABLE", help="a .csv (also .csv.gz) or .parquet file")]


def fit(
    data: Table,
    label: Annotated[str, typer.Option(metavar="COLUMN", help="column that says which rows are labeled positives")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="folder for the fitted model")],
    algorithm: Annotated[str, typer.Option(metavar="A", help="see 'puarena list algorithms'")] = "nnpu",
    prior: Annotated[str, typer.Option(metavar="P|estimate[:METHOD]", help="share of positives")] = "estimate",
    setting: Annotated[
        str, typer.Option(metavar="one-sample|two-sample", help="how the data came about")
    ] = "one-sample",
    positive: Annotated[
        str | None, typer.Option(metavar="VALUE", help="the label of labeled positives; everything else is unlabeled")
    ] = None,
    features: Annotated[str | None, typer.Option(metavar="A,B", help="feature columns; default: all others")] = None,
    drop: Annotated[str | None, typer.Option(metavar="A,B", help="columns that are no features")] = None,
    selection: Annotated[str, typer.Option(metavar="pa|pauc", help="which checkpoint to keep")] = "pa",
    threshold: Annotated[str, typer.Option(metavar="model|pa", help="where to cut")] = "model",
    search: Annotated[int, typer.Option(metavar="N", help="try N configurations and keep the best")] = 1,
    steps: Annotated[int, typer.Option(metavar="N", help="training steps")] = 2000,
    seed: Annotated[int, typer.Option(metavar="N", help="decides the held-out rows and the training")] = 0,
    plugin: opt.Plugins = None,
    device: opt.Device = "auto",
) -> None:
    """Fit a model to a table of labeled positives and unlabeled rows."""
    frame = _table(data)
    X = _features(frame, data, label, features, drop)
    labeled = _labeled(frame, data, label, positive)
    from puarena import plugins
    from puarena.practice.estimator import PUClassifier
    from puarena.practice.search import PUSearch

    for path in plugin or ():
        plugins.load(path)
    clf = PUClassifier(
        algorithm, prior=_prior(prior), setting=setting, selection=selection, threshold=threshold, steps=steps,
        random_state=seed, device=device,
    )  # fmt: skip
    try:
        if search > 1:
            found = PUSearch(clf, n_iter=search, criterion=selection, random_state=seed).fit(X, labeled)
            typer.echo(found.table())
            clf = found.best_estimator_
        else:
            clf.fit(X, labeled)
    except ValueError as error:
        raise UserError(_sentence(error)) from None
    clf.save(out)
    share = float(clf.predict(X)[~labeled].mean())
    how = "estimated prior" if prior.startswith("estimate") else "prior"
    typer.echo(
        f"{clf.algorithm_}: {int(labeled.sum()):,} labeled and {int((~labeled).sum()):,} unlabeled rows, "
        f"{X.shape[1]} features, {how} {clf.prior_:.3f}; step {clf.best_step_:,} kept with "
        f"{selection.upper()} {clf.best_score_:.4f}; {100 * share:.1f}% of the unlabeled rows look positive\n"
        f"model in {out}; next: puarena predict {out} TABLE --out scores.csv"
    )


def predict(
    model: Annotated[Path, typer.Argument(metavar="DIR", help="the folder of a fitted model")],
    data: Table,
    out: Annotated[Path, typer.Option(metavar="FILE", help="a .csv or .parquet file to write")],
    keep: Annotated[str | None, typer.Option(metavar="A,B", help="columns to copy to the result")] = None,
    plugin: opt.Plugins = None,
) -> None:
    """Predict the rows of a table: probability, predicted (1 or 0) and decision (above 0 is positive)."""
    from puarena.data.frames import suffix

    if suffix(out) not in ("csv", "parquet"):
        raise UserError(f"'{out.name}' is neither a .csv nor a .parquet file; give --out one of these")
    frame = _table(data)
    import pandas as pd

    from puarena import plugins
    from puarena.practice.saving import load_model

    for path in plugin or ():
        plugins.load(path)
    clf = load_model(model)
    names = list(getattr(clf, "feature_names_in_", frame.columns))
    X = _numbers(frame, data, names)
    try:
        decision, probability = clf.decision_function(X), clf.predict_proba(X)[:, 1]
    except ValueError as error:
        raise UserError(_sentence(error)) from None
    copied = {name: frame[name] for name in _known(many(keep, "keep", str) or [], frame, data)}
    result = pd.DataFrame(
        {**copied, "probability": probability, "predicted": (decision > 0).astype(int), "decision": decision}
    )
    _write(result, out)
    typer.echo(f"{len(result):,} rows, {int(result['predicted'].sum()):,} predicted positive: {out}")


def _table(file: Path) -> pd.DataFrame:
    from puarena.data.frames import read_frame, suffix

    if not file.is_file():
        raise UserError(f"the file '{file}' does not exist")
    if suffix(file) not in ("csv", "parquet"):
        raise UserError(f"'{file.name}' is neither a .csv nor a .parquet file")
    frame = read_frame(file)
    frame.columns = [str(name) for name in frame.columns]
    if not len(frame):
        raise UserError(f"'{file}' has no rows")
    return frame


def _known(names: list[str], frame: pd.DataFrame, file: Path) -> list[str]:
    for name in names:
        if name not in frame.columns:
            raise UserError(f"{file}: there is no column '{name}'{nearest(name, list(frame.columns))}")
    return names


def _numbers(frame: pd.DataFrame, file: Path, names: list[str]) -> pd.DataFrame:
    """Return the named columns as finite numbers, in this order."""
    import numpy as np
    import pandas as pd

    from puarena.data.frames import numbers

    result = pd.DataFrame({name: numbers(file, name, frame[name]) for name in _known(names, frame, file)})
    bad = ~np.isfinite(result.to_numpy())
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise UserError(f"{file}: the value of column '{names[column]}' in data row {row + 1} is missing or infinite")
    return result


def _features(frame: pd.DataFrame, file: Path, label: str, features: str | None, drop: str | None) -> pd.DataFrame:
    _known([label], frame, file)
    dropped = _known(many(drop, "drop", str) or [], frame, file)
    names = many(features, "features", str) or [name for name in frame.columns if name != label]
    names = [name for name in names if name not in dropped]
    if label in names:
        raise UserError(f"{file}: column '{label}' is the label and cannot be a feature too")
    if not names:
        raise UserError(f"{file}: there is no column beside the label '{label}'")
    return _numbers(frame, file, names)


def _labeled(frame: pd.DataFrame, file: Path, label: str, positive: str | None) -> Any:
    """Return which rows are labeled: those with the value ``positive``, or with the greater of two numbers.

    A missing value is an unlabeled row where there is one other value, or ``positive`` is given.
    """
    import pandas as pd

    column = frame[label]
    values = column.dropna().unique().tolist()
    if positive is not None:
        return (column.map(_text) == _text(positive)).to_numpy(bool)
    if len(values) == 1 and column.isna().any():
        return column.notna().to_numpy(bool)
    if len(values) == 2 and not column.isna().any() and pd.api.types.is_numeric_dtype(column.dtype):
        return (column == max(values)).to_numpy(bool)
    shown = ", ".join(map(str, values[:5]))
    if len(values) < 2:
        raise UserError(f"{file}: column '{label}' has one value only ({shown}): nothing tells labeled from unlabeled")
    raise UserError(
        f"{file}: column '{label}' has the values {shown}{', …' if len(values) > 5 else ''}; say which one marks "
        "labeled positives with --positive"
    )


def _text(value: Any) -> str:
    """A label as it is written: 1, 1.0 and '1' are the same."""
    try:
        return f"{float(value):g}" if not isinstance(value, bool) else str(value).lower()
    except (TypeError, ValueError):
        return str(value).strip().lower() if str(value).strip().lower() in ("true", "false") else str(value).strip()


def _prior(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _write(frame: pd.DataFrame, file: Path) -> None:
    from puarena.data.frames import suffix

    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if suffix(file) == "csv":
            frame.to_csv(file, index=False)
            return
        import duckdb

        with duckdb.connect() as connection:
            connection.from_df(frame).write_parquet(str(file))
    except OSError as error:
        raise UserError(f"'{file}' cannot be written: {error}") from None


def _sentence(error: Exception) -> str:
    return " ".join(str(error).split()).removesuffix(".")


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    for command in (fit, predict):
        app.command()(command)
