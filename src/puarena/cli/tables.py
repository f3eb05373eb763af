"""A practitioner's table as commands read it: the file, its features as they are, and which rows are labeled."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from puarena.cli.options import many
from puarena.errors import UserError, suggest

if TYPE_CHECKING:
    import pandas as pd

KINDS = ("csv", "parquet")
Table = Annotated[
    Path, typer.Argument(metavar="TABLE", help="a .csv (also .csv.gz) or .parquet file")
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
Features = Annotated[
    str | None, typer.Option(metavar="A,B", help="feature columns; default: all others")
]
Drop = Annotated[str | None, typer.Option(metavar="A,B", help="columns that are not features")]
SettingName = Annotated[
    str, typer.Option(metavar="one-sample|two-sample", help="how the data were collected")
]


def read_table(file: Path) -> pd.DataFrame:
    """The table of a file."""
    from puarena.datasets.frames import read_frame, suffix

    if file.is_dir():
        raise UserError(f"'{file}' is a folder; give a .csv or .parquet file")
    if not file.is_file():
        raise UserError(f"the file '{file}' does not exist")
    if suffix(file) not in KINDS:
        raise UserError(f"'{file.name}' is neither a .csv nor a .parquet file")
    frame = read_frame(file)
    frame.columns = [str(name) for name in frame.columns]
    if not len(frame):
        raise UserError(f"'{file}' has no rows")
    return frame


def known(names: list[str], frame: pd.DataFrame, file: Path) -> list[str]:
    """The names, all of which must be columns."""
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"the column '{name}' is named twice")
        if name not in frame.columns:
            raise UserError(
                f"{file}: there is no column '{name}'{suggest(name, list(frame.columns))}"
            )
    return names


def read_features(
    frame: pd.DataFrame,
    file: Path,
    label: str,
    features: str | None = None,
    drop: str | None = None,
) -> pd.DataFrame:
    """The columns that are features."""
    known([label], frame, file)
    dropped = known(many(drop, "drop", str) or [], frame, file)
    names = many(features, "features", str) or [name for name in frame.columns if name != label]
    names = [name for name in known(names, frame, file) if name not in dropped]
    if label in names:
        raise UserError(f"{file}: column '{label}' is the label and cannot be a feature too")
    if not names:
        raise UserError(f"{file}: there is no column beside the label '{label}'")
    return frame[names]


def read_marks(
    frame: pd.DataFrame, file: Path, label: str, positive: str | None, negative: str | None = None
) -> Any:
    """1 for labeled positives, 0 for unlabeled rows, -1 for known negatives.

    Labeled are rows with the value ``positive``, or with the greater of two numbers, with 1 beside 0 (unlabeled) and -1
    (a known negative), or with the word "positive". A missing value is an unlabeled row where there is one other
    value, or ``positive`` is given.
    """
    import numpy as np
    import pandas as pd

    from puarena.pu.labels import WORDS, plain

    column = frame[known([label], frame, file)[0]]
    texts = column.map(plain, na_action="ignore")
    values = column.dropna().unique().tolist()
    shown = ", ".join(map(str, values[:5])) + (", …" if len(values) > 5 else "")
    if negative is None and WORDS[1] in set(texts) and WORDS[0] in (positive, *texts):
        negative = WORDS[1]
    for option, value in (("positive", positive), ("negative", negative)):
        if value is not None and plain(value) not in set(texts):
            raise UserError(
                f"{file}: --{option} is '{value}', and column '{label}' has the values {shown}"
            )
    if positive is not None and negative is not None and plain(positive) == plain(negative):
        raise UserError(f"--positive and --negative are both '{positive}'; a row cannot be both")
    if positive is not None:
        flags = texts == plain(positive)
    elif len(values) == 1 and column.isna().any():
        flags = column.notna()
    elif (
        len(values) == 2 and not column.isna().any() and pd.api.types.is_numeric_dtype(column.dtype)
    ):
        flags = column == max(values)
    elif set(texts.dropna()) == {"1", "0", "-1"}:
        flags, negative = texts == "1", negative or "-1"
    elif set(texts.dropna()) <= set(WORDS) and WORDS[0] in set(texts):
        flags = texts == WORDS[0]
    elif len(values) < 2:
        raise UserError(
            f"{file}: column '{label}' has one value only ({shown}): nothing tells labeled from unlabeled"
        )
    else:
        raise UserError(
            f"{file}: column '{label}' has the values {shown}; say which one marks labeled positives with --positive"
        )
    labeled = flags.fillna(False).to_numpy(bool)
    if labeled.sum() == 1 < len(labeled):
        raise UserError(
            f"{file}: column '{label}' has 1 labeled positive; one is held out, so at least 2 are needed"
        )
    if not labeled.any() or labeled.all():
        raise UserError(
            f"{file}: column '{label}' contains only one class for this question: {int(labeled.sum())} of "
            f"{len(labeled)} rows are labeled positives"
        )
    rest = (
        np.zeros(len(labeled), bool)
        if negative is None
        else (texts == plain(negative)).to_numpy(bool)
    )
    return labeled.astype(int) - (rest & ~labeled)


def sentence(error: Exception) -> str:
    """An error of the library as one line."""
    return " ".join(str(error).split()).removesuffix(".")
