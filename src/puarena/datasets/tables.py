"""Reading of tables: CSV, Parquet, ARFF and KEEL files, and tables of OpenML and Hugging Face."""

from __future__ import annotations

import glob
import re
import warnings
from io import StringIO
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from puarena.datasets.download import locate_remote_table
from puarena.datasets.remote import is_remote
from puarena.errors import UserError
from puarena.utils.files import cannot_read, describe_error

if TYPE_CHECKING:
    import pandas as pd

FILE_KINDS = ("csv", "parquet", "arff", "dat")
SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "vertical bars"}
ATTRIBUTE_PATTERN = re.compile(r"@attribute\s+('[^']*'|\"[^\"]*\"|[^\s{]+)\s*(\{?)", re.IGNORECASE)
MISSING_MARKS = ["?", "<null>", ""]  # of ARFF and KEEL files


def file_kind(file: Path) -> str:
    """Return the kind of a file by its name; ``.csv.gz`` is ``csv``, too."""
    return file.name.lower().removesuffix(".gz").rpartition(".")[2]


def read_table(source: str | Path, kinds: tuple[str, ...] = FILE_KINDS) -> pd.DataFrame:
    """Read a table from a file, from ``openml:ID``, or from ``hf:NAME@REVISION``.

    The names of columns are text. ``kinds`` are the kinds of files that are accepted.
    """
    if is_remote(str(source)):
        source = locate_remote_table(str(source))
    file = Path(source)
    if not file.is_file():
        what = "is a folder, not a file" if file.is_dir() else "does not exist"
        raise UserError(f"'{file}' {what}", "missing-file")
    if file_kind(file) not in kinds:
        message = f"'{file.name}' is not a .{', .'.join(kinds)} file"
        raise UserError(message, "wrong-format")
    frame = {"csv": _read_csv, "parquet": _read_parquet}.get(file_kind(file), _read_arff)(file)
    frame.columns = [str(name) for name in frame.columns]
    if frame.empty:
        raise UserError(f"'{file}' has no rows", "missing-data")
    return frame


def spell_label(value: object) -> str:
    """Return the text of a label of the YAML file or the table: 1 and 1.0 are both ``1``."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _read_csv(file: Path) -> pd.DataFrame:
    import pandas as pd

    def read(**options: object) -> pd.DataFrame:
        return pd.read_csv(file, encoding="utf-8-sig", low_memory=False, **options)  # type: ignore

    try:
        head = read(header=None, nrows=1, dtype=str, keep_default_na=False).iloc[0].tolist()
        _check_header(file, head)
        with warnings.catch_warnings():
            # pandas only warns about a row that is longer than the header.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            return read(index_col=False)
    except UserError:
        raise
    # A damaged file can raise anything.
    except Exception as error:
        hint = "; save it as UTF-8" if isinstance(error, UnicodeDecodeError) else ""
        message = f"'{file}' cannot be read as CSV: {describe_error(error)}{hint}"
        raise UserError(message, "damaged-file") from error


def _check_header(file: Path, head: list[str]) -> None:
    """Check the separator, and that no name appears twice (the label would be a feature)."""
    for mark, name in SEPARATORS.items():
        if len(head) == 1 and mark in head[0]:
            message = f"the columns of '{file}' are separated by {name}; save it with commas"
            raise UserError(message, "wrong-format")
    for name in head:
        if name.strip() and head.count(name) > 1:
            message = f"'{file}' has two columns '{name}' (is its first line a header?); rename one"
            raise UserError(message, "conflict")


def _read_parquet(file: Path) -> pd.DataFrame:
    import duckdb

    try:
        with duckdb.connect() as connection:
            return connection.read_parquet(glob.escape(str(file))).df()
    # A damaged file can raise anything.
    except Exception as error:
        message = f"'{file}' cannot be read as Parquet: {describe_error(error)}"
        raise UserError(message, "damaged-file") from error


def _read_arff(file: Path) -> pd.DataFrame:
    """Read an ARFF or KEEL file: lines ``@attribute name kind``, if any, and then the rows.

    ``scipy.io.arff`` was tried: it reads neither text attributes nor KEEL's headers and marks of
    missing values, so pandas reads the rows.
    """
    import pandas as pd

    try:
        lines = [line.strip() for line in file.read_text("utf-8", errors="replace").splitlines()]
    except OSError as error:
        raise cannot_read(file, error) from error
    lines = [line for line in lines if line and not line.startswith("%")]
    header = list(takewhile(lambda line: line.startswith("@"), lines))
    nominal = {}
    for line in header:
        if match := ATTRIBUTE_PATTERN.match(line):
            nominal[match[1].strip("'\"")] = bool(match[2])
    frame = _read_arff_rows(file, lines[len(header) :], list(nominal))
    for name in frame.columns:
        numbers = pd.to_numeric(frame[name], errors="coerce")
        # A nominal column stays text, even if its values look like numbers.
        if not nominal.get(name, False) and numbers.isna().equals(frame[name].isna()):
            frame[name] = numbers
    return frame


def _read_arff_rows(file: Path, rows: list[str], names: list[str]) -> pd.DataFrame:
    """Return the rows as text; without names the columns are x1, x2, …"""
    import pandas as pd

    if rows and rows[0].startswith("{"):
        raise UserError(
            f"'{file}' is a sparse ARFF file; only dense ones are read", "not-supported"
        )
    text = re.sub(r"[ \t]+(?=,|$)", "", "\n".join(rows), flags=re.MULTILINE)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame = pd.read_csv(
                StringIO(text),
                header=None,
                names=names or None,
                index_col=False,
                dtype="string",
                na_values=MISSING_MARKS,
                keep_default_na=False,
                skipinitialspace=True,
                quotechar='"' if re.search(r'(^|,)\s*"', text, re.MULTILINE) else "'",
            )
    except (pd.errors.ParserWarning, ValueError) as error:
        message = f"'{file}' cannot be read: {describe_error(error)}"
        raise UserError(message, "damaged-file") from error
    if not names:
        frame.columns = [f"x{number}" for number in range(1, frame.shape[1] + 1)]
    return frame
