"""Datasets: built-in ones, tables and images of users, their files and views.

``load`` returns a :class:`Dataset`: features ``[n, …]`` and original classes ``[n]``.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Protocol

from puarena.datasets import builtin, download
from puarena.datasets.base import DataFile, Dataset, DatasetInfo, standardize
from puarena.datasets.download import FileStatus
from puarena.datasets.views import View, Views
from puarena.errors import UserError, unknown_name
from puarena.utils.discovery import import_modules

__all__ = [
    "DataFile",
    "Dataset",
    "DatasetInfo",
    "FileStatus",
    "View",
    "Views",
    "fetch",
    "info",
    "is_here",
    "is_pinned",
    "load",
    "names",
    "verify",
    "views_of",
]

# The environment variables that decide what is read.
VARIABLES = (download.DATA_VARIABLE, download.CACHE_VARIABLE, download.SKIP_VARIABLE)


class DatasetReader(Protocol):
    """What the file of a dataset defines, or each of its ``READERS``."""

    @property
    def INFO(self) -> DatasetInfo:  # noqa: N802
        """What is known of the dataset without reading it."""

    def read(self, folder: Path | None) -> Dataset:
        """Read the dataset, with the files of ``folder`` if they are there."""


@dataclass(frozen=True)
class StandardizedReader:
    """Reads another dataset with every feature scaled to mean 0 and deviation 1."""

    raw: DatasetReader

    @property
    def INFO(self) -> DatasetInfo:  # noqa: N802
        """The other's record under a name of its own."""
        info = self.raw.INFO
        return replace(
            info,
            # British spelling: seeds depend on the names of datasets, so they never change.
            name=f"{info.name}-standardised",
            title=f"{info.title}, standardized",
            description=f"{info.name} with every feature scaled to mean 0 and deviation 1",
            files=(),
            files_of=info.name,
            order=info.order + 1,
        )

    def read(self, folder: Path | None) -> Dataset:
        """Scale the features; labels are not used."""
        raw = self.raw.read(folder)
        # The revision stays that of the raw values: scaled ones can differ in last bits.
        return replace(raw, name=self.INFO.name, features=standardize(raw.features))


@cache
def readers() -> dict[str, DatasetReader]:
    """Return the readers of the built-in datasets by name."""
    found: list[DatasetReader] = []
    for module in import_modules(builtin.__name__):
        for reader in getattr(module, "READERS", (module,)):
            found.append(reader)
            if reader.INFO.standardized_form:
                found.append(StandardizedReader(reader))
    found.sort(key=lambda reader: (reader.INFO.order, reader.INFO.name))
    return {reader.INFO.name: reader for reader in found}


def names() -> list[str]:
    """Return the names of the built-in datasets."""
    return list(readers())


def info(name: str | os.PathLike[str]) -> DatasetInfo:
    """Return what is known of a dataset; a built-in one is not read for this."""
    if _is_own(name):
        from puarena.datasets import own_tables

        return own_tables.make_info(Path(name), load(name))
    return _get_reader(name).INFO


def is_here(name: str | os.PathLike[str], folder: str | os.PathLike[str] | None = None) -> bool:
    """Can a dataset be read without fetching anything?"""
    return _is_own(name) or download.is_here(_info_with_files(name), folder)


def is_pinned(name: str | os.PathLike[str]) -> bool:
    """Does the name of a dataset determine its content, so that no digest of it is needed?"""
    return _is_own(name) or all(file.sha256 is not None for file in _info_with_files(name).files)


def views_of(name: str, profile: str) -> Views:
    """Return the views a dataset of this name is trained with; a user's own has none."""
    return readers()[name].INFO.views_of(profile) if name in readers() else Views()


def load(name: str | os.PathLike[str], folder: str | os.PathLike[str] | None = None) -> Dataset:
    """Return a dataset by name, or a user's own by its YAML file; it is read once per process."""
    if not _is_own(name):
        _get_reader(name)
        environment = tuple(os.environ.get(variable) for variable in VARIABLES)
        return _load_built_in(str(name), None if folder is None else str(folder), environment)
    from puarena.datasets import own_tables

    dataset = own_tables.load(Path(name))
    if dataset.name in readers():
        message = f"{name}: the name '{dataset.name}' belongs to a built-in dataset; set `name`"
        raise UserError(message, "conflict")
    return dataset


@lru_cache(maxsize=8)
def _load_built_in(name: str, folder: str | None, environment: tuple[str | None, ...]) -> Dataset:
    return readers()[name].read(download.named_folder(folder))


def fetch(name: str, folder: str | os.PathLike[str] | None = None) -> list[Path]:
    """Download the missing files of a dataset, to ``folder`` if given; return all its files."""
    return download.fetch(_info_with_files(name), folder)


def verify(name: str, folder: str | os.PathLike[str] | None = None) -> list[download.FileStatus]:
    """Check every file of a dataset against its checksum, without downloading."""
    return download.verify(_info_with_files(name), folder)


def _info_with_files(name: str | os.PathLike[str]) -> DatasetInfo:
    """Return the record with the files that a dataset is read from."""
    info = _get_reader(name).INFO
    return _get_reader(info.files_of).INFO if info.files_of else info


def _get_reader(name: str | os.PathLike[str]) -> DatasetReader:
    if str(name) not in readers():
        raise unknown_name("dataset", str(name), readers())
    return readers()[str(name)]


def _is_own(name: str | os.PathLike[str]) -> bool:
    is_yaml = str(name).lower().endswith((".yaml", ".yml"))
    return str(name) not in readers() and (is_yaml or Path(name).is_file())
