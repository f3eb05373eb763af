"""Tables in files: CSV, Parquet, and the ARFF and DAT files of OpenML and KEEL; columns as numbers."""

from __future__ import annotations

import csv
import glob
import gzip
import re
import warnings
import zlib
from collections.abc import Iterable
from itertools import groupby, takewhile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from puarena.datasets.archives import check_gzip
from puarena.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

KINDS = ("csv", "parquet", "arff", "dat")
MOST_VALUES = 1000  # that a column may have to become as many columns


def suffix(file: Path) -> str:
    """Return what kind of file it is by its name: ``csv`` also for ``.csv.gz``."""
    return file.name.lower().removesuffix(".gz").rpartition(".")[2]


def read_frame(file: Path) -> pd.DataFrame:
    """Read a table; ``KINDS`` are the endings of names that are known."""
    return {"parquet": _read_parquet, "csv": _read_csv}.get(suffix(file), _read_attributes)(file)


def _read_csv(file: Path) -> pd.DataFrame:
    import pandas as pd

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # a row longer than the header
            if file.name.lower().endswith(".gz"):
                check_gzip(file)
            frame = pd.read_csv(file, index_col=False, encoding="utf-8-sig", low_memory=False)
    except UserError:
        raise
    except (Exception, RecursionError) as error:  # a damaged file can raise anything
        _check_header(file)
        hint = "; save it as UTF-8" if isinstance(error, UnicodeDecodeError) else ""
        raise UserError(
            f"'{file}' cannot be read as CSV: {' '.join(str(error).split())}{hint}"
        ) from error
    _check_header(file)
    return frame


def _check_header(file: Path) -> None:
    """Refuse other marks than commas, and a name that stands twice: the copy of a label would be a feature."""
    opened = gzip.open if file.name.lower().endswith(".gz") else open
    try:
        with opened(file, "rt", encoding="utf-8-sig", newline="") as lines:
            head = next(csv.reader(lines), [""])
    except (
        OSError,
        ValueError,
        EOFError,
        zlib.error,
        csv.Error,
    ):  # whoever reads the table says what is wrong with it
        return
    for mark, word in ((";", "semicolons"), ("\t", "tabs"), ("|", "bars")):
        if len(head) == 1 and mark in head[0]:
            raise UserError(
                f"the columns of '{file}' are separated by {word}, not by commas; save it with commas"
            )
    for name in head:
        if name.strip() and head.count(name) > 1:
            raise UserError(
                f"'{file}' has two columns called '{name}' (is its first line a header?); rename one"
            )


def _read_parquet(file: Path) -> pd.DataFrame:
    import duckdb

    try:
        with duckdb.connect() as connection:
            return connection.read_parquet(glob.escape(str(file))).df()
    except Exception as error:  # a damaged file can raise anything
        raise UserError(
            f"'{file}' cannot be read as Parquet: {' '.join(str(error).split())[:300]}"
        ) from error


def _read_attributes(file: Path) -> pd.DataFrame:
    """Read an ARFF or KEEL file: lines ``@attribute name kind`` (there may be none), then the rows."""
    import pandas as pd

    try:
        lines = [line.strip() for line in file.read_text("utf-8", errors="replace").splitlines()]
        lines = [line for line in lines if line and not line.startswith("%")]
        header = list(takewhile(lambda line: line.startswith("@"), lines))
        if any(line.startswith("{") for line in lines[len(header) :]):
            raise UserError(f"'{file}' is a sparse ARFF file, and only dense ones are read")
        rows = [
            row
            for quote, part in groupby(lines[len(header) :], _quote)
            for row in _rows(part, quote)
        ]
    except (OSError, csv.Error) as error:
        raise UserError(f"cannot read '{file}': {error}") from error
    matches = [
        re.match(r"@attribute\s+('[^']*'|\"[^\"]*\"|[^\s{]+)\s*(\{?)", line, re.IGNORECASE)
        for line in header
    ]
    known = [(match[1].strip("'\""), bool(match[2])) for match in matches if match]
    columns = known or [
        (f"x{number}", False) for number in range(1, len(rows[0]) + 1 if rows else 1)
    ]
    for number, row in enumerate(rows, 1):
        if len(row) != len(columns):
            raise UserError(
                f"{file}: data row {number} has {len(row)} values, and there are {len(columns)} columns"
            )
    frame = pd.DataFrame(rows, columns=[name for name, _ in columns], dtype="string")
    frame = frame.apply(lambda column: column.str.strip()).replace(["?", "<null>", ""], pd.NA)
    for name, nominal in columns:
        parsed = pd.to_numeric(frame[name], errors="coerce")
        if not nominal and parsed.isna().equals(frame[name].isna()):
            frame[name] = parsed
    return frame


def _quote(line: str) -> str:
    """Return with which of its two quotation marks a line of an ARFF file is written."""
    return '"' if re.search(r'(^|,)\s*"', line) else "'"


def _rows(lines: Iterable[str], quote: str) -> Iterable[list[str]]:
    return csv.reader(lines, skipinitialspace=True, quotechar=quote)


def encoded(file: Path, frame: pd.DataFrame, names: list[str], every: bool = False) -> pd.DataFrame:
    """Return columns of numbers: of a column of text (or of ``every`` column) one 0/1 column for each of its values.

    A missing value is a value of its own there; a missing number is replaced by the median of its column.
    """
    import pandas as pd

    parts: dict[str, pd.Series] = {}
    for name in names:
        column = frame[name]
        if pd.api.types.is_numeric_dtype(column.dtype) and not every:
            values = pd.Series(numbers(file, name, column))
            median = values.median()
            parts[name] = values.fillna(0.0 if np.isnan(median) else median)
            continue
        text = column.astype("string").fillna("missing")
        different = sorted(text.unique())
        if len(different) > MOST_VALUES:
            raise UserError(
                f"{file}: column '{name}' has {len(different)} different texts, more than the {MOST_VALUES} that are "
                "encoded; list the other columns in `features`"
            )
        parts |= {f"{name}={value}": (text == value).astype("float64") for value in different}
    return pd.DataFrame(parts)


def numbers(file: Path, name: str, column: pd.Series) -> npt.NDArray[np.float64]:
    """Return a column as numbers, or say which value is none."""
    import pandas as pd

    if pd.api.types.is_complex_dtype(column.dtype):
        raise UserError(f"{file}: column '{name}' holds complex numbers; split it into real ones")
    if not pd.api.types.is_numeric_dtype(column.dtype):  # booleans count as numeric
        text = column.astype("string")
        parsed = pd.to_numeric(text, errors="coerce")
        bad = (
            (parsed.isna() & text.notna() & (text.str.lower() != "nan"))
            .fillna(False)
            .to_numpy(bool)
        )
        if bad.any():
            row = int(bad.argmax())
            if bad.mean() > 0.5:
                raise UserError(
                    f"{file}: column '{name}' is categorical ('{text.iloc[row]}' in data row {row + 1}) and only "
                    "numbers can be features; say `encode: true`, or list the other columns in `features`"
                )
            raise UserError(
                f"{file}: '{text.iloc[row]}' in column '{name}', data row {row + 1}, is not a number"
            )
        column = parsed
    return column.to_numpy(dtype=np.float64, na_value=np.nan)


def label_text(value: object) -> str:
    """One spelling for a label in YAML and in the table: 1 and 1.0 are ``1``."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
