"""Decoded images kept on disk: one safetensors file with the arrays, what they were made from, and their checksum."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from puarena.datasets.dataset import Bytes
from puarena.datasets.download import CACHE_ENVIRONMENT
from puarena.errors import UserError
from puarena.utils.files import atomic_write, parse_json

ABANDONED = 3600.0  # seconds after which a file that was never finished may go


def file_for(folder: Path, about: Mapping[str, object]) -> Path:
    """Return where arrays made as ``about`` says are kept."""
    return folder / f"decoded-{hashlib.sha256(_text(about).encode()).hexdigest()[:16]}.safetensors"


def load(path: Path, about: Mapping[str, object]) -> tuple[dict[str, Bytes], list[str]] | None:
    """Return the arrays and notes kept in ``path``; ``None`` if there are none. A damaged file is discarded."""
    from safetensors import SafetensorError, safe_open

    _tidy(path.parent)
    if not path.is_file():
        return None
    try:
        with safe_open(path, "np") as file:
            marks = file.metadata() or {}
            checksum = marks.pop("sha256", "none")
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if marks.get("about") == _text(about) and checksum == _digest(arrays, marks):
            return arrays, parse_json(marks["notes"])
    except (SafetensorError, OSError):
        pass
    say(f"'{path}' is damaged: it is discarded, and the images are decoded again")
    with suppress(OSError):
        path.unlink(missing_ok=True)
    return None


def save(
    path: Path, arrays: Mapping[str, Bytes], about: Mapping[str, object], notes: list[str]
) -> None:
    """Keep arrays of bytes: written aside and renamed, so that a file with its name is whole. Others are dropped.

    Too little space is an error; a folder that cannot be written is only said, as the arrays are there all the same.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    marks = {"about": _text(about), "notes": json.dumps(notes)}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as temp:
            save_file(dict(arrays), temp, marks | {"sha256": _digest(arrays, marks)})
            temp.chmod(0o644)
        for old in others(path):
            old.unlink(missing_ok=True)
    except (OSError, UserError, SafetensorError) as error:
        reason = str(error.__cause__ or error).lower()
        if "no space left" in reason or "quota" in reason:
            raise _too_little(
                path.parent, sum(array.nbytes for array in arrays.values())
            ) from error
        say(
            f"the decoded images cannot be saved in '{path.parent}' ({reason}), so they are decoded again next time; "
            f"name another folder with {CACHE_ENVIRONMENT}"
        )


def others(path: Path) -> list[Path]:
    """Return the files beside ``path`` that were made from another source or with other settings."""
    return sorted(file for file in path.parent.glob("decoded-*.safetensors") if file != path)


def _tidy(folder: Path) -> None:
    """Remove what killed processes left unfinished."""
    for old in (
        *folder.glob(".decoded-*.tmp"),
        *folder.glob(".tmp*"),
    ):  # ours, and those of safetensors
        with suppress(OSError):
            if time.time() - old.stat().st_mtime > ABANDONED:
                old.unlink(missing_ok=True)


def check_space(folder: Path, needed: int) -> None:
    """Raise an error if ``folder``, which need not be there yet, has too little space for ``needed`` bytes."""
    if _free(folder) < needed:
        raise _too_little(folder, needed)


def say(text: str) -> None:
    """Tell the user something that is no error."""
    print(f"note: {text}", file=sys.stderr)


def _free(folder: Path) -> int:
    return shutil.disk_usage(
        next(place for place in (folder, *folder.parents) if place.is_dir())
    ).free


def _too_little(folder: Path, needed: int) -> UserError:
    return UserError(
        f"the decoded images need {needed / 1e6:,.0f} MB in '{folder}' and {_free(folder) / 1e6:,.0f} MB are free; "
        f"free some space or name another folder with {CACHE_ENVIRONMENT}"
    )


def _digest(arrays: Mapping[str, Bytes], marks: Mapping[str, str]) -> str:
    digest = hashlib.sha256(_text(marks).encode())
    for name in sorted(arrays):
        digest.update(f"{name}{list(arrays[name].shape)}".encode())
        digest.update(arrays[name].reshape(-1).data)
    return digest.hexdigest()


def _text(about: Mapping[str, object]) -> str:
    return json.dumps(about, sort_keys=True)
