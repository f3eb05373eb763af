"""MAGIC: showers seen by a gamma-ray telescope."""

from __future__ import annotations

from puarena.data.dataset import DatasetInfo
from puarena.data.named import Table, openml

READERS = Table(
    DatasetInfo(
        name="magic",
        title="MAGIC Gamma Telescope (UCI)",
        description="19,020 simulated showers by 10 measurements, gamma positive; a random fifth is the test set",
        licence="CC BY 4.0",
        citation="R. Bock, MAGIC Gamma Telescope, UCI Machine Learning Repository, 2004, doi:10.24432/C52C8B",
        urls=("https://archive.ics.uci.edu/dataset/159/magic+gamma+telescope",),
        files=(openml("magic", 1120),),
        examples=19020,
        class_names=("hadron", "gamma"),
        shape=(10,),
        cases={1: (1,)},
        size=15216,
        test_fraction=0.2,
        balanced=False,
        default_prior=0.648,
        order=14,
    ),
    labels={"h": "hadron", "g": "gamma"},
).both
