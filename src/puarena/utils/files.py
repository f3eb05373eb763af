"""Atomic writes, embedded checksums, and other helpers for files.

An atomic write goes to a temporary file in the same folder, which is flushed to the disk and then
renamed, so that a reader sees the old file or the new one. A sealed file contains the SHA-256 of
its own bytes.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

from puarena.errors import UserError
from puarena.utils.processes import MACHINE, is_running

# A temporary file is named after the machine and the process that write it.
TEMPORARY_NAME = re.compile(r"\..+\.(\w+)-(\d+)(-\d+)?\.tmp")
SPARE_HANDLES = 100  # open files needed besides those of a query
NO_LINK_ERRORS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
SEAL = "puarena-sha256:" + "0" * 64  # the placeholder for the checksum
_FILLED_SEAL = re.compile(rb"puarena-sha256:([0-9a-f]{64})")
_FORMULA_START = ("=", "+", "-", "@", "\t", "\r")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_temporary_numbers = count()


@contextmanager
def atomic_write(target: Path, exclusive: bool = False) -> Iterator[Path]:
    """Give the path of a temporary file, and rename it to ``target`` when the block ends.

    With ``exclusive`` an existing target raises ``FileExistsError``; of several processes, one
    succeeds.
    """
    temp = _temporary_path(target)
    try:
        yield temp
        _flush(temp)
        if exclusive:
            _link_new(temp, target)
        else:
            os.replace(temp, target)
        _flush(target.parent)
    except FileExistsError:
        raise
    except OSError as error:
        raise cannot_write(target, error) from error
    finally:
        with suppress(OSError):
            temp.unlink(missing_ok=True)


def _temporary_path(target: Path) -> Path:
    owner = f"{MACHINE}-{os.getpid()}-{next(_temporary_numbers)}"
    return target.with_name(f".{target.name[:180]}.{owner}.tmp")


def _link_new(temp: Path, target: Path) -> None:
    """Give a file its name unless the name is taken."""
    try:
        os.link(temp, target)
    except OSError as error:
        if error.errno not in NO_LINK_ERRORS:
            raise
        # Some file systems have no hard links. There a reader may see a part of the file for a
        # moment.
        with target.open("xb") as file:
            file.write(temp.read_bytes())
            file.flush()
            os.fsync(file.fileno())


def write_file(target: str | Path, content: str | bytes, exclusive: bool = False) -> None:
    """Write a file atomically; a device or a pipe is written to directly."""
    target = Path(target)
    data = content.encode() if isinstance(content, str) else content
    try:
        if target.is_relative_to("/dev") or target.is_fifo():
            with target.open("ab") as file:
                file.write(data)
            return
        target = target.resolve()
    except OSError as error:
        raise cannot_write(target, error) from error
    with atomic_write(target, exclusive) as temp:
        temp.write_bytes(data)


def parse_json(text: str | bytes) -> Any:
    """Parse JSON; raises ValueError for anything else, including text that is nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def escape_cell(value: object) -> object:
    """Return a cell for a CSV file; text that a spreadsheet would take for a formula is quoted."""
    if not isinstance(value, str) or not value.startswith(_FORMULA_START):
        return value
    return value if _NUMBER.fullmatch(value) else f"'{value}"


def remove_temporary_files(*folders: Path) -> None:
    """Remove the temporary files that dead processes of this machine left in these folders."""
    for folder in folders:
        for file in folder.glob(".*.tmp"):
            match = TEMPORARY_NAME.fullmatch(file.name)
            if match and match[1] == MACHINE and not is_running(int(match[2])):
                file.unlink(missing_ok=True)


def check_writable(*folders: Path) -> None:
    """Raise an error for a folder that no file can be written to."""
    for folder in folders:
        trial = _temporary_path(folder / "trial")
        try:
            trial.write_bytes(b"puarena")
            _flush(trial)
            trial.unlink()
        except OSError as error:
            raise cannot_write(folder, error) from error


def allow_open_files(files: int) -> None:
    """Raise the limit of open files of this process, as far as the system permits."""
    try:
        import resource
    except ImportError:  # on Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = files + SPARE_HANDLES
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def add_seal(content: bytes) -> bytes:
    """Return the content with its placeholder replaced by the checksum."""
    checksum = hashlib.sha256(content).hexdigest().encode()
    return content.replace(SEAL.encode(), b"puarena-sha256:" + checksum, 1)


def is_intact(content: bytes) -> bool | None:
    """Return whether sealed content is as it was written; None if it has no seal."""
    match = _FILLED_SEAL.search(content)
    if match is None:
        return None
    checksum = hashlib.sha256(content[: match.start()])
    checksum.update(SEAL.encode())
    checksum.update(content[match.end() :])
    return checksum.hexdigest().encode() == match[1]


def is_text(path: Path) -> bool:
    """Return whether a path is UTF-8; of another, Python holds some bytes as lone surrogates."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def cannot_write(target: Path, error: Exception) -> UserError:
    """Return the error for a file that could not be written."""
    return UserError(
        f"cannot write '{target}' ({describe_error(error)}); everything stored before is still "
        "there",
        "cannot-write",
    )


def cannot_read(source: Path, error: Exception) -> UserError:
    """Return the error for a file that could not be read."""
    return UserError(f"cannot read '{source}' ({describe_error(error)})", "cannot-read")


def describe_error(error: Exception) -> str:
    """Return the cause of a failed read or write in a few words."""
    full = isinstance(error, OSError) and error.errno == errno.ENOSPC
    if full or "No space left" in str(error):
        return "the disk is full"
    if isinstance(error, OSError):
        return (error.strerror or str(error)).lower()
    return " ".join(str(error).removeprefix("IO Error: ").split())


def _flush(path: Path) -> None:
    """Flush a file, or the names in a folder, to the disk."""
    folder = path.is_dir()
    if folder and os.name == "nt":
        return
    handle = os.open(path, os.O_RDONLY if folder else os.O_RDWR)
    try:
        os.fsync(handle)
    except OSError as error:
        # Some file systems cannot flush a folder.
        if not folder or error.errno not in {errno.EINVAL, errno.ENOTSUP}:
            raise
    finally:
        os.close(handle)
