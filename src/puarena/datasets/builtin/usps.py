"""USPS digits from the LIBSVM page: 16x16 gray images, used as 256 features."""

from __future__ import annotations

import bz2
from functools import partial
from pathlib import Path

import numpy as np

from puarena.datasets.base import DataFile, Dataset, DatasetInfo, Floats, Indices, from_info
from puarena.datasets.download import locate
from puarena.datasets.views import Views

PAGE = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass"
MEAN, STD = 0.1307, 0.3081


def views() -> dict[str, Views]:
    """Return the mirrored and rotated digits of the published code."""
    from puarena.datasets.views.geometry import AffineView

    view = partial(AffineView, side=(16, 16), black=(0 - MEAN) / STD, white=(1 - MEAN) / STD)
    return {"released": Views(view(rotation=10), view(rotation=30, shift=0.1, jitter=0.2))}


INFO = DatasetInfo(
    name="usps",
    title="USPS (LIBSVM)",
    description="9,298 handwritten digits of 16x16 pixels scanned by the US Postal Service; 2,007 "
    "are the test set",
    license="none stated",
    citation="J. J. Hull, A database for handwritten text recognition research, IEEE TPAMI 16(5), "
    "550-554, 1994; C.-C. Chang and C.-J. Lin, LIBSVM",
    urls=("https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass.html#usps",),
    files=(
        DataFile(
            "usps.bz2",
            f"{PAGE}/usps.bz2",
            "3771e9dd6ba685185f89867b6e249233dd74652389f263963b3b741e994b034f",
        ),
        DataFile(
            "usps.t.bz2",
            f"{PAGE}/usps.t.bz2",
            "a9c0164e797d60142a50604917f0baa604f326e9a689698763793fa5d12ffc4e",
        ),
    ),
    examples=9298,
    class_names=tuple("0123456789"),
    shape=(256,),
    gray=True,
    cases={1: (4, 5, 7, 8, 9), 2: (1, 4, 6, 8, 9)},
    size=4000,
    shortfall=0.15,
    views=views,
    order=3,
)


def read(folder: Path | None) -> Dataset:
    """Read both LIBSVM files; training images first."""
    (x_train, y_train), (x_test, y_test) = (
        _parse(locate(INFO, file, folder)) for file in INFO.files
    )
    total = len(y_train) + len(y_test)
    return from_info(
        INFO,
        np.concatenate([x_train, x_test]),
        np.concatenate([y_train, y_test]),
        train=np.arange(len(y_train)),
        test=np.arange(len(y_train), total),
    )


def _parse(path: Path) -> tuple[Floats, Indices]:
    """Lines are ``label 1:v 2:v … 256:v`` with label = digit + 1 and every v in [-1, 1] present."""
    lines = bz2.decompress(path.read_bytes()).decode("ascii").splitlines()
    labels = np.array([int(line.split(" ", 1)[0]) - 1 for line in lines], np.int64)
    values = [[item.rpartition(":")[2] for item in line.split()[1:]] for line in lines]
    # The reference reads the images as bytes (values are cut, not rounded), so these are used here.
    pixels = ((np.array(values, np.float32) + 1) / 2 * 255).astype(np.uint8)
    return ((pixels.astype(np.float32) / 255 - MEAN) / STD).astype(np.float32), labels
