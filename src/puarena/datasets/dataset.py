"""What a dataset is: a light record for the registry, and the arrays once it is read."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from puarena.datasets import remote
from puarena.datasets.views import Views
from puarena.errors import UserError

Floats = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]
Indices = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Archive:
    """A published archive some data files are unpacked from."""

    name: str
    url: str
    checksum: str  # "sha256:…" or, where only that was published, "md5:…"


@dataclass(frozen=True)
class DataFile:
    """One file as published. A file whose checksum is unknown is never downloaded, unless it is kept with one."""

    name: str
    url: str
    sha256: str | None
    bytes: int | None = None
    archive: Archive | None = None
    find: Callable[[Path], Path | None] | None = (
        None  # where several forms will do: the one that a folder has
    )
    source: str = (
        ""  # of a table: where it is fetched from, to be kept with the checksum it has then
    )

    def inside(self, folder: Path) -> Path | None:
        """Return what ``folder`` has of this: the file, or another form of it; ``None`` if nothing."""
        if self.find is not None:
            return self.find(folder)
        path = folder / self.name
        return path if path.is_file() else None

    def checksum(self, path: Path) -> str | None:
        """Return the sha256 that ``path``, found by ``inside``, should have, if it is known."""
        return self.sha256 or remote.record(path).get("sha256")


@dataclass(frozen=True, kw_only=True)
class DatasetInfo:
    """What is known of a dataset without reading it."""

    name: str
    title: str
    description: str
    license: str = ""
    citation: str = ""
    urls: tuple[str, ...] = ()
    files: tuple[DataFile, ...] = ()
    files_of: str = ""  # the dataset whose files it is read from, where it has none of its own
    examples: int
    class_names: tuple[str, ...]
    shape: tuple[int, ...]  # of one example as networks see it
    kind: Literal["tabular", "image"] = "tabular"
    network: str = "mlp"
    cases: Mapping[int, tuple[int, ...]]
    size: int
    test_fraction: float | None = None
    stratify: bool = True
    balanced: bool = True
    default_prior: float = 0.5
    case_priors: Mapping[int, float] = field(default_factory=dict)
    shortfall: float = 0.0
    stored: tuple[int, ...] | None = None  # of one stored example, where that is another
    views: Callable[[], Mapping[str, Views]] = (
        dict  # by profile, "" for any other; called late: views need torch
    )
    gray: bool = False  # are the features the pixels of a gray image?
    environment: tuple[str, ...] = ()  # variables that change what is read
    order: int = 100  # place in lists

    @property
    def class_count(self) -> int:
        """Number of original classes."""
        return len(self.class_names)

    def prior_of(self, case: int) -> float:
        """Return the class prior a problem has when it names none; that of unbalanced data depends on the rows."""
        return self.case_priors.get(case, self.default_prior)

    def check_case(self, case: int) -> None:
        """Refuse a case that there is not."""
        check_case(self.name, self.cases, case)

    def views_of(self, profile: str) -> Views:
        """Return the views that examples are trained and evaluated with."""
        views = self.views()
        return views.get(profile, views.get("", Views()))


@dataclass(frozen=True, eq=False)
class Dataset:
    """A dataset in memory: features and original classes of every example, and the protocol's constants.

    Images are bytes ``[n, 3, height, width]``. ``evaluation`` has the same images as evaluation sees them, where a view
    of ``features`` cannot give that.
    Either ``train`` and ``test`` are given, or both are ``None`` and every trial sets aside its own random
    ``test_fraction`` (class by class if ``stratify``).
    """

    name: str
    features: Floats | Bytes  # [n, …]
    classes: Indices  # [n], index into class_names
    class_names: tuple[str, ...]
    cases: Mapping[int, tuple[int, ...]]  # case -> positive classes
    size: int  # N of the protocol: labeled and unlabeled examples together
    train: Indices | None = None
    test: Indices | None = None
    test_fraction: float | None = None
    stratify: bool = True
    balanced: bool = True  # the same number of every class is drawn; else natural proportions
    default_prior: float = 0.5
    case_priors: Mapping[int, float] = field(
        default_factory=dict
    )  # where the default prior depends on the case
    shortfall: float = (
        0.0  # largest tolerated missing fraction of a class's labeled positives (two-sample)
    )
    revision: str = ""
    evaluation: Bytes | None = None  # [n, 3, h, w]
    gray: bool = False  # are the features the pixels of a gray image?

    def __post_init__(self) -> None:
        if (self.train is None) != (self.test is None) or (self.test is None) == (
            self.test_fraction is None
        ):
            raise ValueError("a dataset needs either train and test indices or a test_fraction")
        for array in (
            self.classes,
            self.train,
            self.test,
        ):  # features stay writeable: torch warns about such arrays
            if array is not None:
                array.setflags(write=False)
        if not self.revision:
            object.__setattr__(self, "revision", _fingerprint(self))

    def prior_of(self, case: int) -> float:
        """Return the class prior a problem has when it names none."""
        return self.case_priors.get(case, self.default_prior)

    def table(self, index: Indices) -> Floats:
        """Return examples as rows of numbers, ``[n, features]``: images as evaluation sees them, pixels in 0..1."""
        stored = self.features if self.evaluation is None else self.evaluation
        rows = stored[index].reshape(len(index), -1)
        return np.asarray(rows / np.float32(255) if rows.dtype == np.uint8 else rows, np.float32)

    def positive(self, case: int) -> Flags:
        """Return which original classes are positive in ``case``: ``[classes]``."""
        check_case(self.name, self.cases, case)
        flags = np.zeros(len(self.class_names), bool)
        flags[list(self.cases[case])] = True
        return flags


def check_case(name: str, cases: Mapping[int, tuple[int, ...]], case: int) -> None:
    """Refuse a case that a dataset does not have."""
    if case not in cases:
        known = ", ".join(str(number) for number in sorted(cases))
        raise UserError(f"dataset '{name}' has no case {case}; choose one of: {known}")


def from_info(
    info: DatasetInfo,
    features: npt.NDArray[np.floating] | Bytes,
    classes: npt.NDArray[np.integer],
    train: npt.NDArray[np.integer] | None = None,
    test: npt.NDArray[np.integer] | None = None,
    evaluation: Bytes | None = None,
) -> Dataset:
    """Join the registry's record and the arrays read from the files; bytes stay bytes, numbers become float32."""
    kind: Any = np.uint8 if features.dtype == np.uint8 else np.float32
    common = {field.name for field in fields(Dataset)} & {field.name for field in fields(info)}
    return Dataset(
        features=np.ascontiguousarray(features, kind),
        classes=np.ascontiguousarray(classes, np.int64),
        train=None if train is None else np.asarray(train, np.int64),
        test=None if test is None else np.asarray(test, np.int64),
        evaluation=evaluation,
        **{name: getattr(info, name) for name in common},
    )


def _fingerprint(dataset: Dataset) -> str:
    digest = hashlib.sha256(repr((dataset.features.shape, dataset.class_names)).encode())
    arrays = [dataset.features, dataset.classes, dataset.train, dataset.test]
    for array in arrays if dataset.evaluation is None else [*arrays, dataset.evaluation]:
        digest.update(b"-" if array is None else np.ascontiguousarray(array).reshape(-1).data)
    return digest.hexdigest()[:12]
