"""Tables people know by name: what differs between them in a few lines each (``sets/``), how they are read once here.

A table is taken from a folder that has it (``NAME.parquet``, ``.arff``, ``.dat`` as KEEL writes it, or ``.csv``), from
the cache, or from OpenML. Numbers are fed as they are; of a column of text each value becomes a 0/1 column.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from puarena.datasets import frames
from puarena.datasets.dataset import DataFile, Dataset, DatasetInfo, from_info
from puarena.datasets.download import locate
from puarena.datasets.standardized import Standardized
from puarena.errors import UserError, unknown_name
from puarena.utils.counts import stratified_test_counts

CLASS_COLUMN = (
    "class",
    "income",
)  # what the column of labels is called, whatever the case; else it is the last


@dataclass(frozen=True)
class Table:
    """A reader of one table, and of its form with standardized features."""

    INFO: DatasetInfo
    labels: Mapping[str, str] = field(
        default_factory=dict
    )  # spelling in files -> class, where that is another
    categorical: bool = False  # is every column one, whatever it looks like?
    scale: float = 1.0  # that numbers are divided by
    test_rows: int = 0  # at the end of the file; else each trial has its own test part

    @property
    def both(self) -> tuple[Table | Standardized, ...]:
        """The readers of the features as they are, and standardized."""
        return self, Standardized(self)

    def read(self, folder: Path | None) -> Dataset:
        """Read the table; of one with natural class frequencies the size and the prior are those of its rows."""
        info = self.INFO
        path = locate(info, info.files[0], folder)
        frame = frames.read_frame(path)
        columns = [str(name) for name in frame.columns]
        target = next(
            (name for name in columns if name.strip(": ").lower() in CLASS_COLUMN), columns[-1]
        )
        names = [name for name in columns if name not in (target, "ID")]
        values = frames.encoded(path, frame, names, self.categorical).to_numpy(
            np.float32
        ) / np.float32(self.scale)
        classes = self._classes(path, frame[target].tolist())
        if self.test_rows:
            first = len(classes) - self.test_rows
            if first <= 0:
                raise UserError(
                    f"{path} has {len(classes)} rows, and the last {self.test_rows} should be the test set"
                )
            return from_info(
                info, values, classes, np.arange(first), np.arange(first, len(classes))
            )
        dataset = from_info(info, values, classes)
        count = len(info.class_names)
        pool = np.bincount(classes, minlength=count) - stratified_test_counts(
            classes, count, info.test_fraction or 0.0
        )
        priors = {
            case: float(pool[list(chosen)].sum() / pool.sum())
            for case, chosen in info.cases.items()
        }
        return replace(
            dataset, size=int(pool.sum()), default_prior=priors[min(priors)], case_priors=priors
        )

    def _classes(self, path: Path, values: list[object]) -> np.ndarray[Any, np.dtype[np.int64]]:
        names = self.INFO.class_names
        numbers = {name: number for number, name in enumerate(names)}
        numbers |= {text: numbers[name] for text, name in self.labels.items()}
        texts = [frames.label_text(value).strip().rstrip(".") for value in values]
        for row, text in enumerate(texts, 1):
            if text not in numbers:
                raise UserError(f"{path}, data row {row}: {unknown_name('class', text, numbers)}")
        return np.array([numbers[text] for text in texts], np.int64)


def uci_table(
    name: str,
    title: str,
    page: str,
    work: str,
    year: str,
    *,
    openml_id: int,
    rows: int,
    features: int,
    what: str,
    classes: tuple[str, ...],
    positive: str,
    prior: float,
    order: int,
    **reading: Any,
) -> tuple[Table | Standardized, ...]:
    """The readers of a table of the UCI repository: all rows, its own class frequencies, a random fifth to test.

    ``page`` there; ``work`` and ``year`` are cited; ``what`` its ``rows`` are. ``reading`` as :class:`Table` has it.
    """
    info = DatasetInfo(
        name=name,
        title=f"{title} (UCI)",
        description=f"{rows:,} {what}; a random fifth is the test set",
        license="CC BY 4.0",
        citation=f"{work}, UCI Machine Learning Repository, {year}",
        urls=(f"https://archive.ics.uci.edu/dataset/{page}",),
        files=(openml(name, openml_id),),
        examples=rows,
        class_names=classes,
        shape=(features,),
        cases={1: (classes.index(positive),)},
        size=rows - round(rows / 5),
        test_fraction=0.2,
        balanced=False,
        default_prior=prior,
        order=order,
    )
    return Table(info, **reading).both


def openml(name: str, number: int) -> DataFile:
    """Return the file of a table of OpenML: kept with the checksum it had when it was first fetched."""
    url = f"https://www.openml.org/d/{number}"
    return DataFile(
        f"{name}.parquet", url, None, find=partial(_any_form, name), source=f"openml:{number}"
    )


def _any_form(name: str, folder: Path) -> Path | None:
    forms = [folder / f"{name}.{kind}" for kind in ("parquet", "arff", "dat", "csv", "csv.gz")]
    return next((form for form in forms if form.is_file()), None)
