"""Encoding of tables as numbers: missing values, categories, dates and text.

Tables are of pandas or polars, or matrices.

There are three forms of the same rows. *Dense*, for networks and linear models: a missing number
becomes the column's median and sets an indicator, a category becomes one 0/1 column per frequent
value and one for the others, and a text becomes the leading components of its words. *Tree*, for
trees: a missing number stays missing, and a category becomes the index of its value. *Linear*, only
of tables with text: the dense columns on one scale, and the weights of all words as a sparse
matrix. An embedding of a text, if one is wanted, is added to the dense and to the linear form.

scikit-learn's ``OneHotEncoder`` and ``SimpleImputer`` were tried: ``max_categories=…`` counts
missing values among the others, ``add_indicator=True`` moves indicators to the end, and neither
names what it drops.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from puarena.errors import PUWarning, UserError

if TYPE_CHECKING:
    import pandas as pd
    from scipy.sparse import csr_matrix
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.preprocessing import TargetEncoder

FloatMatrix = npt.NDArray[np.float64]
Texts = npt.NDArray[np.object_]  # text, or None where a value is missing

DATE_PATTERN = re.compile(r"\s*\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}(\s|T|$)")
DATE_PARTS = ("year", "month", "weekday", "days")  # days since 1970
SECONDS_PER_DAY = 86_400
FIRST_WEEKDAY = 3  # the first of January 1970 was a Thursday, and Monday is 0
MAX_DATE_SAMPLE = 50  # values that decide whether a text column contains dates
MAX_NUMBER = 1e30  # larger numbers stand for missing ones, or their squares overflow
MAX_CATEGORIES = 30  # frequent values of a category that get a column of their own
MAX_BENCHMARK_CATEGORIES = 1000  # values of a category in benchmark datasets, which keep all
MAX_LEVELS = 5_000  # values of a category whose share of labeled rows is remembered
RATE_FOLDS = 5
MIN_LEVEL_ROWS = 2  # values of fewer rows are not remembered
IDENTIFIER_SHARE = 0.5  # a column with this share of different values identifies rows
IDENTIFIER_NAME = re.compile(
    r"(?:^|[_\s.-])(?:id|ids|uid|uuid|guid|key)$|[a-z](?:ID|Id)$"
    r"|^(?:customer|account|client|patient|policy|order|invoice|contract|case|row|record|member"
    r"|user)[_\s.-]?(?:no|nr|num|number)?$",
)
MIN_TEXT_WORDS = 4  # a column of this mean length is free text if its values are different
MAX_WORDS = 20_000  # words of a text column
MIN_WORD_ROWS = 3  # rarer words are left out
TEXT_COMPONENTS = 100  # of a text column in the dense form and in that of trees
WORDS, EMBEDDINGS = "words", "embeddings"  # the ways to read free text
EMBEDDING_PACKAGE = "wordllama"  # MIT; its files are part of it, so nothing is downloaded
EMBEDDING_COLUMNS = 256
EMBEDDED_ROWS = 1_000  # texts that are split into tokens at once
MAX_LOG_ODDS = 5.0  # of the share of labeled rows with a value
MISSING, OTHER = "(missing)", "(other)"
MAX_SHOWN_VALUES = 5  # in a warning


class TableWarning(PUWarning):
    """A warning about the content of a table."""


@dataclass(frozen=True)
class EncodedColumn:
    """What the encoder remembers of a column of the table it was fitted to.

    ``kind`` is number, category, date, text or dropped.
    """

    name: str
    kind: str = "number"
    medians: tuple[float, ...] = (0.0,)  # of a number; of the parts of a date
    scales: tuple[float, ...] = (1.0,)
    gaps: bool = False  # did a column of numbers or dates miss values?
    values: tuple[str, ...] = ()  # of a category
    has_others: bool = False  # has a category rarer values, too?
    day_first: bool = False  # of dates that are written as text

    @property
    def part_names(self) -> list[str]:
        """The names of its columns in the form for trees."""
        if self.kind == "date":
            return [f"{self.name} {part}" for part in DATE_PARTS]
        return [] if self.kind in ("dropped", "text") else [self.name]

    @property
    def dense_names(self) -> list[str]:
        """The names of its dense columns: ``age``, ``age missing``, ``sex = f``."""
        if self.kind == "category":
            others = [OTHER] if self.has_others else []
            return [f"{self.name} = {value}" for value in (*self.values, *others)]
        return [*self.part_names, f"{self.name} missing"] if self.gaps else self.part_names

    def read_codes(self, values: Texts) -> FloatMatrix:
        """Return the index of each value, NaN for missing and for unknown values."""
        import pandas as pd

        index = {value: float(code) for code, value in enumerate(self.values)}
        other = float(len(self.values)) if self.has_others else np.nan
        place, given = pd.factorize(values)  # -1, the last place, is that of missing values
        return np.array([*(index.get(value, other) for value in given), np.nan])[place]


@dataclass(frozen=True)
class TextModel:
    """The words of a text column, and the leading components of their weights.

    ``embedding`` names the package, with its version, whose embedding is added; empty: none.
    """

    words: TfidfVectorizer
    components: TruncatedSVD
    embedding: str = ""

    @property
    def widths(self) -> tuple[int, int, int]:
        """The numbers of columns of the dense form, that of trees, and the linear one."""
        count, more = len(self.components.components_), EMBEDDING_COLUMNS if self.embedding else 0
        return count + more, count, len(self.words.vocabulary_) + more

    def encode(self, values: Texts) -> tuple[FloatMatrix, FloatMatrix, csr_matrix]:
        """Return the dense form, that of trees, and the linear one.

        Trees split by one column at a time, and rank worse if they are given the embedding.
        """
        weights = self.words.transform([value or "" for value in values])
        components = self.components.transform(weights)
        if not self.embedding:
            return components, components, weights
        from scipy import sparse

        # Rows of words and of the embedding have length 1: neither needs another scale.
        vectors = _embed_texts(values, self.embedding)
        linear = sparse.hstack([weights, sparse.csr_matrix(vectors)], format="csr")
        return np.hstack([components, vectors]), components, linear


class TableEncoder:
    """Encodes tables with the columns of the table it was fitted to.

    Parameters
    ----------
    keep_all
        Keep every column and, of categories, every value, as benchmark datasets do. Otherwise
        columns that identify rows are left out, free text is read by its words, and values of
        categories beyond the most frequent count as one.
    text
        ``"words"``, or ``"embeddings"`` to read free text by an embedding, too.
    """

    def __init__(self, keep_all: bool = False, text: str = WORDS) -> None:
        self.keep_all = keep_all
        self.text = text
        self.columns: list[EncodedColumn] = []
        self.texts: dict[str, TextModel] = {}
        self.rates: TargetEncoder | None = None  # shares of labeled rows, see ``fit_rates``

    @property
    def max_categories(self) -> int:
        """The values of a category that get a column of their own."""
        return MAX_BENCHMARK_CATEGORIES if self.keep_all else MAX_CATEGORIES

    def fit(self, X: Any) -> TableEncoder:
        """Remember the columns, and warn about those that are dropped."""
        self.columns, self.texts, self.rates = [], {}, None
        identifiers: list[str] = []
        empty: list[str] = []
        for name, values, is_integer in _read_columns(X):
            if _is_empty(values):
                empty.append(f"'{name}'")
                column = EncodedColumn(name, "dropped")
            elif not self.keep_all and _is_identifier(name, values, is_integer):
                identifiers.append(f"'{name}'")
                column = EncodedColumn(name, "dropped")
            elif values.dtype.kind == "O":
                column = self._fit_text(name, values)
            else:
                column = _fit_numbers(name, values)
            self.columns.append(column)
        for names, reason in (
            (identifiers, "columns that identify rows"),
            (empty, "columns without any value"),
        ):
            if names:
                message = f"left out {reason}: {', '.join(names)}"
                warnings.warn(message, TableWarning, stacklevel=4)
        if not self.dense_names:
            raise ValueError("no column of the table can be used as a feature.")
        return self

    def _fit_text(self, name: str, values: Texts) -> EncodedColumn:
        present = [value for value in values if value is not None]
        if _are_dates(present[:MAX_DATE_SAMPLE]):
            day_first, days = _parse_dates(values)
            return _fit_numbers(name, days, day_first)
        counts = Counter(present)
        if not self.keep_all and _is_free_text(counts, len(present)):
            model = _fit_words(values, self.text == EMBEDDINGS)
            if model is not None:
                self.texts[name] = model
                return EncodedColumn(name, "text")
        frequent = sorted(value for value, _ in counts.most_common(self.max_categories))
        return EncodedColumn(
            name, "category", values=tuple(frequent), has_others=len(counts) > len(frequent)
        )

    # -- shares of labeled rows --------------------------------------------------------------------

    def fit_rates(self, X: Any, labeled: npt.NDArray[np.bool_], seed: int) -> FloatMatrix | None:
        """Remember the share of labeled rows by value, of categories with many values.

        Return these shares, as log-odds, of the rows it is fitted to, each from other rows; they
        are for ``encode``. None: the table has no such column.
        """
        if not any(column.has_others for column in self.columns):
            return None
        from sklearn.model_selection import KFold
        from sklearn.preprocessing import TargetEncoder

        table = self._match_columns(X)
        levels, target = self._read_levels(table, fitted=False), labeled.astype(float)
        shares = np.zeros(levels.shape)
        folds = KFold(min(RATE_FOLDS, len(target)), shuffle=True, random_state=seed % 2**31)
        for rest, held in folds.split(levels):
            encoder = TargetEncoder(target_type="continuous").fit(levels[rest], target[rest])
            shares[held] = encoder.transform(levels[held])
        self.rates = TargetEncoder(target_type="continuous").fit(levels, target)
        return _compute_log_odds(shares)

    def _read_levels(
        self, table: list[tuple[EncodedColumn, npt.NDArray[Any]]], fitted: bool
    ) -> Texts:
        """Return the columns with many values; rare values count as one."""
        parts: list[Texts] = []
        for column, values in table:
            if not column.has_others:
                continue
            values = np.array([MISSING if value is None else value for value in values], object)
            if fitted:
                assert self.rates is not None
                known = set(self.rates.categories_[len(parts)])
            else:
                counts = Counter(values.tolist()).most_common(MAX_LEVELS)
                known = {value for value, count in counts if count >= MIN_LEVEL_ROWS}
            parts.append(np.array([v if v in known else OTHER for v in values], object))
        return np.column_stack(parts)

    # -- encoding ----------------------------------------------------------------------------------

    def encode(
        self, X: Any, rates: FloatMatrix | None = None
    ) -> tuple[FloatMatrix, FloatMatrix, csr_matrix | None]:
        """Return the dense form, that of trees, and the linear one if there is text.

        ``rates`` are those of ``fit_rates`` for the rows it was fitted to.
        """
        if isinstance(X, np.ndarray) and all(each.kind == "number" for each in self.columns):
            return self.dense(X), self.tree(X), None
        table = self._match_columns(X)
        if rates is None and self.rates is not None:
            rates = _compute_log_odds(self.rates.transform(self._read_levels(table, fitted=True)))
        texts = self._encode_texts(table)
        more = [] if rates is None else [rates]
        dense = [*_make_dense(table), *more, *(text[0] for text in texts)]
        tree = [*_make_tree(table), *more, *(text[1] for text in texts)]
        linear = None
        if texts:
            from scipy import sparse

            scaled = map(sparse.csr_matrix, [*_make_dense(table, scaled=True), *more])
            linear = sparse.hstack([*scaled, *(text[2] for text in texts)], format="csr")
        return (
            np.ascontiguousarray(np.concatenate(dense, axis=1)),
            np.concatenate(tree, axis=1),
            linear,
        )

    def _encode_texts(
        self, table: list[tuple[EncodedColumn, npt.NDArray[Any]]]
    ) -> list[tuple[FloatMatrix, FloatMatrix, csr_matrix]]:
        """Return the three forms of every text column."""
        return [
            self.texts[column.name].encode(values)
            for column, values in table
            if column.kind == "text"
        ]

    def dense(self, X: Any) -> FloatMatrix:
        """Return numbers without gaps, indicators of gaps, and 0/1 columns of categories."""
        if isinstance(X, np.ndarray) and self._is_plain and (np.abs(X) <= MAX_NUMBER).all():
            return X.astype(np.float64, copy=False)
        table = self._match_columns(X)
        texts = [text[0] for text in self._encode_texts(table)]
        return np.ascontiguousarray(np.concatenate([*_make_dense(table), *texts], axis=1))

    def tree(self, X: Any) -> FloatMatrix:
        """Return one column for each, with missing values as NaN."""
        if isinstance(X, np.ndarray) and all(each.kind == "number" for each in self.columns):
            return X.astype(np.float64, copy=False)
        table = self._match_columns(X)
        texts = [text[1] for text in self._encode_texts(table)]
        return np.concatenate([*_make_tree(table), *texts], axis=1)

    @property
    def _is_plain(self) -> bool:
        return all(column.kind == "number" and not column.gaps for column in self.columns)

    @property
    def dense_names(self) -> list[str]:
        """The names of the columns of the dense form, without shares of labeled rows."""
        names = [name for column in self.columns for name in column.dense_names]
        for name, model in self.texts.items():
            width, count, _ = model.widths
            names += [f"{name} component {at + 1}" for at in range(count)]
            names += [f"{name} embedding {at + 1}" for at in range(width - count)]
        return names

    def find_places(self) -> dict[str, tuple[list[int], list[int], list[int]]]:
        """Return where each column of the table is in the dense form, that of trees and the linear.

        The last is for tables with text; it has the words in place of their components.
        """
        used = [column for column in self.columns if column.kind != "dropped"]
        places: dict[str, tuple[list[int], list[int], list[int]]] = {
            column.name: ([], [], []) for column in used
        }
        ends = [0, 0, 0]

        def append(name: str, *counts: int) -> None:
            for form, count in enumerate(counts):
                places[name][form].extend(range(ends[form], ends[form] + count))
                ends[form] += count

        for column in used:
            count = len(column.dense_names)
            append(column.name, count, len(column.part_names), count)
        for column in used:
            if self.rates is not None and column.has_others:
                append(column.name, 1, 1, 1)
        for name, model in self.texts.items():
            append(name, *model.widths)
        return places

    @property
    def width(self) -> int:
        """The number of columns of the dense form, without shares of labeled rows."""
        return len(self.dense_names)

    @property
    def dropped(self) -> list[str]:
        """The names of the columns that are left out."""
        return [column.name for column in self.columns if column.kind == "dropped"]

    def describe(self) -> list[str]:
        """Return a line for each kind of column that is not encoded as it is."""
        kinds = {
            "left out": self.dropped,
            "many values (frequent ones, and the share of labeled rows by value)": [
                column.name for column in self.columns if column.has_others
            ],
            "text (by its words)": [n for n, each in self.texts.items() if not each.embedding],
            "text (by its words and an embedding)": [
                f"{name} ({each.embedding})" for name, each in self.texts.items() if each.embedding
            ],
            "dates (year, month, weekday, days)": [
                column.name for column in self.columns if column.kind == "date"
            ],
        }
        return [f"{kind}: {', '.join(names)}" for kind, names in kinds.items() if names]

    def find_new_values(self, X: Any) -> dict[str, list[str]]:
        """Return the values of categories, by column of a frame, that were not fitted to."""
        found = {}
        for column in self.columns if is_frame(X) else ():
            if column.kind != "category" or column.has_others:
                continue
            given = X[column.name]
            once = given.drop_duplicates() if hasattr(given, "drop_duplicates") else given.unique()
            values = _match_kind(column, _read_column(column.name, once))
            new = sorted({str(v) for v in values if v is not None} - set(column.values))
            if new:
                found[column.name] = new
        return found

    def _match_columns(self, X: Any) -> list[tuple[EncodedColumn, npt.NDArray[Any]]]:
        """Return the columns that are used, each as the kind that was fitted."""
        dropped = set(self.dropped)
        used = [column for column in self.columns if column.name not in dropped]
        table = _read_columns(X, dropped)
        return [
            (column, _match_kind(column, values))
            for column, (_, values, _) in zip(used, table, strict=True)
        ]


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


def describe_new_values(name: str, values: list[str]) -> str:
    """Return a warning about values of a category that were not fitted to."""
    shown = ", ".join(values[:MAX_SHOWN_VALUES]) + (" …" if len(values) > MAX_SHOWN_VALUES else "")
    return f"column '{name}' has values that are new, and count as missing: {shown}"


def make_benchmark_encoder() -> TableEncoder:
    """Return an encoder that keeps all columns and values of a table without gaps."""
    return TableEncoder(keep_all=True)


def is_frame(X: Any) -> bool:
    """Is this a data frame of pandas or polars?"""
    return hasattr(X, "columns") and hasattr(X, "dtypes")


def is_numeric(column: pd.Series) -> bool:
    """Does a column of pandas have numbers or bools?"""
    from pandas.api import types

    return types.is_bool_dtype(column.dtype) or types.is_numeric_dtype(column.dtype)


# -- fitting ---------------------------------------------------------------------------------------


def _fit_numbers(name: str, values: npt.NDArray[Any], day_first: bool = False) -> EncodedColumn:
    """Return the column of numbers or dates."""
    numbers = _read_parts(values)
    scales = np.nanstd(numbers, axis=0)
    return EncodedColumn(
        name,
        "date" if values.dtype.kind == "M" else "number",
        medians=tuple(np.nanmedian(numbers, axis=0).tolist()),
        scales=tuple(np.where(scales > 0, scales, 1.0).tolist()),
        gaps=bool(np.isnan(numbers).any()),
        day_first=day_first,
    )


def _fit_words(values: Texts, embeds: bool) -> TextModel | None:
    """Return the words of a text column; None if no word is frequent enough."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    documents = [value or "" for value in values]
    words = TfidfVectorizer(
        sublinear_tf=True,
        min_df=min(MIN_WORD_ROWS, len(documents)),
        max_df=0.5,
        max_features=MAX_WORDS,
        strip_accents="unicode",
    )
    try:
        weights = words.fit_transform(documents)
    except ValueError:  # no word is left
        return None
    if weights.shape[1] < 2:
        return None
    count = min(TEXT_COMPONENTS, weights.shape[1] - 1)
    components = TruncatedSVD(count, random_state=0).fit(weights)
    return TextModel(words, components, _find_embedding()[1] if embeds else "")


def _find_embedding() -> tuple[Path, str]:
    """Return the folder of the package that has the embedding, and its name and version."""
    spec = find_spec(EMBEDDING_PACKAGE)
    if spec is None or spec.origin is None:
        raise UserError(
            f"text={EMBEDDINGS!r} needs {EMBEDDING_PACKAGE}; install it with: "
            "pip install 'puarena[text]'",
            "missing-dependency",
        )
    return Path(spec.origin).parent, f"{EMBEDDING_PACKAGE} {version(EMBEDDING_PACKAGE)}"


@cache
def _load_embedding(folder: Path) -> tuple[Any, npt.NDArray[np.float32]]:
    """Return what splits a text into tokens, and the vector of every token."""
    # Only the files of wordllama are used. To import it sets up logging for the whole program, and
    # its own mean pads 64 texts to the longest of them, for which a book needs gigabytes.
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizers/l2_supercat_tokenizer_config.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    vectors = load_file(folder / f"weights/l2_supercat_{EMBEDDING_COLUMNS}.safetensors")
    return tokenizer, vectors["embedding.weight"].astype(np.float32)


def _embed_texts(values: Texts, fitted: str) -> FloatMatrix:
    """Return the mean vector of the tokens of every text, of length 1; zeros if there are none.

    ``fitted`` is the package and version that the model was fitted with.
    """
    folder, found = _find_embedding()
    if found != fitted:
        message = f"the model was fitted with the embedding of {fitted}, and {found} is installed"
        warnings.warn(message, PUWarning, stacklevel=2)
    tokenizer, vectors = _load_embedding(folder)
    means = np.zeros((len(values), EMBEDDING_COLUMNS))
    # The tokenizer refuses halves of surrogate pairs.
    texts = [(value or "").encode(errors="replace").decode() for value in values]
    for start in range(0, len(texts), EMBEDDED_ROWS):
        batch = tokenizer.encode_batch(
            texts[start : start + EMBEDDED_ROWS], add_special_tokens=False
        )
        for row, tokens in enumerate(batch, start):
            once, counts = np.unique(np.array(tokens.ids, np.int64), return_counts=True)
            means[row] = (vectors[once] * counts[:, None]).sum(0)
    length = np.linalg.norm(means, axis=1, keepdims=True)
    return means / np.where(length > 0, length, 1.0)


def _is_free_text(counts: Counter[str], rows: int) -> bool:
    """Are the values long, and mostly different?"""
    if rows <= MAX_CATEGORIES or len(counts) < IDENTIFIER_SHARE * rows:
        return False
    return sum(len(value.split()) for value in counts) >= MIN_TEXT_WORDS * len(counts)


def _is_identifier(name: str, values: npt.NDArray[Any], is_integer: bool) -> bool:
    """Do the values only tell rows, or customers, apart?

    Texts that are nearly all different and no free text or dates; integers that count the rows;
    columns with many values whose name says so.
    """
    if values.dtype.kind == "O":
        present = [value for value in values if value is not None]
        if _are_dates(present[:MAX_DATE_SAMPLE]):
            return False
        counts = Counter(present)
        if len(counts) <= MAX_CATEGORIES or _is_free_text(counts, len(present)):
            return False
        return len(counts) >= IDENTIFIER_SHARE * len(present) or bool(IDENTIFIER_NAME.search(name))
    if not is_integer or np.isnan(values).any():
        return False
    different = len(np.unique(values))
    if different <= MAX_CATEGORIES:
        return False
    is_count = different == len(values) and np.ptp(values) == len(values) - 1
    is_ordered = bool((np.diff(values) > 0).all())
    return is_count or is_ordered or bool(IDENTIFIER_NAME.search(name))


def _is_empty(values: npt.NDArray[Any]) -> bool:
    if values.dtype.kind == "O":
        return all(value is None for value in values)
    return bool(np.isnat(values).all() if values.dtype.kind == "M" else np.isnan(values).all())


def _compute_log_odds(shares: FloatMatrix) -> FloatMatrix:
    lowest = 1 / (1 + np.exp(MAX_LOG_ODDS))
    shares = np.clip(np.asarray(shares, np.float64), lowest, 1 - lowest)
    return np.log(shares) - np.log1p(-shares)


# -- encoding --------------------------------------------------------------------------------------


def _match_kind(column: EncodedColumn, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return values as the kind of a fitted column; raise an error if they are of another."""
    kind = {"O": "text", "M": "dates"}.get(values.dtype.kind, "numbers")
    # A column without any value is read as numbers.
    is_empty = kind == "numbers" and bool(np.isnan(values).all())
    wanted = {"number": "numbers", "date": "dates"}.get(column.kind, "text")
    if wanted == "dates" and is_empty:
        return np.full(len(values), np.datetime64("NaT"), "datetime64[s]")
    if wanted == "dates" and kind == "text":
        return _parse_dates(values, column.day_first)[1]
    if wanted == "text" and kind == "numbers":
        # Text may look like numbers.
        looks_like_numbers = column.kind == "category" and any(map(_is_number, column.values))
        if is_empty or looks_like_numbers:
            texts = [None if np.isnan(value) else f"{value:g}" for value in values]
            return np.array(texts, object)
    if kind != wanted:
        message = f"column '{column.name}' had {wanted} when the model was fitted, now it has "
        raise ValueError(f"{message}{kind}.")
    return values


def _make_dense(
    table: list[tuple[EncodedColumn, npt.NDArray[Any]]], scaled: bool = False
) -> list[FloatMatrix]:
    """Return the dense columns of numbers, dates and categories."""
    rows = len(table[0][1])
    parts: list[FloatMatrix] = [np.empty((rows, 0))]
    for column, values in table:
        if column.kind == "category":
            count = len(column.values) + column.has_others
            parts.append((column.read_codes(values)[:, None] == np.arange(count)).astype(float))
        elif column.kind != "text":
            numbers = _read_parts(values)
            missing = np.isnan(numbers)
            numbers = np.where(missing, np.array(column.medians), numbers)
            if scaled:
                numbers = (numbers - np.array(column.medians)) / np.array(column.scales)
            parts.append(numbers)
            if column.gaps:
                parts.append(missing[:, :1].astype(float))
    return parts


def _make_tree(table: list[tuple[EncodedColumn, npt.NDArray[Any]]]) -> list[FloatMatrix]:
    """Return the columns for trees of numbers, dates and categories."""
    rows = len(table[0][1])
    parts: list[FloatMatrix] = [np.empty((rows, 0))]
    for column, values in table:
        if column.kind == "category":
            parts.append(column.read_codes(values)[:, None])
        elif column.kind != "text":
            parts.append(_read_parts(values))
    return parts


def _read_parts(values: npt.NDArray[Any]) -> FloatMatrix:
    """Return a column of numbers as it is, and one of dates as its parts."""
    if values.dtype.kind != "M":
        return np.asarray(values, np.float64)[:, None]
    missing = np.isnat(values)
    present = np.where(missing, np.datetime64(0, "s"), values)
    days = present.astype("datetime64[s]").astype(np.int64) / SECONDS_PER_DAY
    year = present.astype("datetime64[Y]").astype(np.int64) + 1970
    month = present.astype("datetime64[M]").astype(np.int64) % 12 + 1
    weekday = (np.floor(days) + FIRST_WEEKDAY) % 7
    parts = np.column_stack([year, month, weekday, days]).astype(np.float64)
    parts[missing] = np.nan
    return parts


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


# -- reading ---------------------------------------------------------------------------------------


def _read_columns(
    X: Any, skip: set[str] | frozenset[str] = frozenset()
) -> list[tuple[str, npt.NDArray[Any], bool]]:
    """Return names, values, and whether they are integers.

    Values are float64 with NaN for numbers and bools, datetime64 for dates, and text or None.
    """
    if is_frame(X):
        table = [
            (str(name), _read_column(str(name), X[name]), _has_integers(X[name]))
            for name in X.columns
            if str(name) not in skip
        ]
    else:
        names = [f"column {at}" for at in range(X.shape[1])]
        table = [
            (name, X[:, at].astype(np.float64), False)
            for at, name in enumerate(names)
            if name not in skip
        ]
    for name, values, _ in table:
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


def _has_integers(column: Any) -> bool:
    """Does a column of pandas or polars have integers?"""
    if hasattr(column.dtype, "is_integer"):
        return bool(column.dtype.is_integer())
    return getattr(column.dtype, "kind", "") in "iu"


def _read_column(name: str, column: Any) -> npt.NDArray[Any]:
    import pandas as pd

    is_polars = hasattr(column.dtype, "is_temporal")
    values = _read_polars(column) if is_polars else _read_pandas(column)
    if values.dtype.kind == "m":
        values = values.astype("timedelta64[s]").astype(np.float64) / SECONDS_PER_DAY
    if values.dtype.kind == "f" and np.isinf(values).any():
        raise ValueError(f"Input X contains infinity: column '{name}'.")
    if values.dtype.kind != "O":
        return values
    missing = pd.isna(values)
    present = values[~missing]
    number_kinds = (bool, int, float, np.bool_, np.number)
    if all(isinstance(value, number_kinds) for value in present):
        numbers = np.full(len(values), np.nan)
        numbers[~missing] = present.astype(float)
        return numbers
    texts = np.full(len(values), None, object)
    texts[~missing] = [
        value.strip() if isinstance(value, str) else _spell(value) for value in present
    ]
    return texts


def _spell(value: Any) -> str:
    """Return the text of a value that is none; of a date as ISO 8601."""
    return value.isoformat() if hasattr(value, "isoformat") else str(value).strip()


def _read_polars(column: Any) -> npt.NDArray[Any]:
    """Return numbers, dates, durations or objects."""
    kind = column.dtype
    if kind.is_temporal() and str(kind) != "Time":
        values = column.to_numpy()
        unit = "timedelta64[s]" if values.dtype.kind == "m" else "datetime64[s]"
        return np.asarray(values.astype(unit))
    if kind.is_numeric() or str(kind) == "Boolean":
        return np.asarray(column.cast(float, strict=False).to_numpy(), np.float64)
    return np.array(column.to_list(), object)


def _read_pandas(column: pd.Series) -> npt.NDArray[Any]:
    """Return numbers, dates, durations or objects."""
    from pandas.api import types

    kind = column.dtype
    if str(kind).startswith("period"):
        column = column.dt.to_timestamp()
    if types.is_timedelta64_dtype(kind):
        return column.to_numpy("timedelta64[s]").astype(np.float64) / SECONDS_PER_DAY
    if types.is_datetime64_any_dtype(column.dtype):
        if getattr(column.dtype, "tz", None) is not None:
            column = column.dt.tz_convert(None)
        return column.to_numpy("datetime64[s]")
    if is_numeric(column):
        return column.to_numpy(np.float64, na_value=np.nan)
    return np.asarray(column.to_numpy(object, na_value=None))  # type: ignore[call-overload]


def _are_dates(values: list[Any]) -> bool:
    """Do all texts of a sample look like dates?"""
    return bool(values) and all(DATE_PATTERN.match(value) for value in values)


def _parse_dates(
    values: Texts, day_first: bool | None = None
) -> tuple[bool, npt.NDArray[np.datetime64]]:
    """Return dates from text, and whether days stand before months.

    Unless it is known, this is the reading with fewer dates that do not exist.
    """
    import pandas as pd

    readings = []
    for order in (False, True) if day_first is None else (day_first,):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # pandas guesses loudly
            read = pd.to_datetime(
                pd.Series(values, dtype=object),
                errors="coerce",
                format="mixed",
                dayfirst=order,
                utc=True,
            )
        days = read.dt.tz_convert(None).to_numpy("datetime64[s]")
        readings.append((int(np.isnat(days).sum()), order, days))
    _, order, days = min(readings, key=lambda reading: reading[:2])
    return order, days
