"""How far the estimators are off on the benchmark's datasets, where the true prior is known."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from puarena import data
from puarena.data import labelling
from puarena.errors import UserError, unknown

Rows = list[dict[str, Any]]


def measure(
    datasets: Sequence[str] = ("digits",),
    priors: Sequence[float] = (0.2, 0.4, 0.6, 0.8),
    methods: Sequence[str] | None = None,
    settings: Sequence[str] = (labelling.DEFAULT,),
    trials: int = 1,
    folder: str | Path | None = None,
    estimator: Any = None,
) -> Iterator[dict[str, Any]]:
    """Yield one row per dataset, setting, prior, trial and method: ``estimate``, ``error`` and ``seconds``.

    Out-of-fold scores are computed once per draw and shared by the methods that use them.
    """
    from puarena.priors.estimate import prior_of_share, threads
    from puarena.priors.methods import METHODS
    from puarena.priors.sample import PriorWarning, Sample

    wanted = list(methods or METHODS)
    for name in wanted:
        if name not in METHODS:
            raise unknown("method", name, METHODS)
    if trials < 1:
        raise UserError(f"the number of trials is {trials}; give 1 or more")
    problems = [
        data.Problem(name, 1, setting, labelling.get(setting).modest_rate(prior), prior)
        for name in datasets
        for setting in settings
        for prior in priors
    ]
    loaded = {name: data.load(name, folder) for name in datasets}
    for problem in problems:
        dataset = loaded[problem.dataset]
        for trial in range(trials):
            pu, _ = data.draw(dataset, problem, trial)
            p, u = (np.r_[pu.p_val, pu.p_train], np.r_[pu.u_val, pu.u_train])
            x_p, x_u = (dataset.table(index).astype(np.float64) for index in (p, u))
            sample = Sample(x_p, x_u, estimator)
            rate = len(sample.x_p) / (len(sample.x_p) + len(sample.x_u))
            for name in wanted:
                began = time.perf_counter()
                with warnings.catch_warnings(), threads(len(dataset.features)):
                    warnings.simplefilter("ignore", PriorWarning)
                    share = METHODS[name].prepare(sample)(None, None)
                value = float(prior_of_share(share, rate, pu.setting))
                yield {
                    "dataset": problem.dataset,
                    "setting": problem.setting,
                    "prior": pu.prior,
                    "rate": pu.rate,
                    "trial": trial,
                    "method": name,
                    "estimate": value,
                    "error": abs(value - pu.prior),
                    "seconds": round(time.perf_counter() - began, 3),
                }


def table(rows: Iterable[dict[str, Any]]) -> Rows:
    """Mean absolute error per dataset, setting and method: one column per true prior, and over all of them."""
    cells: dict[tuple[str, str, str], dict[float, list[float]]] = {}
    for row in rows:
        key = row["dataset"], row["setting"], row["method"]
        cells.setdefault(key, {}).setdefault(row["prior"], []).append(row["error"])
    return [
        {
            "dataset": dataset,
            "setting": setting,
            "method": method,
            "errors": {prior: float(np.mean(errors)) for prior, errors in sorted(by_prior.items())},
            "mean": float(np.mean([error for errors in by_prior.values() for error in errors])),
        }
        for (dataset, setting, method), by_prior in cells.items()
    ]
