"""Golden values of TEDn, PULDA, Self-PU, ImbPU and PU-AUC: values, gradients and what else a case
expects.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

import goldens
from goldens import DTYPES
from puarena.algorithms import Algorithm, Phase
from puarena.algorithms._losses import count, move_
from puarena.algorithms.imb_pu import ImbPU
from puarena.algorithms.pu_auc import PUAUC
from puarena.algorithms.pulda import PULDA, soft_distance
from puarena.algorithms.released import ReleasedSelfPU
from puarena.algorithms.self_pu import EPOCHS, SelfPU
from puarena.algorithms.tedn import TEDn, best_bin

both = pytest.mark.parametrize("dtype", ["float64", "float32"])


def stacks(name, kind=None):
    """Stacks of a golden file's cases, those of one kind only if it is given."""
    return goldens.stacks(
        goldens.cases(name, lambda c: kind is None or c["params"]["kind"] == kind)
    )


def logits(stack, dtype, *names):
    return {name: goldens.inputs(stack, name, DTYPES[dtype]) for name in names}


def fixed(stack, dtype, name):
    return goldens.inputs(stack, name, DTYPES[dtype], grad=False)


def build(cls, stack, dtype, **hyper) -> Algorithm:
    """Build for a stack, with the cases' calibration weights."""
    algorithm = goldens.build(cls, stack, DTYPES[dtype], **hyper)
    algorithm.weighs_p = True
    algorithm.w.copy_(goldens.param(stack, "w", DTYPES[dtype], 0.0))
    return algorithm


def close_rows(actual, key, stack, dtype):
    for row, case in enumerate(stack):
        goldens.close(actual[row].item(), case["expected_extra"][key], case, dtype, key)


# -- TEDn ----------------------------------------------------------------------


@both
@pytest.mark.parametrize("kind", ["bbe", "setting"])
def test_tedn_estimate(dtype, kind):
    for stack in stacks("tedn", kind):
        assert {(c["params"]["delta"], c["params"]["gamma"]) for c in stack} == {
            (0.1, 0.01)
        }  # the defaults
        found = best_bin(fixed(stack, dtype, "z_p"), fixed(stack, dtype, "z_u"))
        for row, case in enumerate(stack):
            goldens.close(found.share[row].item(), case["expected_value"], case, "float64", "share")
            extra = case["expected_extra"]
            if extra["threshold"] is None:
                assert found.bound[row] == float("inf")
                continue
            assert found.threshold[row] == torch.tensor(extra["threshold"], dtype=DTYPES[dtype])
            assert (found.count_u[row], found.count_p[row]) == (extra["count_u"], extra["count_p"])
            goldens.close(found.bound[row].item(), extra["bound"], case, "float64", "bound")
            if kind == "setting":
                inside = case["params"]["pi_bar" if case["params"]["setting"] == "OS" else "pi"]
                assert found.share[row].item() == pytest.approx(inside)


@both
def test_tedn_kept(dtype):
    for stack in stacks("tedn", "kept"):
        scores = fixed(stack, dtype, "pool_scores")
        dropped = count(goldens.param(stack, "alpha", torch.float64), scores.shape[1])
        assert dropped.tolist() == [c["expected_value"]["n_dropped"] for c in stack]
        keep = TEDn.kept(scores, dropped)
        for row, case in enumerate(stack):
            assert (keep[row] == 0).nonzero().flatten().tolist() == case["expected_extra"][
                "dropped_pool_indices"
            ]


@both
def test_tedn_losses(dtype):
    for stack in stacks("tedn", "warm"):
        f = logits(stack, dtype, "f_p", "f_u")
        goldens.check(build(TEDn, stack, dtype).warm_up(**f), f, stack, dtype)
    for stack in stacks("tedn", "loss"):
        f = logits(stack, dtype, "f_p", "f_u")
        goldens.check(
            build(TEDn, stack, dtype).risk(**f, keep=fixed(stack, dtype, "keep")), f, stack, dtype
        )


# -- PULDA ----------------------------------------------------------------------

STATE = {"m": "mean_s", "C_P": "mean_two_p", "C_U": "mean_two_u"}


def aligned(stack, dtype):
    """Build PULDA with the cases' hyperparameters and running means; without a mean it is the first
    step.
    """
    known = {"tau": "tau", "margin": "mu", "decay_mean": "a_U", "decay_margin": "a_C", "nu": "nu"}
    hyper = {name: key for name, key in known.items() if key in stack[0]["params"]}
    algorithm = build(PULDA, stack, dtype, **hyper)
    algorithm.prepare()
    for row, case in enumerate(stack):
        before = {name: case["params"].get(key) for key, name in STATE.items()}
        algorithm.started[row] = float(any(value is not None for value in before.values()))
        for name, value in before.items():
            getattr(algorithm, name)[row] = 0.0 if value is None else value
    return algorithm


def check_state(algorithm, stack, dtype):
    for row, case in enumerate(stack):
        for key, want in case["expected_extra"]["state_after"].items():
            goldens.close(getattr(algorithm, STATE[key])[row].item(), want, case, dtype, key)


@both
@pytest.mark.parametrize(
    "kind, method", [("label", "label_term"), ("two", "two_way_term"), ("warm", "warm_up")]
)
def test_pulda_terms(dtype, kind, method):
    for stack in stacks("pulda", kind):
        f = logits(stack, dtype, "f_p", "f_u")
        algorithm = aligned(stack, dtype)
        goldens.check(getattr(algorithm, method)(**f), f, stack, dtype)
        check_state(algorithm, stack, dtype)


@both
def test_pulda_main(dtype):
    for stack in stacks("pulda", "main"):
        f = logits(stack, dtype, "f_p", "f_u", "f_mix")
        lam = goldens.param(stack, "lam", DTYPES[dtype]).unsqueeze(-1)
        target = lam * fixed(stack, dtype, "y_a") + (1 - lam) * fixed(stack, dtype, "y_b")
        algorithm = aligned(stack, dtype)
        goldens.check(algorithm.aligned(**f, target=target), f, stack, dtype)
        check_state(algorithm, stack, dtype)
        assert (algorithm.started == 1).all()


@both
def test_pulda_distance(dtype):
    for stack in stacks("pulda", "dist"):
        a, b = goldens.inputs(stack, "a", DTYPES[dtype]), fixed(stack, dtype, "b")
        value = soft_distance(a, b, goldens.param(stack, "beta", DTYPES[dtype]).unsqueeze(-1))
        (slope,) = torch.autograd.grad(value.sum(), a)
        for row, case in enumerate(stack):
            goldens.close(
                value[row].detach().cpu().numpy(), case["expected_value"], case, dtype, "distance"
            )
            goldens.close(
                slope[row].cpu().numpy(), case["expected_gradient"]["a"], case, dtype, "slope"
            )


# -- Self-PU -------------------------------------------------------------------------


def student(stack, dtype, cls=SelfPU):
    first = stack[0]["params"]
    hyper = {"beta": "beta", "gamma": "gamma", "mutual": "alpha", "clean_label": "label"}
    algorithm = build(
        cls, stack, dtype, **{name: key for name, key in hyper.items() if key in first}
    )
    algorithm.flags()
    return algorithm


def joined(f, a, b):
    """Logits on P and U as one tensor."""
    return torch.cat([f[a], f[b]], -1)


@both
def test_self_pu_noisy(dtype):
    branches = set()
    for stack in stacks("self_pu", "noisy"):
        f, rest = logits(stack, dtype, "f_p", "f_u"), 1 - fixed(stack, dtype, "sel").abs()
        goldens.check(
            student(stack, dtype).noisy(f["f_p"].sigmoid(), f["f_u"].sigmoid(), rest),
            f,
            stack,
            dtype,
        )
        branches |= {c["expected_extra"]["branch"] for c in stack}
    assert branches == {"ascent", "descent"}


@both
def test_self_pu_clean(dtype):
    for stack in stacks("self_pu", "clean"):
        f = logits(stack, dtype, "f_u")
        value = student(stack, dtype).clean(
            f["f_u"], f["f_u"].sigmoid(), fixed(stack, dtype, "sel")
        )
        goldens.check(value, f, stack, dtype)


def agreed(algorithm, f, rest):
    """The noisy loss, the distance to the other student, and what is added of it."""
    s = {name: values.sigmoid() for name, values in f.items()}
    noisy = algorithm.noisy(s["f_p"], s["f_u"], rest)
    distance = algorithm.distance(s["f_p"], s["f_u"], s["g_p"], s["g_u"], rest)
    return noisy, distance, algorithm.agreement(noisy, distance)


@both
def test_self_pu_mutual(dtype):
    for stack in stacks("self_pu", "mutual"):
        f, rest = (
            logits(stack, dtype, "f_p", "f_u", "g_p", "g_u"),
            1 - fixed(stack, dtype, "sel").abs(),
        )
        noisy, distance, added = agreed(student(stack, dtype), f, rest)
        goldens.check(noisy + added, f, stack, dtype)  # nothing reaches the other student
        close_rows(distance, "A", stack, dtype)
        close_rows(noisy, "noisy", stack, dtype)
        assert (added > 0).int().tolist() == [c["expected_extra"]["gate"] for c in stack]


@both
def test_self_pu_consistency(dtype):
    for stack in stacks("self_pu", "consistency"):
        f = logits(stack, dtype, "f_p", "f_u", "t_p", "t_u")
        s, t = joined(f, "f_p", "f_u").sigmoid(), joined(f, "t_p", "t_u").sigmoid()
        goldens.check(student(stack, dtype).consistency(s, t), f, stack, dtype)
        zero = student(stack, dtype, ReleasedSelfPU).consistency(s, t)
        assert zero.tolist() == [c["released_value"] for c in stack] == [0.0] * len(stack)


@both
def test_self_pu_step(dtype):
    for stack in stacks("self_pu", "step"):
        f = logits(stack, dtype, "f_p", "f_u", "g_p", "g_u", "t_p", "t_u")
        algorithm, selected = student(stack, dtype), fixed(stack, dtype, "sel")
        own, other, teacher = (joined(f, f"{name}_p", f"{name}_u") for name in "fgt")
        n_p = f["f_p"].shape[1]
        weight = [algorithm.consistency_weight(c["params"]["epoch"]) for c in stack]
        weight = torch.tensor(weight, dtype=DTYPES[dtype], device=goldens.DEVICE)
        later = algorithm.taught(own, other, teacher, n_p, selected, weight)
        taught = [c["params"]["epoch"] >= c["params"]["E1"] for c in stack]
        value = torch.where(
            torch.tensor(taught, device=goldens.DEVICE), later, algorithm.paced(own, n_p, selected)
        )
        goldens.check(value, f, stack, dtype)
        noisy, distance, added = agreed(algorithm, f, 1 - selected.abs())
        close_rows(noisy, "noisy", stack, dtype)
        close_rows(distance, "A", stack, dtype)
        assert (added > 0).int().tolist() == [c["expected_extra"]["gate"] for c in stack]
        pair = torch.stack([own, other]), torch.stack([other, own])  # both students at once
        at_once = algorithm.taught(
            *pair, torch.stack([teacher, own]), n_p, torch.stack([selected, selected]), weight
        )
        torch.testing.assert_close(at_once[0], later)


@both
def test_self_pu_selection(dtype):
    for case in goldens.cases("self_pu", lambda c: c["params"]["kind"] == "select"):
        p = case["params"]
        m = SelfPU.size(p["n_u"], p["t"] if "t" in p else p["epoch"] / EPOCHS, p["top"])
        assert m == case["expected_value"]["m"]
        chosen = SelfPU.selection(fixed([case], dtype, "pool_scores"), m)[0]
        assert (chosen == -1).nonzero().flatten().tolist() == case["expected_extra"]["negatives"]
        assert (chosen == 1).nonzero().flatten().tolist() == case["expected_extra"]["positives"]


def test_self_pu_schedules():
    seen = set()
    for case in goldens.cases("self_pu", lambda c: c["params"]["kind"] == "schedule"):
        what, given, p = case["params"]["what"], case["inputs"], case["params"]
        if what == "consistency":
            found = [SelfPU.consistency_weight(epoch) for epoch in given["epochs"]]
        elif what == "counts":
            found = [SelfPU.size(p["n_u"], epoch / EPOCHS, p["top"]) for epoch in given["epochs"]]
        elif what == "teacher_factor":
            found = [SelfPU.stay(k) for k in given["k"]]
        else:
            teacher, pupil = (
                torch.nn.Linear(1, 1, bias=False, dtype=torch.float64) for _ in range(2)
            )
            found = []
            torch.nn.init.constant_(teacher.weight, given["start"])
            for k, value in enumerate(given["students"], p["k0"]):
                torch.nn.init.constant_(pupil.weight, value)
                move_(teacher, pupil, torch.tensor(1 - SelfPU.stay(k), dtype=torch.float64))
                found.append(teacher.weight.item())
        goldens.close(found, case["expected_value"], case, "float64", what)
        seen.add(what)
    assert seen == {"consistency", "counts", "teacher_factor", "teacher"}


@pytest.mark.parametrize("total, averages", [(20_000, 300), (400, 300), (100, 75)])
def test_self_pu_teachers_average_as_often_as_the_authors(total, averages):
    """300 snapshots from 25% of training on, the first of which replaces the teacher; their plain
    mean.
    """
    setup = SimpleNamespace(
        setup=SimpleNamespace(steps=total),
        consistency_weight=SelfPU.consistency_weight,
        stay=SelfPU.stay,
    )
    steps = total - total // 4
    plans = [SelfPU.schedule(setup, Phase("taught"), step, steps, 0) for step in range(steps)]
    moves = [plan["move"] for plan in plans if plan["move"] > 0]
    np.testing.assert_allclose(moves, [1 / (k + 1) for k in range(averages)])
    assert plans[0]["weight"] == SelfPU.consistency_weight(50)
    assert plans[-1]["weight"] == SelfPU.consistency_weight(EPOCHS * (total - 1) // total)


# -- ImbPU and PU-AUC ----------------------------------------------------------------


@both
def test_imb_pu(dtype):
    branches = set()
    for stack in stacks("imb_pu"):
        f = logits(stack, dtype, "f_p", "f_u")
        names = {
            "target": "pi_target",
            "beta": "beta",
            "gamma": "gamma",
            "form": "form",
            "surrogate_loss": "loss",
        }
        algorithm = build(ImbPU, stack, dtype, **names)
        algorithm.prepare()
        parts = algorithm.risk_parts(**f)
        goldens.check(algorithm.surrogate(*parts), f, stack, dtype)
        close_rows(parts[1], "negative_part", stack, dtype)
        for row, case in enumerate(stack):
            below = bool(parts[1][row] < -algorithm.beta[row])
            branch = (
                {"clamp": "clamped", "ga": "ascent"}[case["params"]["form"]] if below else "plain"
            )
            assert branch == case["expected_extra"]["branch"]
            branches.add(branch)
    assert branches == {"clamped", "ascent", "plain"}


@both
def test_pu_auc(dtype):
    for stack in stacks("pu_auc"):
        f = logits(stack, dtype, "f_p", "f_u")
        for case in stack:
            p = case["params"]
            p["correction"] = "none" if p["q"] is None else "prior"
            if p.get("setting") == "OS":
                assert (p["pi"] - p["r"]) / (1 - p["r"]) == pytest.approx(p["q"])
        algorithm = build(PUAUC, stack, dtype, surrogate_loss="loss", correction="correction")
        inside = [c["params"]["q"] or 0.0 for c in stack]
        algorithm.shifted_prior.copy_(torch.tensor(inside, dtype=torch.float64))
        algorithm.prepare()
        goldens.check(algorithm.objective(**f), f, stack, dtype)
