"""Commands for a user's table: fit, predict, evaluate, priors estimate, hand-checks."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from puarena.cli import options as opt
from puarena.cli import tables
from puarena.cli.output import App, emit, log
from puarena.errors import PUWarning, UserError, unknown_name

if TYPE_CHECKING:
    import pandas as pd

ALL_METHODS = "all"
ROW, ANSWER = "row", "answer"  # columns of the file of rows to check

app = App()
priors_app = App(help="Estimate the class prior.")
app.add_typer(priors_app, name="priors")
checks_app = App(help="Check rows by hand, and learn prior, precision and recall from them.")
app.add_typer(checks_app, name="hand-checks")

Algorithm = Annotated[
    str, typer.Option(metavar="A", help="auto, or a name of 'puarena list algorithms'")
]
Prior = Annotated[
    str,
    typer.Option(metavar="P|LOW,HIGH|estimate[:METHOD]", help="share of positives, or its range"),
]
LabelFrequency = Annotated[
    Sequence[float] | None,
    typer.Option(
        metavar="C|LOW,HIGH",
        parser=opt.parse_numbers,
        help="share of the positives that are labeled, or its range",
    ),
]
Selection = Annotated[
    str, typer.Option(metavar="NAME", help="criterion that chooses: see 'list criteria'")
]
Threshold = Annotated[
    Literal["model", "pa", "f1", "prior", "cost", "budget"],
    typer.Option(help="how the threshold is chosen"),
]
Costs = Annotated[
    Sequence[float] | None,
    typer.Option(
        metavar="FP,FN",
        parser=opt.parse_numbers,
        help="for --threshold cost: costs of a false positive and a false negative",
    ),
]
Budget = Annotated[
    float | None,
    typer.Option(
        metavar="N", help="for --threshold budget: unlabeled rows that can be checked, or a share"
    ),
]
Search = Annotated[
    int,
    typer.Option(
        "--search", "--n-iter", metavar="N", min=1, help="try N configurations, keep the best"
    ),
]
Steps = Annotated[int, typer.Option(metavar="N", min=1, help="training steps of a named algorithm")]
ModelFile = Annotated[
    Path, typer.Option(metavar="FILE", parser=opt.parse_file, help="file for the fitted model")
]
Seed = Annotated[
    int,
    typer.Option(
        "--seed", "--random-state", metavar="N", min=0, help="seed of every random choice"
    ),
]


@app.command()
def fit(
    ctx: typer.Context,
    table: tables.Table,
    label: tables.Label,
    out: ModelFile,
    algorithm: Algorithm = "auto",
    prior: Prior = "estimate",
    label_frequency: LabelFrequency = None,
    setting: tables.SettingName = "one-sample",
    positive: tables.Positive = None,
    negative: tables.Negative = None,
    features: tables.Features = None,
    drop: tables.Drop = None,
    selection: Selection = "pa",
    threshold: Threshold = "model",
    costs: Costs = None,
    budget: Budget = None,
    text: Annotated[
        Literal["words", "embeddings"],
        typer.Option(help="how free text is read; embeddings need puarena[text]"),
    ] = "words",
    groups: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="rows of one value, such as one customer, are held out together; no feature",
        ),
    ] = None,
    search: Search = 1,
    steps: Steps = 2000,
    seed: Seed = 0,
    html: Annotated[
        Path | None,
        typer.Option(metavar="FILE", parser=opt.parse_file, help="write a page about the fit"),
    ] = None,
    plugin: opt.Plugins = None,
    device: opt.Device = "auto",
) -> None:
    """Fit a model to a table of labeled positives and unlabeled rows."""
    from contextlib import redirect_stdout
    from sys import stderr

    from puarena.estimators.table_fit import fit_table
    from puarena.experiments.machine import choose_device
    from puarena.pu import labeling

    choose_device(device)
    opt.check_outputs([out], [table])
    opt.check_outputs([html], [table, out])
    setting = labeling.get_setting(setting).title
    frame = tables.read_table(table)
    if groups is not None:
        tables.check_columns([groups], frame, table)
        drop = list(dict.fromkeys([*(drop or ()), groups]))
    X = tables.read_features(frame, table, label, features, drop)
    marks = tables.read_marks(frame, table, label, positive, negative)
    opt.load_plugins(plugin)
    try:
        with redirect_stdout(stderr):
            fitted = fit_table(
                X,
                marks,
                algorithm=algorithm,
                prior=_read_prior(prior),
                label_frequency=_read_range(label_frequency),
                setting=setting,
                selection=selection,
                threshold=threshold,
                costs=costs,
                budget=budget,
                text=text,
                groups=None if groups is None else frame[groups],
                steps=steps,
                search=search,
                random_state=seed,
                device=device,
                verbose=ctx.obj.verbose,
            )
    except ValueError as error:
        raise _make_user_error(error) from None
    for note in fitted.notes:
        log.info(f"note: {note}")
    fitted.model.save(out)
    page = ""
    if html is not None:
        fitted.model.report(html, title=f"A fit to {table.name}")
        page = f"\npage in {html}"
    if fitted.bias_warning:
        log.warning(f"warning: {fitted.bias_warning}")
    options = "".join(f" --plugin {path}" for path in plugin or ())
    following = f"puarena predict {out} TABLE --out scores.csv{options}"
    summary = f"{fitted.describe()}\nmodel in {out}; next: {following}{page}"
    emit(ctx, {"out": out, "html": html, **fitted.to_dict()}, summary)


@app.command()
def predict(
    ctx: typer.Context,
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="the file of a fitted model")],
    table: tables.Table,
    out: Annotated[
        Path,
        typer.Option(
            metavar="FILE", parser=opt.parse_file, help="a .csv or .parquet file to write"
        ),
    ],
    keep: Annotated[
        tables.Names, typer.Option(metavar="A,B", parser=opt.parse_names, help="columns to copy")
    ] = None,
    missing_columns: Annotated[
        Literal["error", "as-missing"],
        typer.Option(help="what to do if the table lacks a column of the model"),
    ] = "error",
    plugin: opt.Plugins = None,
) -> None:
    """Predict the rows of a table: probability, predicted (1 or 0) and decision (above 0 is 1)."""
    import pandas as pd

    from puarena.datasets.encoding import TableWarning, describe_new_values
    from puarena.datasets.tables import file_kind, read_chunks
    from puarena.estimators.persistence import load_model

    if file_kind(out) not in tables.FILE_KINDS:
        message = f"'{out.name}' is neither a .csv nor a .parquet file; give --out one of these"
        raise UserError(message, "wrong-format")
    opt.check_outputs([out], [table])
    opt.load_plugins(plugin)
    fitted = load_model(model)
    parts: list[pd.DataFrame] = []
    new_values: dict[str, list[str]] = {}
    for frame in read_chunks(table, tables.TABLE_KINDS):
        if frame.empty:
            raise UserError(f"'{table}' has no rows", "missing-data")
        X = tables.select_features(frame, table, fitted, missing_columns)
        part = frame[tables.check_columns(list(keep or ()), frame, table)].copy()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TableWarning)  # noted once for all parts of the table
            try:
                decision = fitted.decision_function(X)
                part["probability"] = fitted.predict_proba(X)[:, 1]
                if getattr(fitted, "encoder_", None) is not None:
                    new_values |= fitted.encoder_.find_new_values(X)
            except ValueError as error:
                raise _make_user_error(error) from None
        part["predicted"] = (decision > 0).astype(int)
        part["decision"] = decision
        parts.append(part)
    for name, values in new_values.items():
        log.info(f"note: {describe_new_values(name, values)}")
    result = parts[0] if len(parts) == 1 else pd.concat(parts, ignore_index=True)
    _write_table(result, out)
    positive = int(result["predicted"].sum())
    emit(
        ctx,
        {"out": out, "rows": len(result), "predicted_positive": positive},
        f"{len(result):,} rows, {positive:,} predicted positive: {out}",
    )


@app.command()
def evaluate(
    ctx: typer.Context,
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="the file of a fitted model")],
    table: Annotated[
        Path | None,
        typer.Argument(
            metavar="TABLE", help="rows the model was not fitted to; default: those it held out"
        ),
    ] = None,
    label: Annotated[str, typer.Option(metavar="COLUMN", help="column of the labels")] = "",
    positive: tables.Positive = None,
    prior: Annotated[
        Sequence[float] | None,
        typer.Option(metavar="P|LOW,HIGH", parser=opt.parse_numbers, help="share of positives"),
    ] = None,
    top: Annotated[
        float, typer.Option(metavar="SHARE", help="of the highest rows, for the lift")
    ] = 0.1,
    plugin: opt.Plugins = None,
) -> None:
    """Estimate precision, recall, F1, accuracy and AUC of a model without any negative."""
    from puarena.estimators.evaluation import evaluate as evaluate_model
    from puarena.estimators.persistence import load_model

    opt.load_plugins(plugin)
    fitted = load_model(model)
    X, marks = None, None
    if table is not None:
        if not label:
            raise UserError("name the column of the labels: --label COLUMN", "missing-data")
        frame = tables.read_table(table)
        marks = tables.read_marks(frame, table, label, positive) == 1
        X = tables.select_features(frame, table, fitted)
        # The classes of the model, so that labels are read alike.
        marks = fitted.classes_[marks.astype(int)]
    with _log_notes():
        try:
            found = evaluate_model(fitted, X, marks, prior=_read_range(prior), top=top)
        except ValueError as error:
            raise _make_user_error(error) from None
    emit(ctx, found.to_dict(), found.describe())


@checks_app.command()
def choose(
    ctx: typer.Context,
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="the file of a fitted model")],
    table: tables.Table,
    out: Annotated[
        Path, typer.Option(metavar="FILE", parser=opt.parse_file, help="a .csv file to write")
    ],
    label: Annotated[
        str, typer.Option(metavar="COLUMN", help="column of the labels; labeled rows are left out")
    ] = "",
    positive: tables.Positive = None,
    rows: Annotated[int, typer.Option("--rows", "-n", metavar="N", min=2, help="to check")] = 50,
    seed: Seed = 0,
    plugin: opt.Plugins = None,
) -> None:
    """Draw rows to be looked at; write them with an empty column 'answer'."""
    import json

    import numpy as np

    from puarena.datasets.tables import file_kind
    from puarena.estimators.hand_checks import choose_checks
    from puarena.estimators.persistence import load_model
    from puarena.utils.files import write_file

    if file_kind(out) != "csv":
        raise UserError(f"'{out.name}' is not a .csv file; give --out one", "wrong-format")
    opt.check_outputs([out], [table])
    opt.load_plugins(plugin)
    fitted, frame = load_model(model), tables.read_table(table)
    X = tables.select_features(frame, table, fitted)
    marks = None
    if label:
        is_labeled = tables.read_marks(frame, table, label, positive) == 1
        marks = fitted.classes_[is_labeled.astype(int)]
    with _log_notes():
        try:
            checks = choose_checks(fitted, X, rows, marks, seed)
        except ValueError as error:
            raise _make_user_error(error) from None
    chosen = frame.iloc[checks.rows].reset_index(drop=True)
    taken = [name for name in (ROW, ANSWER) if name in chosen.columns]
    if taken:
        raise UserError(f"{table}: rename the column '{taken[0]}'", "conflict")
    chosen.insert(0, ROW, checks.rows)
    chosen.insert(1, ANSWER, np.full(len(chosen), ""))
    _write_table(chosen, out)
    plan = _place_plan(out)
    write_file(plan, json.dumps(checks.to_dict()))
    following = f"puarena hand-checks update {out}"
    emit(
        ctx,
        {"out": out, "plan": plan, "rows": len(chosen)},
        f"{len(chosen)} rows in {out} (and {plan.name} beside it); write 1 or 0 into the column "
        f"'{ANSWER}' of every row; next: {following}",
    )


@checks_app.command()
def update(
    ctx: typer.Context,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="the file of 'choose' with answers in it")
    ],
) -> None:
    """Estimate prior, precision and recall from a model and rows that were checked."""
    import json

    import pandas as pd

    from puarena.estimators.hand_checks import Checks, update_with_checks

    frame, plan = tables.read_table(file), _place_plan(file)
    tables.check_columns([ROW, ANSWER], frame, file)
    if not plan.is_file():
        raise UserError(f"'{plan}' is missing: 'choose' wrote it beside the rows", "missing-file")
    try:
        checks = Checks.from_dict(json.loads(plan.read_text(encoding="utf-8")))
    except (ValueError, KeyError, TypeError):
        raise UserError(f"'{plan}' is damaged: choose rows again", "damaged-file") from None
    words = {"yes": "1", "true": "1", "no": "0", "false": "0"}
    text = frame[ANSWER].astype("string").str.strip().str.lower()
    answers = pd.to_numeric(text.replace(words), errors="coerce").set_axis(frame[ROW])
    # The rows may have been sorted.
    found = answers[~answers.index.duplicated()].reindex(checks.rows).to_numpy(float)
    lacking = [
        int(row) for row, answer in zip(checks.rows, found, strict=True) if answer not in (0, 1)
    ]
    if lacking:
        raise UserError(
            f"{file}: {len(lacking)} of {len(found)} rows have no answer of 1 or 0, such as row "
            f"{lacking[0]}; rows that are left out make the estimates wrong",
            "missing-data",
        )
    result = update_with_checks(checks, found)
    low, high = result.prior.low, result.prior.high
    following = f"use it: puarena fit TABLE --prior {low:.4g},{high:.4g} …"
    emit(ctx, result.to_dict(), f"{result.describe()}\n{following}")


@priors_app.command()
def estimate(
    ctx: typer.Context,
    table: tables.Table,
    label: tables.Label,
    positive: tables.Positive = None,
    setting: tables.SettingName = "one-sample",
    features: tables.Features = None,
    drop: tables.Drop = None,
    method: Annotated[
        str, typer.Option(metavar="NAME|all", help="how to estimate it")
    ] = "saturation",
    compare: Annotated[
        bool, typer.Option("--compare", help="run other methods too and warn if they disagree")
    ] = False,
    seed: Seed = 0,
) -> None:
    """Estimate the class prior of a table of positives and unlabeled rows."""
    from puarena.priors import METHODS, estimate_prior, method_named
    from puarena.pu import labeling

    if method_named(method) not in (*METHODS, ALL_METHODS):
        raise unknown_name("method", method, [*METHODS, ALL_METHODS])
    setting = labeling.get_setting(setting).title
    frame = tables.read_table(table)
    X = tables.read_features(frame, table, label, features, drop)
    marks = tables.read_marks(frame, table, label, positive)
    with _log_notes():
        try:
            found = estimate_prior(X, marks == 1, setting, method, seed, compare=compare)
        except ValueError as error:
            raise _make_user_error(error) from None
    where = "unlabeled rows" if found.details["setting"] == "ts" else "all rows"
    lines = [f"share of positives in {where}, and its 95% confidence interval"]
    answer = {}
    for name, each in {found.method: found, **found.details.get("others", {})}.items():
        low, high = each.interval
        details = {key: value for key, value in each.details.items() if key != "others"}
        answer[name] = {
            "value": each.value,
            "interval": [low, high],
            "method": each.method,
            **details,
        }
        lines.append(f"{name:<12}{each.value:.3f}  ({low:.3f} to {high:.3f})")
    emit(ctx, answer, "\n".join(lines))


@contextmanager
def _log_notes() -> Iterator[None]:
    """Print this package's warnings as notes, each once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", PUWarning)
        yield
    for text in dict.fromkeys(str(warning.message) for warning in caught):
        log.info(f"note: {text}")


def _place_plan(file: Path) -> Path:
    """Return the file with what is needed to use the answers to rows that are checked."""
    return file.with_name(f"{file.name}.json")


def _read_prior(text: str) -> float | str | tuple[float, ...]:
    """Return a number, a range, or the name of a method."""
    try:
        ends = [float(part) for part in text.split(",")]
    except ValueError:
        return text
    return ends[0] if len(ends) == 1 else tuple(ends)


def _read_range(ends: Sequence[float] | None) -> float | tuple[float, ...] | None:
    """Return one number, or a range; None if nothing is given."""
    if ends is None:
        return None
    return ends[0] if len(ends) == 1 else tuple(ends)


def _make_user_error(error: ValueError) -> UserError:
    """Return the error for one of scikit-learn or of an estimator, in one line."""
    return UserError(tables.describe(error), getattr(error, "code", "invalid-value"))


def _write_table(frame: pd.DataFrame, file: Path) -> None:
    """Write a CSV file, in which no cell is a formula, or a Parquet file."""
    from puarena.datasets.tables import file_kind
    from puarena.utils.files import atomic_write, escape_cell, write_file

    file.parent.mkdir(parents=True, exist_ok=True)
    if file_kind(file) == "csv":
        text = frame.select_dtypes(exclude=["number", "bool", "datetime"]).columns
        escaped = {name: frame[name].map(escape_cell, na_action="ignore") for name in text}
        table = frame.assign(**escaped).rename(columns=escape_cell)
        write_file(file, table.to_csv(index=False))
        return
    import duckdb

    with atomic_write(file.resolve()) as temp, duckdb.connect() as connection:
        connection.from_df(frame).write_parquet(str(temp))
