"""Finding, checking and fetching data files. Nothing is used, and nothing is kept, before its checksum is right."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shutil
import sys
import tarfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal

from puarena.datasets import remote
from puarena.datasets.dataset import Archive, DataFile, DatasetInfo
from puarena.errors import UserError
from puarena.utils.files import atomic_write

RETRIES = 2
TIMEOUT = 30.0  # seconds without an answer
LONGEST = 4 * 3600.0  # seconds for one file
BESIDES = 1 << 20  # bytes of an archive beside the files that are wanted of it
ENVIRONMENT = "PUARENA_DATA"
CACHE_ENVIRONMENT = "PUARENA_CACHE"

_checked: dict[
    tuple[str, int, int], str
] = {}  # (path, size, mtime) -> sha256, so that a file is hashed once a process


Status = Literal["ok", "missing", "wrong checksum", "no checksum known"]


@dataclass(frozen=True)
class FileStatus:
    """What ``verify`` found out about one file."""

    file: str
    status: Status
    path: Path | None
    expected: str | None
    actual: str | None


def cache_folder() -> Path:
    """Return the folder that downloads and decoded images are kept in: ``PUARENA_CACHE``, else the user's cache."""
    if folder := os.environ.get(CACHE_ENVIRONMENT):
        return Path(folder).expanduser()
    import pooch

    return Path(pooch.os_cache("puarena"))


def named_folder(folder: str | os.PathLike[str] | None) -> Path | None:
    """Return the folder that already has the files: the argument, else ``PUARENA_DATA``, else none."""
    if folder is None:
        folder = os.environ.get(ENVIRONMENT) or None
        source = ENVIRONMENT
    else:
        source = "--data"
    if folder is None:
        return None
    path = Path(folder).expanduser()
    if not path.is_dir():
        raise UserError(
            f"the data folder '{path}' named by {source} does not exist; create it or name another"
        )
    return path


def locate(info: DatasetInfo, file: DataFile, folder: Path | None) -> Path:
    """Return a verified copy of ``file``: from the named folder, from the cache, or downloaded into the cache."""
    path = _present(info, file, folder)
    if path is None:
        return download(info, file, cache_folder())
    remedy = f"run 'puarena data fetch {info.name}', or replace it by the file from {file.url}"
    return _checked_file(path, file.checksum(path), remedy)


def remote_table(source: str) -> Path:
    """Return a verified copy of a table that a user's dataset names by its source, fetched if it is not kept yet."""
    path = cache_folder() / "tables" / f"{re.sub(r'[^A-Za-z0-9.-]+', '_', source)}.parquet"
    if not path.is_file():
        remote.keep(source, path)
    return _checked_file(path, remote.record(path).get("sha256"), "it is fetched again")


def _checked_file(path: Path, expected: str | None, remedy: str) -> Path:
    if expected is not None and (actual := sha256(path)) != expected:
        raise UserError(
            f"{path} has the wrong checksum: expected sha256 {expected}, found {actual}; delete it and {remedy}"
        )
    return path


def fetch(info: DatasetInfo, folder: str | os.PathLike[str] | None = None) -> list[Path]:
    """Make sure every file is there and right; an explicit ``folder`` is where missing ones are put."""
    if folder is None:
        named = named_folder(None)
        return [locate(info, file, named) for file in info.files]
    target = Path(folder).expanduser()
    paths = []
    for file in info.files:
        present = _present(info, file, target, cache=False)
        paths.append(locate(info, file, target) if present else download(info, file, target))
    return paths


def is_here(info: DatasetInfo, folder: str | os.PathLike[str] | None = None) -> bool:
    """Is every file where ``locate`` would find it?"""
    named = named_folder(folder)
    return all(_present(info, file, named) for file in info.files)


def verify(info: DatasetInfo, folder: str | os.PathLike[str] | None = None) -> list[FileStatus]:
    """Look at every file where ``locate`` would look, without downloading."""
    named = named_folder(folder)
    report = []
    for file in info.files:
        path = _present(info, file, named)
        expected = file.checksum(path) if path else file.sha256
        actual = sha256(path) if path and path.is_file() else None
        status: Status
        if path is None:
            status = "missing"
        elif expected is None:
            status = "no checksum known"
        else:
            status = "ok" if actual == expected else "wrong checksum"
        report.append(FileStatus(file.name, status, path, expected, actual))
    return report


def download(info: DatasetInfo, file: DataFile, root: Path) -> Path:
    """Download one file to ``<root>/<dataset>/<file>``; it appears there only once it is complete and verified."""
    target = root / info.name / file.name
    if file.archive is not None:
        _unpack(info, file.archive, root)
    elif file.source:
        forms = f"{info.name}.arff, .csv or .parquet"
        remote.keep(
            file.source, target, f"name a folder that holds {forms} with {ENVIRONMENT} or --data"
        )
    elif file.sha256 is None:
        raise UserError(
            f"no checksum of '{file.name}' is known, so it is not downloaded; get it from {file.url} yourself and name "
            f"its folder with {ENVIRONMENT} or --data"
        )
    else:
        _retrieve(info, file.url, f"sha256:{file.sha256}", target, file.bytes)
    return target


def sha256(path: Path) -> str:
    """Return the checksum of a file, computed once per process as long as the file does not change."""
    try:
        stat = path.stat()
        key = (str(path.resolve()), stat.st_size, stat.st_mtime_ns)
        if key not in _checked:
            digest = hashlib.sha256()
            with path.open("rb") as stream:
                while block := stream.read(1 << 20):
                    digest.update(block)
            _checked[key] = digest.hexdigest()
    except OSError as error:
        raise UserError(f"cannot read '{path}': {error.strerror}") from error
    return _checked[key]


def _present(
    info: DatasetInfo, file: DataFile, folder: Path | None, cache: bool = True
) -> Path | None:
    places = [] if folder is None else [folder / info.name, folder]
    if cache:
        places.append(cache_folder() / info.name)
    return next((path for place in places if (path := file.inside(place))), None)


class _Limited:
    """A file that takes no more bytes, and for no longer, than a download should need."""

    def __init__(self, file: BinaryIO, size: int | None) -> None:
        self.file, self.left, self.until = file, size, time.monotonic() + LONGEST

    def write(self, block: bytes) -> int:
        """Write a block, or break off."""
        from requests import RequestException

        if self.left is not None:
            self.left -= len(block)
            if self.left < 0:
                raise RequestException("it sends more bytes than the file has")
        if time.monotonic() > self.until:
            raise RequestException(f"it took longer than {LONGEST / 3600:g} hours")
        return self.file.write(block)

    def flush(self) -> None:
        """Nothing is to be seen before all is there."""


def _retrieve(
    info: DatasetInfo, url: str, checksum: str, target: Path, size: int | None = None
) -> None:
    import pooch
    import requests

    def limited(url: str, path: str, owner: Any) -> None:
        with open(path, "wb") as file:
            pooch.HTTPDownloader(progressbar=sys.stderr.isatty(), timeout=TIMEOUT)(
                url, _Limited(file, size), owner
            )

    pooch.get_logger().setLevel(logging.WARNING)  # the progress bar says enough
    goodboy = pooch.create(
        path=target.parent,
        base_url="",
        registry={target.name: checksum},
        urls={target.name: url},
        retry_if_failed=RETRIES,
    )
    try:
        goodboy.fetch(target.name, downloader=limited)
    except (requests.RequestException, ConnectionError) as error:
        raise UserError(
            f"cannot fetch '{target.name}' of dataset '{info.name}' from {url} ({_cause(error)}); check the network, "
            f"or name a folder that holds the file with {ENVIRONMENT} or --data"
        ) from error
    except UserError:
        raise
    except ValueError as error:
        got = re.search(r"but got (\w+)", str(error))
        if got is None:
            raise
        raise UserError(
            f"'{target.name}' downloaded from {url} has the wrong checksum: expected {checksum.replace(':', ' ')}, "
            f"found {got[1]}; it was not kept: try again, or name a folder that holds the right file with "
            f"{ENVIRONMENT} or --data"
        ) from error
    except OSError as error:
        raise _unwritable(target, error) from error


def _unpack(info: DatasetInfo, archive: Archive, root: Path) -> None:
    """Download an archive, move its verified members into place and drop it."""
    folder = root / info.name
    packed = folder / archive.name
    sizes = [file.bytes for file in info.files if file.archive == archive]
    most = None if None in sizes else sum(size or 0 for size in sizes) + BESIDES
    _retrieve(info, archive.url, archive.checksum, packed, most)
    try:
        with tarfile.open(packed) as tar:
            for file in info.files:
                if file.archive == archive and not (folder / file.name).exists():
                    _unpack_member(tar, file, folder / file.name)
        packed.unlink()
    except (tarfile.TarError, KeyError) as error:
        raise UserError(
            f"'{packed}' is not the archive it should be ({error}); delete it and fetch again"
        ) from error
    except OSError as error:
        raise _unwritable(folder, error) from error


def _unpack_member(tar: tarfile.TarFile, file: DataFile, target: Path) -> None:
    source = tar.extractfile(file.name)
    if source is None:
        raise KeyError(f"'{file.name}' is not a plain file")
    target.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(target) as part:
        with part.open("wb") as stream:
            shutil.copyfileobj(source, stream)
        if file.sha256 is not None and (actual := sha256(part)) != file.sha256:
            raise UserError(
                f"'{file.name}' in {Path(str(tar.name)).name} has the wrong checksum: expected sha256 {file.sha256}, "
                f"found {actual}; it was not kept"
            )


def _unwritable(path: Path, error: OSError) -> UserError:
    return UserError(
        f"cannot write '{path}': {error.strerror or error}; free some space or name another folder"
    )


def _cause(error: Exception) -> str:
    """Return the innermost reason of a failed connection in a few words."""
    text = str(error)
    patterns = (
        r"^(it (?:sends|took) .*)$",
        r"\[Errno -?\d+\] ([^'\")]+)",
        r"(\d{3} (?:Client|Server) Error[^:]*: [^:]+)",
        r"(timed out)",
    )
    for pattern in patterns:
        if match := re.search(pattern, text):
            return match[1].strip()
    return type(error).__name__
