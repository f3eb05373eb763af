"""What must be true on a GPU: captured steps equal eager ones, and what cannot be captured still
runs.
"""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch

from puarena import catalog, training
from puarena.algorithms import Algorithm, logistic
from puarena.training import FleetConfig
from toys import rows, toy

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device (make test-gpu)"),
]
CONFIG = FleetConfig(batch_size=32, steps=120, warmup=60, record_every=25, device="cuda")


@pytest.mark.parametrize("name", [*catalog.names("puarena"), *catalog.names("released")])
def test_captured_and_eager_curves_agree(name):
    x, data, hidden = toy()
    some = rows(name, 5, data, hidden)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # an uncaptured step would warn
        captured = training.train(some, CONFIG, x)
    eager = training.train(some, replace(CONFIG, capture=False), x)
    for column, values in eager.values.items():
        np.testing.assert_allclose(
            captured.values[column], values, rtol=1e-3, atol=3e-3, err_msg=column
        )


@pytest.mark.parametrize(
    "name", [n for n in catalog.names("puarena") if catalog.get(n).cls.authors_optimizer]
)
def test_authors_optimizers_are_captured(name):
    x, data, hidden = toy()
    some = rows(name, 3, data, hidden)
    config = replace(CONFIG, optimizer="authors", dtype="float64")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        captured = training.train(some, config, x)
    eager = training.train(some, replace(config, capture=False), x)
    for column, values in eager.values.items():
        np.testing.assert_allclose(
            captured.values[column], values, rtol=1e-3, atol=3e-3, err_msg=column
        )


@pytest.mark.parametrize("name", ["nnpu", "vpu", "dist-pu"])
def test_the_gpu_makes_the_choices_of_the_cpu(name):
    x, data, hidden = toy()
    some = rows(name, 3, data, hidden)
    gpu, cpu = (
        training.train(some, CONFIG, x),
        training.train(some, replace(CONFIG, device="cpu"), x),
    )
    for column, values in cpu.values.items():
        np.testing.assert_allclose(gpu.values[column], values, rtol=2e-2, atol=2e-2, err_msg=column)


class _Looks(Algorithm):
    """Cannot be captured: it branches on a value."""

    title = "looks"

    def objective(self, f_p, f_u):
        value = logistic(f_p, +1).mean(-1) + logistic(f_u, -1).mean(-1)
        return value * 2 if value.sum() > 0 else value


def test_what_cannot_be_captured_runs_uncaptured_with_one_warning(monkeypatch):
    monkeypatch.setitem(catalog.get_all(), "looks", catalog.describe_algorithm(_Looks, "plugin")[0])
    x, data, hidden = toy()
    with pytest.warns(UserWarning, match="looks runs uncaptured.*item") as seen:
        curves = training.train(rows("looks", 2, data, hidden), CONFIG, x)
    assert len([w for w in seen if "uncaptured" in str(w.message)]) == 1
    assert np.isfinite(curves.values["test_auc"]).all()
