"""Handwritten digits that come with scikit-learn; the default, because it needs no download."""

from __future__ import annotations

from pathlib import Path

from puarena.datasets.base import Dataset, DatasetInfo, from_info

INFO = DatasetInfo(
    name="digits",
    title="Digits (scikit-learn)",
    description="1,797 handwritten digits of 8x8 pixels, embedded in scikit-learn; a random fifth "
    "is the test set",
    license="CC BY 4.0",
    citation="E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits, UCI Machine "
    "Learning Repository, 1998, doi:10.24432/C50P49",
    urls=("https://archive.ics.uci.edu/dataset/80/optical+recognition+of+handwritten+digits",),
    examples=1797,
    class_names=tuple("0123456789"),
    shape=(64,),
    gray=True,
    cases={1: (1, 3, 5, 7, 9), 2: (5, 6, 7, 8, 9)},
    size=900,  # 90 a class: enough examples for every rate in the two-sample setting, too
    test_fraction=0.2,
    shortfall=0.15,
    order=1,
)


def read(folder: Path | None) -> Dataset:
    """Read the embedded images; pixels 0..16 become 0..1."""
    from sklearn.datasets import load_digits

    images = load_digits()
    return from_info(INFO, images.data / 16.0, images.target)
