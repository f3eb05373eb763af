"""Adult: incomes of the census of 1994."""

from __future__ import annotations

from puarena.data.dataset import DatasetInfo
from puarena.data.named import Table, openml

READERS = Table(
    DatasetInfo(
        name="adult",
        title="Adult (UCI)",
        description="48,842 persons by 6 numbers and 8 categories (one-hot), incomes over 50K positive; a random fifth "
        "is the test set",
        licence="CC BY 4.0",
        citation="B. Becker and R. Kohavi, Adult, UCI Machine Learning Repository, 1996, doi:10.24432/C5XW20",
        urls=("https://archive.ics.uci.edu/dataset/2/adult",),
        files=(openml("adult", 1590),),
        examples=48842,
        class_names=("<=50K", ">50K"),
        shape=(108,),
        cases={1: (1,)},
        size=39074,
        test_fraction=0.2,
        balanced=False,
        default_prior=0.239,
        order=16,
    )
).both
