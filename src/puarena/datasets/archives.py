"""Packed files that are looked at before they are unpacked: a small one can stand for more than any memory holds."""

from __future__ import annotations

import gzip
import math
import zipfile
from pathlib import Path

import numpy as np

from puarena.errors import UserError

LARGE = 2 << 30  # bytes that a packed file may unpack to,
DENSE = 50  # or so many times its own size, where that is more


def check_gzip(file: Path) -> None:
    """Refuse a small file that would fill the memory."""
    size = 0
    with gzip.open(file) as stream:
        while block := stream.read(1 << 20):
            size += len(block)
            _check_size(file, size)


def check_arrays(file: Path, names: tuple[str, ...]) -> None:
    """Refuse arrays that would fill the memory; a ValueError for headers that promise more than the file has."""
    headers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    with zipfile.ZipFile(file) as packed:
        members = {member.filename.removesuffix(".npy"): member for member in packed.infolist()}
        wanted = [members[name] for name in names if name in members]
        _check_size(file, sum(member.file_size for member in wanted))
        for member in wanted:
            with packed.open(member) as stream:
                version = np.lib.format.read_magic(stream)
                shape, _, kind = headers.get(version, headers[2, 0])(stream)
            if math.prod(shape) * kind.itemsize > member.file_size:
                raise ValueError(
                    f"'{member.filename}' does not hold the array of shape {shape} that it announces"
                )


def _check_size(file: Path, size: int) -> None:
    if size > LARGE and size > file.stat().st_size * DENSE:
        raise UserError(
            f"'{file}' would unpack to more than {LARGE / 1e9:.1f} GB; unpack it yourself if that is right"
        )
