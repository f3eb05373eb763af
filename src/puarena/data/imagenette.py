"""ImageNette (version 2): the registry's entry. Images are not read yet."""

from __future__ import annotations

from pathlib import Path

from puarena.data.dataset import DataFile, Dataset, DatasetInfo
from puarena.errors import UserError

INFO = DatasetInfo(
    name="imagenette",
    title="ImageNette 2",
    description="13,394 photographs in 10 easy ImageNet classes, used at 64x64 pixels; the 3,925 of 'val' are the test "
    "set",
    licence="Apache-2.0 (the selection); the photographs are under ImageNet's terms of access",
    citation="J. Howard, Imagenette, 2019; O. Russakovsky et al., ImageNet Large Scale Visual Recognition Challenge, "
    "IJCV 115, 211-252, 2015",
    urls=("https://github.com/fastai/imagenette",),
    files=(DataFile("imagenette2.tgz", "https://s3.amazonaws.com/fast-ai-imageclas/imagenette2.tgz", None),),
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
    shape=(3, 64, 64),
    kind="image",
    network="resnet32",
    cases={1: (0, 1, 2, 8, 9), 2: (2, 3, 5, 7, 9)},
    size=6000,
    shortfall=0.1,
)


def read(folder: Path | None) -> Dataset:
    """Refuse: image datasets are not readable in this version."""
    raise UserError("dataset 'imagenette' is an image dataset, and those cannot be read yet in this version of puarena")
