"""Golden values of Count Loss, GLWS, the law of the count, P3MIX-E and -C, Holistic-PU, and their
schedules.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import goldens
from goldens import DTYPES
from puarena.algorithms import Algorithm, Phase
from puarena.algorithms._counting import log_count_law, nearest_count, posterior_given_count
from puarena.algorithms._losses import break_of_trends, col, trend_terms
from puarena.algorithms.count_loss import CountLoss
from puarena.algorithms.glws import GLWS
from puarena.algorithms.holistic_pu import HolisticPU
from puarena.algorithms.p3mix import P3MixC, P3MixE
from puarena.algorithms.released import ReleasedCountLoss, ReleasedGLWS, ReleasedHolisticPU

both = pytest.mark.parametrize("dtype", ["float64", "float32"])
MAIN, FIRST = Phase(), Phase("first", extra=True)


def logits(stack, dtype, *names):
    return {name: goldens.inputs(stack, name, DTYPES[dtype]) for name in names}


def build(cls, stack, dtype, **hyper) -> Algorithm:
    """Build for tensors of ``dtype``."""
    return goldens.build(cls, stack, torch.float64, **hyper).to(DTYPES[dtype])


def ready(cls, stack, dtype, **options) -> Algorithm:
    """Build as the engine does, with the prior handed over in float64, and create the state."""
    algorithm = build(cls, stack, dtype)
    algorithm._options.update(options)
    algorithm.prepare()
    return algorithm


def close_rows(actual, expected, stack, dtype, what):
    for row, case in enumerate(stack):
        goldens.close(actual[row].detach().cpu().numpy(), expected(case), case, dtype, what)


# -- the law of the count ------------------------------------------------------------


@both
def test_count_law(dtype):
    for stack in goldens.stacks(goldens.cases("count_law")):
        f = goldens.inputs(stack, "f", DTYPES[dtype], grad=False)
        law = log_count_law(f)
        close_rows(law, lambda c: c["expected_extra"]["log_pmf"], stack, dtype, "log pmf")
        close_rows(law.exp(), lambda c: c["expected_extra"]["pmf"], stack, dtype, "pmf")
        for m in range(f.shape[1] + 1):
            q = posterior_given_count(f, torch.full((len(stack),), m, device=f.device))
            close_rows(
                q,
                lambda c, m=m: c["expected_extra"]["posterior_given_count"][m],
                stack,
                dtype,
                f"posterior {m}",
            )


@both
def test_count_loss(dtype):
    for stack in goldens.stacks(goldens.cases("count_loss")):
        f = logits(stack, dtype, "f_p", "f_u")
        goldens.check(ready(CountLoss, stack, dtype).objective(**f), f, stack, dtype)
        law = log_count_law(f["f_u"])
        close_rows(law, lambda c: c["expected_extra"]["log_count_pmf_u"], stack, dtype, "log law")


@both
def test_count_loss_exact_count(dtype):
    for stack in goldens.stacks(goldens.cases("count_loss")):
        wanted = [
            {**c, **{f"expected_{k}": v for k, v in c["expected_extra"]["exact_count"].items()}}
            for c in stack
        ]
        f = logits(stack, dtype, "f_p", "f_u")
        goldens.check(
            ready(CountLoss, stack, dtype, form=("exact",) * len(stack)).objective(**f),
            f,
            wanted,
            dtype,
        )
        m = nearest_count(goldens.param(stack, "pi", torch.float64), f["f_u"].shape[1])
        assert m.tolist() == [c["expected_m"] for c in wanted]


@both
def test_count_loss_forms_in_one_fleet(dtype):
    """Rows of both forms stacked: each has its own value."""
    for stack in goldens.stacks(goldens.cases("count_loss")):
        f = {k: torch.cat([v, v]) for k, v in logits(stack, dtype, "f_p", "f_u").items()}
        forms = ("kl",) * len(stack) + ("exact",) * len(stack)
        value = ready(CountLoss, stack + stack, dtype, form=forms).objective(**f)
        close_rows(value[: len(stack)], lambda c: c["expected_value"], stack, dtype, "kl")
        close_rows(
            value[len(stack) :],
            lambda c: c["expected_extra"]["exact_count"]["value"],
            stack,
            dtype,
            "exact",
        )


@both
def test_count_loss_released(dtype):
    for stack in goldens.stacks(goldens.cases("count_loss", lambda c: "released_value" in c)):
        f = logits(stack, dtype, "f_p", "f_u")
        value = ready(ReleasedCountLoss, stack, dtype).objective(**f)
        goldens.check(value, f, stack, dtype, "released_value", "released_gradient")


@both
def test_glws(dtype):
    for stack in goldens.stacks(goldens.cases("glws")):
        f = logits(stack, dtype, "f_p", "f_u")
        algorithm = ready(GLWS, stack, dtype)
        goldens.check(algorithm.objective(**f), f, stack, dtype)
        assert algorithm.m.tolist() == [c["expected_extra"]["m"] for c in stack]
        close_rows(
            algorithm.posterior(f["f_u"]), lambda c: c["expected_extra"]["q_u"], stack, dtype, "q"
        )


@both
def test_glws_released(dtype):
    for stack in goldens.stacks(goldens.cases("glws", lambda c: "released_value" in c)):
        f = logits(stack, dtype, "f_p", "f_u")
        algorithm = ready(ReleasedGLWS, stack, dtype)
        goldens.check(
            algorithm.objective(**f), f, stack, dtype, "released_value", "released_gradient"
        )
        close_rows(
            algorithm.posterior(f["f_u"]), lambda c: c["released_q_u"], stack, dtype, "released q"
        )


# -- P3MIX ----------------------------------------------------------------------

SHARED = {name: name for name in ("gamma", "w_positive", "w_unlabeled", "w_entropy")}
P3MIX = {"p3mix_e": (P3MixE, {**SHARED, "w_early": "w_elr"}), "p3mix_c": (P3MixC, SHARED)}


@both
@pytest.mark.parametrize("name", P3MIX)
def test_p3mix(dtype, name):
    cls, hyper = P3MIX[name]
    for stack in goldens.stacks(goldens.cases(name)):
        f = logits(stack, dtype, "f_p", "f_u")
        extra = ["elr_t"] if name == "p3mix_e" else []
        t_p, t_u, *more = (
            goldens.inputs(stack, k, DTYPES[dtype], grad=False) for k in ["t_p", "t_u", *extra]
        )
        labels = torch.stack([torch.cat([t_p, t_u], -1), *more], -1)
        assert all(c["params"]["prob_clamp"] == 1e-4 for c in stack)
        algorithm = build(cls, stack, dtype, **hyper)
        goldens.check(algorithm.risk(**f, labels=labels), f, stack, dtype)


@both
@pytest.mark.parametrize("name", P3MIX)
def test_p3mix_partners(dtype, name):
    cls, hyper = P3MIX[name]
    for stack in goldens.stacks(goldens.cases(name)):
        algorithm = build(cls, stack, dtype, **hyper)
        s_u = torch.sigmoid(goldens.inputs(stack, "select_scores_u", DTYPES[dtype], grad=False))
        expected = [c["expected_extra"] for c in stack]
        assert algorithm.ambiguous(s_u).int().tolist() == [e["ambiguous"] for e in expected]
        if name == "p3mix_c":
            assert algorithm.corrected(s_u).int().tolist() == [
                e["corrected_labels"] for e in expected
            ]
        else:
            assert not algorithm.corrected(s_u).any()
        pools = [(k, v) for e in expected for k, v in e.items() if k.startswith("pool_top")]
        size = int(pools[0][0].removeprefix("pool_top").removesuffix("_by_entropy"))
        pool = algorithm.pool_of(
            goldens.inputs(stack, "select_scores_p", DTYPES[dtype], grad=False), size
        )
        assert pool.sort(-1).values.tolist() == [v for _, v in pools]


# -- Holistic-PU ---------------------------------------------------------------------


@both
@pytest.mark.parametrize("cls", [HolisticPU, ReleasedHolisticPU])
def test_holistic_phase_1(dtype, cls):
    for stack in goldens.stacks(
        goldens.cases("holistic_pu", lambda c: c["id"].endswith("-phase1"))
    ):
        f = logits(stack, dtype, "f_p_w", "f_p_s", "f_u_w")
        algorithm = build(cls, stack, dtype, smoothing="label_smoothing")
        goldens.check(algorithm.trend_risk(**f), f, stack, dtype)


@both
@pytest.mark.parametrize("cls", [HolisticPU, ReleasedHolisticPU])
def test_holistic_phase_2(dtype, cls):
    for stack in goldens.stacks(
        goldens.cases("holistic_pu", lambda c: c["id"].endswith("-phase2"))
    ):
        f = logits(stack, dtype, "f_p_w", "f_u_w", "f_u_s")
        pseudo = goldens.inputs(stack, "pseudo", DTYPES[dtype], grad=False)
        algorithm = build(cls, stack, dtype, confidence="confidence")
        ramp = col(goldens.param(stack, "ramp", DTYPES[dtype]))
        goldens.check(algorithm.pseudo_risk(**f, pseudo=pseudo, ramp=ramp), f, stack, dtype)


@both
def test_holistic_trends_breaks_and_pseudo_labels(dtype):
    for stack in goldens.stacks(
        goldens.cases("holistic_pu", lambda c: "score_sequences" in c["inputs"])
    ):
        scores = goldens.inputs(
            stack, "score_sequences", DTYPES[dtype], grad=False
        ).double()  # [runs, n, records]
        trend = trend_terms(scores[..., :-1], scores[..., 1:]).mean(-1)
        cut = break_of_trends(trend)
        close_rows(trend, lambda c: c["expected_extra"]["trend"], stack, dtype, "trend")
        close_rows(cut, lambda c: c["expected_extra"]["break_point"], stack, dtype, "break point")
        pseudo = (trend > col(cut)).int().tolist()
        assert pseudo == [c["expected_extra"]["pseudo_positive"] for c in stack]


class Recorded:
    """Passes that hand out given logits, one record after the other."""

    def __init__(self, scores):
        self.logits = iter(torch.logit(scores).unbind(-1))

    def u(self, network):
        return next(self.logits)


def test_holistic_hooks_give_the_golden_pseudo_labels():
    """The same sequences through the hooks: recorded at the ends of epochs, the last one at the
    switch.
    """
    for stack in goldens.stacks(
        goldens.cases("holistic_pu", lambda c: "score_sequences" in c["inputs"])
    ):
        scores = goldens.inputs(stack, "score_sequences", torch.float64, grad=False)
        records = scores.shape[-1]
        algorithm = goldens.build(HolisticPU, stack, torch.float64, n_u=scores.shape[1])
        algorithm.a = torch.nn.Identity()
        algorithm.prepare()
        passes = Recorded(scores)
        algorithm.on_phase(FIRST, passes)
        for epoch in range(records):
            algorithm.on_epoch(FIRST, epoch, passes)
            algorithm.steps_done += algorithm.setup.epoch
        algorithm.on_phase(MAIN, passes)
        assert algorithm.pseudo.int().tolist() == [
            c["expected_extra"]["pseudo_positive"] for c in stack
        ]


# -- schedules ----------------------------------------------------------------------


def schedule(quantity):
    return goldens.cases("schedules", lambda c: quantity in c["params"]["quantity"])


def some(cls):
    return goldens.build(cls, [{"params": {}}], torch.float64)


@pytest.mark.parametrize("name", P3MIX)
def test_p3mix_learning_rate(name):
    algorithm = some(P3MIX[name][0])
    for case in schedule("P3MIX learning-rate factor"):
        got = []
        for epoch in case["params"]["epochs_completed"]:
            phase, inside = (
                (algorithm.phases[0], epoch) if epoch < 5 else (algorithm.phases[1], epoch - 5)
            )
            got.append(algorithm.schedule(phase, 0, 1, inside)["lr"])
        goldens.close(got, case["expected_value"], case, "float64", case["id"])


def test_p3mix_teacher_decay():
    for case in schedule("P3MIX-E teacher decay"):
        got = [P3MixE.decay(j) for j in case["params"]["epochs"]]
        goldens.close(got, case["expected_value"], case, "float64", case["id"])


def test_holistic_learning_rate():
    algorithm = some(HolisticPU)
    for case in schedule("Holistic-PU learning-rate factor"):
        phase = algorithm.phases[0 if "phase 1" in case["params"]["quantity"] else 1]
        total = case["params"]["total_steps"]
        got = [algorithm.schedule(phase, k, total, 0)["lr"] for k in case["params"]["steps"]]
        goldens.close(got, case["expected_value"], case, "float64", case["id"])


def test_holistic_ramp():
    algorithm = some(HolisticPU)
    for case in schedule("Holistic-PU pseudo-label ramp"):
        got = [algorithm.schedule(MAIN, p, 1, 0)["ramp"] for p in case["params"]["progress"]]
        goldens.close(got, case["expected_value"], case, "float64", case["id"])


def test_epochs_and_records():
    """Steps per epoch, and how many records phase 1 takes in 2,000 steps."""

    class Flat:
        def __init__(self, n_u):
            self.n_u = n_u

        def u(self, network):
            return torch.zeros(1, self.n_u, device=goldens.DEVICE)

    for case in schedule("steps per epoch"):
        for (n_u, batch), want in zip(
            case["params"]["n_u_and_batch"], case["expected_value"], strict=True
        ):
            algorithm = some(HolisticPU)
            algorithm.setup = replace(algorithm.setup, n_u=n_u, batch_u=batch)
            algorithm.a = torch.nn.Identity()
            algorithm.prepare()
            assert algorithm.setup.epoch == want["steps"]
            passes = Flat(n_u)
            algorithm.on_phase(FIRST, passes)
            for step in range(2000):
                if step % algorithm.setup.epoch == 0:
                    algorithm.on_epoch(FIRST, step // algorithm.setup.epoch, passes)
                algorithm.steps_done += 1
            algorithm.on_phase(MAIN, passes)
            assert int(algorithm.n_records) == want["records"]
            assert not algorithm.pseudo.any()  # all trends are equal
