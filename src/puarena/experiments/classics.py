"""Runs of the classics: one fit on the CPU, and a curve of a single record."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import torch

from puarena import catalog, metrics
from puarena.classics.entries import ClassicEntry
from puarena.datasets import Dataset
from puarena.training import Curves, Row


def curves_of(rows: list[Row], dataset: Dataset) -> Iterator[Curves]:
    """Fit run after run; yield each one's curve."""
    for row in rows:
        began = time.perf_counter()
        values = _evaluated(row, dataset)
        finite = all(np.isfinite(value) for value in values.values())
        yield Curves(
            step=np.array([1]),
            phase=["fit"],
            selectable=np.array([True]),
            seconds=np.array([time.perf_counter() - began]),
            values={
                "loss": np.full((1, 1), np.nan),
                **{name: np.array([[value]]) for name, value in values.items()},
            },
            diverged=np.array([-1 if finite else 1]),
        )


def _evaluated(row: Row, dataset: Dataset) -> dict[str, float]:
    """Fit a run's estimator on its training data; return criteria and test metrics."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    entry = catalog.get(row.algorithm)
    assert isinstance(entry, ClassicEntry)
    d = row.data
    labels = np.repeat([1, 0], [len(d.p_train), len(d.u_train)])
    with threadpool_limits(1):
        model = entry.make(row.seed, d.prior).fit(
            dataset.table(np.concatenate([d.p_train, d.u_train])), labels
        )
        # A probability of exactly one half is a negative answer of the estimator and would be a positive one here.
        tables = (dataset.table(index) for index in (d.p_val, d.u_val, d.test))
        decisions = (model.decision_function(x) - 1e-12 for x in tables)
        p, u, test = (torch.from_numpy(decision)[None] for decision in decisions)
    prior, one_sample = (
        torch.tensor([d.prior], dtype=torch.float64),
        torch.tensor([d.setting.one_sample]),
    )
    hidden_u, hidden = torch.tensor(row.hidden.u_val)[None], torch.tensor(row.hidden.test)[None]
    chances = (
        None if row.hidden.propensity_val is None else torch.tensor(row.hidden.propensity_val)[None]
    )
    values = metrics.evaluate(metrics.Validation(p, u, p, u, prior, one_sample, hidden_u, chances))
    values.update(metrics.test_metrics(test, test, hidden))
    return {name: float(value[0]) for name, value in values.items()}
