"""Measure predictions on labels that the world gave: NHANES and the species of NCEAS regions.

    python benchmarks/wild.py --regions awt,nsw,nz --jobs 2 --out wild

The suite ``wild`` compares rankings; this is about prior and probabilities. For every species the
classifiers are fitted to all reports and all background points, and judged by the survey: AUC, and
the Brier score of ``PUClassifier``'s probabilities as they are, for the shares of positives that
``estimate_prior_shift`` finds among the survey's places (if only the share differs, or if only the
positives are the same), for the survey's own share, and of the best constant (that share, which
nobody knows beforehand). For NHANES, on five random fifths held out: the prior, and
the AUC among those whom no doctor told.

Writes ``wild-species.csv`` and ``wild-nhanes.csv`` with a row per species or split and classifier.
What these files already have is not measured again; ``--classifiers`` measures some of them only.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from puarena import PUClassifier, classics, datasets
from puarena.datasets.builtin import nhanes_diabetes
from puarena.datasets.encoding import make_benchmark_encoder
from puarena.priors import estimate_prior_shift

SPLITS = 5  # of NHANES
CLASSIFIERS = (
    "pu-classifier",
    "down-sampled-rf",
    "maxent",
    "bagging-pu",
    "naive-boosting",
    "naive-lr",
)
NHANES_FILE, SPECIES_FILE = "wild-nhanes.csv", "wild-species.csv"
Row = dict[str, Any]
Task = tuple[str, Callable[..., list[Row]], tuple[Any, ...]]  # the file of its rows, what to call
Floats = npt.NDArray[np.float64]


def make_classifiers(setting: str, seed: int) -> dict[str, Any]:
    """Return the classifiers by name."""
    return {
        "pu-classifier": PUClassifier(setting=setting, random_state=seed, device="cpu"),
        "down-sampled-rf": classics.DownSampledForestClassifier(random_state=seed),
        "maxent": classics.MaxentClassifier(random_state=seed),
        "bagging-pu": classics.BaggingPUClassifier(random_state=seed),
        "naive-boosting": classics.NaiveClassifier(boosting=True, random_state=seed),
        "naive-lr": classics.NaiveClassifier(random_state=seed),
    }


def score_brier(p: Floats | float, truth: npt.NDArray[np.bool_]) -> float:
    """Return the mean squared error of probabilities."""
    return float(np.mean((np.asarray(p) - truth) ** 2))


@lru_cache(maxsize=1)
def load_region(name: str) -> datasets.Dataset:
    """Return a region, read once per process."""
    return datasets.load(name)


def measure_species(region: str, case: int, names: list[str]) -> list[Row]:
    """Measure the classifiers on a species, by its survey."""
    data = load_region(f"nceas-{region}")
    labels = data.observed[case]
    index = np.concatenate([labels.labeled, labels.unlabeled])
    y = np.repeat([1, 0], [len(labels.labeled), len(labels.unlabeled)])
    x, survey = data.table(index), data.table(labels.test)
    truth = labels.truth[labels.test] == 1
    rows = []
    classifiers = make_classifiers("two-sample", case)
    for name in names:
        model, began = classifiers[name], time.process_time()
        p = model.fit(x, y).predict_proba(survey)[:, 1]
        row: Row = {
            "region": region,
            "case": case,
            "presences": len(labels.labeled),
            "places": len(truth),
            "survey_prior": truth.mean(),
            "classifier": name,
            "auc": roc_auc_score(truth, p),
        }
        if isinstance(model, PUClassifier):
            row |= measure_probabilities(model, survey, truth, p)
        rows.append(row | {"seconds": time.process_time() - began})
    return rows


def measure_probabilities(
    model: Any, survey: npt.NDArray[Any], truth: npt.NDArray[np.bool_], p: Floats
) -> Row:
    """Return priors with intervals and Brier scores: as they are, adjusted, and of constants."""
    row: Row = {
        "brier": score_brier(p, truth),
        "brier_constant": score_brier(truth.mean(), truth),
        "brier_prior": score_brier(model.prior_, truth),
        "prior": model.prior_,
        "prior_low": model.prior_interval_[0],
        "prior_high": model.prior_interval_[1],
    }
    for name, same in (("shift", "classes"), ("positives", "positives")):
        found = estimate_prior_shift(model, survey, same=same)
        adjusted = model.predict_proba(survey, prior=found.value)[:, 1]
        low, high = found.interval
        row |= {name: found.value, f"{name}_low": low, f"{name}_high": high}
        row[f"brier_{name}"] = score_brier(adjusted, truth)
    known = model.predict_proba(survey, prior=float(truth.mean()))[:, 1]
    return row | {"brier_known": score_brier(known, truth)}


def measure_nhanes(split: int, names: list[str]) -> list[Row]:
    """Measure the classifiers on a fifth of NHANES that they have not seen."""
    frame = nhanes_diabetes.read_frame()
    told = frame[nhanes_diabetes.LABEL].to_numpy() == 1
    truth = told | (
        frame[nhanes_diabetes.LABORATORY].to_numpy() >= nhanes_diabetes.THRESHOLD_PERCENT
    )
    features = frame.drop(columns=[nhanes_diabetes.LABEL, nhanes_diabetes.LABORATORY])
    train, test = train_test_split(
        np.arange(len(frame)), test_size=0.2, stratify=told + 2 * truth, random_state=split
    )
    values = make_benchmark_encoder().fit(features.iloc[train]).dense(features)
    unlabeled = test[~told[test]]
    rows = []
    classifiers = make_classifiers("one-sample", split)
    for name in names:
        model, began = classifiers[name], time.process_time()
        own = isinstance(model, PUClassifier)  # reads text and gaps itself
        x = features if own else pd.DataFrame(values)
        model.fit(x.iloc[train], told[train].astype(int))
        p = model.predict_proba(x.iloc[test])[:, 1]
        others = model.predict_proba(x.iloc[unlabeled])[:, 1]
        row: Row = {
            "split": split,
            "classifier": name,
            "auc": roc_auc_score(truth[test], p),
            "auc_unlabeled": roc_auc_score(truth[unlabeled], others),
            "true_prior": truth.mean(),
        }
        if own:
            row |= {
                "brier": score_brier(p, truth[test]),
                "brier_constant": score_brier(truth.mean(), truth[test]),
                "prior": model.prior_,
                "prior_low": model.prior_interval_[0],
                "prior_high": model.prior_interval_[1],
            }
        rows.append(row | {"seconds": time.process_time() - began})
    return rows


def list_tasks(regions: list[str], names: list[str], out: Path) -> Iterator[Task]:
    """Yield what the files do not have of the splits of NHANES and the species."""
    nhanes, species = (read_rows(out / name) for name in (NHANES_FILE, SPECIES_FILE))
    for split in range(SPLITS):
        if wanted := _leave_out(names, nhanes, split=split):
            yield NHANES_FILE, measure_nhanes, (split, wanted)
    for region in regions:
        for case in sorted(datasets.load(f"nceas-{region}").observed):
            if wanted := _leave_out(names, species, region=region, case=case):
                yield SPECIES_FILE, measure_species, (region, case, wanted)


def _leave_out(names: list[str], rows: pd.DataFrame, **where: object) -> list[str]:
    """Return the classifiers without a row."""
    for column, value in where.items():
        rows = rows[rows[column] == value] if len(rows) else rows
    done = set(rows.get("classifier", []))
    return [name for name in names if name not in done]


def read_rows(path: Path) -> pd.DataFrame:
    """Return the rows of a file; none if there is no file."""
    return pd.read_csv(path) if path.exists() else pd.DataFrame()


def call(task: Task) -> list[Row]:
    """Run a task on one thread."""
    from threadpoolctl import threadpool_limits

    _, function, arguments = task
    with threadpool_limits(1):
        rows: list[Row] = function(*arguments)
    return rows


def compute_interval(values: npt.ArrayLike) -> str:
    """Return a mean with its 95% interval, by Student's t over the values."""
    numbers = np.asarray(values, float)
    reach = float(stats.t.ppf(0.975, len(numbers) - 1) * stats.sem(numbers))
    mean = float(numbers.mean())
    return f"{mean:.3f} ({mean - reach:.3f} to {mean + reach:.3f})"


def print_scores(rows: pd.DataFrame, unit: list[str], score: str, rival: str) -> None:
    """Print the mean score of every classifier, and its distance from a rival."""
    wide = rows.pivot(index=unit, columns="classifier", values=score).dropna()
    print(f"\n{score}, mean of {len(wide)} {unit[-1]}s, and minus {rival}")
    for name in wide.mean().sort_values(ascending=False).index:
        gap = compute_interval(wide[name] - wide[rival]) if name != rival else ""
        print(f"  {name:<16} {compute_interval(wide[name])}  {gap}")


def print_probabilities(species: pd.DataFrame) -> None:
    """Print how far priors and probabilities of ``PUClassifier`` are from the survey's."""
    own = species[species["classifier"] == "pu-classifier"]
    for column in ("brier", "brier_shift", "brier_positives", "brier_known", "brier_prior"):
        better = own[column] < own["brier_constant"]
        print(
            f"{column}: mean {own[column].mean():.3f}, the constant {own['brier_constant'].mean():.3f}"
            f", below it on {better.sum()} of {len(own)}"
        )
    for name in ("prior", "shift", "positives"):
        covers = own["survey_prior"].between(own[f"{name}_low"], own[f"{name}_high"])
        error = (own[name] - own["survey_prior"]).abs()
        print(
            f"{name}: mean {own[name].mean():.3f}, the survey's {own['survey_prior'].mean():.3f}, "
            f"mean error {error.mean():.3f}, interval covers {covers.sum()} of {len(own)}"
        )


def print_summary(species: pd.DataFrame, nhanes: pd.DataFrame) -> None:
    """Print means with intervals, and how often probabilities are better than a constant."""
    if len(nhanes):
        for score in ("auc", "auc_unlabeled"):
            print_scores(nhanes, ["split"], score, "naive-boosting")
        own = nhanes[nhanes["classifier"] == "pu-classifier"]
        error = (own["prior"] - own["true_prior"]).abs().max()
        print(
            f"prior: {compute_interval(own['prior'])}, true {own['true_prior'].mean():.3f}, "
            f"largest error {error:.3f}; brier {own['brier'].mean():.3f}, the constant "
            f"{own['brier_constant'].mean():.3f}"
        )
    if len(species):
        for region, part in [*species.groupby("region"), ("all regions", species)]:
            print(f"\n== {region}")
            print_scores(part, ["region", "case"], "auc", "down-sampled-rf")
            print_probabilities(part)


def main() -> None:
    """Measure everything and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--regions", default="awt,nsw,nz")
    parser.add_argument("--classifiers", default=",".join(CLASSIFIERS))
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=Path, default=Path("."))
    parser.add_argument("--first", type=int, help="only so many tasks")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    regions, names = (
        [name for name in text.split(",") if name]
        for text in (options.regions, options.classifiers)
    )
    tasks = list(list_tasks(regions, names, options.out))[: options.first]
    with ProcessPoolExecutor(options.jobs, get_context("spawn")) as pool:
        for (name, _, _), rows in zip(tasks, pool.map(call, tasks), strict=True):
            path = options.out / name
            frame = pd.concat([read_rows(path), pd.DataFrame(rows)])
            frame.to_csv(path, index=False, float_format="%.6g")
    print_summary(read_rows(options.out / SPECIES_FILE), read_rows(options.out / NHANES_FILE))


if __name__ == "__main__":
    main()
