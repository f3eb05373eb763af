"""ImageNette (version 2): photographs in class folders, decoded once and cached.

Training images are squashed to 73x73, of which views take 64x64. For evaluation the aspect is kept:
the short side is 73 and the center 64x64 is taken. No view of the squashed images can give that, so
both are stored.

Images are read from ``train/<class>/`` and ``val/<class>/`` of a folder, a .tgz or a .zip. Archives
are not unpacked: their members are read in memory, so no name in them reaches the disk.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import logging
import lzma
import os
import sys
import tarfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from io import BytesIO
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from puarena.datasets.base import Bytes, DataFile, Dataset, DatasetInfo, Flags, from_info
from puarena.datasets.download import CACHE_VARIABLE, SKIP_VARIABLE, cache_folder, locate, sha256
from puarena.datasets.views import View, Views
from puarena.errors import UserError
from puarena.utils.files import atomic_write, describe_error, remove_temporary_files

if TYPE_CHECKING:
    from PIL import Image

PARTS = "train", "val"
# The endings that torchvision's ImageFolder accepts.
SUFFIXES = {".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp"}
IMAGE_FORMATS = "JPEG", "PNG", "PPM", "BMP", "TIFF", "WEBP"
SQUASHED_SIDE, SEEN_SIDE = 73, 64  # pixels of the images for training and for evaluation
BATCH_FILES = 256  # read ahead of the decoding threads
CACHE_FORMAT = 2  # changes with the code that makes the arrays
READ_ERRORS = (
    *(OSError, EOFError, ValueError, RuntimeError, zlib.error, lzma.LZMAError),
    *(tarfile.TarError, zipfile.BadZipFile),
)
logger = logging.getLogger(__name__)


class ImageName(NamedTuple):
    """The place of an image; names sort by part, class and file."""

    part: str
    folder: str
    file: str

    def __str__(self) -> str:
        return "/".join(self)


def list_images(source: Path) -> dict[ImageName, str]:
    """Return the images of ``source`` in order, and the path of each in it."""
    with _readable(source):
        if source.is_dir():
            files = [path for part in PARTS for path in source.glob(f"{part}/*/*")]
            paths = [path.relative_to(source).as_posix() for path in files]
        elif source.suffix == ".zip":
            with zipfile.ZipFile(source) as packed:
                paths = packed.namelist()
        else:
            with _open_tgz(source) as stream:
                paths = [member.name for member in stream if member.isfile()]
    images = {}
    for path in paths:
        # The parts may be inside of a folder such as imagenette2-160.
        names = PurePosixPath(path.replace("\\", "/")).parts
        if len(names) in (3, 4) and names[-3] in PARTS and _is_image(names[-1]):
            images[ImageName(*names[-3:])] = path
    return dict(sorted(images.items()))


def _is_image(file: str) -> bool:
    return not file.startswith(".") and PurePosixPath(file).suffix.lower() in SUFFIXES


def decode_images(source: Path, images: Mapping[ImageName, str]) -> tuple[Bytes, Bytes, Flags]:
    """Decode all images in threads.

    Returns them squashed for training ``[n, 3, 73, 73]``, as evaluation sees them
    ``[n, 3, 64, 64]``, and which of them could be decoded.
    """
    from rich.console import Console
    from rich.progress import Progress

    squashed = np.empty((len(images), 3, SQUASHED_SIDE, SQUASHED_SIDE), np.uint8)
    seen = np.empty((len(images), 3, SEEN_SIDE, SEEN_SIDE), np.uint8)
    good = np.zeros(len(images), bool)
    rows = {path: row for row, path in enumerate(images.values())}

    def decode(file: tuple[str, bytes]) -> None:
        path, content = file
        row = rows[path]
        try:
            squashed[row], seen[row] = decode_image(content)
            good[row] = True
        # A damaged image can raise anything.
        except Exception:
            good[row] = False

    is_shown = logging.getLogger("puarena").isEnabledFor(logging.WARNING) and sys.stderr.isatty()
    progress = Progress(console=Console(stderr=True), transient=True, disable=not is_shown)
    files = _read_files(source, rows)
    # Pillow decodes and resizes without Python's global lock.
    with progress, ThreadPoolExecutor() as pool:
        task = progress.add_task(f"decoding {source.name}", total=len(images))
        while batch := list(islice(files, BATCH_FILES)):
            list(pool.map(decode, batch))
            progress.advance(task, len(batch))
    return squashed, seen, good


def decode_image(content: bytes) -> tuple[Bytes, Bytes]:
    """Return an image squashed to 73x73, and the center 64x64 of it with its short side at 73.

    The bytes are those of torchvision's ``Resize((73, 73))`` and ``Resize(73), CenterCrop(64)`` of
    a Pillow image. An orientation noted in the file is not applied, as in ``ImageFolder``.
    """
    from PIL import Image

    with Image.open(BytesIO(content), formats=IMAGE_FORMATS) as file:
        image = _to_rgb(file)
    width, height = image.size
    short = min(width, height)
    size = int(SQUASHED_SIDE * width / short), int(SQUASHED_SIDE * height / short)
    left, top = (round((side - SEEN_SIDE) / 2) for side in size)
    box = (left, top, left + SEEN_SIDE, top + SEEN_SIDE)
    squashed = image.resize((SQUASHED_SIDE, SQUASHED_SIDE), Image.Resampling.BILINEAR)
    seen = image.resize(size, Image.Resampling.BILINEAR).crop(box)
    return np.asarray(squashed).transpose(2, 0, 1), np.asarray(seen).transpose(2, 0, 1)


def _to_rgb(image: Image.Image) -> Image.Image:
    from PIL import Image

    # Pillow would cut 16 bits of gray off at 255.
    if image.mode.startswith("I"):
        image = Image.fromarray((np.asarray(image).clip(0, 65535) >> 8).astype(np.uint8))
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")
    return image.convert("RGB")


def _read_files(source: Path, wanted: Mapping[str, int]) -> Iterator[tuple[str, bytes]]:
    """Give the wanted files in the order that is fastest to read; an unreadable one is empty."""
    with _readable(source):
        if source.is_dir():
            for path in wanted:
                yield path, _read_or_empty((source / path).read_bytes)
        elif source.suffix == ".zip":
            with zipfile.ZipFile(source) as packed:
                for path in wanted:
                    yield path, _read_or_empty(partial(packed.read, path))
        else:
            with _open_tgz(source) as stream:
                for member in stream:
                    if member.name in wanted and (file := stream.extractfile(member)):
                        yield member.name, file.read()


def _read_or_empty(read: Callable[[], bytes]) -> bytes:
    try:
        return read()
    except READ_ERRORS:
        return b""


@contextmanager
def _open_tgz(source: Path) -> Iterator[tarfile.TarFile]:
    """Open a .tgz to be read once."""
    with gzip.open(source) as stream, tarfile.open(fileobj=stream, mode="r|") as packed:
        yield packed
        # The checksum of gzip is at the end of the file.
        while stream.read(1 << 20):
            pass


@contextmanager
def _readable(source: Path) -> Iterator[None]:
    try:
        yield
    except READ_ERRORS as error:
        message = f"'{source}' cannot be read, it may be damaged ({error}); get it again"
        raise UserError(message, "damaged-file") from error


# The cache of decoded images


def find_cache_file(folder: Path, source: Path, settings: Mapping[str, object]) -> Path:
    """Return the cache file of decoded images; its name depends on the source and settings."""
    sides = {"squashed": SQUASHED_SIDE, "seen": SEEN_SIDE, "format": CACHE_FORMAT}
    content = {"source": fingerprint(source), **sides, **settings}
    key = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    return folder / f"decoded-{key[:16]}.npz"


def fingerprint(source: Path) -> str:
    """Return the SHA-256 of an archive, or a digest of a folder's names, sizes and times."""
    if source.is_file():
        return sha256(source)
    digest = hashlib.sha256()
    with _readable(source):
        for path in list_images(source).values():
            file = source / path
            # A broken link is a damaged image.
            stat = file.stat() if file.exists() else file.lstat()
            digest.update(f"{path}\0{stat.st_size}\0{stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def load_arrays(path: Path) -> dict[str, np.ndarray] | None:
    """Return the cached arrays; None if there are none, or if their CRC shows damage."""
    remove_temporary_files(path.parent)
    if not path.is_file():
        return None
    try:
        with np.load(path, allow_pickle=False) as content:
            return dict(content)
    except READ_ERRORS:
        logger.warning("'%s' is damaged: the images are decoded again", path)
        return None


def save_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Cache arrays and remove those of other sources or settings."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as temporary, temporary.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
        for other in path.parent.glob("decoded-*.npz"):
            if other != path:
                other.unlink(missing_ok=True)
    except (OSError, UserError) as error:
        # The arrays can be used all the same.
        cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
        logger.warning(
            "the decoded images cannot be saved in '%s' (%s), so they are decoded again next time; "
            "name another folder with %s",
            path.parent,
            describe_error(cause),
            CACHE_VARIABLE,
        )


URL = "https://s3.amazonaws.com/fast-ai-imageclas/imagenette2.tgz"
FOLDERS = "imagenette2", "imagenette2-320", "imagenette2-160"
MAX_LISTED_IMAGES = 5  # in an error message
# Of the classes in order: the number of images in train and in val.
COUNTS = {
    "n01440764": (963, 387),
    "n02102040": (955, 395),
    "n02979186": (993, 357),
    "n03000684": (858, 386),
    "n03028079": (941, 409),
    "n03394916": (956, 394),
    "n03417042": (961, 389),
    "n03425413": (931, 419),
    "n03445777": (951, 399),
    "n03888257": (960, 390),
}
logger = logging.getLogger(__name__)


def find(folder: Path) -> Path | None:
    """Return the images in ``folder``: a folder, the official archive, or a zip."""
    official = [folder / name for name in FOLDERS]
    if all((folder / part).is_dir() for part in PARTS):
        official.append(folder)
    for path in official:
        if path.is_dir():
            return path
    archives = [folder / f"{name}.tgz" for name in FOLDERS]
    for pattern in ("imagenette2*.tgz", "imagenette2*.zip"):
        archives += sorted(folder.glob(pattern))
    return next((path for path in archives if path.is_file()), None)


def views() -> dict[str, Views]:
    """Return crops of 64x64 pixels.

    The protocol says of the strong view "3 RandAugment operations at random magnitude". Here each
    of them is applied, at a magnitude from 1 … 9 of ten as for CIFAR-10.
    """
    from puarena.datasets.views.geometry import CenterCrop, CutOut, RandomCrop, ResizedCrop
    from puarena.datasets.views.images import ImageView
    from puarena.datasets.views.randaugment import RandAugment

    def view(*parts: View) -> View:
        return ImageView((0.485, 0.456, 0.406), (0.229, 0.224, 0.225), parts)

    strong = view(ResizedCrop(SEEN_SIDE), RandAugment(layers=3), CutOut())
    return {"": Views(view(RandomCrop(side=SEEN_SIDE)), strong, view(CenterCrop(SEEN_SIDE)))}


INFO = DatasetInfo(
    name="imagenette",
    title="ImageNette 2",
    description="13,394 photographs in 10 easy ImageNet classes, used at 64x64 pixels; the 3,925 "
    "of 'val' are the test set",
    license="Apache-2.0 (the selection); the photographs are under ImageNet's terms of access",
    citation="J. Howard, Imagenette, 2019; O. Russakovsky et al., ImageNet Large Scale Visual "
    "Recognition Challenge, IJCV 115, 211-252, 2015",
    urls=("https://github.com/fastai/imagenette",),
    files=(DataFile("imagenette2.tgz", URL, None, find=find),),
    examples=13394,
    class_names=(
        "tench",
        "English springer",
        "cassette player",
        "chain saw",
        "church",
        "French horn",
        "garbage truck",
        "gas pump",
        "golf ball",
        "parachute",
    ),
    shape=(3, SEEN_SIDE, SEEN_SIDE),
    stored=(3, SQUASHED_SIDE, SQUASHED_SIDE),
    kind="image",
    network="resnet32",
    cases={1: (0, 1, 2, 8, 9), 2: (2, 3, 5, 7, 9)},
    size=6000,
    shortfall=0.1,
    views=views,
    order=5,
)


def read(folder: Path | None) -> Dataset:
    """Read the images from the cache, or decode them and cache them."""
    source = locate(INFO, INFO.files[0], folder)
    path = find_cache_file(cache_folder() / INFO.name, source, {"counts": COUNTS})
    arrays = load_arrays(path)
    if arrays is None:
        arrays = _decode(source)
        save_arrays(path, arrays)
    if arrays["missing"].size:
        missing = "; ".join(arrays["missing"].tolist())
        logger.warning("some images of '%s' are left out: %s", source, missing)
    test = arrays["test"].astype(bool)
    return from_info(
        INFO,
        arrays["features"],
        arrays["classes"],
        train=np.flatnonzero(~test),
        test=np.flatnonzero(test),
        evaluation=arrays["evaluation"],
    )


def _decode(source: Path) -> dict[str, np.ndarray]:
    """Return the arrays of the images, and descriptions of those that are missing."""
    listed = list_images(source)
    _check_folders(source, listed)
    missing = _find_missing(listed)
    _check_complete(source, missing)
    features, evaluation, good = decode_images(source, listed)
    names = list(listed)
    missing += [f"{names[row]} cannot be decoded" for row in np.flatnonzero(~good)]
    _check_complete(source, missing)
    codes = {folder: code for code, folder in enumerate(COUNTS)}
    classes = np.array([codes[name.folder] for name in names], np.uint8)
    test = np.array([name.part == "val" for name in names], np.uint8)
    return {
        "features": features[good],
        "evaluation": evaluation[good],
        "classes": classes[good],
        "test": test[good],
        "missing": np.array(missing, np.str_),
    }


def _check_folders(source: Path, listed: dict[ImageName, str]) -> None:
    for part in PARTS:
        folders = sorted({name.folder for name in listed if name.part == part})
        if folders != sorted(COUNTS):
            found = _shorten(folders) if folders else "none"
            raise UserError(
                f"'{source}' is not ImageNette: '{part}' must have images in the folders "
                f"{', '.join(COUNTS)}, and it has them in {found}; get it again from {URL}",
                "wrong-format",
            )


def _find_missing(listed: dict[ImageName, str]) -> list[str]:
    """Return the class folders with another number of images than published."""
    numbers = Counter((name.part, name.folder) for name in listed)
    missing = []
    for at, part in enumerate(PARTS):
        for folder, counts in COUNTS.items():
            number, expected = numbers[part, folder], counts[at]
            if number != expected:
                missing.append(f"{part}/{folder} has {number} images instead of {expected}")
    return missing


def _check_complete(source: Path, missing: list[str]) -> None:
    """Raise an error if something is missing, unless the user accepts that."""
    if missing and os.environ.get(SKIP_VARIABLE, "") in ("", "0"):
        raise UserError(
            f"'{source}' is not the whole of ImageNette: {_shorten(missing)}; get it again from "
            f"{URL}, or leave out the missing images with {SKIP_VARIABLE}=1 or 'puarena data "
            "prepare imagenette --skip-bad-images'",
            "damaged-file",
        )


def _shorten(texts: list[str]) -> str:
    more = len(texts) - MAX_LISTED_IMAGES
    return ", ".join(texts[:MAX_LISTED_IMAGES]) + (f" and {more} more" if more > 0 else "")
