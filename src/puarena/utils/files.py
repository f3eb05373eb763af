"""Files that are there whole or not at all: written aside, flushed to the disk, renamed; and seals that show damage."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from puarena.errors import UserError
from puarena.utils.processes import MACHINE, lives

OURS = re.compile(r"\..+\.(\w+)-(\d+)\.tmp")  # a temporary file: of which machine, of which process
SPARE = 100  # open files beside those that are asked for
SEAL = "puarena-sha256:" + "0" * 64  # a file that has this somewhere can be sealed
NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
_SEALED = re.compile(rb"puarena-sha256:([0-9a-f]{64})")


@contextmanager
def written_aside(target: Path, exclusive: bool = False) -> Iterator[Path]:
    """Give the path of a temporary file beside ``target``; what was written there then takes the target's place.

    ``exclusive``: only if there is no target yet, else ``FileExistsError``; of several at once one succeeds.
    """
    temp = target.with_name(f".{target.name[:180]}.{MACHINE}-{os.getpid()}.tmp")
    try:
        yield temp
        _flush(temp)
        if exclusive:
            _put_first(temp, target)
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


def _put_first(temp: Path, target: Path) -> None:
    """Give a file its name if nobody has it. Some file systems have no links: it may be seen half for a moment."""
    try:
        os.link(temp, target)
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        with target.open("xb") as file:
            file.write(temp.read_bytes())
            file.flush()
            os.fsync(file.fileno())


def write_file(target: str | Path, content: str | bytes, exclusive: bool = False) -> None:
    """Write a file so that it is there whole or not at all."""
    target = Path(target)
    blob = content.encode() if isinstance(content, str) else content
    try:
        if (
            target.is_relative_to("/dev") or target.is_fifo()
        ):  # /dev/stdout, a pipe: there is nothing to rename
            with target.open("ab") as file:
                file.write(blob)
            return
        target = target.resolve()
    except OSError as error:
        raise cannot_write(target, error) from error
    with written_aside(target, exclusive) as temp:
        temp.write_bytes(blob)


def parsed(text: str | bytes) -> Any:
    """What a JSON text says; a ValueError for anything that is none, also for one that is nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def plain_cell(value: object) -> object:
    """A cell of a CSV file: text that a spreadsheet would take for a formula is quoted; a number is none."""
    if not isinstance(value, str) or not value.startswith(("=", "+", "-", "@", "\t", "\r")):
        return value
    return value if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", value) else f"'{value}"


def tidy(*folders: Path) -> None:
    """Remove the temporary files that dead processes of this machine left; others' are not touched."""
    for folder in folders:
        for file in folder.glob(".*.tmp"):
            match = OURS.fullmatch(file.name)
            if match and match[1] == MACHINE and not lives(int(match[2])):
                file.unlink(missing_ok=True)


def check_writable(*folders: Path) -> None:
    """Refuse folders that no file can be written to, before work is lost to them."""
    for folder in folders:
        with written_aside(folder / "trial") as temp:
            temp.write_bytes(b"puarena")
        (folder / "trial").unlink(missing_ok=True)


def make_room(files: int) -> None:
    """Let this process have so many files open at once, as far as it may."""
    try:
        import resource
    except ImportError:  # on Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = files + SPARE if hard == resource.RLIM_INFINITY else min(files + SPARE, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def sealed(content: bytes) -> bytes:
    """The content with its place for a checksum filled in."""
    checksum = hashlib.sha256(content).hexdigest().encode()
    return content.replace(SEAL.encode(), b"puarena-sha256:" + checksum, 1)


def is_whole(content: bytes) -> bool | None:
    """Is every bit of a sealed file as it was? None: it has no seal."""
    match = _SEALED.search(content)
    if match is None:
        return None
    original = content[: match.start()] + SEAL.encode() + content[match.end() :]
    return hashlib.sha256(original).hexdigest().encode() == match[1]


def cannot_write(target: Path, error: Exception) -> UserError:
    """The error for a file that could not be written."""
    return UserError(
        f"cannot write '{target}' ({reason(error)}); everything stored before is still there"
    )


def reason(error: Exception) -> str:
    """The cause of a failed read or write, in a few words."""
    if (isinstance(error, OSError) and error.errno == errno.ENOSPC) or "No space left" in str(
        error
    ):
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
        if not (
            folder and error.errno in {errno.EINVAL, errno.ENOTSUP}
        ):  # some file systems cannot flush a folder
            raise
    finally:
        os.close(handle)
