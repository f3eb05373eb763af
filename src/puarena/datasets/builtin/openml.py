"""Tables of OpenML: the UCI repository's, and Fashion-MNIST.

A table is taken from a folder that has it (``NAME.parquet``, ``.arff``, ``.dat`` as KEEL writes
it, or ``.csv``), from the cache, or from OpenML. Numbers stay as they are, and each value of a
column of text becomes a 0/1 column.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from puarena.datasets.base import DataFile, Dataset, DatasetInfo, from_info
from puarena.datasets.download import locate
from puarena.datasets.encoding import fill_gaps, make_benchmark_encoder
from puarena.datasets.tables import read_table, spell_label
from puarena.errors import UserError, unknown_name
from puarena.utils.counts import count_test_examples

CLOTHES = (
    "T-shirt",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "ankle boot",
)
FILE_ENDINGS = ("parquet", "arff", "dat", "csv", "csv.gz")
CLASS_COLUMNS = ("class", "income")  # names of the column of labels; otherwise it is the last
ROW_NUMBER = "ID"  # a column that is no feature


@dataclass(frozen=True)
class OpenMLTable:
    """A reader of one table."""

    INFO: DatasetInfo
    labels: Mapping[str, str] = field(default_factory=dict)  # spelling in files -> class
    categorical: bool = False  # is every column a category, even if it has numbers?
    scale: float = 1.0  # the divisor of numbers
    test_rows: int = 0  # at the end of the file; 0: every split has its own test part

    def read(self, folder: Path | None) -> Dataset:
        """Read the table."""
        path = locate(self.INFO, self.INFO.files[0], folder)
        frame = read_table(path)
        columns = list(frame.columns)
        labels = [name for name in columns if name.strip(": ").lower() in CLASS_COLUMNS]
        target = labels[0] if labels else columns[-1]
        names = [name for name in columns if name not in (target, ROW_NUMBER)]
        features = fill_gaps(frame[names], self.categorical)
        values = make_benchmark_encoder().fit(features).dense(features)
        scaled = values.astype(np.float32) / np.float32(self.scale)
        classes = self._read_classes(path, frame[target].tolist())
        return self._with_test_part(path, scaled, classes)

    def _with_test_part(
        self, path: Path, values: npt.NDArray[np.float32], classes: npt.NDArray[np.int64]
    ) -> Dataset:
        """Return the dataset; without a fixed test part its rows decide its size and priors."""
        info = self.INFO
        if self.test_rows:
            first = len(classes) - self.test_rows
            if first <= 0:
                rows = f"{path} has {len(classes)} rows"
                message = f"{rows}, and the last {self.test_rows} are for testing"
                raise UserError(message, "missing-data")
            index = np.arange(len(classes))
            return from_info(info, values, classes, index[:first], index[first:])
        counts = np.bincount(classes, minlength=info.class_count)
        pool = counts - count_test_examples(classes, info.class_count, info.test_fraction or 0.0)
        priors = {}
        for case, positive in info.cases.items():
            priors[case] = float(pool[list(positive)].sum() / pool.sum())
        return replace(
            from_info(info, values, classes),
            size=int(pool.sum()),
            default_prior=priors[min(priors)],
            case_priors=priors,
        )

    def _read_classes(self, path: Path, values: list[object]) -> npt.NDArray[np.int64]:
        codes = {name: code for code, name in enumerate(self.INFO.class_names)}
        codes |= {text: codes[name] for text, name in self.labels.items()}
        # The test file of Adult has a full stop after each label.
        texts = [spell_label(value).strip().rstrip(".") for value in values]
        for row, text in enumerate(texts, 1):
            if text not in codes:
                error = unknown_name("class", text, codes)
                raise UserError(f"{path}, data row {row}: {error}", error.code)
        return np.array([codes[text] for text in texts], np.int64)


def make_uci_table(
    name: str,
    title: str,
    page: str,
    work: str,
    year: str,
    *,
    openml_id: int,
    rows: int,
    features: int,
    content: str,
    classes: tuple[str, ...],
    positive: str,
    prior: float,
    order: int,
    **reading: Any,
) -> OpenMLTable:
    """Return the reader of a table of the UCI repository, with a random fifth for testing.

    Classes have their natural frequencies. ``page`` is its address there, ``work`` and ``year`` are
    cited, ``content`` says what the rows are, and ``reading`` has fields of :class:`OpenMLTable`.
    """
    info = DatasetInfo(
        name=name,
        title=f"{title} (UCI)",
        description=f"{rows:,} {content}; a random fifth is the test set",
        license="CC BY 4.0",
        citation=f"{work}, UCI Machine Learning Repository, {year}",
        urls=(f"https://archive.ics.uci.edu/dataset/{page}",),
        files=(make_openml_file(name, openml_id),),
        examples=rows,
        class_names=classes,
        shape=(features,),
        cases={1: (classes.index(positive),)},
        size=rows - round(rows / 5),
        test_fraction=0.2,
        balanced=False,
        default_prior=prior,
        order=order,
        standardized_form=True,
    )
    return OpenMLTable(info, **reading)


def make_openml_file(name: str, number: int) -> DataFile:
    """Return the file of a table of OpenML."""
    return DataFile(
        f"{name}.parquet",
        f"https://www.openml.org/d/{number}",
        None,
        source=f"openml:{number}",
        find=partial(_find_any_form, name),
    )


def _find_any_form(name: str, folder: Path) -> Path | None:
    forms = [folder / f"{name}.{ending}" for ending in FILE_ENDINGS]
    return next((form for form in forms if form.is_file()), None)


READERS = (
    make_uci_table(
        "spambase",
        "Spambase",
        "94/spambase",
        "M. Hopkins, E. Reeber, G. Forman and J. Suermondt, Spambase",
        "1999, doi:10.24432/C53G6X",
        openml_id=44,
        order=10,
        rows=4601,
        features=57,
        content="e-mails by 57 frequencies, spam positive",
        classes=("mail", "spam"),
        positive="spam",
        prior=0.394,
        labels={"0": "mail", "1": "spam"},
    ),
    make_uci_table(
        "mushroom",
        "Mushroom",
        "73/mushroom",
        "J. Schlimmer, Mushroom",
        "1981, doi:10.24432/C5959T",
        openml_id=24,
        rows=8124,
        features=117,
        content="mushrooms by 22 categories (one-hot), poisonous positive",
        classes=("edible", "poisonous"),
        positive="poisonous",
        prior=0.482,
        order=12,
        labels={"e": "edible", "p": "poisonous"},
        categorical=True,
    ),
    make_uci_table(
        "magic",
        "MAGIC Gamma Telescope",
        "159/magic+gamma+telescope",
        "R. Bock, MAGIC Gamma Telescope",
        "2004, doi:10.24432/C52C8B",
        openml_id=1120,
        order=14,
        rows=19020,
        features=10,
        content="simulated showers by 10 measurements, gamma positive",
        classes=("hadron", "gamma"),
        positive="gamma",
        prior=0.648,
        labels={"h": "hadron", "g": "gamma"},
    ),
    make_uci_table(
        "adult",
        "Adult",
        "2/adult",
        "B. Becker and R. Kohavi, Adult",
        "1996, doi:10.24432/C5XW20",
        openml_id=1590,
        rows=48842,
        features=108,
        content="persons by 6 numbers and 8 categories (one-hot), incomes over 50K positive",
        classes=("<=50K", ">50K"),
        positive=">50K",
        prior=0.239,
        order=16,
    ),
    make_uci_table(
        "connect-4",
        "Connect-4",
        "26/connect+4",
        "J. Tromp, Connect-4",
        "1995, doi:10.24432/C59P43",
        openml_id=40668,
        rows=67557,
        features=126,
        content="positions of 42 squares (one-hot), won for the first player positive",
        order=18,
        classes=("draw", "loss", "win"),
        positive="win",
        prior=0.658,
        labels={"0": "draw", "1": "loss", "2": "win"},
        categorical=True,
    ),
    OpenMLTable(
        DatasetInfo(
            name="fashion-mnist",
            title="Fashion-MNIST",
            description="70,000 clothes as 28x28 gray pixels in [0, 1]; case 1: tops, case 2: "
            "trousers, coats and sneakers; the last 10,000 are the test set",
            license="MIT",
            citation="H. Xiao, K. Rasul and R. Vollgraf, Fashion-MNIST: a Novel Image Dataset for "
            "Benchmarking Machine Learning Algorithms, arXiv:1708.07747, 2017",
            urls=("https://github.com/zalandoresearch/fashion-mnist",),
            files=(make_openml_file("fashion-mnist", 40996),),
            examples=70000,
            class_names=CLOTHES,
            shape=(784,),
            cases={1: (0, 2, 4, 6), 2: (1, 4, 7)},
            size=60000,
            default_prior=0.4,
            case_priors={2: 0.3},
            order=20,
            standardized_form=True,
        ),
        labels={str(number): name for number, name in enumerate(CLOTHES)},
        scale=255.0,
        test_rows=10_000,
    ),
)
