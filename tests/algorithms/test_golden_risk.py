"""PUSB to PUe against their golden values and gradients, and the variants of the published code
against theirs.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from goldens import DTYPES, build, cases, check, close, inputs, param, stacks
from puarena.algorithms._losses import count
from puarena.algorithms.cvir import CVIR
from puarena.algorithms.dist_pu import DistPU
from puarena.algorithms.lbe import LBE
from puarena.algorithms.pan import PAN
from puarena.algorithms.pubn import PUbN, quantile
from puarena.algorithms.pue import PUe
from puarena.algorithms.pusb import PUSB
from puarena.algorithms.released import (
    ReleasedCVIR,
    ReleasedDistPU,
    ReleasedLBE,
    ReleasedNNPUGA,
    ReleasedPAN,
    ReleasedPUbN,
    ReleasedPUSB,
    ReleasedRobustPU,
    ReleasedVPU,
)
from puarena.algorithms.robust_pu import RobustPU
from puarena.algorithms.vpu import VPU

both = pytest.mark.parametrize("dtype", ["float64", "float32"])
RELEASED = ("released_value", "released_gradient")


def logits(stack, dtype, *names):
    return {name: inputs(stack, name, DTYPES[dtype]) for name in names}


def fixed(stack, dtype, *names):
    return {name: inputs(stack, name, DTYPES[dtype], grad=False) for name in names}


def published(name, keep=lambda case: True):
    """The stacks of those cases for which the published code's numbers are given."""
    yield from stacks(cases(name, lambda case: "released_gradient" in case and keep(case)))


def stage(name):
    return lambda case: case["params"]["stage"] == name


def extras(values, key, stack, dtype):
    """Compare ``[runs, …]`` values with an extra result of the stacked cases."""
    for row, case in enumerate(stack):
        close(values[row].detach().cpu().numpy(), case["expected_extra"][key], case, dtype, key)


@both
def test_nnpu_ga_released(dtype):
    for stack in published("nnpu_ga"):
        f = logits(stack, dtype, "f_p", "f_u")
        check(build(ReleasedNNPUGA, stack, DTYPES[dtype]).ascent(**f), f, stack, dtype, *RELEASED)


@both
def test_pusb(dtype):
    for stack in stacks(cases("pusb")):
        f = logits(stack, dtype, "f_p", "f_u")
        algorithm = build(PUSB, stack, DTYPES[dtype])
        check(algorithm.surrogate(**f), f, stack, dtype)
        extras(algorithm.risk_parts(**f)[1], "negative_part", stack, dtype)


@both
def test_pusb_threshold(dtype):
    for stack in stacks(cases("pusb")):
        scores, new = fixed(stack, dtype, "marginal_scores", "new_scores").values()
        rank = count(1 - param(stack, "pi", torch.float64), scores.shape[1])
        cut = PUSB.order_statistic(scores, rank)
        extras(cut, "threshold", stack, dtype)
        for row, case in enumerate(stack):
            want = case["expected_extra"]
            assert rank[row] == want["threshold_rank"]
            assert (new[row] >= cut[row]).int().tolist() == want["new_predictions"]
            assert (scores[row] >= cut[row]).sum() == want["n_marginal_predicted_positive"]


@both
def test_pusb_released(dtype):
    for stack in published("pusb"):
        f = logits(stack, dtype, "f_p", "f_u")
        check(build(ReleasedPUSB, stack, DTYPES[dtype]).objective(**f), f, stack, dtype, *RELEASED)


@both
def test_pubn_first_stage(dtype):
    for stack in stacks(cases("pubn", stage("sigma"))):
        f = logits(stack, dtype, "f_p", "f_u")
        check(build(PUbN, stack, DTYPES[dtype]).surrogate(**f), f, stack, dtype)


@both
def test_pubn_second_stage(dtype):
    for stack in stacks(cases("pubn", stage("classifier"))):
        f = logits(stack, dtype, "f_p", "f_u")
        sigma = fixed(stack, dtype, "sigma_p", "sigma_u")
        algorithm = build(PUbN, stack, DTYPES[dtype], tau="tau")
        algorithm.rho = param(stack, "rho", DTYPES[dtype])
        extras(algorithm.level(), "eta_quantile", stack, dtype)
        eta = quantile(inputs(stack, "sigma_u_pool", DTYPES[dtype], grad=False), algorithm.level())
        extras(eta, "eta", stack, dtype)
        check(algorithm.weighted_risk(**f, **sigma, eta=eta), f, stack, dtype)


@both
def test_pubn_released(dtype):
    for stack in published("pubn", stage("classifier")):
        f = logits(stack, dtype, "f_p", "f_u")
        algorithm = build(
            ReleasedPUbN, stack, DTYPES[dtype], n_u=10**6, tau="tau"
        )  # as in practice: U is large
        check(algorithm.self_weighted_risk(**f), f, stack, dtype, *RELEASED)


def vpu_loss(algorithm, f, stack, dtype, mixed=1.0):
    lam = param(stack, "mix_lambda", DTYPES[dtype])
    return algorithm.variational(f["f_p"], f["f_u"]) + algorithm.weight * algorithm.mixing(
        f["f_u"], mixed * f["f_mix"], lam
    )


@both
def test_vpu(dtype):
    for stack in stacks(cases("vpu")):
        f = logits(stack, dtype, "f_p", "f_u", "f_mix")
        check(
            vpu_loss(build(VPU, stack, DTYPES[dtype], weight="reg_weight"), f, stack, dtype),
            f,
            stack,
            dtype,
        )


@both
def test_vpu_without_a_gradient_through_the_target(dtype):
    """The file also says what the gradient is where the target is held constant, as the published
    code does.
    """
    for stack in stacks(cases("vpu")):
        f = logits(stack, dtype, "f_p", "f_u", "f_mix")
        algorithm = build(VPU, stack, DTYPES[dtype], weight="reg_weight")
        held = {**f, "f_u": f["f_u"].detach()}
        loss = vpu_loss(algorithm, held, stack, dtype) - algorithm.variational(
            f["f_p"], held["f_u"]
        )
        loss = loss + algorithm.variational(f["f_p"], f["f_u"])
        for case in stack:
            case["detached"] = case["expected_extra"]["gradient_with_detached_target"]
        check(loss, f, stack, dtype, gradient="detached")


@both
def test_vpu_threshold(dtype):
    for stack in stacks(cases("vpu")):
        train, new = fixed(stack, dtype, "train_logits", "new_logits").values()
        cut = VPU.half_of_the_largest(train)
        extras(cut, "threshold", stack, dtype)
        for row, case in enumerate(stack):
            assert (new[row] >= cut[row]).int().tolist() == case["expected_extra"][
                "new_predictions"
            ]


@both
def test_vpu_released(dtype):
    for stack in published("vpu"):
        f = logits(stack, dtype, "f_p", "f_u", "f_mix")
        algorithm = build(ReleasedVPU, stack, DTYPES[dtype], weight="reg_weight")
        check(
            vpu_loss(algorithm, f, stack, dtype, mixed=0.5), f, stack, dtype, *RELEASED
        )  # z1 = f / 2


def player(name):
    return lambda case: case["params"]["player"] == name


@both
@pytest.mark.parametrize("cls", [PAN, ReleasedPAN])
def test_pan(dtype, cls):
    """The definition is the game that the authors run, whose numbers the file has as the released
    ones.
    """
    for stack in published("pan", player("discriminator")):
        d = logits(stack, dtype, "d_p", "d_u")
        algorithm = build(cls, stack, DTYPES[dtype], balance="kl_balance")
        check(
            algorithm.discriminator(**d, **fixed(stack, dtype, "c_u")), d, stack, dtype, *RELEASED
        )
    for stack in published("pan", player("classifier")):
        c = logits(stack, dtype, "c_u")
        algorithm = build(cls, stack, DTYPES[dtype], balance="kl_balance")
        value = algorithm.agreement(**fixed(stack, dtype, "d_u"), **c)
        for row, case in enumerate(stack):
            case.setdefault("released_value", value[row].item())  # the file has the gradient only
        check(value, c, stack, dtype, *RELEASED)


@both
def test_pan_plain_form(dtype):
    """The option has the plain numbers, also in the company of runs that do not take it."""
    for stack in stacks(cases("pan", player("discriminator"))):
        both_forms = [
            {**case, "params": {**case["params"], "form": f}}
            for case in stack
            for f in ("hinge", "plain")
        ]
        d = logits(both_forms, dtype, "d_p", "d_u")
        algorithm = build(PAN, both_forms, DTYPES[dtype], balance="kl_balance", form="form")
        value = algorithm.discriminator(**d, **fixed(both_forms, dtype, "c_u"))
        wanted = [
            case
            if case["params"]["form"] == "plain"
            else {
                **case,
                "expected_value": case["released_value"],
                "expected_gradient": case["released_gradient"],
            }
            for case in both_forms
        ]
        check(value, d, wanted, dtype)
    for stack in stacks(cases("pan", player("classifier"))):
        plain = [{**case, "params": {**case["params"], "form": "plain"}} for case in stack]
        c = logits(plain, dtype, "c_u")
        algorithm = build(PAN, plain, DTYPES[dtype], balance="kl_balance", form="form")
        check(algorithm.agreement(**fixed(plain, dtype, "d_u"), **c), c, plain, dtype)


@both
def test_cvir(dtype):
    for stack in stacks(cases("cvir")):
        f = logits(stack, dtype, "f_p", "f_u")
        check(
            build(CVIR, stack, DTYPES[dtype]).risk(**f, **fixed(stack, dtype, "keep")),
            f,
            stack,
            dtype,
        )
        pool = inputs(stack, "pool_scores", DTYPES[dtype], grad=False)
        n_dropped = count(param(stack, "alpha", torch.float64), pool.shape[1])
        kept = CVIR.kept(pool, n_dropped)
        for row, case in enumerate(stack):
            assert n_dropped[row] == case["expected_extra"]["n_dropped"]
            assert (
                np.flatnonzero(kept[row].cpu() == 0).tolist()
                == case["expected_extra"]["dropped_pool_indices"]
            )


@both
def test_cvir_released(dtype):
    for stack in published("cvir"):
        for case in stack:
            case["params"]["pi"] = case["params"]["alpha"]
        f = logits(stack, dtype, "f_p", "f_u")
        value = build(ReleasedCVIR, stack, DTYPES[dtype]).risk(**f, **fixed(stack, dtype, "keep"))
        check(value, f, stack, dtype, *RELEASED)


@both
def test_dist_pu_warm_up(dtype):
    for stack in stacks(cases("dist_pu", stage("warm-up"))):
        f = logits(stack, dtype, "f_p", "f_u")
        check(build(DistPU, stack, DTYPES[dtype], mu_warm="mu_warm").warm_up(**f), f, stack, dtype)
    for stack in published("dist_pu", stage("warm-up")):
        f = logits(stack, dtype, "f_p", "f_u")
        check(build(ReleasedDistPU, stack, DTYPES[dtype]).warm_up(**f), f, stack, dtype, *RELEASED)


@both
def test_dist_pu_main(dtype):
    for stack in stacks(cases("dist_pu", stage("main"))):
        f = logits(stack, dtype, "f_p", "f_u", "f_mix")
        y_a, y_b = fixed(stack, dtype, "y_a", "y_b").values()
        lam = param(stack, "mix_lambda", DTYPES[dtype]).unsqueeze(-1)
        algorithm = build(DistPU, stack, DTYPES[dtype], nu="nu_mixup", gamma="gamma_mix_entropy")
        loss = algorithm.main(
            **f, target=lam * y_a + (1 - lam) * y_b, mu=param(stack, "mu", DTYPES[dtype])
        )
        check(loss, f, stack, dtype)


def test_dist_pu_entropy_schedule():
    for case in cases("schedules", lambda c: c["params"]["quantity"] == "Dist-PU entropy weight"):
        total = case["params"]["total_epochs"]
        got = [
            DistPU.mu.default * DistPU.growth(epoch, total) for epoch in case["params"]["epochs"]
        ]
        close(got, case["expected_value"], case, "float64", "entropy weight")


@both
def test_lbe(dtype):
    for stack in stacks(cases("lbe")):
        f = logits(stack, dtype, "f_p", "f_u", "e_p", "e_u")
        q = LBE.posterior(*fixed(stack, dtype, "frozen_f_u", "frozen_e_u").values())
        extras(q, "q_u", stack, dtype)
        check(build(LBE, stack, DTYPES[dtype]).m_step(**f, q=q), f, stack, dtype)
    for stack in published("lbe"):
        f = logits(stack, dtype, "f_p", "f_u", "e_p", "e_u")
        q = LBE.posterior(*fixed(stack, dtype, "frozen_f_u", "frozen_e_u").values())
        check(build(ReleasedLBE, stack, DTYPES[dtype]).m_step(**f, q=q), f, stack, dtype, *RELEASED)


def robust_thresholds(stack, dtype):
    def of(side):
        numbers = [
            param(stack, f"{name}_{side}", DTYPES[dtype]) for name in ("alpha", "max", "grow")
        ]
        return RobustPU.tolerance(*numbers, param(stack, "episode", DTYPES[dtype]))

    return of("p"), of("n")


@both
def test_robust_pu(dtype):
    for stack in stacks(cases("robust_pu")):
        f = logits(stack, dtype, "f_p", "f_u")
        algorithm = build(RobustPU, stack, DTYPES[dtype], temper_p="temper_p", temper_n="temper_n")
        thr_p, thr_n = robust_thresholds(stack, dtype)
        extras(thr_p, "threshold_p", stack, dtype)
        extras(thr_n, "threshold_n", stack, dtype)
        w_p, w_u = algorithm.weights(
            *fixed(stack, dtype, "scored_f_p", "scored_f_u").values(), thr_p, thr_n
        )
        extras(w_p, "w_p", stack, dtype)
        extras(w_u, "w_u", stack, dtype)
        check(algorithm.weighted_risk(**f, w_p=w_p, w_u=w_u), f, stack, dtype)


@both
def test_robust_pu_released(dtype):
    for stack in published("robust_pu"):
        f = logits(stack, dtype, "f_p", "f_u")
        algorithm = build(
            ReleasedRobustPU, stack, DTYPES[dtype], temper_p="temper_p", temper_n="temper_n"
        )
        z_p, z_u = (v / 2 for v in fixed(stack, dtype, "scored_f_p", "scored_f_u").values())
        w_p, w_u = algorithm.weights(z_p, z_u, *robust_thresholds(stack, dtype))
        check(algorithm.weighted_risk(**f, w_p=w_p, w_u=w_u), f, stack, dtype, *RELEASED)


@both
def test_pue(dtype):
    for stack in stacks(cases("pue", stage("propensity"))):
        e = logits(stack, dtype, "e_p", "e_u")
        check(build(PUe, stack, DTYPES[dtype], alpha="alpha").propensity(**e), e, stack, dtype)
    for stack in stacks(cases("pue", stage("classifier"))):
        f = logits(stack, dtype, "f_p", "f_u")
        w_p = PUe.weights(inputs(stack, "e_p", DTYPES[dtype], grad=False))
        extras(w_p, "weights_p", stack, dtype)
        check(build(PUe, stack, DTYPES[dtype]).risk(**f, w_p=w_p), f, stack, dtype)


def test_every_case_of_these_files_is_looked_at():
    """Cases are selected by stage or player: one with an unknown stage or player would go
    unnoticed.
    """
    stages = {
        "pubn": {"sigma", "classifier"},
        "dist_pu": {"warm-up", "main"},
        "pue": {"propensity", "classifier"},
    }
    for name, known in stages.items():
        assert {c["params"]["stage"] for c in cases(name)} == known
    assert {c["params"]["player"] for c in cases("pan")} == {"discriminator", "classifier"}
