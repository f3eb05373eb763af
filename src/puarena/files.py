"""Files that are there whole or not at all: written aside, flushed to the disk, renamed."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from puarena.errors import UserError


@contextmanager
def written_aside(target: Path) -> Iterator[Path]:
    """Give the path of a temporary file beside ``target``; what was written there then takes the target's place."""
    temp = target.with_name(f".{target.name[:200]}.{os.getpid()}.tmp")
    try:
        yield temp
        _flush(temp)
        os.replace(temp, target)
        _flush(target.parent)
    except OSError as error:
        raise cannot_write(target, error) from error
    finally:
        with suppress(OSError):
            temp.unlink(missing_ok=True)


def write_file(target: str | Path, content: str | bytes) -> None:
    """Write a file so that it is there whole or not at all."""
    target = Path(target)
    blob = content.encode() if isinstance(content, str) else content
    try:
        if target.is_relative_to("/dev") or target.is_fifo():  # /dev/stdout, a pipe: there is nothing to rename
            with target.open("ab") as file:
                file.write(blob)
            return
        target = target.resolve()
    except OSError as error:
        raise cannot_write(target, error) from error
    with written_aside(target) as temp:
        temp.write_bytes(blob)


def cannot_write(target: Path, error: Exception) -> UserError:
    """The error for a file that could not be written."""
    return UserError(f"cannot write '{target}' ({reason(error)}); everything stored before is still there")


def reason(error: Exception) -> str:
    """The cause of a failed read or write, in a few words."""
    if (isinstance(error, OSError) and error.errno == errno.ENOSPC) or "No space left" in str(error):
        return "the disk is full"
    if isinstance(error, OSError):
        return (error.strerror or str(error)).lower()
    return " ".join(str(error).removeprefix("IO Error: ").split())


def _flush(path: Path) -> None:
    """Force a file, or the names in a folder, to the disk."""
    folder = path.is_dir()
    if folder and os.name == "nt":
        return
    handle = os.open(path, os.O_RDONLY if folder else os.O_RDWR)
    try:
        os.fsync(handle)
    except OSError as error:
        if not (folder and error.errno in {errno.EINVAL, errno.ENOTSUP}):  # some file systems cannot flush a folder
            raise
    finally:
        os.close(handle)
