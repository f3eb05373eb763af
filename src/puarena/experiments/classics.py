"""Runs of the classics: one fit on the CPU, and a curve of a single record."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import torch

from puarena import catalog, metrics
from puarena.datasets import Dataset
from puarena.training import Curves, Row

TIE = 1e-12  # a score of 0 is negative for the estimators, and would be positive for the metrics


def fit_classics(rows: list[Row], dataset: Dataset) -> Iterator[Curves]:
    """Fit one run after the other and yield its curve."""
    for row in rows:
        began = time.perf_counter()
        values = fit_and_evaluate(row, dataset)
        finite = all(np.isfinite(value) for value in values.values())
        records = {name: np.array([[value]]) for name, value in values.items()}
        yield Curves(
            step=np.array([1]),
            phase=["fit"],
            selectable=np.array([True]),
            seconds=np.array([time.perf_counter() - began]),
            values={"loss": np.full((1, 1), np.nan), **records},
            diverged=np.array([-1 if finite else 1]),
        )


def fit_and_evaluate(row: Row, dataset: Dataset) -> dict[str, float]:
    """Fit a run's estimator to its training data; return criteria and test metrics."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    entry = catalog.get(row.algorithm)
    data, hidden = row.data, row.hidden
    x = dataset.table(np.concatenate([data.p_train, data.u_train]))
    s = np.repeat([1, 0], [len(data.p_train), len(data.u_train)])
    with threadpool_limits(1):
        model = entry.make_estimator(row.seed, data.prior).fit(x, s)
        scores = [
            torch.from_numpy(model.decision_function(dataset.table(index)) - TIE)[None]
            for index in (data.p_val, data.u_val, data.test)
        ]
    p, u, test = scores
    chances = hidden.propensity_val
    validation = metrics.Validation(
        p,
        u,
        p,
        u,
        torch.tensor([data.prior], dtype=torch.float64),
        torch.tensor([data.setting.one_sample]),
        torch.tensor(hidden.u_val)[None],
        None if chances is None else torch.tensor(chances)[None],
    )
    values = metrics.compute_criteria(validation)
    values.update(metrics.compute_metrics(test, test, torch.tensor(hidden.test)[None]))
    return {name: float(value[0]) for name, value in values.items()}
