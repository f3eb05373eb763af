"""Images in ``train/<class>/`` and ``val/<class>/`` of a folder, a .tgz or a .zip: listed, read and decoded.

Archives are never unpacked: their members are read in memory, so no name in them reaches the disk.
"""

from __future__ import annotations

import gzip
import hashlib
import lzma
import os
import struct
import sys
import tarfile
import zipfile
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import partial
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from puarena.datasets.dataset import Bytes, Flags
from puarena.datasets.download import sha256
from puarena.errors import UserError

if TYPE_CHECKING:
    from PIL import Image

SKIP_ENVIRONMENT = "PUARENA_SKIP_BAD_IMAGES"
PARTS = "train", "val"
SUFFIXES = frozenset(
    (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")
)  # as ImageFolder has
FORMATS = "JPEG", "PNG", "PPM", "BMP", "TIFF", "WEBP"
LARGEST = 1 << 28  # bytes of one file; more is no photograph
SQUASHED, SEEN = 73, 64  # sides of the images for training and for evaluation
BLOCK = 16  # images handed to a thread at once
LONG = 32  # an image so many times longer than wide is never resized as a whole: it would take gigabytes
DAMAGE = (  # what reading a folder or a damaged archive can raise; RuntimeError: an encrypted member
    *(OSError, EOFError, ValueError, RuntimeError),
    *(tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error),
)


class Name(NamedTuple):
    """Which image: sorts by part, class and file name."""

    part: str
    folder: str
    file: str

    def __str__(self) -> str:
        return "/".join(self)


def listed(source: Path) -> dict[Name, str]:
    """Return the images of ``source`` in order, and for each its path there."""
    with _reading(source):
        if source.is_dir():
            paths = [
                path.relative_to(source).as_posix()
                for part in PARTS
                for path in source.glob(f"{part}/*/*")
            ]
        elif source.suffix == ".zip":
            with zipfile.ZipFile(source) as packed:
                paths = packed.namelist()
        else:
            with _tgz(source) as stream:
                paths = [member.name for member in stream if member.isfile()]
    images = {}
    for path in paths:
        parts = PurePosixPath(
            path.replace("\\", "/")
        ).parts  # perhaps below one folder, such as imagenette2-160
        if len(parts) in (3, 4) and parts[-3] in PARTS and _is_image(parts[-1]):
            images[Name(*parts[-3:])] = path
    return dict(sorted(images.items()))


def fingerprint(source: Path) -> str:
    """Return what changes with the images: an archive's sha256, or a digest of a folder's names, sizes and times."""
    if source.is_file():
        return sha256(source)
    digest = hashlib.sha256()
    with _reading(source):
        for path in listed(source).values():
            file = source / path
            stat = (
                file.stat() if file.exists() else file.lstat()
            )  # a link to nothing is a damaged image
            digest.update(f"{path}\0{stat.st_size}\0{stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def decoded(source: Path, images: Mapping[Name, str]) -> tuple[Bytes, Bytes, Flags]:
    """Decode all images, in as many threads as there are cores.

    Returns them squashed ``[n, 3, 73, 73]``, as evaluation sees them ``[n, 3, 64, 64]``, and which could be decoded.
    """
    from rich.console import Console
    from rich.progress import Progress

    squashed = np.empty((len(images), 3, SQUASHED, SQUASHED), np.uint8)
    seen = np.empty((len(images), 3, SEEN, SEEN), np.uint8)
    good = np.zeros(len(images), bool)
    rows = {path: row for row, path in enumerate(images.values())}

    def work(block: list[tuple[str, bytes]]) -> int:
        for path, content in block:
            row = rows[path]
            try:
                squashed[row], seen[row] = decode(content)
                good[row] = True
            except Exception:  # a damaged image can raise anything; it stays not good
                continue
        return len(block)

    workers = _cores()
    running: deque[Future[int]] = deque()
    bar = Progress(console=Console(stderr=True), transient=True)
    quiet = os.environ.get("PUARENA_QUIET", "") not in ("", "0")
    shown = (
        bar if sys.stderr.isatty() and not quiet else nullcontext()
    )  # one that was never shown says nothing at its end either
    with (
        shown,
        ThreadPoolExecutor(workers) as pool,
    ):  # Pillow decodes and resizes without the lock of Python
        task = bar.add_task(f"decoding {source.name}", total=len(images))
        for block in _blocks(_contents(source, rows)):
            running.append(pool.submit(work, block))
            if len(running) > 4 * workers:  # so few are read ahead that memory stays small
                bar.advance(task, running.popleft().result())
        while running:
            bar.advance(task, running.popleft().result())
    return squashed, seen, good


def decode(content: bytes) -> tuple[Bytes, Bytes]:
    """Return one image squashed to 73x73, and the center 64x64 of it with its short side at 73: ``[3, side, side]``.

    The same bytes as torchvision's ``Resize((73, 73))`` and ``Resize(73), CenterCrop(64)`` make of a Pillow image.
    An orientation noted in the file is not applied, as ``ImageFolder`` does not.
    """
    from PIL import Image

    with Image.open(BytesIO(content), formats=FORMATS) as image:
        image = _rgb(image)
    width, height = image.size
    short = min(width, height)
    size = int(SQUASHED * width / short), int(SQUASHED * height / short)
    left, top = (round((side - SEEN) / 2) for side in size)
    squashed = image.resize((SQUASHED, SQUASHED), Image.Resampling.BILINEAR)
    if max(size) < LONG * SQUASHED:
        seen = image.resize(size, Image.Resampling.BILINEAR).crop(
            (left, top, left + SEEN, top + SEEN)
        )
    else:
        across, down = width / size[0], height / size[1]
        part = left * across, top * down, (left + SEEN) * across, (top + SEEN) * down
        seen = image.resize((SEEN, SEEN), Image.Resampling.BILINEAR, part)
    return np.asarray(squashed).transpose(2, 0, 1), np.asarray(seen).transpose(2, 0, 1)


def _is_image(file: str) -> bool:
    return not file.startswith(".") and PurePosixPath(file).suffix.lower() in SUFFIXES


def _rgb(image: Image.Image) -> Image.Image:
    from PIL import Image

    if image.mode.startswith("I"):  # 16 bits of gray, which Pillow would cut off at 255
        image = Image.fromarray((np.asarray(image).clip(0, 65535) >> 8).astype(np.uint8))
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")
    return image.convert("RGB")


def _contents(source: Path, wanted: Mapping[str, int]) -> Iterator[tuple[str, bytes]]:
    """Give the wanted files in the order that is quickest to read; what cannot be read is empty."""
    with _reading(source):
        if source.is_dir():
            for path in wanted:
                yield path, _or_empty((source / path).read_bytes)
        elif source.suffix == ".zip":
            with zipfile.ZipFile(source) as packed:
                for path in wanted:
                    small = packed.getinfo(path).file_size <= LARGEST
                    yield path, _or_empty(partial(packed.read, path)) if small else b""
        else:
            with _tgz(source) as stream:
                for member in stream:
                    if (
                        member.name in wanted
                        and member.size <= LARGEST
                        and (file := stream.extractfile(member))
                    ):
                        yield member.name, file.read()


def _or_empty(read: Callable[[], bytes]) -> bytes:
    try:
        return read()
    except DAMAGE:
        return b""


@contextmanager
def _tgz(source: Path) -> Iterator[tarfile.TarFile]:
    """Open a .tgz to be read once; what follows its last member is read too, as gzip's checksum comes last."""
    with gzip.open(source) as stream, tarfile.open(fileobj=stream, mode="r|") as packed:
        yield packed
        while stream.read(1 << 20):
            pass


def _blocks(files: Iterator[tuple[str, bytes]]) -> Iterator[list[tuple[str, bytes]]]:
    block = []
    for file in files:
        block.append(file)
        if len(block) == BLOCK:
            yield block
            block = []
    yield block


@contextmanager
def _reading(source: Path) -> Iterator[None]:
    try:
        yield
    except DAMAGE as error:
        raise UserError(
            f"'{source}' cannot be read, it may be damaged ({error}); get it again"
        ) from error


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
