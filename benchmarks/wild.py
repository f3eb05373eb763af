"""Measure predictions on labels that the world gave: NHANES and the species of NCEAS regions.

    python benchmarks/wild.py --regions awt,nsw,nz --jobs 2 --out results

The suite ``wild`` compares rankings; this is about prior and probabilities. For every species the
classifiers are fitted to all reports and all background points, and judged by the survey: AUC, and
the Brier score of ``PUClassifier``'s probabilities as they are, for the share of positives that
``estimate_prior_shift`` finds among the survey's places, and of the best constant (the survey's own
share, which nobody knows beforehand). For NHANES, on five random fifths held out: the prior, and
the AUC among those whom no doctor told.

Writes ``wild-species.csv`` and ``wild-nhanes.csv`` with a row per species or split and classifier.
What these files already have is not measured again.
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
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from puarena import PUClassifier, classics, datasets
from puarena.datasets.builtin import nhanes_diabetes
from puarena.datasets.encoding import make_benchmark_encoder
from puarena.priors import estimate_prior_shift

SPLITS = 5  # of NHANES
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


def measure_species(region: str, case: int, seed: int) -> list[Row]:
    """Measure the classifiers on a species, by its survey."""
    data = load_region(f"nceas-{region}")
    labels = data.observed[case]
    index = np.concatenate([labels.labeled, labels.unlabeled])
    y = np.repeat([1, 0], [len(labels.labeled), len(labels.unlabeled)])
    x, survey = data.table(index), data.table(labels.test)
    truth = labels.truth[labels.test] == 1
    rows = []
    for name, model in make_classifiers("two-sample", seed).items():
        began = time.perf_counter()
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
            shift = estimate_prior_shift(model, survey)
            adjusted = model.predict_proba(survey, prior=shift.value)[:, 1]
            row |= {
                "brier": score_brier(p, truth),
                "brier_adjusted": score_brier(adjusted, truth),
                "brier_constant": score_brier(truth.mean(), truth),
                "brier_prior": score_brier(model.prior_, truth),
                "prior": model.prior_,
                "prior_low": model.prior_interval_[0],
                "prior_high": model.prior_interval_[1],
                "shift": shift.value,
                "shift_low": shift.interval[0],
                "shift_high": shift.interval[1],
            }
        rows.append(row | {"seconds": time.perf_counter() - began})
    return rows


def measure_nhanes(split: int) -> list[Row]:
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
    for name, model in make_classifiers("one-sample", split).items():
        began = time.perf_counter()
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
        rows.append(row | {"seconds": time.perf_counter() - began})
    return rows


def list_tasks(regions: list[str], out: Path) -> Iterator[Task]:
    """Yield the splits of NHANES and the species that can be scored and are not in the files."""
    nhanes, species = (read_rows(out / name) for name in (NHANES_FILE, SPECIES_FILE))
    done = set(nhanes.get("split", []))
    for split in range(SPLITS):
        if split not in done:
            yield NHANES_FILE, measure_nhanes, (split,)
    for region in regions:
        own = species[species["region"] == region] if len(species) else species
        done = set(own.get("case", []))
        for case in sorted(datasets.load(f"nceas-{region}").observed):
            if case not in done:
                yield SPECIES_FILE, measure_species, (region, case, case)


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


def print_summary(species: pd.DataFrame, nhanes: pd.DataFrame) -> None:
    """Print means, differences from the forest, and how often probabilities are better."""
    if len(species):
        wide = species.pivot(index=["region", "case"], columns="classifier", values="auc")
        print(f"AUC, mean of {len(wide)} species\n{wide.mean().round(4).to_string()}")
        rng = np.random.default_rng(0)
        gaps = (wide["pu-classifier"] - wide["down-sampled-rf"]).to_numpy()
        drawn = gaps[rng.integers(0, len(gaps), (2000, len(gaps)))].mean(1)
        low, high = np.percentile(drawn, [2.5, 97.5])
        print(f"PUClassifier - forest: {gaps.mean():.4f} ({low:.4f} to {high:.4f})")
        print(wide.groupby("region").mean().round(4).to_string())
        own = species[species["classifier"] == "pu-classifier"]
        for column in ("brier", "brier_adjusted", "brier_prior"):
            better = own[column] < own["brier_constant"]
            print(
                f"{column}: mean {own[column].mean():.4f}, below the constant {better.mean():.2f}"
            )
        for name in ("prior", "shift"):
            covers = own["survey_prior"].between(own[f"{name}_low"], own[f"{name}_high"])
            error = (own[name] - own["survey_prior"]).abs().mean()
            print(f"{name}: mean error {error:.3f}, interval covers {covers.mean():.2f}")
    columns = ["auc", "auc_unlabeled", "prior", "prior_low", "prior_high", "brier"]
    if len(nhanes):
        print(nhanes.groupby("classifier")[columns].mean().round(4).to_string())


def main() -> None:
    """Measure everything and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--regions", default="awt,nsw,nz")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=Path, default=Path("."))
    parser.add_argument("--first", type=int, help="only so many tasks")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    tasks = list(list_tasks([name for name in options.regions.split(",") if name], options.out))
    tasks = tasks[: options.first]
    with ProcessPoolExecutor(options.jobs, get_context("spawn")) as pool:
        for (name, _, _), rows in zip(tasks, pool.map(call, tasks), strict=True):
            path = options.out / name
            frame = pd.DataFrame(rows)
            frame.to_csv(path, mode="a", header=not path.exists(), index=False, float_format="%.6g")
    print_summary(read_rows(options.out / SPECIES_FILE), read_rows(options.out / NHANES_FILE))


if __name__ == "__main__":
    main()
