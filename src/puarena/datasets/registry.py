"""The datasets by name: those of the folder ``sets``, and a user's own by the path of a YAML file."""

from __future__ import annotations

import os
from functools import cache, lru_cache
from pathlib import Path
from typing import Protocol, runtime_checkable

from puarena.datasets import builtin, download
from puarena.datasets.dataset import Dataset, DatasetInfo
from puarena.datasets.download import FileStatus, named_folder
from puarena.datasets.views import Views
from puarena.errors import UserError, unknown_name
from puarena.utils.discovery import import_modules


class Reader(Protocol):
    """What the file of a dataset must have, or each of its ``READERS`` where it has several."""

    @property
    def INFO(self) -> DatasetInfo:  # noqa: N802
        """What is known of it without reading it."""

    def read(self, folder: Path | None) -> Dataset:
        """Read the dataset, its files taken from ``folder`` where that has them."""


@runtime_checkable
class DecodedCache(Protocol):
    """What a reader has that keeps the images it decoded."""

    def cache_file(self, folder: Path | None) -> Path | None:
        """Return the file they are kept in, if that is there."""


@cache
def readers() -> dict[str, Reader]:
    """Return the built-in datasets' readers by name."""
    readers: list[Reader] = [
        reader
        for module in import_modules(builtin.__name__)
        for reader in getattr(module, "READERS", (module,))
    ]
    return {
        reader.INFO.name: reader
        for reader in sorted(readers, key=lambda r: (r.INFO.order, r.INFO.name))
    }


def names() -> list[str]:
    """Return the names of the built-in datasets."""
    return list(readers())


def info(name: str | os.PathLike[str]) -> DatasetInfo:
    """Return what is known of a dataset. A built-in one is not read for this; a user's own is."""
    if _is_own(name):
        from puarena.datasets import own

        return own.info(Path(name), load(name))
    return _built_in(name).INFO


def is_here(name: str | os.PathLike[str], folder: str | os.PathLike[str] | None = None) -> bool:
    """Can a dataset be read without fetching anything?"""
    return _is_own(name) or download.is_here(_built_in(name).INFO, folder)


def is_pinned(name: str | os.PathLike[str]) -> bool:
    """Does its name say what a dataset holds? Not of images that anybody may have packed; a user's own has a digest."""
    return _is_own(name) or all(file.sha256 is not None for file in _built_in(name).INFO.files)


def views_of(name: str, profile: str) -> Views:
    """Return the views a dataset of this name is trained with; a user's own has none."""
    return readers()[name].INFO.views_of(profile) if name in readers() else Views()


def load(name: str | os.PathLike[str], folder: str | os.PathLike[str] | None = None) -> Dataset:
    """Return a dataset by name, or a user's own by the path of its YAML file; read once per process."""
    if not _is_own(name):
        variables = (
            download.ENVIRONMENT,
            download.CACHE_ENVIRONMENT,
            *_built_in(name).INFO.environment,
        )
        environment = tuple(os.environ.get(variable) for variable in variables)
        return _load_built_in(str(name), folder if folder is None else str(folder), environment)
    from puarena.datasets import own

    dataset = own.load(Path(name))
    if dataset.name in readers():
        raise UserError(
            f"{name}: the name '{dataset.name}' belongs to a built-in dataset; set `name` to another"
        )
    return dataset


def fetch(name: str, folder: str | os.PathLike[str] | None = None) -> list[Path]:
    """Download what is missing of a dataset (into ``folder`` if one is given) and return its verified files."""
    return download.fetch(_with_files(name), folder)


def verify(name: str, folder: str | os.PathLike[str] | None = None) -> list[FileStatus]:
    """Check every file of a dataset against its checksum, without downloading."""
    return download.verify(_with_files(name), folder)


def cache_file(name: str, folder: str | os.PathLike[str] | None = None) -> Path | None:
    """Return the file that keeps the decoded images of a dataset, if there is one."""
    reader = readers().get(name)
    return reader.cache_file(named_folder(folder)) if isinstance(reader, DecodedCache) else None


@lru_cache(maxsize=8)
def _load_built_in(name: str, folder: str | None, environment: tuple[str | None, ...]) -> Dataset:
    return readers()[name].read(named_folder(folder))


def _with_files(name: str) -> DatasetInfo:
    """Return the record that has the files a dataset is read from."""
    info = _built_in(name).INFO
    return _built_in(info.files_of).INFO if info.files_of else info


def _built_in(name: str | os.PathLike[str]) -> Reader:
    if str(name) not in readers():
        raise unknown_name("dataset", str(name), readers())
    return readers()[str(name)]


def _is_own(name: str | os.PathLike[str]) -> bool:
    return str(name) not in readers() and (
        str(name).lower().endswith((".yaml", ".yml")) or Path(name).is_file()
    )
