"""Encoding of tables as numbers: missing values, categories, bools; pandas, polars or a matrix.

There are two forms of the same rows. *Dense*, for linear models and networks: a missing number
becomes the column's median and sets an indicator, and a category becomes one 0/1 column per
frequent value. *Tree*, for trees: a missing number stays missing, and a category becomes the index
of its value.

scikit-learn's encoders were tried: ``OneHotEncoder(max_categories=…)`` puts the rarest values into
one more column and ``SimpleImputer(add_indicator=True)`` moves indicators to the end, which changes
the features, and neither names what it drops.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from puarena.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

FloatMatrix = npt.NDArray[np.float64]

DATE_PATTERN = re.compile(r"\s*\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}(\s|T|$)")
DATE_ADVICE = "turn them into numbers (such as days since an event) or drop them."
MAX_DATE_SAMPLE = 50  # values that decide whether a text column contains dates
MAX_NUMBER = 1e30  # larger numbers stand for missing ones, or their squares overflow
MAX_CATEGORIES = 30  # frequent values of a category that get a column of their own
MAX_BENCHMARK_CATEGORIES = 1000  # values of a category in benchmark datasets, which keep all
IDENTIFIER_SHARE = 0.9  # a text column with this share of different values identifies rows


class TableWarning(UserWarning):
    """A warning about the content of a table."""


@dataclass(frozen=True)
class EncodedColumn:
    """What the encoder remembers of a column of the table it was fitted to."""

    name: str
    median: float = 0.0  # of a column of numbers
    gaps: bool = False  # did a column of numbers miss values?
    values: tuple[str, ...] | None = None  # of a text column; empty: the column is dropped

    @property
    def dense_names(self) -> list[str]:
        """The names of its dense columns: ``age``, ``age missing``, ``sex = f``."""
        if self.values is not None:
            return [f"{self.name} = {value}" for value in self.values]
        return [self.name, f"{self.name} missing"] if self.gaps else [self.name]

    def codes(self, values: npt.NDArray[Any]) -> FloatMatrix:
        """Return the index of each value, NaN for other and missing values."""
        index = {value: float(code) for code, value in enumerate(self.values or ())}
        return np.array([index.get(value, np.nan) for value in values])

    def check_kind(self, values: npt.NDArray[Any]) -> None:
        """Raise an error if a column has changed from text to numbers or the other way."""
        has_numbers = values.dtype.kind == "f"
        if self.values is None:
            is_wrong, was, now = not has_numbers, "numbers", "text"
        else:
            # Text may look like numbers, and a column without any value is read as numbers.
            is_other = has_numbers and not np.isnan(values).all()
            is_wrong = is_other and bool(self.values) and not any(map(_is_number, self.values))
            was, now = "text", "numbers"
        if is_wrong:
            message = f"column '{self.name}' had {was} when the model was fitted, now it has {now}."
            raise ValueError(message)


class TableEncoder:
    """Encodes tables with the columns of the table it was fitted to.

    Parameters
    ----------
    max_categories
        The most frequent values of a text column that are encoded; others count as missing.
    drop_identifiers
        Drop text columns whose values are nearly all different.
    """

    def __init__(self, max_categories: int = MAX_CATEGORIES, drop_identifiers: bool = True) -> None:
        self.max_categories, self.drop_identifiers = max_categories, drop_identifiers
        self.columns: list[EncodedColumn] = []

    def fit(self, X: Any) -> TableEncoder:
        """Remember the columns, and warn about those that are dropped."""
        self.columns = []
        identifiers: list[str] = []
        empty: list[str] = []
        for name, values in _read_columns(X):
            is_number = values.dtype.kind == "f"
            column = _fit_numbers(name, values) if is_number else self._fit_text(name, values)
            if column is None:
                is_empty = is_number or all(value is None for value in values)
                (empty if is_empty else identifiers).append(f"'{name}'")
                column = EncodedColumn(name, values=())
            self.columns.append(column)
        for names, reason in (
            (identifiers, "text columns with almost only unique values"),
            (empty, "columns without any value"),
        ):
            if names:
                message = f"dropped {reason}: {', '.join(names)}"
                warnings.warn(message, TableWarning, stacklevel=4)
        if not self.dense_names:
            raise ValueError("no column of the table can be used as a feature.")
        return self

    def _fit_text(self, name: str, values: npt.NDArray[Any]) -> EncodedColumn | None:
        counts = Counter(value for value in values if value is not None)
        total = counts.total()
        is_identifier = total > MAX_CATEGORIES and len(counts) >= IDENTIFIER_SHARE * total
        if not counts or (self.drop_identifiers and is_identifier):
            return None
        frequent = sorted(value for value, _ in counts.most_common(self.max_categories))
        return EncodedColumn(name, values=tuple(frequent))

    def dense(self, X: Any) -> FloatMatrix:
        """Return numbers without gaps, indicators of gaps, and 0/1 columns of categories."""
        if isinstance(X, np.ndarray) and self._is_plain and (np.abs(X) <= MAX_NUMBER).all():
            return X.astype(np.float64, copy=False)
        parts: list[FloatMatrix] = []
        for column, values in self._matching_columns(X):
            if column.values is None:
                missing = np.isnan(values)
                parts.append(np.where(missing, column.median, values)[:, None])
                if column.gaps:
                    parts.append(missing.astype(float)[:, None])
            elif column.values:
                codes = column.codes(values)[:, None]
                parts.append((codes == np.arange(len(column.values))).astype(float))
        return np.ascontiguousarray(np.concatenate(parts, axis=1))

    def tree(self, X: Any) -> FloatMatrix:
        """Return one column for each, with missing values as NaN."""
        if isinstance(X, np.ndarray) and all(column.values is None for column in self.columns):
            return X.astype(np.float64, copy=False)
        parts: list[FloatMatrix] = []
        for column, values in self._matching_columns(X):
            if column.values is None:
                parts.append(values)
            elif column.values:
                parts.append(column.codes(values))
        return np.column_stack(parts)

    @property
    def _is_plain(self) -> bool:
        return not any(column.gaps or column.values is not None for column in self.columns)

    @property
    def dense_names(self) -> list[str]:
        """The names of the columns of the dense form."""
        return [name for column in self.columns for name in column.dense_names]

    @property
    def width(self) -> int:
        """The number of columns of the dense form."""
        return len(self.dense_names)

    def _matching_columns(self, X: Any) -> list[tuple[EncodedColumn, npt.NDArray[Any]]]:
        """Return the columns of a table, each as the kind that was fitted."""
        matching = []
        for column, (_, values) in zip(self.columns, _read_columns(X), strict=True):
            column.check_kind(values)
            if column.values is not None and values.dtype.kind == "f":
                texts = [None if np.isnan(value) else f"{value:g}" for value in values]
                values = np.array(texts, object)
            matching.append((column, values))
        return matching


def fill_gaps(frame: pd.DataFrame, categorical: bool = False) -> pd.DataFrame:
    """Return a benchmark table without gaps, to be encoded with all its values.

    A missing number becomes the median of its column, and a missing text the value "missing". With
    ``categorical`` numbers are values of categories, too.
    """
    import pandas as pd

    filled = {}
    for name in frame.columns:
        if is_numeric(frame[name]) and not categorical:
            numbers = pd.Series(frame[name].to_numpy(np.float64, na_value=np.nan))
            if numbers.isna().all():
                filled[name] = numbers.fillna(0.0)
            elif numbers.isna().any():
                filled[name] = numbers.fillna(numbers.median())
            else:
                filled[name] = numbers
            continue
        texts = frame[name].astype("string").fillna("missing")
        if texts.nunique() > MAX_BENCHMARK_CATEGORIES:
            raise UserError(
                f"column '{name}' has {texts.nunique()} different texts, and at most "
                f"{MAX_BENCHMARK_CATEGORIES} are encoded; list the other columns in `features`",
                "not-supported",
            )
        filled[name] = texts.reset_index(drop=True)
    return pd.DataFrame(filled)


def make_benchmark_encoder() -> TableEncoder:
    """Return an encoder that keeps all columns and values of a table without gaps."""
    return TableEncoder(max_categories=MAX_BENCHMARK_CATEGORIES, drop_identifiers=False)


def is_frame(X: Any) -> bool:
    """Is this a data frame of pandas or polars?"""
    return hasattr(X, "columns") and hasattr(X, "dtypes")


def is_numeric(column: pd.Series) -> bool:
    """Does a column of pandas have numbers or bools?"""
    from pandas.api import types

    return types.is_bool_dtype(column.dtype) or types.is_numeric_dtype(column.dtype)


def _fit_numbers(name: str, values: FloatMatrix) -> EncodedColumn | None:
    missing = np.isnan(values)
    if missing.all():
        return None
    return EncodedColumn(name, float(np.median(values[~missing])), bool(missing.any()))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _read_columns(X: Any) -> list[tuple[str, npt.NDArray[Any]]]:
    """Return names and values: float64 with NaN for numbers and bools, text or None for others."""
    if is_frame(X):
        table = [(str(name), _read_column(str(name), X[name])) for name in X.columns]
    else:
        table = [(f"column {at}", X[:, at].astype(np.float64)) for at in range(X.shape[1])]
    for name, values in table:
        if values.dtype.kind == "f":
            check_magnitude(name, values)
    return table


def check_magnitude(name: str, values: FloatMatrix) -> None:
    """Raise an error for a number that is too large; one such number would blank its column."""
    large = np.abs(values) > MAX_NUMBER
    if large.any():
        row = int(large.argmax())
        raise ValueError(
            f"column '{name}' has {values[row]:g} in data row {row + 1}, which is too large (at "
            f"most {MAX_NUMBER:g}); correct it, or leave it empty if it stands for a missing value."
        )


def _read_column(name: str, column: Any) -> npt.NDArray[Any]:
    is_polars = hasattr(column.dtype, "is_temporal")
    kind, values = _read_polars(column) if is_polars else _read_pandas(column)
    if kind == "dates":
        raise ValueError(f"column '{name}' has dates or times; {DATE_ADVICE}")
    if kind == "numbers":
        if np.isinf(values).any():
            raise ValueError(f"Input X contains infinity: column '{name}'.")
        return values
    missing = np.array([value is None or value != value for value in values], bool)
    present = values[~missing]
    number_kinds = (bool, int, float, np.bool_, np.number)
    if all(isinstance(value, number_kinds) for value in present):
        numbers = np.full(len(values), np.nan)
        numbers[~missing] = present.astype(float)
        return numbers
    if _are_dates(present[:MAX_DATE_SAMPLE]):
        raise ValueError(f"column '{name}' has dates or times; {DATE_ADVICE}")
    texts = np.full(len(values), None, object)
    texts[~missing] = [str(value).strip() for value in present]
    return texts


def _read_polars(column: Any) -> tuple[str, npt.NDArray[Any]]:
    """Return the kind of a column (dates, numbers or objects) and its values."""
    kind = column.dtype
    if kind.is_temporal():
        return "dates", np.empty(0)
    if kind.is_numeric() or str(kind) == "Boolean":
        return "numbers", np.asarray(column.cast(float, strict=False).to_numpy(), np.float64)
    return "objects", np.array(column.to_list(), object)


def _read_pandas(column: pd.Series) -> tuple[str, npt.NDArray[Any]]:
    """Return the kind of a column (dates, numbers or objects) and its values."""
    from pandas.api import types

    kind = column.dtype
    is_time = types.is_datetime64_any_dtype(kind) or types.is_timedelta64_dtype(kind)
    if is_time or str(kind).startswith("period"):
        return "dates", np.empty(0)
    if is_numeric(column):
        return "numbers", column.to_numpy(np.float64, na_value=np.nan)
    values = column.to_numpy(object, na_value=None)  # type: ignore[call-overload]
    return "objects", values


def _are_dates(values: npt.NDArray[Any]) -> bool:
    """Are all values of a sample dates or texts that look like dates?"""
    flags = [hasattr(value, "isoformat") or DATE_PATTERN.match(str(value)) for value in values]
    return bool(flags) and all(flags)
