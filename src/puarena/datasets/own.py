"""A user's own table as a dataset: a file (CSV, Parquet, ARFF, KEEL's DAT, NPZ) and a few lines of YAML.

    name: churn                 # default: the name of the YAML file
    file: churn.csv             # relative to the YAML file; or openml:ID, or hf:NAME@REVISION
    label: left                 # column (NPZ: array, default "y"; openml: default the target OpenML names)
    positive: ["yes"]           # or cases: {1: [...], 2: [...]}
    features: [age, calls]      # default: all other columns (NPZ: array, default "X")
    test: 0.2                   # a random fraction per trial (class by class), or a file like `file`
    size: 2000                  # labeled and unlabeled together; default: the whole training pool
    prior: 0.3                  # default: the fraction of positives in the training pool
    balanced: false             # true: the same number of every class
    standardize: true           # each feature to mean 0 and deviation 1
    encode: false               # true: 0/1 columns for the values of text columns, the median for missing numbers

Text is given as embeddings that were computed before: an array with a row for each row of the table.

    file: reviews.csv           # has the labels
    features: reviews.npy       # relative to the YAML file
    model: all-MiniLM-L6-v2@c9745ed1   # the model that made them, and the hash (or revision) of its weights
    sha256: 2c26b46b68ffc68f…   # of the array's file

With a test file, mean and deviation are those of ``file``. With a test fraction the test part differs from trial to
trial while the features are stored once, so they are those of the whole file: no label enters, only feature values.
"""

from __future__ import annotations

import re
import zipfile
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from puarena.datasets.archives import check_arrays
from puarena.datasets.dataset import Dataset, DatasetInfo
from puarena.datasets.download import remote_table, sha256
from puarena.datasets.frames import KINDS, encoded, label_text, numbers, read_frame, suffix
from puarena.datasets.remote import is_remote, record
from puarena.errors import UserError, suggest, unknown_name
from puarena.utils.counts import stratified_test_counts
from puarena.utils.yaml_files import read_yaml

if TYPE_CHECKING:
    import pandas as pd

Label = bool | int | float | str
TRUTH = {
    True: ("yes", "true", "on", "y", "t"),
    False: ("no", "false", "off", "n", "f"),
}  # as YAML and people write it
Fraction = Annotated[float, Field(gt=0, lt=1)]


class OwnSpec(BaseModel):
    """The YAML file, validated."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str | None = None
    file: str
    label: str = "y"
    positive: list[Label] | None = None
    cases: dict[Annotated[int, Field(ge=1)], list[Label]] | None = None
    features: list[str] | None = None
    test: Fraction | str = 0.2
    size: Annotated[int, Field(ge=1)] | None = None
    prior: Fraction | None = None
    balanced: bool = False
    standardize: bool = True
    encode: bool = False
    model: str | None = None
    sha256: str | None = None

    @field_validator("positive", "features", mode="before")
    @classmethod
    def _one_is_a_list(cls, value: object) -> object:
        return [value] if isinstance(value, Label) else value


def load(path: Path) -> Dataset:
    """Read the dataset a YAML file describes; read again only if one of the files changed."""
    spec = read_spec(path)
    files = [
        path,
        _file(path, spec.file),
        *([_file(path, spec.test)] if isinstance(spec.test, str) else []),
    ]
    files += [embeddings] if (embeddings := _embeddings(path, spec)) else []
    for file in files:
        if "\0" in str(file) or not file.is_file():
            raise UserError(f"{path}: the file {str(file)!r} does not exist")
    return _load(
        path.resolve(), tuple((file.stat().st_size, file.stat().st_mtime_ns) for file in files)
    )


def _file(path: Path, text: str) -> Path:
    """Return the file that a key of the YAML file names; a table from elsewhere is fetched."""
    return remote_table(text) if is_remote(text) else path.parent / text


def _embeddings(path: Path, spec: OwnSpec) -> Path | None:
    """Return the array that stands for the features, if there is one."""
    names = [name for name in spec.features or [] if name.endswith(".npy")]
    if not names:
        if spec.model or spec.sha256:
            raise UserError(
                f"{path}: `model` and `sha256` describe embeddings; name their .npy file in `features`"
            )
        return None
    if len(spec.features or []) > 1 or isinstance(spec.test, str):
        raise UserError(f"{path}: embeddings are one .npy file for all rows, without a `test` file")
    if not re.fullmatch(r"\S+@\w+", spec.model or "") or not re.fullmatch(
        r"[0-9a-f]{64}", spec.sha256 or ""
    ):
        raise UserError(
            f"{path}: embeddings need `model: NAME@HASH` and `sha256` of '{names[0]}' (64 hexadecimal digits), but "
            f"{spec.model!r} and {spec.sha256!r} were found"
        )
    return path.parent / names[0]


def info(path: Path, dataset: Dataset) -> DatasetInfo:
    """Return the registry's kind of record for a user's own dataset."""
    model = read_spec(path).model
    return DatasetInfo(
        name=dataset.name,
        title=dataset.name,
        description=f"own data described by {path.name}"
        + (f", embeddings of {model}" if model else ""),
        examples=len(dataset.classes),
        class_names=dataset.class_names,
        shape=dataset.features.shape[1:],
        cases=dataset.cases,
        size=dataset.size,
        test_fraction=dataset.test_fraction,
        balanced=dataset.balanced,
        default_prior=dataset.default_prior,
    )


def read_spec(path: Path) -> OwnSpec:
    """Read and validate the YAML file."""
    content = read_yaml(path, "dataset file")
    for key in content:
        if key not in OwnSpec.model_fields:
            raise UserError(f"{path}: {unknown_name('key', str(key), OwnSpec.model_fields)}")
    try:
        spec = OwnSpec.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = str(first["loc"][0]) if first["loc"] else "the file"
        raise UserError(
            f"{path}: `{where}` is wrong ({first['msg']}); {content.get(where)!r} was found"
        ) from error
    if (spec.positive is None) == (spec.cases is None):
        raise UserError(
            f"{path}: give either `positive` (a list of labels) or `cases` (lists by number), and not both"
        )
    return spec


@lru_cache(maxsize=8)
def _load(path: Path, stamps: tuple[tuple[int, int], ...]) -> Dataset:
    spec = read_spec(path)
    columns, features, labels = _read_table(path, spec, _file(path, spec.file))
    train = test = fraction = None
    pool_size = len(labels)
    if isinstance(spec.test, str):
        test_columns, test_features, test_labels = _read_table(
            path, spec, _file(path, spec.test), columns
        )
        if test_columns != columns:
            raise UserError(
                f"{spec.test} has {len(test_columns)} features but {spec.file} has {len(columns)}"
            )
        features, labels = np.concatenate([features, test_features]), labels + test_labels
        train, test = (
            np.arange(pool_size, dtype=np.int64),
            np.arange(pool_size, len(labels), dtype=np.int64),
        )
    else:
        fraction = spec.test
    class_names = _class_names(labels)
    numbers = {name: number for number, name in enumerate(class_names)}
    classes = np.array([numbers[label] for label in labels], np.int64)
    cases = _cases(path, spec, class_names)

    pool = np.bincount(classes[:pool_size], minlength=len(class_names))
    if fraction is not None:
        pool = pool - stratified_test_counts(classes, len(class_names), fraction)
    natural = {
        case: _pool_prior(path, case, positive, pool, spec.balanced)
        for case, positive in cases.items()
    }
    size = spec.size or int(pool.min() * len(pool) if spec.balanced else pool.sum())
    if size > pool.sum():
        raise UserError(
            f"{path}: `size` is {size} but only {pool.sum()} examples are left for training"
        )
    return Dataset(
        name=spec.name or path.stem,
        features=_scaled(spec, columns, features, pool_size),
        classes=classes,
        class_names=class_names,
        cases=cases,
        size=size,
        train=train,
        test=test,
        test_fraction=fraction,
        balanced=spec.balanced,
        default_prior=spec.prior or natural[min(natural)],
        case_priors={} if spec.prior else natural,
    )


def _cases(path: Path, spec: OwnSpec, class_names: tuple[str, ...]) -> dict[int, tuple[int, ...]]:
    cases = {}
    for case, positive in ({1: spec.positive or []} if spec.cases is None else spec.cases).items():
        known = []
        for value in positive:
            name = _as_in_file(value, class_names)
            if name not in class_names:
                hint = (
                    " (text such as yes, no, on, off needs quotes in YAML)"
                    if isinstance(value, bool)
                    else ""
                )
                raise UserError(
                    f"{path}: {unknown_name('positive label', name, class_names)}{hint}"
                )
            known.append(class_names.index(name))
        if not known:
            raise UserError(
                f"{path}: case {case} names no positive label, so there are no positives"
            )
        if len(set(known)) == len(class_names):
            raise UserError(
                f"{path}: case {case} makes every label positive, so there are no negatives"
            )
        cases[case] = tuple(sorted(set(known)))
    if not cases:
        raise UserError(f"{path}: `cases` is empty; name the positive labels of at least one case")
    return cases


def _as_in_file(value: Label, class_names: tuple[str, ...]) -> str:
    """A label of the YAML file as the table spells it: ``yes`` without quotes is a truth value in YAML."""
    name = label_text(value)
    if isinstance(value, bool) and name not in class_names:
        meant = [label for label in class_names if label.lower() in TRUTH[value]]
        return meant[0] if len(meant) == 1 else name
    return name


def _pool_prior(
    path: Path, case: int, positive: tuple[int, ...], pool: npt.NDArray[Any], balanced: bool
) -> float:
    if balanced:
        return len(positive) / len(pool)
    prior = float(pool[list(positive)].sum() / pool.sum()) if pool.sum() else 0.0
    if not 0 < prior < 1:
        side = "negatives" if prior else "positives"
        raise UserError(
            f"{path}: case {case} has no {side} among the {pool.sum()} examples left for training"
        )
    return prior


def _read_table(
    path: Path, spec: OwnSpec, file: Path, columns: list[str] | None = None
) -> tuple[list[str], npt.NDArray[np.float64], list[str]]:
    """Return the feature names, the features ``[n, columns]`` and the labels as text."""
    kind = suffix(file)
    if (target := record(file).get("target")) and "label" not in spec.model_fields_set:
        spec = spec.model_copy(update={"label": target})
    if kind == "npz":
        names, values, labels = _read_npz(spec, file)
    elif kind in KINDS:
        names, values, labels = _from_frame(path, spec, file, read_frame(file), columns)
    else:
        raise UserError(f"{path}: '{file.name}' is no .{', .'.join(KINDS)} or .npz file")
    if not labels:
        raise UserError(f"'{file}' has no rows")
    for bad, what in ((np.isnan(values), "missing (NaN)"), (np.isinf(values), "infinite")):
        if bad.any():
            row, column = np.argwhere(bad)[0]
            raise UserError(
                f"{file}: the value of column '{names[column]}' in data row {row + 1} is {what}"
            )
    return names, values, labels


def _from_frame(
    path: Path, spec: OwnSpec, file: Path, frame: pd.DataFrame, columns: list[str] | None
) -> tuple[list[str], npt.NDArray[np.float64], list[str]]:
    present = [str(column) for column in frame.columns]
    stored = _embeddings(path, spec)
    names = (
        (columns if not spec.encode else None)
        or spec.features
        or [name for name in present if name != spec.label]
    )
    for column in (spec.label, *([] if stored else names)):
        if column not in present:
            raise UserError(f"{file}: there is no column '{column}'{suggest(column, present)}")
    if spec.label in names:
        raise UserError(f"{file}: column '{spec.label}' is the label and cannot be a feature too")
    if not names:
        raise UserError(f"{file}: there is no column beside the label '{spec.label}'")
    missing = frame[spec.label].isna().to_numpy()
    if missing.any():
        raise UserError(
            f"{file}: the label '{spec.label}' is missing in data row {int(missing.argmax()) + 1}"
        )
    labels = [label_text(value) for value in frame[spec.label].tolist()]
    if stored:
        return *_stored(spec, stored, len(labels)), labels
    if spec.encode:
        table = encoded(file, frame, list(names))
        if (
            columns is not None
        ):  # of the training file: a value that only the test file has is none of them
            table = table.reindex(columns=columns, fill_value=0.0)
        return list(table.columns), table.to_numpy(np.float64), labels
    return (
        list(names),
        np.stack([numbers(file, name, frame[name]) for name in names], axis=1),
        labels,
    )


def _stored(spec: OwnSpec, file: Path, rows: int) -> tuple[list[str], npt.NDArray[np.float64]]:
    """Return embeddings as features, once their file is the one that the YAML file describes."""
    if (actual := sha256(file)) != spec.sha256:
        raise UserError(
            f"{file} has the wrong checksum: expected sha256 {spec.sha256}, found {actual}; compute it again with "
            f"{spec.model}, or correct `sha256`"
        )
    try:
        array = np.load(file, allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise UserError(f"'{file}' cannot be read as NPY: {error}") from error
    shape: tuple[int, ...] = (
        array.shape if isinstance(array, np.ndarray) and array.dtype.kind in "biuf" else ()
    )
    if len(shape) != 2 or shape[0] != rows:
        raise UserError(f"{file} must hold numbers in {rows} rows, one for each row of {spec.file}")
    return [f"embedding[{column}]" for column in range(array.shape[1])], array.astype(np.float64)


def _read_npz(spec: OwnSpec, file: Path) -> tuple[list[str], npt.NDArray[np.float64], list[str]]:
    name = "X" if spec.features is None else spec.features[0]
    if spec.features is not None and len(spec.features) > 1:
        raise UserError(
            f"{file}: `features` of an NPZ file is the name of one array, but several were given"
        )
    try:
        if zipfile.is_zipfile(file):
            check_arrays(file, (name, spec.label))
        with np.load(file, allow_pickle=False) as arrays:
            for key in (name, spec.label):
                if key not in arrays.files:
                    raise UserError(
                        f"{file}: there is no array '{key}'{suggest(key, arrays.files)}"
                    )
            x, y = arrays[name], arrays[spec.label]
    except UserError:
        raise
    except Exception as error:  # a damaged file can raise anything
        raise UserError(f"'{file}' cannot be read as NPZ: {error}") from error
    if x.dtype.kind not in "biuf":
        raise UserError(
            f"{file}: array '{name}' holds values of type {x.dtype}, but features must be real numbers"
        )
    if x.ndim < 2 or y.ndim != 1 or len(x) != len(y):
        raise UserError(
            f"{file}: array '{name}' must have a row for each of the labels in '{spec.label}', but the shapes are "
            f"{x.shape} and {y.shape}"
        )
    if y.dtype.kind == "f" and np.isnan(y).any():
        raise UserError(
            f"{file}: the label '{spec.label}' is missing in data row {int(np.isnan(y).argmax()) + 1}"
        )
    x = x.reshape(len(x), -1).astype(np.float64)
    return (
        [f"{name}[{column}]" for column in range(x.shape[1])],
        x,
        [label_text(value) for value in y.tolist()],
    )


def _scaled(
    spec: OwnSpec, columns: list[str], values: npt.NDArray[np.float64], pool_size: int
) -> npt.NDArray[np.float32]:
    with np.errstate(over="ignore", invalid="ignore"):
        if spec.standardize:
            deviation = values[:pool_size].std(axis=0)
            values = (values - values[:pool_size].mean(axis=0)) / np.where(
                deviation > 0, deviation, 1.0
            )
        features = values.astype(np.float32)
    if not np.isfinite(features).all():
        row, column = np.argwhere(~np.isfinite(features))[0]
        raise UserError(
            f"{spec.file}: the value of column '{columns[column]}' in data row {row + 1} is too large"
        )
    return features


def _class_names(labels: list[str]) -> tuple[str, ...]:
    """Return the distinct labels, in numeric order if they are numbers."""
    distinct = sorted(set(labels))
    try:
        return tuple(sorted(distinct, key=float))
    except ValueError:
        return tuple(distinct)
