"""Spambase: e-mails by frequencies of words and characters."""

from __future__ import annotations

from puarena.data.dataset import DatasetInfo
from puarena.data.named import Table, openml

READERS = Table(
    DatasetInfo(
        name="spambase",
        title="Spambase (UCI)",
        description="4,601 e-mails by 57 frequencies, spam positive; a random fifth is the test set",
        licence="CC BY 4.0",
        citation="M. Hopkins, E. Reeber, G. Forman and J. Suermondt, Spambase, UCI Machine Learning Repository, 1999, "
        "doi:10.24432/C53G6X",
        urls=("https://archive.ics.uci.edu/dataset/94/spambase",),
        files=(openml("spambase", 44),),
        examples=4601,
        class_names=("mail", "spam"),
        shape=(57,),
        cases={1: (1,)},
        size=3681,
        test_fraction=0.2,
        balanced=False,
        default_prior=0.394,
        order=10,
    ),
    labels={"0": "mail", "1": "spam"},
).both
