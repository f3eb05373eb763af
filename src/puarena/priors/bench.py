"""How far the estimators are off on datasets and real tables, where the true prior is known."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from puarena import datasets
from puarena.datasets.encoding import TableEncoder
from puarena.datasets.tables import TABLES, give_labels, load_table
from puarena.errors import UserError, unknown_name
from puarena.priors.sample import Sample
from puarena.pu import Problem, draw_pu_data, labeling

Rows = list[dict[str, Any]]
MOST = 3000  # rows of a real table


def measure(
    datasets: Sequence[str] = ("digits",),
    priors: Sequence[float] = (0.2, 0.4, 0.6, 0.8),
    methods: Sequence[str] | None = None,
    settings: Sequence[str] = (labeling.DEFAULT,),
    trials: int = 1,
    folder: str | Path | None = None,
    estimator: Any = None,
    labelings: Sequence[str] = ("0.1", "0.3", "0.5", "20"),
) -> Iterator[dict[str, Any]]:
    """Yield one row per dataset, setting, prior (of a real table: labeling), trial and method.

    It has ``estimate``, ``error``, ``covered`` (is the prior in the interval?) and ``seconds``. Out-of-fold scores are
    computed once per draw and shared by the methods that use them.
    """
    from puarena.priors.estimate import answer, method_named, refitted, threads
    from puarena.priors.methods import METHODS
    from puarena.priors.sample import PriorWarning

    wanted = [method_named(name) for name in methods or METHODS]
    for name in wanted:
        if name not in METHODS:
            raise unknown_name("method", name, METHODS)
    if trials < 1:
        raise UserError(f"the number of trials is {trials}; give 1 or more")
    for name in datasets:
        real = name in TABLES or ":" in name
        draws = _tables(name, labelings, trials, estimator) if real else None
        if draws is None:
            draws = _problems(name, priors, settings, trials, folder, estimator)
        for facts, setting, sample in draws:
            refits = refitted(sample)
            for method in wanted:
                began = time.perf_counter()
                with warnings.catch_warnings(), threads(len(sample.x_p) + len(sample.x_u)):
                    warnings.simplefilter("ignore", PriorWarning)
                    estimate = answer(
                        sample, METHODS[method], labeling.get(setting), None, {}, refits
                    )
                low, high = estimate.interval
                yield facts | {
                    "method": method,
                    "estimate": estimate.value,
                    "error": abs(estimate.value - facts["prior"]),
                    "covered": low <= facts["prior"] <= high,
                    "seconds": round(time.perf_counter() - began, 3),
                }


Draw = tuple[dict[str, Any], str, Sample]


def _problems(
    name: str,
    priors: Sequence[float],
    settings: Sequence[str],
    trials: int,
    folder: Any,
    estimator: Any,
) -> Iterator[Draw]:
    """Draws of one of the benchmark's datasets, at priors of one's choice."""
    dataset = datasets.load(name, folder)
    for setting, prior, trial in product(settings, priors, range(trials)):
        rate = labeling.get(setting).modest_rate(prior)
        pu, _ = draw_pu_data(dataset, Problem(name, 1, setting, rate, prior), trial)
        x_p, x_u = (
            dataset.table(np.r_[val, train]).astype(np.float64)
            for val, train in ((pu.p_val, pu.p_train), (pu.u_val, pu.u_train))
        )
        facts = {
            "dataset": name,
            "setting": labeling.get(setting).code,
            "at": f"{prior:g}",
            "prior": pu.prior,
            "rate": pu.rate,
        }
        yield facts | {"trial": trial}, setting, Sample(x_p, x_u, estimator)


def _tables(name: str, labelings: Sequence[str], trials: int, estimator: Any) -> Iterator[Draw]:
    """Draws of a real table, as it is, with labels given to some of its positives."""
    from puarena.priors.estimate import draw_sample

    frame, truth = load_table(name)
    for way, trial in product(labelings, range(trials)):
        rng = np.random.default_rng([trial, len(way), len(truth)])
        rows = rng.permutation(len(truth))[:MOST]
        table, positive = frame.iloc[rows], truth[rows]
        numbers = TableEncoder().fit(table).dense(table)
        labeled = give_labels(positive, numbers, way, rng)
        facts = {
            "dataset": name,
            "setting": labeling.DEFAULT,
            "at": way,
            "prior": float(positive.mean()),
        }
        sample = draw_sample(table, labeled, estimator=estimator, random_state=trial)
        yield facts | {"rate": float(labeled.mean()), "trial": trial}, labeling.DEFAULT, sample


def table(rows: Iterable[dict[str, Any]]) -> Rows:
    """Mean absolute error per dataset, setting and method: one column per prior or labeling, all of them, coverage."""
    cells: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for row in rows:
        cells.setdefault((row["dataset"], row["setting"], row["method"]), []).append(row)
    lines = []
    for (dataset, setting, method), group in cells.items():
        by: dict[str, list[float]] = {}
        for row in group:
            by.setdefault(row["at"], []).append(row["error"])
        lines.append(
            {
                "dataset": dataset,
                "setting": setting,
                "method": method,
                "errors": {at: float(np.mean(errors)) for at, errors in by.items()},
                "mean": float(np.mean([row["error"] for row in group])),
                "covered": float(np.mean([row["covered"] for row in group])),
            }
        )
    return lines
