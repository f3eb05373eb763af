"""The table of a command: its file, features and labels, as options name them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from puarena.cli.options import parse_names
from puarena.errors import UserError, suggest

if TYPE_CHECKING:
    import pandas as pd

FILE_KINDS = ("csv", "parquet")  # that are written
TABLE_KINDS = ("csv", "tsv", "parquet", "xlsx")  # that are read
Table = Annotated[
    Path,
    typer.Argument(metavar="TABLE", help="a .csv (also .csv.gz), .tsv, .parquet or .xlsx file"),
]
Label = Annotated[
    str, typer.Option(metavar="COLUMN", help="column that says which rows are labeled positives")
]
Positive = Annotated[
    str | None,
    typer.Option(
        "--positive",
        "--positive-label",
        metavar="VALUE",
        help="the label of labeled positives; all else is unlabeled",
    ),
]
Negative = Annotated[
    str | None,
    typer.Option(metavar="VALUE", help="the label of known negatives, if there are some"),
]
Names = Sequence[str] | None
Features = Annotated[
    Names,
    typer.Option(metavar="A,B", parser=parse_names, help="feature columns; default: all others"),
]
Drop = Annotated[
    Names, typer.Option(metavar="A,B", parser=parse_names, help="columns that are not features")
]
SettingName = Annotated[
    str, typer.Option(metavar="one-sample|two-sample", help="how the data were collected")
]


def read_table(file: Path) -> pd.DataFrame:
    """Read the table of a file."""
    from puarena.datasets import tables

    return tables.read_table(file, TABLE_KINDS)


def check_columns(names: list[str], frame: pd.DataFrame, file: Path) -> list[str]:
    """Return the names if all are columns, each named once."""
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"the column '{name}' is named twice", "conflict")
    missing = [name for name in names if name not in frame.columns]
    if len(missing) == 1:
        hint = suggest(missing[0], list(frame.columns))
        raise UserError(f"{file}: there is no column '{missing[0]}'{hint}", "unknown-name")
    if missing:
        listed = ", ".join(f"'{name}'" for name in missing)
        raise UserError(f"{file}: there are no columns {listed}", "unknown-name")
    return names


def select_features(
    frame: pd.DataFrame, file: Path, model: Any, missing_columns: str | None = None
) -> pd.DataFrame:
    """Return the columns that a fitted model needs, in its order; those it left out may be missing.

    ``missing_columns`` is the option of this name, if the command has it; "as-missing": a column
    that is not there is one without any value.
    """
    names = list(getattr(model, "feature_names_in_", frame.columns))
    encoder = getattr(model, "encoder_", None)
    left_out = set() if encoder is None else set(encoder.dropped)
    absent = [name for name in names if name not in frame.columns and name not in left_out]
    if absent and missing_columns != "as-missing":
        try:
            check_columns(absent, frame, file)
        except UserError as error:
            hint = "; --missing-columns as-missing predicts without" if missing_columns else ""
            raise UserError(f"{error}{hint}", error.code) from None
    return frame.reindex(columns=names)


def read_features(
    frame: pd.DataFrame,
    file: Path,
    label: str,
    features: Names = None,
    drop: Names = None,
) -> pd.DataFrame:
    """Return the columns that are features."""
    check_columns([label], frame, file)
    dropped = check_columns(list(drop or ()), frame, file)
    names = list(features or ()) or [name for name in frame.columns if name != label]
    names = [name for name in check_columns(names, frame, file) if name not in dropped]
    if label in names:
        message = f"{file}: column '{label}' is the label and cannot be a feature too"
        raise UserError(message, "conflict")
    if not names:
        message = f"{file}: there is no column left besides the label '{label}'"
        raise UserError(message, "missing-data")
    return frame[names]


def read_marks(
    frame: pd.DataFrame, file: Path, label: str, positive: str | None, negative: str | None = None
) -> Any:
    """Return 1 for labeled positives, 0 for unlabeled rows, -1 for known negatives."""
    from puarena.pu.labels import read_labels

    check_columns([label], frame, file)
    try:
        labels = read_labels(frame[label], positive, negative)
    except ValueError as error:
        reason = describe(error).replace("positive_label", "--positive")
        reason = reason.replace("negative_label", "--negative")
        raise UserError(f"{file}, column '{label}': {reason}", "invalid-value") from None
    if labels.positive.sum() == 1:
        message = f"{file}: column '{label}' has 1 labeled positive, and at least 2 are needed"
        raise UserError(message, "missing-data")
    return labels.marks


def describe(error: Exception) -> str:
    """Return the message of an error of a library as one line."""
    return " ".join(str(error).split()).removesuffix(".")
