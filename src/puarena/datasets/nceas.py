"""Species of the NCEAS collection: a file of ``builtin`` describes each region, read here.

Elith et al.: Presence-only and presence-absence data for comparing species distribution modeling
methods. Biodiversity Informatics 15, 2020.

Somebody saw a species at some places and reported it: these are the labeled positives, collected
where people go. 10,000 background points of the region are unlabeled. The truth is a survey of
other places, which found the species or did not. Every species is a case with its own number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from puarena.datasets.base import (
    DataFile,
    Dataset,
    DatasetInfo,
    Indices,
    ObservedLabels,
    make_observed,
)
from puarena.datasets.download import locate
from puarena.datasets.encoding import make_benchmark_encoder
from puarena.errors import UserError
from puarena.utils.files import describe_error

if TYPE_CHECKING:
    import pandas as pd

FOLDER = "nceas"  # of a data folder: all regions may be in one
FOLDER_URL = "https://github.com/rspatial/disdat/raw/master/inst/extdata"
NOT_FEATURES = ("siteid", "spid", "x", "y", "occ", "group")
CATEGORIES = ("ontveg", "vegsys", "toxicats", "age", "calc")  # numbers that name categories
BACKGROUND_POINTS = 10_000
MIN_PRESENCES = 30
MIN_SURVEY = 5  # places with the species, and places without it


@dataclass(frozen=True)
class NceasRegion:
    """The reader of a region."""

    INFO: DatasetInfo
    code: str  # of the region in the names of files
    groups: tuple[str, ...]  # surveys, with their mark in the names of files

    def read(self, folder: Path | None) -> Dataset:
        """Read presences, background and surveys."""
        presences = self.read_file("train_po", folder)
        background = self.read_file("train_bg", folder)
        surveys, found = [], []
        for group in self.groups:
            surveys.append(self.read_file(f"test_env{group}", folder))
            found.append(self.read_file(f"test_pa{group}", folder))
        tables = [background, presences, *surveys]
        ends = np.cumsum([len(table) for table in tables])
        rows = np.split(np.arange(ends[-1]), ends[:-1])
        names = [name for name in background.columns if name not in NOT_FEATURES]
        features = _encode(tables, names, training_rows=int(ends[1]))
        species = presences["spid"].astype(str).to_numpy()
        observed, unusable = {}, {}
        for case, (index,) in self.INFO.cases.items():
            name = self.INFO.class_names[index]
            truth = np.full(len(features), -1, np.int8)
            test = np.zeros(0, np.int64)
            for part, table in zip(rows[2:], found, strict=True):
                if name in table.columns:
                    test, truth[part] = part, table[name].to_numpy(np.int8)
            labeled = rows[1][species == name]
            if reason := _find_shortage(name, labeled, truth[test]):
                unusable[case] = reason
            else:
                observed[case] = ObservedLabels(labeled, rows[0], truth, test)
        return make_observed(self.INFO, features, observed, unusable=unusable)

    def read_file(self, part: str, folder: Path | None) -> pd.DataFrame:
        """Read one of the region's files."""
        (file,) = (each for each in self.INFO.files if each.name == f"{self.code}{part}.rds")
        return _read_rds(locate(self.INFO, file, folder))


def make_nceas_region(
    code: str,
    title: str,
    *,
    species: int,
    features: int,
    presences: int,
    surveyed: int,
    order: int,
    groups: tuple[str, ...] = (),
    checksums: Mapping[str, str] | None = None,
) -> NceasRegion:
    """Return the reader of a region.

    ``features`` and ``surveyed`` are numbers of columns and of places, ``presences`` of reports;
    ``checksums`` are those of its files by their part of the name, as far as they are known.
    """
    marks = tuple(f"_{group}" for group in groups) or ("",)
    parts = ["train_po", "train_bg"]
    for mark in marks:
        parts += [f"test_env{mark}", f"test_pa{mark}"]
    files = []
    for part in parts:
        name = f"{code}{part}.rds"
        sha256 = (checksums or {}).get(part)
        files.append(DataFile(name, f"{FOLDER_URL}/{name}", sha256, find=_Finder(name)))
    numbers = range(1, species + 1)
    info = DatasetInfo(
        name=f"nceas-{code.lower()}",
        title=f"{title}: species (NCEAS)",
        description=f"reports of {species} species and {BACKGROUND_POINTS:,} background points "
        "by environment; observed labels: seen by somebody; truth: an "
        "independent survey, the test set; each species is a case",
        license="GPL 3 or later (the R package disdat)",
        citation="J. Elith et al., Presence-only and presence-absence data for comparing species "
        "distribution modeling methods, Biodiversity Informatics 15, 69-80, 2020, "
        "doi:10.17161/bi.v15i2.13384",
        urls=("https://github.com/rspatial/disdat",),
        files=tuple(files),
        examples=BACKGROUND_POINTS + presences + surveyed,
        class_names=tuple(f"{code.lower()}{number:02}" for number in numbers),
        shape=(features,),
        cases={number: (number - 1,) for number in numbers},
        size=BACKGROUND_POINTS + presences // species,
        balanced=False,
        default_prior=np.nan,
        observed_setting="ts",
        truth="test",
        order=order,
    )
    return NceasRegion(info, code, marks)


@dataclass(frozen=True)
class _Finder:
    """Finds a file in a folder, or in its folder ``nceas``."""

    name: str

    def __call__(self, folder: Path) -> Path | None:
        places = (folder / self.name, folder / FOLDER / self.name)
        return next((place for place in places if place.is_file()), None)


def _find_shortage(name: str, labeled: Indices, truth: npt.NDArray[np.int8]) -> str:
    """Return what a species lacks; an empty text if it has enough."""
    if not len(truth):
        return f"no survey looked for {name}, so nothing can be scored"
    if len(labeled) < MIN_PRESENCES:
        return f"{name} was reported {len(labeled)} times, and at least {MIN_PRESENCES} are needed"
    found = int(truth.sum())
    if min(found, len(truth) - found) < MIN_SURVEY:
        return (
            f"the survey found {name} at {found} of {len(truth)} places, and at least {MIN_SURVEY} "
            "places with it and without it are needed"
        )
    return ""


def _encode(
    tables: list[pd.DataFrame], names: list[str], training_rows: int
) -> npt.NDArray[np.float64]:
    """Return all rows as numbers with mean 0 and deviation 1 on the training rows.

    A category becomes 0/1 columns.
    """
    import pandas as pd

    frame = pd.concat([table[names] for table in tables], ignore_index=True)
    columns: dict[str, Any] = {}
    for name in names:
        numbers = pd.to_numeric(frame[name]).to_numpy(np.float64, na_value=np.nan)
        is_category = name in CATEGORIES
        columns[name] = [f"type {number:g}" for number in numbers] if is_category else numbers
    values = make_benchmark_encoder().fit(pd.DataFrame(columns)).dense(pd.DataFrame(columns))
    training = values[:training_rows]
    deviation = training.std(0)
    return np.asarray((values - training.mean(0)) / np.where(deviation > 0, deviation, 1))


def _read_rds(path: Path) -> pd.DataFrame:
    """Read a data frame as R saves it."""
    import warnings

    try:
        import rdata
    except ImportError:
        message = "files of R need rdata; install it with: pip install 'puarena[species]'"
        raise UserError(message, "missing-dependency") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the kinds of columns that R does not have
            frame: pd.DataFrame = rdata.read_rds(path)
            columns = list(frame.columns)
    # A damaged file can raise anything.
    except Exception as error:
        message = f"'{path}' cannot be read as a data frame of R: {describe_error(error)}"
        raise UserError(message, "damaged-file") from error
    frame.columns = [str(name) for name in columns]
    return frame.reset_index(drop=True)
