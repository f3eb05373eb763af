"""Species of the NCEAS collection: six regions, one reader.

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
    standardize,
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
    return standardize(values, values[:training_rows])


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


READERS = (
    make_nceas_region(
        "AWT",
        "Australian Wet Tropics",
        species=40,
        features=13,
        presences=3806,
        surveyed=442,
        order=60,
        groups=("bird", "plant"),
        checksums={
            "test_env_bird": "3d20606dfd54f1c0092c96993b7d16d452ae7f0e62e50c7c3f1ba5490d2d31b7",
            "test_env_plant": "60ffc85f4b7569a6e9430b68b2cff3479b8892886cd00158e1843c92b690a6c2",
            "test_pa_bird": "60198f6f5d07c9a288b4a76c32744bd121b5f09828a90b12b3f9024b3af64179",
            "test_pa_plant": "39df9bf775b76b6736ed600cdbbb835263cbaaf53c3412e3beb96046f196c261",
            "train_bg": "d118e2861ab060e1cfb569f21c23348fb760b1b2aa3b92b56b08ee29dd5a00b4",
            "train_po": "ac28f21d848749ff7511bfa505d7e9935e714a40af23f7949de2e12311e67421",
        },
    ),
    make_nceas_region(
        "CAN",
        "Ontario, Canada",
        species=20,
        features=11,
        presences=5063,
        surveyed=14571,
        order=61,
    ),
    make_nceas_region(
        "NSW",
        "New South Wales",
        species=54,
        features=21,
        presences=3323,
        surveyed=8746,
        order=62,
        groups=("ba", "db", "nb", "ot", "ou", "rt", "ru", "sr"),
        checksums={
            "test_env_ba": "74f87872d165b13abf7924649d261408fa9460e75e627297c410a3e8b5917594",
            "test_env_db": "e9da74fa8a249bd68f8888d473270721c9839ffb371f4b0ea7a9ce2b42297e2e",
            "test_env_nb": "bb47eac96ab73483f13d0a64a75f415bbc6ffcc621c36ee04a77f914646cf629",
            "test_env_ot": "aadc1a907581fc6080b4f31f2a868c2b57b6951d73b32dac3ff0708415052b69",
            "test_env_ou": "7ed98fe58f85ceb10b5643756fca2be8a548cb8a0983e3baaaf5696543aadbd8",
            "test_env_rt": "a40c9600ae248fa7ba5e4b9e5c776207d849509bdd85775fa2d51a5d8b29d6b8",
            "test_env_ru": "1f0a2d03e33d665072e87c81a528a58baee801366e4cab168967e171759afd9a",
            "test_env_sr": "91c4f76bbea61cb5a5757b74dc4f3fbfdee711214deb7a5e03f1316d69cbc5a7",
            "test_pa_ba": "41dd9ec3f4563fdfeb89ed2f1b10e5da85e4a164f5659590ea4c82cd8e78c019",
            "test_pa_db": "40a55a3c522bf28889434fc93208ab3b00a36f1c9471c6cb15da23e5f149cf76",
            "test_pa_nb": "7586f1f1d539dd2939722c5947d22da33b6a61318ccf4c90a679149aad877df6",
            "test_pa_ot": "2dd6454a5d18dd7c73e765590e191e83d89fe89e8b4c5b1a30d045cd65b114ba",
            "test_pa_ou": "b34c79639b51dae9fb03d0d1cedbaaa33e899e017b4dbc0593a8873d7aede320",
            "test_pa_rt": "0a9d4c6900b539fbab1eb6c5f19f034ee3e0d46b71f3469dfa8466e6a66a840f",
            "test_pa_ru": "0d3236741aec20aa9e2e176505759d39bc9350b007ff2f1e17dbbe6017a975c5",
            "test_pa_sr": "65a3456ac8c5ca693c2f7f559baadd7a41a94526e32150bccdcf0bae71041663",
            "train_bg": "35757490cfcea6ce28b2f51b103d6f6f2af12ff5aa03ab94f8681992056a8ec5",
            "train_po": "46e49b001d0f6d9dc1a4c52dad088858ebe9f942ae245eb0aad6451445f5867f",
        },
    ),
    make_nceas_region(
        "NZ",
        "New Zealand",
        species=52,
        features=18,
        presences=3088,
        surveyed=19120,
        order=63,
        checksums={
            "test_env": "de56108accc34e1f8a04cd6f6ff346253d6c0274b06e4e1ec6c9471f30514047",
            "test_pa": "165b24ba67c9f39105037570bf6af9a3778e65082766dba352f5b3823505d6bd",
            "train_bg": "455f4c15d295f2908f0b7361065f39402c8d62dd5ca6f5b2c4fbd382d710bc72",
            "train_po": "aabdd50a712ff177c5c012059977f797acf167120e401b7c81b5c797a32a4778",
        },
    ),
    make_nceas_region(
        "SA",
        "South America",
        species=30,
        features=11,
        presences=2220,
        surveyed=152,
        order=64,
    ),
    make_nceas_region(
        "SWI",
        "Switzerland",
        species=30,
        features=13,
        presences=35105,
        surveyed=10013,
        order=65,
    ),
)
