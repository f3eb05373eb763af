"""A user's own table as a dataset: a file (CSV, Parquet, ARFF, KEEL's DAT, NPZ) and some YAML.

    name: churn                 # default: the name of the YAML file
    file: churn.csv             # relative to the YAML file; or openml:ID, or hf:NAME@REVISION
    label: left                 # column (NPZ: array, default "y"; openml: default the target)
    positive: ["yes"]           # or cases: {1: [...], 2: [...]}
    features: [age, calls]      # default: all other columns (NPZ: array, default "X")
    test: 0.2                   # a random fraction per split (class by class), or a file
    size: 2000                  # labeled and unlabeled together; default: the whole training pool
    prior: 0.3                  # default: the fraction of positives in the training pool
    balanced: false             # true: the same number of every class
    standardize: true           # each feature to mean 0 and deviation 1
    encode: false               # true: 0/1 columns for text, the median for missing numbers

A table whose labels were observed has no true label to hide, but a column of what is known:

    file: patients.csv
    observed: diagnosed         # 1 (yes, true): labeled; 0 (no, false): unlabeled
    truth: ill                  # optional: the truth, in this file or in the test file alone
    setting: one-sample         # or two-sample: the labeled rows were collected separately
    positive: ["yes"]           # optional: the value that means positive in both columns
    test: survey.csv            # optional: with `truth`, and needed if `file` does not have it
    features, standardize, encode: as above

Text is given as embeddings that were computed before, with a row for each row of the table.

    file: reviews.csv           # has the labels
    features: reviews.npy       # relative to the YAML file
    model: all-MiniLM-L6-v2@c9745ed1   # the model that computed them, and a hash of its weights
    sha256: 2c26b46b68ffc68f…   # of the array's file

With a test file, mean and deviation are those of ``file``. With a test fraction they are those of
the whole file, because the features are stored once for all splits: no label enters them.
"""

from __future__ import annotations

import math
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from puarena.datasets.base import (
    Dataset,
    DatasetFacts,
    DatasetInfo,
    ObservedLabels,
    copy_facts,
    make_observed,
    standardize,
)
from puarena.datasets.download import check_checksum, locate_remote_table
from puarena.datasets.encoding import (
    TableEncoder,
    check_magnitude,
    fill_gaps,
    is_numeric,
    make_benchmark_encoder,
)
from puarena.datasets.remote import is_remote, read_record
from puarena.datasets.tables import FILE_KINDS, file_kind, read_table, spell_label
from puarena.errors import UserError, suggest, unknown_name
from puarena.utils.counts import count_test_examples
from puarena.utils.files import describe_error
from puarena.utils.yaml_files import read_yaml

if TYPE_CHECKING:
    import pandas as pd

Label = bool | int | float | str
Fraction = Annotated[float, Field(gt=0, lt=1)]
SIMULATED_KEYS = ("label", "cases", "size", "prior", "balanced", "model", "sha256")
# How people write what YAML reads as a truth value.
TRUTH_TEXTS = {True: ("yes", "true", "on", "y", "t"), False: ("no", "false", "off", "n", "f")}


class TableDescription(BaseModel):
    """The content of the YAML file, validated."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str | None = None
    file: str
    label: str | None = None
    positive: list[Label] | None = None
    cases: dict[Annotated[int, Field(ge=1)], list[Label]] | None = None
    features: list[str] | None = None
    test: Fraction | str = 0.2
    size: Annotated[int, Field(ge=1)] | None = None
    prior: Fraction | None = None
    balanced: bool = False
    standardize: bool = True
    encode: bool = False
    model: Annotated[str, Field(pattern=r"^\S+@\w+$")] | None = None
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    observed: str | None = None
    truth: str | None = None
    setting: Literal["one-sample", "two-sample"] | None = None

    @field_validator("positive", "features", mode="before")
    @classmethod
    def _make_list(cls, value: object) -> object:
        return [value] if isinstance(value, Label) else value

    @property
    def embeddings(self) -> str:
        """The .npy file that replaces the features; empty if there is none."""
        return next((name for name in self.features or () if name.endswith(".npy")), "")


def read_description(path: Path) -> TableDescription:
    """Read and validate the YAML file."""
    content = read_yaml(path, "dataset file")
    for key in content:
        if key not in TableDescription.model_fields:
            error = unknown_name("key", key, TableDescription.model_fields)
            raise UserError(f"{path}: {error}", error.code)
    try:
        spec = TableDescription.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        key = str(first["loc"][0])
        message = f"{path}: `{key}` is wrong ({first['msg']}); {content.get(key)!r} was found"
        raise UserError(message, "invalid-spec") from error
    if fault := _find_fault(spec):
        raise UserError(f"{path}: {fault}", "invalid-spec")
    return spec


def _find_fault(spec: TableDescription) -> str:
    """Return which keys contradict each other; an empty text if none do."""
    if spec.observed is not None:
        return _find_observed_fault(spec)
    if spec.truth is not None or spec.setting is not None:
        return "`truth` and `setting` belong to `observed`, the column of observed labels"
    if (spec.positive is None) == (spec.cases is None):
        return "give either `positive` (a list of labels) or `cases` (lists by number)"
    if not spec.embeddings:
        if spec.model or spec.sha256:
            return "`model` and `sha256` describe embeddings; name their .npy file in `features`"
        return ""
    if len(spec.features or ()) > 1 or isinstance(spec.test, str):
        return "embeddings are one .npy file for all rows, without a `test` file"
    if not (spec.model and spec.sha256):
        return f"embeddings need `model: NAME@HASH` and `sha256` of '{spec.embeddings}'"
    return ""


def _find_observed_fault(spec: TableDescription) -> str:
    """Return which keys contradict observed labels; an empty text if none do."""
    simulated = [name for name in SIMULATED_KEYS if name in spec.model_fields_set]
    if simulated:
        return f"`{simulated[0]}` is of simulated labels and does not go with `observed`"
    if spec.observed == spec.truth:
        return f"`observed` and `truth` both name the column '{spec.truth}'"
    if spec.truth is None and "test" in spec.model_fields_set:
        return "`test` needs `truth`: the column of the truth, in that file if it is one"
    return ""


def load(path: Path) -> Dataset:
    """Read the dataset that a YAML file describes, again only if one of its files has changed."""
    spec = read_description(path)
    files = [path, _locate(path, spec.file)]
    if isinstance(spec.test, str):
        files.append(_locate(path, spec.test))
    if spec.embeddings:
        files.append(path.parent / spec.embeddings)
    for file in files:
        if not file.is_file():
            raise UserError(f"{path}: the file '{file}' does not exist", "missing-file")
    stamps = tuple((file.stat().st_size, file.stat().st_mtime_ns) for file in files)
    return _load(path.resolve(), stamps)


def make_info(path: Path, dataset: Dataset) -> DatasetInfo:
    """Return the registry's record of a user's own dataset."""
    model = read_description(path).model
    embeddings = f", embeddings of {model}" if model else ""
    return DatasetInfo(
        **copy_facts(dataset),
        title=dataset.name,
        description=f"own data described by {path.name}{embeddings}",
        examples=len(dataset.classes),
        shape=dataset.features.shape[1:],
    )


def _locate(path: Path, source: str) -> Path:
    """Return the file that a key of the YAML file names; a remote table is fetched."""
    return locate_remote_table(source) if is_remote(source) else path.parent / source


@lru_cache(maxsize=8)
def _load(path: Path, stamps: tuple[tuple[int, int], ...]) -> Dataset:
    spec = read_description(path)
    if spec.observed is not None:
        return _load_observed(path, spec)
    names, features, labels, pool_size = _read_all(path, spec)
    class_names = _sort_labels(labels)
    codes = {name: code for code, name in enumerate(class_names)}
    classes = np.array([codes[label] for label in labels], np.int64)
    cases = _read_cases(path, spec, class_names)
    train = test = fraction = None
    pool = np.bincount(classes[:pool_size], minlength=len(class_names))
    if isinstance(spec.test, str):
        train = np.arange(pool_size, dtype=np.int64)
        test = np.arange(pool_size, len(labels), dtype=np.int64)
    else:
        fraction = spec.test
        pool = pool - count_test_examples(classes, len(class_names), fraction)
    priors = {}
    for case, positive in cases.items():
        priors[case] = _pool_prior(path, case, positive, pool, spec.balanced)
    size = spec.size or int(pool.min() * len(pool) if spec.balanced else pool.sum())
    if size > pool.sum():
        message = f"`size` is {size} but only {pool.sum()} examples are left for training"
        raise UserError(f"{path}: {message}", "missing-data")
    return Dataset(
        name=spec.name or path.stem,
        features=_scale(spec, names, features, pool_size),
        classes=classes,
        class_names=class_names,
        cases=cases,
        size=size,
        train=train,
        test=test,
        test_fraction=fraction,
        balanced=spec.balanced,
        default_prior=spec.prior or priors[min(priors)],
        case_priors={} if spec.prior else priors,
    )


def _load_observed(path: Path, spec: TableDescription) -> Dataset:
    """Return the dataset of a table whose labels were observed."""
    assert spec.observed is not None
    frame = read_table(_locate(path, spec.file))
    names = _list_observed_features(path, spec, frame)
    labeled = _read_flags(spec, spec.file, frame, spec.observed)
    rows = len(frame)
    truth = _read_truth(spec, frame, labeled)
    known: Literal["all", "test", "none"] = "none" if truth is None else "all"
    if truth is None:
        truth = np.full(rows, -1, np.int8)
    tested, test, test_fraction = None, None, None
    if isinstance(spec.test, str) and spec.truth is not None:
        known = "all" if known == "all" else "test"
        tested = read_table(_locate(path, spec.test))
        _check_columns(spec.test, tested, [spec.truth, *names])
        found = _read_flags(spec, spec.test, tested, spec.truth).astype(np.int8)
        truth, test = np.concatenate([truth, found]), np.arange(rows, rows + len(tested))
    elif known == "none":
        test = np.zeros(0, np.int64)
    elif not isinstance(spec.test, str):
        test_fraction = spec.test
    encoder = None
    if spec.encode:
        encoder = _encode(spec.file, lambda: make_benchmark_encoder().fit(fill_gaps(frame[names])))
    values = _to_numbers(spec.file, frame[names], encoder)
    if tested is not None:
        tested_values = _to_numbers(str(spec.test), tested[names], encoder)
        values = np.concatenate([values, tested_values])
    labels = ObservedLabels(np.flatnonzero(labeled), np.flatnonzero(~labeled), truth, test)
    facts = DatasetFacts(
        name=spec.name or path.stem,
        class_names=("negative", "positive"),
        cases={1: (1,)},
        size=rows,
        test_fraction=test_fraction,
        balanced=False,
        default_prior=math.nan,
        observed_setting="ts" if spec.setting == "two-sample" else "os",
        truth=known,
    )
    columns = encoder.dense_names if encoder else names
    return make_observed(facts, _scale(spec, columns, values, rows), {1: labels})


def _list_observed_features(path: Path, spec: TableDescription, frame: pd.DataFrame) -> list[str]:
    """Return the feature columns of a table whose labels were observed."""
    others = [name for name in (spec.observed, spec.truth) if name is not None]
    names = spec.features or [name for name in frame.columns if name not in others]
    for name in others:
        if name in names:
            raise UserError(f"{path}: column '{name}' cannot be a feature too", "conflict")
    _check_columns(spec.file, frame, [others[0], *names])
    return names


def _read_truth(
    spec: TableDescription, frame: pd.DataFrame, labeled: npt.NDArray[np.bool_]
) -> npt.NDArray[np.int8] | None:
    """Return which training rows are positive, or None if the table does not tell."""
    if spec.truth is None:
        return None
    if spec.truth not in frame.columns:
        if not isinstance(spec.test, str):
            _check_columns(spec.file, frame, [spec.truth])
        return None
    truth = _read_flags(spec, spec.file, frame, spec.truth).astype(np.int8)
    wrong = labeled & (truth == 0)
    if wrong.any():
        raise UserError(
            f"{spec.file}: data row {int(wrong.argmax()) + 1} is labeled positive by "
            f"'{spec.observed}', and negative by '{spec.truth}'",
            "conflict",
        )
    return truth


def _check_columns(source: str, frame: pd.DataFrame, names: list[str]) -> None:
    for name in names:
        if name not in frame.columns:
            hint = suggest(name, list(frame.columns))
            raise UserError(f"{source}: there is no column '{name}'{hint}", "unknown-name")


def _read_flags(
    spec: TableDescription, source: str, frame: pd.DataFrame, name: str
) -> npt.NDArray[np.bool_]:
    """Return which rows of a column of two values have the positive one."""
    missing = frame[name].isna().to_numpy()
    if missing.any():
        row = int(missing.argmax()) + 1
        raise UserError(f"{source}: '{name}' is missing in data row {row}", "missing-data")
    texts = [spell_label(value).strip().lower() for value in frame[name].tolist()]
    positive = set(TRUTH_TEXTS[True]) | {"1"}
    negative = set(TRUTH_TEXTS[False]) | {"0", "-1"}
    if spec.positive is not None:
        positive = {spell_label(value).strip().lower() for value in spec.positive}
        if True in spec.positive:
            positive |= set(TRUTH_TEXTS[True])
        others = sorted(set(texts) - positive)
        negative = set(others[:1])
    unknown = sorted(set(texts) - positive - negative)
    if unknown:
        values = ", ".join(f"'{text}'" for text in sorted(set(texts))[:4])
        raise UserError(
            f"{source}: '{name}' has the values {values}, and '{unknown[0]}' is neither the "
            "positive nor the other one; it needs two values, such as 1 and 0, or name the "
            "positive ones in `positive`",
            "invalid-value",
        )
    return np.array([text in positive for text in texts], bool)


def _read_all(
    path: Path, spec: TableDescription
) -> tuple[list[str], npt.NDArray[np.float64], list[str], int]:
    """Return names and values of features, labels, and the number of rows before the test file."""
    frame, labels = _read_rows(path, spec, spec.file)
    pool_size = len(labels)
    if spec.embeddings:
        array = _read_embeddings(path, spec, pool_size)
        return [f"embedding[{at}]" for at in range(array.shape[1])], array, labels, pool_size
    encoder = None
    if spec.encode:
        encoder = _encode(spec.file, lambda: make_benchmark_encoder().fit(fill_gaps(frame)))
    features = _to_numbers(spec.file, frame, encoder)
    if isinstance(spec.test, str):
        test_frame, test_labels = _read_rows(path, spec, spec.test, list(frame.columns))
        test_features = _to_numbers(spec.test, test_frame, encoder)
        features, labels = np.concatenate([features, test_features]), labels + test_labels
    names = encoder.dense_names if encoder else list(frame.columns)
    return names, features, labels, pool_size


def _read_rows(
    path: Path, spec: TableDescription, source: str, names: list[str] | None = None
) -> tuple[pd.DataFrame, list[str]]:
    """Return the columns of features, of these names or as described, and the labels as text."""
    file = _locate(path, source)
    label = spec.label or read_record(file).get("target") or "y"
    if file_kind(file) == "npz":
        frame = _read_npz(spec, file, label)
    else:
        frame = read_table(file, (*FILE_KINDS, "npz"))
        names = names or spec.features
    if spec.embeddings:
        names = []
    if names is None:
        names = [name for name in frame.columns if name != label]
        if not names:
            raise UserError(f"{file}: the label '{label}' is the only column", "missing-data")
    for name in (label, *names):
        if name not in frame.columns:
            hint = suggest(name, list(frame.columns))
            raise UserError(f"{file}: there is no column '{name}'{hint}", "unknown-name")
    if label in names:
        message = f"{file}: column '{label}' is the label and cannot be a feature too"
        raise UserError(message, "conflict")
    missing = frame[label].isna().to_numpy()
    if missing.any():
        message = f"the label '{label}' is missing in data row {int(missing.argmax()) + 1}"
        raise UserError(f"{file}: {message}", "missing-data")
    return frame[names], [spell_label(value) for value in frame[label].tolist()]


def _read_npz(spec: TableDescription, file: Path, label: str) -> pd.DataFrame:
    import pandas as pd

    name = spec.features[0] if spec.features else "X"
    try:
        with np.load(file, allow_pickle=False) as arrays:
            content = {key: arrays[key] for key in (name, label) if key in arrays.files}
    # A damaged file can raise anything.
    except Exception as error:
        message = f"'{file}' cannot be read as NPZ: {describe_error(error)}"
        raise UserError(message, "damaged-file") from error
    for key in (name, label):
        if key not in content:
            raise UserError(f"{file}: there is no array '{key}'", "unknown-name")
    x, y = content[name], content[label]
    if x.dtype.kind not in "biuf" or x.ndim < 2 or y.ndim != 1 or len(x) != len(y):
        raise UserError(
            f"{file}: array '{name}' must have real numbers and a row for each of the labels in "
            f"'{label}', but the shapes are {x.shape} ({x.dtype}) and {y.shape}",
            "wrong-format",
        )
    x = x.reshape(len(x), -1)
    frame = pd.DataFrame(x, columns=[f"{name}[{column}]" for column in range(x.shape[1])])
    return frame.assign(**{label: y})


def _read_embeddings(path: Path, spec: TableDescription, rows: int) -> npt.NDArray[np.float64]:
    """Return embeddings as features if their file is the one that the YAML file describes."""
    file = path.parent / spec.embeddings
    check_checksum(file, spec.sha256, f"compute it again with {spec.model}, or correct `sha256`")
    try:
        array = np.load(file, allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        message = f"'{file}' cannot be read as NPY: {describe_error(error)}"
        raise UserError(message, "damaged-file") from error
    if array.dtype.kind not in "biuf" or array.ndim != 2 or len(array) != rows:
        message = f"{file} must have numbers in {rows} rows, one for each row of {spec.file}"
        raise UserError(message, "wrong-format")
    return array.astype(np.float64)


def _to_numbers(
    source: str, frame: pd.DataFrame, encoder: TableEncoder | None
) -> npt.NDArray[np.float64]:
    """Return the features ``[n, columns]``: encoded, or numbers that must all be there."""
    if encoder is not None:
        return _encode(source, lambda: encoder.dense(fill_gaps(frame)))
    columns = [_read_numbers(source, name, frame[name]) for name in frame.columns]
    values = np.stack(columns, axis=1)
    for bad, what in ((np.isnan(values), "missing (NaN)"), (np.isinf(values), "infinite")):
        if bad.any():
            row, column = np.argwhere(bad)[0]
            where = f"column '{frame.columns[column]}' in data row {row + 1}"
            raise UserError(f"{source}: the value of {where} is {what}", "missing-data")
    for at, name in enumerate(frame.columns):
        _encode(source, partial(check_magnitude, name, values[:, at]))
    return values


def _encode(source: str, encode: Any) -> Any:
    try:
        return encode()
    except ValueError as error:
        raise UserError(f"{source}: {error}", getattr(error, "code", "invalid-value")) from error


def _read_numbers(source: str, name: str, column: pd.Series) -> npt.NDArray[np.float64]:
    """Return a column as numbers; the error for another value names it."""
    import pandas as pd

    if not is_numeric(column):
        texts = column.astype("string")
        column = pd.to_numeric(texts, errors="coerce")
        is_text = column.isna() & texts.notna() & (texts.str.lower() != "nan")
        bad = is_text.fillna(False).to_numpy(bool)
        if bad.any():
            row = int(bad.argmax())
            message = f"'{texts.iloc[row]}' in column '{name}', data row {row + 1}, is not a number"
            if bad.mean() > 0.5:
                message += ": the column is categorical; write `encode: true`, or list the others"
            raise UserError(f"{source}: {message}", "wrong-format")
    return column.to_numpy(dtype=np.float64, na_value=np.nan)


def _sort_labels(labels: list[str]) -> tuple[str, ...]:
    """Return the distinct labels, in numeric order if they are numbers."""
    distinct = sorted(set(labels))
    try:
        return tuple(sorted(distinct, key=float))
    except ValueError:
        return tuple(distinct)


def _read_cases(
    path: Path, spec: TableDescription, class_names: tuple[str, ...]
) -> dict[int, tuple[int, ...]]:
    """Return the positive classes of every case."""
    cases = {}
    labels = {1: spec.positive or []} if spec.cases is None else spec.cases
    for case, values in labels.items():
        positive = {_find_class(path, value, class_names) for value in values}
        if not positive or len(positive) == len(class_names):
            lack = "negatives" if positive else "positives"
            message = f"{path}: case {case} has no {lack}; name some of the labels as positive"
            raise UserError(message, "invalid-spec")
        cases[case] = tuple(sorted(positive))
    if not cases:
        message = f"{path}: `cases` is empty; name the positive labels of at least one case"
        raise UserError(message, "invalid-spec")
    return cases


def _find_class(path: Path, value: Label, class_names: tuple[str, ...]) -> int:
    """Return the class of a label of the YAML file."""
    name, hint = spell_label(value), ""
    if isinstance(value, bool) and name not in class_names:
        # YAML reads yes, no, on and off without quotes as truth values.
        meant = [label for label in class_names if label.lower() in TRUTH_TEXTS[value]]
        name = meant[0] if len(meant) == 1 else name
        hint = " (text such as yes, no, on, off needs quotes in YAML)"
    if name not in class_names:
        error = unknown_name("positive label", name, class_names)
        raise UserError(f"{path}: {error}{hint}", error.code)
    return class_names.index(name)


def _pool_prior(
    path: Path, case: int, positive: tuple[int, ...], pool: npt.NDArray[Any], balanced: bool
) -> float:
    """Return the class prior of the training pool."""
    if balanced:
        return len(positive) / len(pool)
    prior = float(pool[list(positive)].sum() / pool.sum()) if pool.sum() else 0.0
    if not 0 < prior < 1:
        lack = "negatives" if prior else "positives"
        message = f"case {case} has no {lack} among the {pool.sum()} examples left for training"
        raise UserError(f"{path}: {message}", "missing-data")
    return prior


def _scale(
    spec: TableDescription, names: list[str], values: npt.NDArray[np.float64], pool_size: int
) -> npt.NDArray[np.float32]:
    """Standardize the features, if that is described, and store them as single precision."""
    with np.errstate(over="ignore", invalid="ignore"):
        if spec.standardize:
            values = standardize(values, values[:pool_size])
        features = values.astype(np.float32)
    if not np.isfinite(features).all():
        row, column = np.argwhere(~np.isfinite(features))[0]
        where = f"column '{names[column]}' in data row {row + 1}"
        raise UserError(f"{spec.file}: the value of {where} is too large", "invalid-value")
    return features
