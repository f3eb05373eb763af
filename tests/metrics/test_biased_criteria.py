"""Criteria where labels are not given at random."""

from __future__ import annotations

import pytest
import torch

import goldens
from puarena import metrics
from puarena.metrics import CRITERIA


@pytest.mark.parametrize("case", goldens.cases("criteria_sar"), ids=lambda c: c["id"])
def test_golden(case):
    params, x = case["params"], case["inputs"]
    take = {name: torch.tensor([values], dtype=torch.float64) for name, values in x.items()}
    cut = params.get("threshold", 0.0)
    v = metrics.Validation(
        take["val_f_p"] - cut,
        take["val_f_u"] - cut,
        take["val_f_p"],
        take["val_f_u"],
        torch.tensor([params["pi"]], dtype=torch.float64),
        torch.tensor([params["setting"] == "OS"]),
        torch.zeros(1, params["n_u"], dtype=torch.bool),
        take["propensity"],
    )
    got = metrics.compute_criteria(v)
    for name, want in case["expected_value"].items():
        goldens.close(got[f"val_{name}"].item(), want, case, "float64", name)


def test_without_propensities_there_is_no_such_criterion():
    some = torch.randn(1, 5)
    v = metrics.Validation(
        some, some, some, some, torch.tensor([0.4]), torch.tensor([True]), some > 0
    )
    assert "val_pa_ipw" not in metrics.compute_criteria(v)


def test_it_is_an_oracle_that_is_shown_under_bias_only():
    assert CRITERIA["pa-ipw"].oracle
    assert "pa-ipw" not in metrics.list_default_criteria()
    assert metrics.list_default_criteria(biased=True) == ["pa", "pauc", "oa", "pa-ipw"]
    (pa, pauc) = metrics.list_cautions(metrics.list_default_criteria(biased=True))
    assert "PA is biased here" in pa
    assert "PAUC can prefer a wrong ranking" in pauc
