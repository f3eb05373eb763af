"""Connect-4: positions after eight moves, and who wins."""

from __future__ import annotations

from puarena.data.dataset import DatasetInfo
from puarena.data.named import Table, openml

READERS = Table(
    DatasetInfo(
        name="connect-4",
        title="Connect-4 (UCI)",
        description="67,557 positions of 42 squares (one-hot), won for the first player positive; a random fifth is "
        "the test set",
        licence="CC BY 4.0",
        citation="J. Tromp, Connect-4, UCI Machine Learning Repository, 1995, doi:10.24432/C59P43",
        urls=("https://archive.ics.uci.edu/dataset/26/connect+4",),
        files=(openml("connect-4", 40668),),
        examples=67557,
        class_names=("draw", "loss", "win"),
        shape=(126,),
        cases={1: (2,)},
        size=54046,
        test_fraction=0.2,
        balanced=False,
        default_prior=0.658,
        order=18,
    ),
    labels={"0": "draw", "1": "loss", "2": "win"},
    categorical=True,
).both
