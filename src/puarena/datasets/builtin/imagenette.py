"""ImageNette (version 2): photographs in class folders, decoded once and kept.

Training images are squashed to 73x73, of which views take 64x64. For evaluation the aspect is kept: the short side is
73 and the center 64x64 is taken, which no view of the squashed images can give, so both are stored.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import numpy as np

from puarena.datasets import download, image_cache, image_files
from puarena.datasets.dataset import Bytes, DataFile, Dataset, DatasetInfo, from_info
from puarena.datasets.image_files import PARTS, SEEN, SKIP_ENVIRONMENT, SQUASHED
from puarena.datasets.views import View, Views
from puarena.errors import UserError

URL = "https://s3.amazonaws.com/fast-ai-imageclas/imagenette2.tgz"
FOLDERS = "imagenette2", "imagenette2-320", "imagenette2-160"
COUNTS = {  # of the classes in order: images in train and in val
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


def find(folder: Path) -> Path | None:
    """Return the images that a folder has: as a folder, as the official archive, or as a zip."""
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
    """Crops of 64x64 pixels.

    The protocol says of the strong view "3 RandAugment operations at random magnitude": here each of them is done, at
    a magnitude from 1 … 9 of ten as for CIFAR-10.
    """
    from puarena.datasets.views.geometry import CenterCrop, CutOut, RandomCrop, ResizedCrop
    from puarena.datasets.views.images import ImageView
    from puarena.datasets.views.randaugment import RandAugment

    def view(*parts: View) -> View:
        return ImageView((0.485, 0.456, 0.406), (0.229, 0.224, 0.225), parts)

    strong = view(ResizedCrop(SEEN), RandAugment(layers=3), CutOut())
    return {"": Views(view(RandomCrop(side=SEEN)), strong, view(CenterCrop(SEEN)))}


INFO = DatasetInfo(
    name="imagenette",
    title="ImageNette 2",
    description="13,394 photographs in 10 easy ImageNet classes, used at 64x64 pixels; the 3,925 of 'val' are the test "
    "set",
    license="Apache-2.0 (the selection); the photographs are under ImageNet's terms of access",
    citation="J. Howard, Imagenette, 2019; O. Russakovsky et al., ImageNet Large Scale Visual Recognition Challenge, "
    "IJCV 115, 211-252, 2015",
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
    shape=(3, SEEN, SEEN),
    stored=(3, SQUASHED, SQUASHED),
    kind="image",
    network="resnet32",
    cases={1: (0, 1, 2, 8, 9), 2: (2, 3, 5, 7, 9)},
    size=6000,
    shortfall=0.1,
    views=views,
    environment=(SKIP_ENVIRONMENT,),
    order=5,
)


def read(folder: Path | None) -> Dataset:
    """Read the images as they were kept, or decode them and keep them."""
    source = download.locate(INFO, INFO.files[0], folder)
    about = _about(source)
    path = image_cache.file_for(_cache(), about)
    content = image_cache.load(path, about)
    if content is None:
        for old in image_cache.others(path):
            image_cache.say(
                f"'{old}' was made from another source or with other settings; images are decoded again"
            )
        arrays, missing = _decode(source)
        image_cache.save(path, arrays, about, missing)
    else:
        arrays, missing = content
    if missing:  # which nobody gets without having said so, now or when the images were decoded
        image_cache.say(f"going on without some images of '{source}': {'; '.join(missing)}")
    classes, test = arrays["classes"], arrays["test"].astype(bool)
    return from_info(
        INFO,
        arrays["features"],
        classes,
        train=np.flatnonzero(~test),
        test=np.flatnonzero(test),
        evaluation=arrays["evaluation"],
    )


def cache_file(folder: Path | None) -> Path | None:
    """Return the file that the decoded images are kept in, if it is there."""
    path = image_cache.file_for(_cache(), _about(download.locate(INFO, INFO.files[0], folder)))
    return path if path.is_file() else None


def _decode(source: Path) -> tuple[dict[str, Bytes], list[str]]:
    """Return the arrays, and what is missing of the published images (nothing, unless told to go on)."""
    images = image_files.listed(source)
    _check_folders(source, images)
    numbers = Counter((name.part, name.folder) for name in images)
    missing = [
        f"{part}/{folder} has {numbers[part, folder]} images instead of {counts[PARTS.index(part)]}"
        for part in PARTS
        for folder, counts in COUNTS.items()
        if numbers[part, folder] != counts[PARTS.index(part)]
    ]
    _judge(source, missing)
    image_cache.check_space(_cache(), len(images) * (3 * SQUASHED**2 + 3 * SEEN**2 + 2))
    features, evaluation, good = image_files.decoded(source, images)
    names = list(images)
    if not good.all():
        missing += [f"{names[row]} cannot be decoded" for row in np.flatnonzero(~good)]
        _judge(source, missing)
        features, evaluation, names = (
            features[good],
            evaluation[good],
            [names[row] for row in np.flatnonzero(good)],
        )
    order = {folder: number for number, folder in enumerate(COUNTS)}
    arrays = {
        "features": features,
        "evaluation": evaluation,
        "classes": np.array([order[name.folder] for name in names], np.uint8),
        "test": np.array([name.part == "val" for name in names], np.uint8),
    }
    return arrays, missing


def _check_folders(source: Path, images: dict[image_files.Name, str]) -> None:
    for part in PARTS:
        folders = sorted({name.folder for name in images if name.part == part})
        if folders != sorted(COUNTS):
            raise UserError(
                f"'{source}' is not ImageNette: '{part}' must have images in the folders {', '.join(COUNTS)}, and it "
                f"has them in {_some(folders) if folders else 'none'}; get it again from {URL}"
            )


def _judge(source: Path, missing: list[str]) -> None:
    """Stop where something is missing, unless the user wants to go on."""
    if missing and os.environ.get(SKIP_ENVIRONMENT, "") in ("", "0"):
        raise UserError(
            f"'{source}' is not the whole of ImageNette: {_some(missing)}; get it again from {URL}, or go on without "
            f"the missing images by {SKIP_ENVIRONMENT}=1 or 'puarena data prepare imagenette --skip-bad-images'"
        )


def _some(texts: list[str]) -> str:
    return ", ".join(texts[:5]) + (f" and {len(texts) - 5} more" if len(texts) > 5 else "")


def _about(source: Path) -> dict[str, object]:
    """Return what the decoded images depend on; ``format`` changes with the code that makes them."""
    kind = "folder" if source.is_dir() else source.suffix.removeprefix(".")
    settings = {"squashed": SQUASHED, "seen": SEEN, "resampling": "bilinear", "counts": COUNTS}
    return {
        "format": 1,
        "kind": kind,
        "source": image_files.fingerprint(source),
        "settings": settings,
    }


def _cache() -> Path:
    return download.cache_folder() / INFO.name
