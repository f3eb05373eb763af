"""Tables as they are into numbers: missing values, categories, bools; pandas, polars or a matrix.

Two forms of the same rows. *Dense*, for linear models and networks: a missing number becomes the column's median and
sets an indicator, a category becomes one column per frequent value. *Tree*, for trees: a missing number stays
missing, a category becomes the number of its value.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

DATE = re.compile(r"\s*\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}(\s|T|$)")
DATES = "column '{}' holds dates or times; turn them into numbers (such as days since an event) or drop them."
SEEN = 50  # values that are looked at to tell whether text is dates
EMPTY = "a column without any value"
LARGEST = 1e100  # the squares of larger numbers overflow
FREQUENT = 30  # values of a category that get a column of their own
DISTINCT = 0.9  # a text column with this share of different values is a name or a number of a row, no category


class TableWarning(UserWarning):
    """Something about a table that one should know."""


@dataclass(frozen=True)
class Column:
    """A column as it was when the table was fitted."""

    name: str
    median: float = 0.0  # of a column of numbers
    gaps: bool = False  # did it miss values?
    values: tuple[str, ...] | None = None  # the frequent values of a category; none: left out


class TableEncoder:
    """Remembers the columns of a table, and turns tables with the same columns into numbers."""

    def __init__(self, columns: list[Column] | None = None) -> None:
        self.columns = columns or []

    def fit(self, X: Any) -> TableEncoder:
        """Look at the columns; warn of those that are left out."""
        self.columns = []
        left_out: list[str] = []
        nothing: list[str] = []
        for name, values in _columns(X):
            if values.dtype.kind == "f":
                missing = np.isnan(values)
                if missing.all():
                    nothing.append(f"'{name}'")
                    self.columns.append(Column(name, values=()))
                    continue
                self.columns.append(
                    Column(name, float(np.median(values[~missing])), bool(missing.any()))
                )
                continue
            counts = Counter(value for value in values if value is not None)
            names = sum(counts.values()) > FREQUENT and len(counts) >= DISTINCT * sum(
                counts.values()
            )
            if names or not counts:
                (left_out if names else nothing).append(f"'{name}'")
            frequent = (
                () if names else tuple(sorted(value for value, _ in counts.most_common(FREQUENT)))
            )
            self.columns.append(Column(name, values=frequent))
        for names_, words in (
            (left_out, "text with a value of its own in almost every row"),
            (nothing, EMPTY),
        ):
            if names_:
                said = f"{words} is no feature; left out: {', '.join(names_)}"
                warnings.warn(said, TableWarning, stacklevel=4)
        if not any(c.values is None or c.values for c in self.columns):
            raise ValueError("no column of the table can be used as a feature.")
        return self

    def dense(self, X: Any) -> Floats:
        """Numbers without gaps, then indicators and columns of categories."""
        whole = isinstance(X, np.ndarray) and not any(
            c.gaps or c.values is not None for c in self.columns
        )
        if whole and not np.isnan(X).any():
            return X.astype(np.float64, copy=False)
        parts: list[Floats] = []
        for column, (_, values) in zip(self.columns, self._same(X), strict=True):
            if column.values is None:
                missing = np.isnan(values)
                parts.append(np.where(missing, column.median, values)[:, None])
                if column.gaps:
                    parts.append(missing.astype(float)[:, None])
            elif column.values:
                parts.append((values[:, None] == np.array(column.values, object)).astype(float))
        return np.ascontiguousarray(np.concatenate(parts, axis=1))

    def tree(self, X: Any) -> Floats:
        """One column for each, missing values as NaN."""
        if isinstance(X, np.ndarray) and all(c.values is None for c in self.columns):
            return X.astype(np.float64, copy=False)
        parts: list[Floats] = []
        for column, (_, values) in zip(self.columns, self._same(X), strict=True):
            if column.values is None:
                parts.append(values)
            elif column.values:
                place = {value: float(at) for at, value in enumerate(column.values)}
                parts.append(np.array([place.get(value, np.nan) for value in values]))
        return np.column_stack(parts)

    @property
    def width(self) -> int:
        """Columns of the dense form."""
        return len(self.dense_names)

    @property
    def dense_names(self) -> list[str]:
        """What the columns of the dense form are called: ``age``, ``age missing``, ``sex = f``."""
        names: list[str] = []
        for column in self.columns:
            if column.values is None:
                names += [column.name, f"{column.name} missing"][: 1 + column.gaps]
            else:
                names += [f"{column.name} = {value}" for value in column.values]
        return names

    def _same(self, X: Any) -> list[tuple[str, Any]]:
        """The columns of a table, of the kinds that were fitted."""
        table = _columns(X)
        for at, (column, (name, values)) in enumerate(zip(self.columns, table, strict=True)):
            if column.values and values.dtype.kind == "f" and not any(map(_numeric, column.values)):
                raise ValueError(
                    f"column '{name}' was of text when the model was fitted, and now has numbers."
                )
            if column.values is not None and values.dtype.kind == "f":
                table[at] = (
                    name,
                    np.array([None if np.isnan(v) else f"{v:g}" for v in values], object),
                )
            elif column.values is None and values.dtype.kind != "f":
                raise ValueError(
                    f"column '{name}' was of numbers when the model was fitted, and now has text."
                )
        return table

    def plain(self) -> list[dict[str, Any]]:
        """What is remembered, as plain data."""
        return [asdict(column) for column in self.columns]

    @classmethod
    def from_plain(cls, columns: list[dict[str, Any]]) -> TableEncoder:
        """The encoder that ``plain`` described."""
        return cls(
            [
                Column(
                    **{**c, "values": None if c["values"] is None else tuple(map(str, c["values"]))}
                )
                for c in columns
            ]
        )


def is_frame(X: Any) -> bool:
    """Is this a data frame of pandas or polars?"""
    return hasattr(X, "columns") and hasattr(X, "dtypes")


def _columns(X: Any) -> list[tuple[str, Any]]:
    """Names and values: float64 with NaN for numbers and bools, objects (text or None) for the rest."""
    if not is_frame(X):
        table = [(f"column {at}", X[:, at].astype(np.float64)) for at in range(X.shape[1])]
    else:
        table = [(str(name), _values(str(name), X[name])) for name in X.columns]
    for name, values in table:
        if values.dtype.kind == "f" and (np.abs(values) > LARGEST).any():
            raise ValueError(
                f"column '{name}' has numbers beyond {LARGEST:g}, too large to compute with."
            )
    return table


def _numeric(text: str) -> bool:
    """Does this text look like a number?"""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _values(name: str, column: Any) -> Any:
    kind = column.dtype
    if hasattr(kind, "is_temporal"):  # polars
        temporal, number = kind.is_temporal(), kind.is_numeric() or str(kind) == "Boolean"
        raw = (
            column.cast(float, strict=False).to_numpy()
            if number
            else np.array(column.to_list(), object)
        )
    else:
        from pandas.api import types

        temporal = (
            types.is_datetime64_any_dtype(kind)
            or types.is_timedelta64_dtype(kind)
            or str(kind)[:6] == "period"
        )
        number = types.is_bool_dtype(kind) or types.is_numeric_dtype(kind)
        raw = (
            column.to_numpy(float, na_value=np.nan)
            if number
            else column.to_numpy(object, na_value=None)
        )
    if temporal:
        raise ValueError(DATES.format(name))
    if number:
        values = np.asarray(raw, np.float64)
        if np.isinf(values).any():
            raise ValueError(f"Input X contains infinity: column '{name}'.")
        return values
    missing = np.array([v is None or v != v for v in raw], bool)
    if all(
        isinstance(v, (bool, int, float, np.bool_, np.number)) for v in raw[~missing]
    ):  # objects, but numbers
        values = np.full(len(raw), np.nan)
        values[~missing] = raw[~missing].astype(float)
        return values
    dated = [hasattr(v, "isoformat") or bool(DATE.match(str(v))) for v in raw[~missing][:SEEN]]
    if dated and all(dated):
        raise ValueError(DATES.format(name))
    return np.array(
        [None if gap else str(v).strip() for v, gap in zip(raw, missing, strict=True)], object
    )
