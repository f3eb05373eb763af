"""Letter Recognition with every feature brought to mean 0 and deviation 1, beside the paper's raw integers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from puarena.data.dataset import Dataset
from puarena.data.sets import letter

INFO = replace(
    letter.INFO,
    name="letter-standardised",
    title="Letter Recognition (UCI), standardised",
    description="the dataset letter, read from the same file, every feature with mean 0 and deviation 1",
    files=(),
    order=3,
)


def read(folder: Path | None) -> Dataset:
    """Scale the features; labels are not looked at."""
    raw = letter.read(folder)
    scaled = (raw.features - raw.features.mean(0)) / raw.features.std(0)
    return replace(raw, name=INFO.name, features=scaled, revision="")
