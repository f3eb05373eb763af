"""SAR-EM, NTC-tMI and the frame that knows true propensities."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import goldens
from puarena import datasets, training
from puarena.algorithms.ntc_tmi import first_maximum, lowest_rank, mutual_information
from puarena.algorithms.sar_em import SarEM, SarOracle, weighted_parts
from puarena.pu import Problem, draw_pu_data
from puarena.testing import contract
from puarena.training import FleetConfig, Row

both = pytest.mark.parametrize("dtype", ["float64", "float32"])
NEW = ("sar-em", "ntc-tmi", "sar-oracle")


def stacks(kind):
    return goldens.stacks(goldens.cases("sar_em", lambda c: c["params"]["kind"] == kind))


def taken(stack, dtype, *names, grad=True):
    return [goldens.inputs(stack, name, goldens.DTYPES[dtype], grad) for name in names]


@both
def test_posterior(dtype):
    for stack in stacks("posterior"):
        q = SarEM.posterior(*taken(stack, dtype, "f_u", "g_u", grad=False))
        for case, row in zip(stack, q, strict=True):
            goldens.close(row.cpu(), case["expected_value"], case, dtype, "q")


@both
def test_m_step(dtype):
    for stack in stacks("mstep"):
        f_p, f_u, g_p, g_u = taken(stack, dtype, "f_p", "f_u", "g_p", "g_u")
        q = SarEM.posterior(*taken(stack, dtype, "frozen_f_u", "frozen_g_u", grad=False))
        algorithm = goldens.build(SarEM, stack, goldens.DTYPES[dtype])
        both = algorithm.m_step(f_p, f_u, g_p, g_u, q)
        of_e = algorithm.propensity_risk(g_p, g_u, q)
        gradients = torch.autograd.grad(both.sum(), [f_p, f_u, g_p, g_u])
        for i, case in enumerate(stack):
            goldens.close(q[i].cpu(), case["expected_extra"]["q_u"], case, dtype, "q")
            goldens.close(of_e[i].item(), case["expected_value"]["e"], case, dtype, "e")
            total = case["expected_value"]["e"] + case["expected_value"]["h"]
            goldens.close(both[i].item(), total, case, dtype, "both")
            for name, gradient in zip(("f_p", "f_u", "g_p", "g_u"), gradients, strict=True):
                want = case["expected_gradient"][name]
                goldens.close(gradient[i].cpu(), want, case, dtype, name, np.abs(want).max())


@both
def test_first_propensities(dtype):
    for stack in stacks("init-e"):
        g_p, g_u = taken(stack, dtype, "g_p", "g_u")
        (f_u,) = taken(stack, dtype, "frozen_f_u", grad=False)
        risk = goldens.build(SarEM, stack, goldens.DTYPES[dtype]).propensity_risk
        goldens.check(risk(g_p, g_u, f_u.sigmoid()), {"g_p": g_p, "g_u": g_u}, stack, dtype)


@both
@pytest.mark.parametrize("kind", ["refit", "refit-nn"])
def test_refit(dtype, kind):
    for stack in stacks(kind):
        f_p, f_u = taken(stack, dtype, "f_p", "f_u")
        (g_p,) = taken(stack, dtype, "g_p", grad=False)
        rate = goldens.param(stack, "r", goldens.DTYPES[dtype])
        positive, negative = weighted_parts(f_p, f_u, g_p.sigmoid(), rate)
        value = positive + (negative.clamp_min(0) if kind == "refit-nn" else negative)
        goldens.check(value, {"f_p": f_p, "f_u": f_u}, stack, dtype)
        for case, part in zip(stack, negative, strict=True):
            if kind == "refit-nn":
                goldens.close(
                    part.item(),
                    case["expected_extra"]["negative_part"],
                    case,
                    dtype,
                    "negative part",
                )


@pytest.mark.parametrize("case", goldens.cases("ntc_tmi"), ids=lambda c: c["id"])
def test_threshold(case):
    z, k = torch.tensor([case["inputs"]["z"]], dtype=torch.float64), case["params"]["k"]
    lowest = lowest_rank(z.shape[1], k)
    assert lowest == case["expected_extra"]["i_min"]
    cuts, information = mutual_information(z, lowest, k, case["params"]["n_candidates"])
    expected = np.array(case["expected_extra"]["mutual_information"], float)
    assert (np.isnan(expected) == information[0].isnan().numpy()).all()
    goldens.close(
        information[0].nan_to_num(0), np.nan_to_num(expected), case, "float64", "information"
    )
    threshold = first_maximum(cuts, information)
    goldens.close(
        threshold.item(), case["expected_value"]["threshold"], case, "float64", "threshold"
    )
    assert (cuts[0] == threshold).nonzero()[0].item() == case["expected_extra"]["candidate"]


def test_thresholds_of_runs_do_not_mix():
    found = [
        case
        for case in goldens.cases("ntc_tmi")
        if (case["params"]["n_u"], case["params"]["k"]) == (60, 3)
    ]
    z = torch.tensor([case["inputs"]["z"] for case in found], dtype=torch.float64)
    got = first_maximum(*mutual_information(z, lowest_rank(60)))
    assert got.tolist() == pytest.approx([case["expected_value"]["threshold"] for case in found])


@pytest.mark.parametrize("n", [1, 4, 9])
def test_too_few_points_have_the_threshold_zero(n):
    z = torch.randn(2, n, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert torch.isfinite(first_maximum(*mutual_information(z, lowest_rank(n)))).all()
    if n < 8:
        assert (first_maximum(*mutual_information(z, lowest_rank(n))) == 0).all()


@pytest.mark.parametrize(
    "check",
    [contract.learns, contract.keeps_rows_apart, contract.isolates_ruin],
    ids=lambda c: c.__name__,
)
@pytest.mark.parametrize("name", NEW)
def test_promises(name, check):
    check(name)


def test_the_oracle_is_unbiased_in_either_setting():
    """On whole populations the weighted risk is the supervised one, whoever is labeled."""
    g = torch.Generator().manual_seed(1)
    for one_sample in (True, False):
        n, prior = 200_000, 0.3
        y = torch.rand(n, generator=g) < prior
        f = torch.randn(n, generator=g, dtype=torch.float64) + y
        e = (0.8 * f.sigmoid()).clamp(0.05, 1)
        s = y & (torch.rand(n, generator=g) < e)
        p, u = f[s][None], (f[~s] if one_sample else f)[None]
        setup = goldens.build(SarOracle, [{"params": {"pi": prior}}], torch.float64).setup
        rate = s.double().mean().reshape(1)
        algorithm = SarOracle(
            torch_setup(
                setup,
                rate=rate,
                one_sample=torch.tensor([one_sample]),
                prior=torch.tensor([prior]).double(),
            )
        )
        truth = torch.nn.functional.softplus(torch.where(y, -f, f)).mean()
        assert algorithm.risk(p, u, e[s][None]).item() == pytest.approx(truth.item(), abs=0.01)


def torch_setup(setup, **changes):
    from dataclasses import replace

    return replace(setup, **changes)


def test_only_the_frame_is_handed_propensities():
    digits = datasets.load("digits")
    pu, hidden = draw_pu_data(digits, Problem("digits", labeling="class"), 0)
    config = FleetConfig(steps=4, record_every=2, warmup=2, batch_size=32)
    seen = {}
    for name in ("sar-oracle", "sar-em", "pn-oracle", "nnpu"):
        ship = training.Fleet([Row(name, pu, hidden, 1)], config, digits.features)
        seen[name] = ship.propensity_p is not None
        assert "val_pa_ipw" in ship.train().values
    assert seen == {"sar-oracle": True, "sar-em": False, "pn-oracle": False, "nnpu": False}
