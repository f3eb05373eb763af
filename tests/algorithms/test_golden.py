"""Every objective against its golden values and gradients, cases stacked along the run axis, in
both precisions.
"""

from __future__ import annotations

import pytest
import torch

import goldens
from puarena import metrics
from puarena.algorithms.dist_pu import DistPU
from puarena.algorithms.nnpu import NNPU, NNPUGA
from puarena.algorithms.pusb import PUSB
from puarena.algorithms.upu import UPU
from puarena.algorithms.vpu import VPU

both = pytest.mark.parametrize("dtype", ["float64", "float32"])


def logits(stack, dtype, *names):
    return {name: goldens.inputs(stack, name, goldens.DTYPES[dtype]) for name in names}


@both
def test_upu(dtype):
    for stack in goldens.stacks(goldens.cases("upu")):
        f = logits(stack, dtype, "f_p", "f_u")
        goldens.check(
            goldens.build(UPU, stack, goldens.DTYPES[dtype]).objective(**f), f, stack, dtype
        )


@both
def test_nnpu(dtype):
    for stack in goldens.stacks(goldens.cases("nnpu")):
        f = logits(stack, dtype, "f_p", "f_u")
        algorithm = goldens.build(NNPU, stack, goldens.DTYPES[dtype], beta="beta")
        goldens.check(algorithm.objective(**f), f, stack, dtype)
        _, negative = algorithm.risk_parts(**f)
        for row, case in enumerate(stack):
            goldens.close(
                negative[row].item(),
                case["expected_extra"]["negative_part"],
                case,
                dtype,
                "negative part",
            )


@both
def test_nnpu_ga(dtype):
    for stack in goldens.stacks(goldens.cases("nnpu_ga")):
        f = logits(stack, dtype, "f_p", "f_u")
        algorithm = goldens.build(NNPUGA, stack, goldens.DTYPES[dtype], beta="beta", gamma="gamma")
        goldens.check(algorithm.surrogate(**f), f, stack, dtype)
        reported = algorithm.objective(**f)
        for row, case in enumerate(stack):
            goldens.close(
                reported[row].item(),
                case["expected_extra"]["reported_objective"],
                case,
                dtype,
                "reported",
            )


CALIBRATED = [
    ("upu", UPU, "objective"),
    ("nnpu", NNPU, "objective"),
    ("nnpu_ga", NNPUGA, "surrogate"),
    ("nnpu_ga", PUSB, "surrogate"),  # trains on the loss of nnPU-GA
    ("vpu", VPU, "variational"),
    ("dist_pu", DistPU, "distribution"),
]


@both
@pytest.mark.parametrize(("name", "cls", "method"), CALIBRATED)
@pytest.mark.parametrize("kind", ["weighted", "batch-union"])
def test_calibrated_minibatch(dtype, name, cls, method, kind):
    found = goldens.cases("calibration", lambda c: c["params"].get("algorithm") == name)
    if kind == "batch-union":
        found = [c for c in found if "released_value" in c]
    for stack in goldens.stacks(found):
        f = logits(stack, dtype, "f_p", "f_u")
        algorithm = goldens.build(cls, stack, goldens.DTYPES[dtype], calibration=kind)
        fields = ("released_value", "released_gradient") if kind == "batch-union" else ()
        goldens.check(getattr(algorithm, method)(**f), f, stack, dtype, *fields)


@both
def test_calibrated_risk_of_a_dataset(dtype):
    """On a whole data set the calibrated uPU loss is the calibrated unbiased risk."""
    found = goldens.cases("calibration", lambda c: c["id"].endswith("-dataset"))
    for stack in goldens.stacks(found):
        for case in stack:
            case["params"]["rate"] = case["params"]["n_p"] / (
                case["params"]["n_p"] + case["params"]["n_u"]
            )
        f = logits(stack, dtype, "f_p", "f_u")
        algorithm = goldens.build(UPU, stack, goldens.DTYPES[dtype], calibration="weighted")
        goldens.check(algorithm.objective(**f), f, stack, dtype)


@both
def test_metrics_and_criteria(dtype):
    names = {"pa": "pa", "pauc": "pauc", "oa": "oa"}
    on = lambda tensor: tensor.to(goldens.DEVICE)  # noqa: E731
    for case in goldens.cases("metrics"):
        take = {
            k: on(torch.tensor([v], dtype=goldens.DTYPES[dtype]))
            for k, v in case["inputs"].items()
            if "_f" in k
        }
        label_u = on(torch.tensor([case["inputs"]["val_y_u"]])) > 0
        label = on(torch.tensor([case["inputs"]["test_y"]])) > 0
        expected = case["expected_value"]
        for one_sample, suffix in ((True, "_os"), (False, "_ts")):
            v = metrics.Validation(
                take["val_f_p"],
                take["val_f_u"],
                take["val_f_p"],
                take["val_f_u"],
                on(torch.tensor([case["params"]["pi"]], dtype=torch.float64)),
                on(torch.tensor([one_sample])),
                label_u,
            )
            got = metrics.compute_criteria(v)
            for name, key in names.items():
                want = expected[key if key == "pauc" else key + suffix]
                goldens.close(got[f"val_{name}"].item(), want, case, dtype, name + suffix)
            released = case.get("released_value") or {}
            for key, want in released.items():
                if key == "pa" + suffix:
                    goldens.close(
                        got["val_pa_released"].item(), want, case, dtype, "released " + key
                    )
        got = metrics.compute_metrics(take["test_f"], take["test_f"], label)
        assert {f"test_{name}" for name in expected["test"]} == set(got)
        for name, want in expected["test"].items():
            goldens.close(got[f"test_{name}"].item(), want, case, dtype, name)
