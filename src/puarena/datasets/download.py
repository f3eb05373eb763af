"""Finding, downloading and verifying data files; none is used before its checksum is verified."""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import re
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from puarena.datasets import remote
from puarena.datasets.base import DataFile, DatasetInfo
from puarena.errors import UserError
from puarena.utils.files import cannot_read, cannot_write, describe_error

DATA_VARIABLE = "PUARENA_DATA"  # names a folder that has the files already
CACHE_VARIABLE = "PUARENA_CACHE"  # names the folder for downloads and decoded images
SKIP_VARIABLE = "PUARENA_SKIP_BAD_IMAGES"  # 1: leave out images that are missing or damaged
MAX_RETRIES = 2
TIMEOUT_SECONDS = 30.0  # without an answer

Status = Literal["ok", "missing", "wrong checksum", "no checksum known"]


@dataclass(frozen=True)
class FileStatus:
    """What ``verify`` found about one file."""

    file: str
    status: Status
    path: Path | None
    expected: str | None
    actual: str | None


def cache_folder() -> Path:
    """Return the folder of downloads and decoded images."""
    if folder := os.environ.get(CACHE_VARIABLE):
        return Path(folder).expanduser()
    import pooch

    return Path(pooch.os_cache("puarena"))


def named_folder(folder: str | os.PathLike[str] | None) -> Path | None:
    """Return the folder that already has the files: the argument, or the one of the environment."""
    source = "--data"
    if folder is None:
        folder, source = os.environ.get(DATA_VARIABLE) or None, DATA_VARIABLE
    if folder is None:
        return None
    path = Path(folder).expanduser()
    if not path.is_dir():
        message = f"the data folder '{path}' named by {source} does not exist; create it first"
        raise UserError(message, "missing-file")
    return path


def locate(info: DatasetInfo, file: DataFile, folder: Path | None) -> Path:
    """Return a verified copy of a file: from ``folder``, from the cache, or downloaded."""
    path = _find(info, file, folder, cache_folder())
    if path is None:
        return download(info, file, cache_folder())
    remedy = f"run 'puarena data fetch {info.name}', or replace it by the file from {file.url}"
    return check_checksum(path, expected_checksum(file, path), remedy)


def locate_remote_table(source: str) -> Path:
    """Return a verified copy of a table ``openml:…`` or ``hf:…``, fetched if it is not stored."""
    path = cache_folder() / "tables" / f"{re.sub(r'[^A-Za-z0-9.-]+', '_', source)}.parquet"
    if not path.is_file():
        _make_folder(path.parent)
        remote.fetch_table(source, path)
    return check_checksum(path, remote.read_record(path).get("sha256"), "fetch it again")


def fetch(info: DatasetInfo, folder: str | os.PathLike[str] | None = None) -> list[Path]:
    """Return verified copies of all files; missing ones go to ``folder``, or to the cache."""
    if folder is None:
        named = named_folder(None)
        return [locate(info, file, named) for file in info.files]
    target = Path(folder).expanduser()
    paths = []
    for file in info.files:
        is_present = _find(info, file, target)
        paths.append(locate(info, file, target) if is_present else download(info, file, target))
    return paths


def is_here(info: DatasetInfo, folder: str | os.PathLike[str] | None = None) -> bool:
    """Are all files present, so that none must be downloaded?"""
    named = named_folder(folder)
    return all(_find(info, file, named, cache_folder()) for file in info.files)


def verify(info: DatasetInfo, folder: str | os.PathLike[str] | None = None) -> list[FileStatus]:
    """Check the files that are present, without downloading."""
    named = named_folder(folder)
    report = []
    for file in info.files:
        path = _find(info, file, named, cache_folder())
        if path is None:
            report.append(FileStatus(file.name, "missing", None, file.sha256, None))
            continue
        expected = expected_checksum(file, path)
        actual = sha256(path) if path.is_file() else None
        status: Status = "ok" if actual == expected else "wrong checksum"
        if expected is None:
            status = "no checksum known"
        report.append(FileStatus(file.name, status, path, expected, actual))
    return report


def download(info: DatasetInfo, file: DataFile, root: Path) -> Path:
    """Download one file to ``<root>/<dataset>/<file>`` and return its path."""
    folder = root / info.name
    _make_folder(folder)
    if file.source:
        remedy = (
            f"name a folder that contains {info.name}.arff, .csv or .parquet with {DATA_VARIABLE} "
            "or --data"
        )
        remote.fetch_table(file.source, folder / file.name, remedy)
    elif file.sha256 is None:
        raise UserError(
            f"no checksum of '{file.name}' is known, so it is not downloaded; get it from "
            f"{file.url} and name its folder with {DATA_VARIABLE} or --data",
            "missing-file",
        )
    elif file.archive is None:
        _retrieve(file.url, f"sha256:{file.sha256}", folder / file.name)
    else:
        import pooch

        archive, packed = file.archive, folder / file.archive.name
        members = [member.name for member in info.files if member.archive == archive]
        unpack = pooch.Untar(members=members, extract_dir=".")
        _retrieve(archive.url, archive.checksum, packed, unpack)
        packed.unlink()
        return check_checksum(folder / file.name, file.sha256, "fetch it again")
    return folder / file.name


def _make_folder(folder: Path) -> None:
    """Make the folder of a download, before anything is fetched for it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        remedy = "name another folder"
        if folder.is_relative_to(cache_folder()):
            remedy = f"name another folder for downloads with {CACHE_VARIABLE}"
        raise UserError(
            f"cannot write to '{folder}' ({describe_error(error)}); {remedy}", "cannot-write"
        ) from error


def expected_checksum(file: DataFile, path: Path) -> str | None:
    """Return the SHA-256 that a copy of a file should have, if it is known."""
    return file.sha256 or remote.read_record(path).get("sha256")


def check_checksum(path: Path, expected: str | None, remedy: str) -> Path:
    """Return the path of a file if it has the expected SHA-256, or if none is known."""
    if expected is not None and (actual := sha256(path)) != expected:
        raise UserError(
            f"{path} has the wrong checksum: expected sha256 {expected}, found {actual}; delete it "
            f"and {remedy}",
            "damaged-file",
        )
    return path


def sha256(path: Path) -> str:
    """Return the checksum of a file, computed once per process while the file does not change."""
    try:
        stat = path.stat()
        return _sha256(path.resolve(), stat.st_size, stat.st_mtime_ns)
    except OSError as error:
        raise cannot_read(path, error) from error


@cache
def _sha256(path: Path, size: int, modified: int) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _find(info: DatasetInfo, file: DataFile, *folders: Path | None) -> Path | None:
    """Return the first copy in ``<folder>/<dataset>`` of a folder, or in the first folder."""
    first, *others = folders
    places = [] if first is None else [first / info.name, first]
    places += [folder / info.name for folder in others if folder is not None]
    return next((path for place in places if (path := file.find_in(place))), None)


def _retrieve(url: str, checksum: str, target: Path, processor: Any = None) -> None:
    """Download a file; it appears under its name once it is complete and has its checksum."""
    import pooch
    import requests

    pooch.get_logger().setLevel(logging.WARNING)  # the progress bar is enough
    files = pooch.create(
        path=target.parent,
        base_url="",
        registry={target.name: checksum},
        urls={target.name: url},
        retry_if_failed=MAX_RETRIES,
    )
    load = pooch.HTTPDownloader(progressbar=sys.stderr.isatty(), timeout=TIMEOUT_SECONDS)
    remedy = f"name a folder that has the file with {DATA_VARIABLE} or --data"
    try:
        files.fetch(target.name, processor=processor, downloader=load)
    except requests.RequestException as error:
        reason = describe_error(_innermost(error))
        message = f"cannot fetch {url} ({reason}); check the network, or {remedy}"
        raise UserError(message, "cannot-read") from error
    except OSError as error:
        raise cannot_write(target, error) from error
    except ValueError as error:
        # pooch raises a ValueError for a wrong checksum and removes the file.
        message = f"the download of {url} failed: {error}; try again, or {remedy}"
        raise UserError(message, "damaged-file") from error


def _innermost(error: Exception) -> Exception:
    """Return the first cause of a chain of errors, such as a refused connection."""
    while isinstance(error.__context__, Exception):
        error = error.__context__
    return error
