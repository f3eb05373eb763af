"""ImageNette (version 2): photographs in class folders, decoded once and cached.

Training images are squashed to 73x73, of which views take 64x64. For evaluation the aspect is kept:
the short side is 73 and the center 64x64 is taken. No view of the squashed images can give that, so
both are stored.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from pathlib import Path

import numpy as np

from puarena.datasets import images
from puarena.datasets.base import DataFile, Dataset, DatasetInfo, from_info
from puarena.datasets.download import SKIP_VARIABLE, cache_folder, locate
from puarena.datasets.images import PARTS, SEEN_SIDE, SQUASHED_SIDE, ImageName
from puarena.datasets.views import View, Views
from puarena.errors import UserError

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
    path = images.find_cache_file(cache_folder() / INFO.name, source, {"counts": COUNTS})
    arrays = images.load_arrays(path)
    if arrays is None:
        arrays = _decode(source)
        images.save_arrays(path, arrays)
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
    listed = images.list_images(source)
    _check_folders(source, listed)
    missing = _find_missing(listed)
    _check_complete(source, missing)
    features, evaluation, good = images.decode_images(source, listed)
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
