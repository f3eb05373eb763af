"""Mushroom: descriptions of mushrooms in 22 categories."""

from __future__ import annotations

from puarena.data.dataset import DatasetInfo
from puarena.data.named import Table, openml

READERS = Table(
    DatasetInfo(
        name="mushroom",
        title="Mushroom (UCI)",
        description="8,124 mushrooms by 22 categories (one-hot), poisonous positive; a random fifth is the test set",
        licence="CC BY 4.0",
        citation="J. Schlimmer, Mushroom, UCI Machine Learning Repository, 1981, doi:10.24432/C5959T",
        urls=("https://archive.ics.uci.edu/dataset/73/mushroom",),
        files=(openml("mushroom", 24),),
        examples=8124,
        class_names=("edible", "poisonous"),
        shape=(117,),
        cases={1: (1,)},
        size=6499,
        test_fraction=0.2,
        balanced=False,
        default_prior=0.482,
        order=12,
    ),
    labels={"e": "edible", "p": "poisonous"},
    categorical=True,
).both
