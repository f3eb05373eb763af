"""CVIR, Count Loss and GLWS ask for the share of positives inside U: their calibrated forms are
told that.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch

from puarena import catalog, training
from puarena.catalog import explain
from puarena.training import Fleet, FleetConfig, Row
from toys import toy

NAMES = ["cvir", "count-loss", "glws"]
CONFIG = FleetConfig(batch_size=16, steps=60, record_every=30)


def row(name, data, hidden, **kwargs):
    return Row(name, data, hidden, 7, lr=1e-2, **kwargs)


@pytest.mark.parametrize("name", NAMES)
def test_registered_beside_the_plain_form_and_outside_the_papers_rows(name):
    plain, form = catalog.get(name), catalog.get(f"{name}-c")
    assert plain.calibrated_form == form.name
    assert (form.calibrated, form.base, form.setting, form.calibration_is) == (
        True,
        name,
        "one-sample",
        "prior",
    )
    assert plain.in_paper
    assert not form.in_paper
    assert form.fleet_key == plain.fleet_key
    with pytest.raises(Exception, match="released"):
        catalog.get(f"{name}-c@released")
    assert catalog.get(f"{name}@released").calibrated_form == ""


def test_the_papers_calibrated_rows_stay_six():
    rows = [
        n for n in catalog.names("puarena") if catalog.get(n).calibrated and catalog.get(n).in_paper
    ]
    assert rows == ["upu-c", "nnpu-c", "nnpu-ga-c", "pusb-c", "vpu-c", "dist-pu-c"]
    assert all(catalog.get(n).calibration_is == "mean" for n in rows)


@pytest.mark.parametrize("name", NAMES)
def test_explained(name):
    said = explain(catalog.get(f"{name}-c"))
    assert "share of positives inside the unlabeled set" in said
    assert "mean_U becomes" not in said
    assert "mean_U becomes" in explain(catalog.get("nnpu-c"))
    assert catalog.get(f"{name}-c").to_json()["calibration_is"] == "prior"


@pytest.mark.parametrize("calibration", ["weighted", "batch-union"])
@pytest.mark.parametrize("name", NAMES)
def test_a_calibrated_run_is_the_one_told_the_prior_inside_u(name, calibration):
    x, data, hidden = toy(prior=0.5, rate=0.3)
    rows = [
        row(f"{name}-c", data, hidden, calibration=calibration),
        row(name, data, hidden, hyper={"unlabeled_prior": "pi-bar"}),
        row(name, data, hidden),
    ]
    f = Fleet(rows, CONFIG, x)
    assert (f.algorithm.w == 0).all()
    told = f.algorithm.get_unlabeled_prior(exact=True)
    assert told.tolist() == pytest.approx([2 / 7, 2 / 7, 0.5])
    curves = f.train()
    for column, values in curves.values.items():
        np.testing.assert_array_equal(values[:, 0], values[:, 1], err_msg=column)
    assert (curves.values["loss"][:, 0] != curves.values["loss"][:, 2]).all()


@pytest.mark.parametrize("name", NAMES)
def test_in_the_two_sample_setting_both_are_one(name):
    x, data, hidden = toy(0.4, "ts")
    curves = training.train([row(f"{name}-c", data, hidden), row(name, data, hidden)], CONFIG, x)
    for column, values in curves.values.items():
        np.testing.assert_array_equal(values[:, 0], values[:, 1], err_msg=column)


def test_the_right_share_classifies_better_where_labels_shift():
    """In OS with half of all positives labeled, dropping a share pi of U drops negatives."""
    x, data, hidden = toy(prior=0.6, rate=0.45, n=2000, gap=2.5)
    rows = [
        replace(row(name, data, hidden), seed=seed)
        for seed in range(3)
        for name in ("cvir", "cvir-c")
    ]
    curves = training.train(rows, replace(CONFIG, steps=600, record_every=100, batch_size=32), x)
    accuracy = curves.values["test_accuracy"][-1].reshape(3, 2)
    assert (accuracy[:, 1] > accuracy[:, 0] + 0.01).all()


def test_pue_is_for_two_samples():
    assert catalog.get("pue").setting == "two-sample"
    assert catalog.get("pue@released").setting == "two-sample"


def test_the_numbers_a_plain_run_counts_with():
    x, data, hidden = toy(prior=0.5, rate=0.3)
    f = Fleet([row("glws", data, hidden), row("glws-c", data, hidden)], CONFIG, x)
    assert f.algorithm.m.tolist() == [8, int(16 * 2 / 7)]
    f = Fleet([row("cvir", data, hidden), row("cvir-c", data, hidden)], CONFIG, x)
    n_u = f.algorithm.setup.n_u
    assert f.algorithm.n_dropped.tolist() == [n_u // 2, int(n_u * 2 / 7 + 1e-9)]
    f = Fleet([row("count-loss", data, hidden), row("count-loss-c", data, hidden)], CONFIG, x)
    mean = 17 * (f.algorithm.goal * torch.arange(17.0)).sum(-1)
    assert mean.tolist() == pytest.approx([8, 16 * 2 / 7], rel=1e-5)
