"""What a dataset is: a light record for the registry, and the arrays once it is read."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from puarena.datasets.views import Views
from puarena.errors import UserError

Floats = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]
Indices = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Archive:
    """A published .tar.gz that data files are unpacked from."""

    name: str
    url: str
    checksum: str  # "sha256:…" or, if only that was published, "md5:…"


@dataclass(frozen=True)
class DataFile:
    """One file as published. A file without a known checksum is not downloaded.

    A table of OpenML (``source``) has no published checksum: it is stored with the one it has when
    it is first fetched.
    """

    name: str
    url: str
    sha256: str | None
    archive: Archive | None = None
    source: str = ""  # "openml:ID"
    find: Callable[[Path], Path | None] | None = None  # looks for other forms of the file

    def find_in(self, folder: Path) -> Path | None:
        """Return the file, or another form of it, in ``folder``; None if there is none."""
        if self.find is not None:
            return self.find(folder)
        path = folder / self.name
        return path if path.is_file() else None


@dataclass(frozen=True, kw_only=True, eq=False)
class DatasetFacts:
    """What the drawing of problems depends on, apart from the arrays."""

    name: str
    class_names: tuple[str, ...]
    cases: Mapping[int, tuple[int, ...]]  # case -> positive classes
    size: int  # N of the protocol: labeled and unlabeled examples together
    test_fraction: float | None = None  # of a random test part; None: a fixed one
    stratify: bool = True  # is the random test part drawn class by class?
    balanced: bool = True  # as many examples of every class; otherwise natural proportions
    default_prior: float = 0.5
    case_priors: Mapping[int, float] = field(default_factory=dict)  # of cases with another prior
    shortfall: float = 0.0  # tolerated missing fraction of a class's labeled positives (two-sample)
    gray: bool = False  # are the features the pixels of a gray image?
    # The code of the setting in which labels were observed; empty: labels are simulated.
    observed_setting: str = ""
    truth: Literal["all", "test", "none"] = "all"  # the rows whose true classes are known

    def prior_of(self, case: int) -> float:
        """Return the class prior of a problem that names none."""
        return self.case_priors.get(case, self.default_prior)

    def positive(self, case: int) -> Flags:
        """Return which original classes are positive in ``case``: ``[classes]``."""
        if case not in self.cases:
            known = ", ".join(str(number) for number in sorted(self.cases))
            message = f"dataset '{self.name}' has no case {case}; choose one of: {known}"
            raise UserError(message, "unknown-name")
        flags = np.zeros(len(self.class_names), bool)
        flags[list(self.cases[case])] = True
        return flags


@dataclass(frozen=True, kw_only=True)
class DatasetInfo(DatasetFacts):
    """What is known of a dataset without reading it."""

    title: str
    description: str
    license: str = ""
    citation: str = ""
    urls: tuple[str, ...] = ()
    files: tuple[DataFile, ...] = ()
    files_of: str = ""  # the dataset whose files it is read from, if it has none of its own
    standardized_form: bool = False  # is there also NAME-standardised?
    examples: int
    shape: tuple[int, ...]  # of one example as networks see it
    kind: Literal["tabular", "image"] = "tabular"
    network: str = "mlp"
    stored: tuple[int, ...] | None = None  # the shape of one stored example, if it differs
    # By profile, with "" for any other. A function, because views import torch.
    views: Callable[[], Mapping[str, Views]] = dict
    order: int = 100  # place in lists

    @property
    def class_count(self) -> int:
        """Number of original classes."""
        return len(self.class_names)

    def views_of(self, profile: str) -> Views:
        """Return the views that examples are trained and evaluated with."""
        views = self.views()
        return views.get(profile, views.get("", Views()))


@dataclass(frozen=True, eq=False)
class ObservedLabels:
    """The labels of one case as the world gave them, and what is known of the truth.

    ``truth`` is 1 for a positive row, 0 for a negative one, and -1 where it is not known. Only the
    draw and test metrics read it; algorithms are given ``labeled`` and ``unlabeled``.
    """

    labeled: Indices
    unlabeled: Indices
    truth: npt.NDArray[np.int8]  # [n]
    test: Indices | None = None  # None: every split has a random part of the other rows

    def __post_init__(self) -> None:
        for array in (self.labeled, self.unlabeled, self.truth, self.test):
            if array is not None:
                array.setflags(write=False)

    @property
    def rate(self) -> float:
        """Share of the labeled among labeled and unlabeled rows."""
        return len(self.labeled) / (len(self.labeled) + len(self.unlabeled))

    def compute_prior(self, one_sample: bool) -> float:
        """Return the share of positives, NaN if the truth is not known of all rows."""
        rows = np.concatenate([self.labeled, self.unlabeled]) if one_sample else self.unlabeled
        known = self.truth[rows]
        return float(known.mean()) if (known >= 0).all() else math.nan


@dataclass(frozen=True, eq=False, kw_only=True)
class Dataset(DatasetFacts):
    """A dataset in memory: features and original classes of every example.

    Images are bytes ``[n, 3, height, width]``. ``evaluation`` has the same images as evaluation
    sees them, if no view of ``features`` can give that. Either ``train`` and ``test`` are given, or
    every split has its own random part of ``test_fraction`` for testing.

    Where labels were ``observed``, these decide about everything, and nothing reads ``classes``.
    """

    features: Floats | Bytes  # [n, …]
    classes: Indices  # [n], index into class_names
    train: Indices | None = None
    test: Indices | None = None
    evaluation: Bytes | None = None  # [n, 3, h, w]
    observed: Mapping[int, ObservedLabels] = field(default_factory=dict)  # by case
    unusable: Mapping[int, str] = field(default_factory=dict)  # cases without enough data, and why
    revision: str = ""  # a digest of the arrays

    def __post_init__(self) -> None:
        has_parts = self.train is not None and self.test is not None
        has_one_part = (self.train is None) != (self.test is None)
        if bool(self.observed) != bool(self.observed_setting):
            raise ValueError("observed labels and their setting go together")
        if self.observed:
            pass
        elif has_one_part or has_parts == (self.test_fraction is not None):
            raise ValueError("a dataset needs either train and test indices or a test_fraction")
        # Features stay writable, because torch warns about read-only arrays.
        for array in (self.classes, self.train, self.test):
            if array is not None:
                array.setflags(write=False)
        if not self.revision:
            object.__setattr__(self, "revision", _digest_arrays(self))

    def positive(self, case: int) -> Flags:
        """Return which original classes are positive in ``case``: ``[classes]``."""
        if case in self.unusable:
            raise UserError(f"'{self.name}' case {case}: {self.unusable[case]}", "missing-data")
        return super().positive(case)

    def table(self, index: Indices) -> Floats:
        """Return examples as rows of numbers, ``[n, features]``.

        Images are those of evaluation, with pixels in 0..1.
        """
        stored = self.features if self.evaluation is None else self.evaluation
        rows: npt.NDArray[Any] = stored[index].reshape(len(index), -1)
        if rows.dtype == np.uint8:
            rows = rows / np.float32(255)
        return np.asarray(rows, np.float32)


def standardize(
    values: npt.NDArray[Any], training: npt.NDArray[Any] | None = None
) -> npt.NDArray[Any]:
    """Return columns with mean 0 and deviation 1 on the training rows, which are all by default.

    A column that is constant on these is centered only.
    """
    training = values if training is None else training
    deviation = training.std(0)
    return np.asarray((values - training.mean(0)) / np.where(deviation > 0, deviation, 1))


def copy_facts(source: DatasetFacts) -> dict[str, Any]:
    """Return the fields that all records of a dataset share, to make another record of them."""
    return {field.name: getattr(source, field.name) for field in fields(DatasetFacts)}


def from_info(
    info: DatasetInfo,
    features: npt.NDArray[np.floating] | Bytes,
    classes: npt.NDArray[np.integer],
    train: npt.NDArray[np.integer] | None = None,
    test: npt.NDArray[np.integer] | None = None,
    evaluation: Bytes | None = None,
) -> Dataset:
    """Make a dataset of its record and arrays; bytes stay bytes, numbers become float32."""
    kind: Any = np.uint8 if features.dtype == np.uint8 else np.float32
    return Dataset(
        **copy_facts(info),
        features=np.ascontiguousarray(features, kind),
        classes=np.ascontiguousarray(classes, np.int64),
        train=None if train is None else np.asarray(train, np.int64),
        test=None if test is None else np.asarray(test, np.int64),
        evaluation=evaluation,
    )


def make_observed(
    info: DatasetFacts,
    features: npt.NDArray[np.floating],
    observed: Mapping[int, ObservedLabels],
    **facts: Any,
) -> Dataset:
    """Make a dataset of its record, features and observed labels; these decide its prior."""
    one_sample = info.observed_setting == "os"
    priors = {case: labels.compute_prior(one_sample) for case, labels in observed.items()}
    known = replace(info, case_priors=priors, cases={case: info.cases[case] for case in observed})
    return Dataset(
        **{**copy_facts(known), **facts},
        features=np.ascontiguousarray(features, np.float32),
        classes=np.full(len(features), -1, np.int64),
        observed=observed,
    )


def _digest_arrays(dataset: Dataset) -> str:
    digest = hashlib.sha256(repr((dataset.features.shape, dataset.class_names)).encode())
    arrays: list[npt.NDArray[Any] | None]
    arrays = [dataset.features, dataset.classes, dataset.train, dataset.test]
    if dataset.evaluation is not None:
        arrays.append(dataset.evaluation)
    for labels in dataset.observed.values():
        arrays += [labels.labeled, labels.unlabeled, labels.truth, labels.test]
    for array in arrays:
        digest.update(b"-" if array is None else np.ascontiguousarray(array).reshape(-1).data)
    return digest.hexdigest()[:12]
