"""UCI Letter Recognition: 26 letters, 16 integer features fed raw."""

from __future__ import annotations

from pathlib import Path
from string import ascii_uppercase

import numpy as np

from puarena.datasets.base import DataFile, Dataset, DatasetInfo, from_info
from puarena.datasets.download import locate

FOLDER_URL = "https://archive.ics.uci.edu/ml/machine-learning-databases/letter-recognition"


def _letters(names: str) -> tuple[int, ...]:
    return tuple(ascii_uppercase.index(name) for name in names.split())


INFO = DatasetInfo(
    name="letter",
    title="Letter Recognition (UCI)",
    description="20,000 distorted printed capital letters, 16 integer features; a random tenth is "
    "the test set",
    license="CC BY 4.0",
    citation="P. W. Frey and D. J. Slate, Letter Recognition Using Holland-Style Adaptive "
    "Classifiers, Machine Learning 6, 161-182, 1991; D. Slate, Letter Recognition, UCI Machine "
    "Learning Repository, doi:10.24432/C5ZP40",
    urls=("https://archive.ics.uci.edu/dataset/59/letter+recognition",),
    files=(
        DataFile(
            "letter-recognition.data",
            f"{FOLDER_URL}/letter-recognition.data",
            "2b89f3602cf768d3c8355267d2f13f2417809e101fc2b5ceee10db19a60de6e2",
        ),
    ),
    examples=20000,
    class_names=tuple(ascii_uppercase),
    shape=(16,),
    cases={1: _letters("B C H I J K L O R S V W Z"), 2: _letters("A B C D G I J L Q T W Y Z")},
    size=13000,
    test_fraction=0.1,
    stratify=False,
    shortfall=0.05,
    order=2,
    standardized_form=True,
)


def read(folder: Path | None) -> Dataset:
    """Read the official comma-separated file: a letter, then 16 features in 0..15."""
    rows = locate(INFO, INFO.files[0], folder).read_text("ascii").split()
    classes = [ascii_uppercase.index(row[0]) for row in rows]
    features = np.loadtxt([row[2:] for row in rows], np.float32, delimiter=",")
    return from_info(INFO, features, np.array(classes))
