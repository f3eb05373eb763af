"""nnPUss: its risk, and what it has in common with the calibrated forms of this benchmark."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from puarena import catalog, training
from puarena.algorithms import Setup
from puarena.testing import contract
from puarena.training import Row


def made(name, calibration="none", runs=3, rate=0.2):
    prior = torch.tensor([0.3, 0.5, 0.7])[:runs]
    setup = Setup(
        prior=prior,
        shifted_prior=(prior - rate) / (1 - rate),
        rate=torch.full((runs,), rate),
        one_sample=torch.ones(runs, dtype=torch.bool),
        n_p=200,
        n_u=800,
        batch_p=16,
        batch_u=16,
        calibration=(calibration,) * runs,
    )
    return catalog.get(name).cls(setup)


def logits(seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(3, 16, generator=generator), torch.randn(3, 16, generator=generator)


def test_the_negative_part_is_all_data_less_the_positives():
    f_p, f_u = logits()
    positive, negative = made("nnpu-ss").risk_parts(f_p, f_u)
    prior, minus = torch.tensor([0.3, 0.5, 0.7]), torch.nn.functional.softplus
    torch.testing.assert_close(positive, prior * minus(-f_p).mean(-1))
    torch.testing.assert_close(
        negative, 0.8 * minus(f_u).mean(-1) - (prior - 0.2) * minus(f_p).mean(-1)
    )


def test_the_risk_is_that_of_the_weighted_calibration():
    f_p, f_u = logits(1)
    mine = made("nnpu-ss").risk_parts(f_p, f_u)
    theirs = made("nnpu-c", "weighted").risk_parts(f_p, f_u)
    for a, b in zip(mine, theirs, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("prior", [0.3, 0.6])
def test_it_trains_as_calibrated_ascent_does(prior):
    x, data, hidden = contract.make_toy_problem(prior)
    config = replace(contract.CONFIG, steps=80)
    curves = [
        training.train([Row(name, data, hidden, seed=3, lr=0.03)], config, x)
        for name in ("nnpu-ss", "nnpu-ga-c")
    ]
    for name in ("loss", "test_auc", "val_pa"):
        np.testing.assert_allclose(
            curves[0].values[name], curves[1].values[name], rtol=1e-3, atol=2e-3
        )


def test_it_is_listed_beside_nnpu():
    names = catalog.names("puarena")
    assert names.index("nnpu-ga") < names.index("nnpu-ss") < names.index("pusb")
    assert catalog.get("nnpu-ss").cls.setting == "one-sample"
