"""Reading of tables: CSV, Parquet, ARFF and KEEL files, and tables of OpenML and Hugging Face."""

from __future__ import annotations

import glob
import os
import re
import warnings
from collections.abc import Iterator
from io import StringIO
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from puarena.datasets.download import locate_remote_table
from puarena.datasets.remote import is_remote
from puarena.errors import UserError
from puarena.utils.files import cannot_read, describe_error

if TYPE_CHECKING:
    import pandas as pd

FILE_KINDS = ("csv", "tsv", "parquet", "xlsx", "arff", "dat")
SEPARATORS = (";", "\t", "|")  # of CSV files, if there is no comma in the first line
DUCKDB_VECTOR_ROWS = 2048
CHUNK_ROWS = 200_000  # read at once of a file that may be larger than memory
BYTES_PER_CELL = 8
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
    readers = {"csv": _read_csv, "tsv": _read_csv, "parquet": _read_parquet, "xlsx": _read_excel}
    frame = readers.get(file_kind(file), _read_arff)(file)
    frame.columns = [str(name) for name in frame.columns]
    if frame.empty:
        raise UserError(f"'{file}' has no rows", "missing-data")
    return frame


def read_chunks(file: Path, kinds: tuple[str, ...] = FILE_KINDS) -> Iterator[pd.DataFrame]:
    """Yield the rows of a table in parts, of a CSV or Parquet file without reading all at once."""
    if not file.is_file() or file_kind(file) not in kinds:
        yield read_table(file, kinds)
        return
    if file_kind(file) == "parquet":
        yield from _read_parquet_chunks(file)
    elif file_kind(file) in ("csv", "tsv"):
        yield from _read_csv_chunks(file, CHUNK_ROWS)
    else:
        yield read_table(file, kinds)


def spell_label(value: object) -> str:
    """Return the text of a label of the YAML file or the table: 1 and 1.0 are both ``1``."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _read_csv(file: Path) -> pd.DataFrame:
    (frame,) = _read_csv_chunks(file, None)
    return frame


def _read_csv_chunks(file: Path, rows: int | None) -> Iterator[pd.DataFrame]:
    """Yield the rows of a CSV file, ``rows`` at once; None: all."""
    import pandas as pd

    def read(**options: object) -> Any:
        return pd.read_csv(file, encoding="utf-8-sig", low_memory=False, **options)  # type: ignore

    try:
        head = read(header=None, nrows=1, dtype=str, keep_default_na=False).iloc[0].tolist()
        separator = _find_separator(head)
        if separator != ",":
            options = {"header": None, "nrows": 1, "dtype": str, "keep_default_na": False}
            head = read(sep=separator, **options).iloc[0].tolist()
        _check_header(file, head)
        with warnings.catch_warnings():
            # pandas only warns about a row that is longer than the header.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            found = read(index_col=False, sep=separator, chunksize=rows)
            for frame in [found] if rows is None else found:
                frame.columns = [str(name) for name in frame.columns]
                yield frame if separator == "," else _read_decimal_commas(frame)
    except UserError:
        raise
    # A damaged file can raise anything.
    except Exception as error:
        hint = "; save it as UTF-8" if isinstance(error, UnicodeDecodeError) else ""
        message = f"'{file}' cannot be read as CSV: {describe_error(error)}{hint}"
        raise UserError(message, "damaged-file") from error


def _find_separator(head: list[str]) -> str:
    """Return the separator, given the cells of the first line as commas separate them."""
    text = ",".join(head)
    counts = {mark: text.count(mark) for mark in SEPARATORS}
    best = max(counts, key=lambda mark: counts[mark])
    return best if counts[best] > len(head) - 1 else ","


def _read_decimal_commas(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table whose columns of numbers with decimal commas are numbers."""
    import pandas as pd

    for name in frame.columns:
        if frame[name].dtype.kind in "OT" or str(frame[name].dtype) in ("string", "str"):
            texts = frame[name].astype("string").str.replace(",", ".", regex=False)
            numbers = pd.to_numeric(texts, errors="coerce")
            if numbers.isna().equals(frame[name].isna()):
                frame[name] = numbers.astype(float)
    return frame


def _check_header(file: Path, head: list[str]) -> None:
    """Check that no name appears twice (the label would be a feature)."""
    for name in head:
        if name.strip() and head.count(name) > 1:
            message = f"'{file}' has two columns '{name}' (is its first line a header?); rename one"
            raise UserError(message, "conflict")


def _read_excel(file: Path) -> pd.DataFrame:
    """Return the first sheet of an Excel file."""
    import pandas as pd

    try:
        frame = pd.read_excel(file)
    except ImportError:
        raise UserError(
            f"'{file.name}' is an Excel file, and reading it needs openpyxl: pip install openpyxl, "
            "or save it as CSV",
            "missing-dependency",
        ) from None
    # A damaged file can raise anything.
    except Exception as error:
        message = f"'{file}' cannot be read as Excel: {describe_error(error)}"
        raise UserError(message, "damaged-file") from error
    _check_header(file, [str(name) for name in frame.columns])
    return frame


def _read_parquet(file: Path) -> pd.DataFrame:
    import pandas as pd

    _check_fits_memory(file)
    return pd.concat(list(_read_parquet_chunks(file)), ignore_index=True)


def measure_memory_bytes() -> int:
    """Return the memory of this machine."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _check_fits_memory(file: Path) -> None:
    """Check that a Parquet table fits into memory: repeated values make a huge one a small file."""
    import duckdb

    try:
        with duckdb.connect() as connection:
            shape = (
                "select (select sum(num_rows) from parquet_file_metadata($1)), (select count(*) "
                "from parquet_schema($1) where num_children is null)"
            )
            (found,) = connection.execute(shape, [glob.escape(str(file))]).fetchall()
    except duckdb.Error as error:
        message = f"'{file}' cannot be read as Parquet: {describe_error(error)}"
        raise UserError(message, "damaged-file") from error
    rows, columns = int(found[0] or 0), int(found[1])
    needed, memory = rows * columns * BYTES_PER_CELL, measure_memory_bytes()
    if needed > memory:
        raise UserError(
            f"'{file}' has {rows:,} rows and {columns} columns, {needed / 2**30:.1f} GiB as "
            f"numbers, and this machine has {memory / 2**30:.1f} GiB of memory; keep fewer rows or "
            "columns",
            "out-of-resources",
        )


def _read_parquet_chunks(file: Path) -> Iterator[pd.DataFrame]:
    """Yield the rows of a Parquet file, some at once; one empty table if there are none."""
    import duckdb

    try:
        with duckdb.connect() as connection:
            found = connection.execute("select * from read_parquet(?)", [glob.escape(str(file))])
            chunk = found.fetch_df_chunk(CHUNK_ROWS // DUCKDB_VECTOR_ROWS)
            yield chunk
            while len(chunk):
                chunk = found.fetch_df_chunk(CHUNK_ROWS // DUCKDB_VECTOR_ROWS)
                if len(chunk):
                    yield chunk
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
