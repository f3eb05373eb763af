"""The datasets by name. A new one is a file beside this with ``INFO`` and ``read``, and its name in ``BUILT_IN``."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import Protocol, runtime_checkable

from puarena.data import cifar10, digits, download, imagenette, letter, usps
from puarena.data.dataset import Dataset, DatasetInfo
from puarena.data.download import FileStatus, named_folder
from puarena.errors import UserError, unknown


class Reader(Protocol):
    """What the file of a dataset must have."""

    INFO: DatasetInfo

    def read(self, folder: Path | None) -> Dataset:
        """Read the dataset, its files taken from ``folder`` where that has them."""


@runtime_checkable
class Keeper(Reader, Protocol):
    """A reader that keeps what it decoded."""

    def cache_file(self, folder: Path | None) -> Path | None:
        """Return the file it is kept in, if that is there."""


BUILT_IN: dict[str, Reader] = {module.INFO.name: module for module in (digits, letter, usps, cifar10, imagenette)}


def names() -> list[str]:
    """Return the names of the built-in datasets."""
    return list(BUILT_IN)


def info(name: str | os.PathLike[str]) -> DatasetInfo:
    """Return what is known of a dataset. A built-in one is not read for this; a user's own is."""
    if _is_own(name):
        from puarena.data import own

        return own.info(Path(name), load(name))
    return _built_in(name).INFO


def load(name: str | os.PathLike[str], folder: str | os.PathLike[str] | None = None) -> Dataset:
    """Return a dataset by name, or a user's own by the path of its YAML file; read once per process."""
    if not _is_own(name):
        _built_in(name)
        variables = (download.ENVIRONMENT, download.CACHE_ENVIRONMENT, imagenette.SKIP_ENVIRONMENT)
        environment = tuple(os.environ.get(variable) for variable in variables)
        return _load_built_in(str(name), folder if folder is None else str(folder), environment)
    from puarena.data import own

    dataset = own.load(Path(name))
    if dataset.name in BUILT_IN:
        raise UserError(f"{name}: the name '{dataset.name}' belongs to a built-in dataset; set `name` to another")
    return dataset


def fetch(name: str, folder: str | os.PathLike[str] | None = None) -> list[Path]:
    """Download what is missing of a dataset (into ``folder`` if one is given) and return its verified files."""
    return download.fetch(_built_in(name).INFO, folder)


def verify(name: str, folder: str | os.PathLike[str] | None = None) -> list[FileStatus]:
    """Check every file of a dataset against its checksum, without downloading."""
    return download.verify(_built_in(name).INFO, folder)


def cache_file(name: str, folder: str | os.PathLike[str] | None = None) -> Path | None:
    """Return the file that keeps the decoded images of a dataset, if there is one."""
    reader = BUILT_IN.get(name)
    return reader.cache_file(named_folder(folder)) if isinstance(reader, Keeper) else None


@lru_cache(maxsize=8)
def _load_built_in(name: str, folder: str | None, environment: tuple[str | None, ...]) -> Dataset:
    return BUILT_IN[name].read(named_folder(folder))


def _built_in(name: str | os.PathLike[str]) -> Reader:
    if str(name) not in BUILT_IN:
        raise unknown("dataset", str(name), BUILT_IN)
    return BUILT_IN[str(name)]


def _is_own(name: str | os.PathLike[str]) -> bool:
    return str(name) not in BUILT_IN and (str(name).lower().endswith((".yaml", ".yml")) or Path(name).is_file())
