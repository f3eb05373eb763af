"""Golden cases: loading, stacking along the run axis, comparing.

The folder is ``tests/golden`` or the one named by ``PUARENA_GOLDEN``; the device is the CPU or the
one named by ``PUARENA_TEST_DEVICE`` (``make test-gpu``).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from puarena.algorithms import Algorithm, Setup

FOLDER = Path(os.environ.get("PUARENA_GOLDEN", Path(__file__).parent / "golden"))
DEVICE = os.environ.get("PUARENA_TEST_DEVICE", "cpu")
DTYPES = {"float64": torch.float64, "float32": torch.float32}


def cases(name: str, keep: Callable[[dict], bool] = lambda case: True) -> list[dict]:
    """Return the cases of a golden file that ``keep`` accepts; none at all is an error."""
    found = [c for c in json.loads((FOLDER / f"{name}.json").read_text())["cases"] if keep(c)]
    assert found, f"no case of {name}.json was selected"
    return found


def stacks(found: list[dict]) -> Iterator[list[dict]]:
    """Group cases whose input arrays have equal shapes: each group is one fleet."""
    groups: dict[tuple, list[dict]] = {}
    for case in found:
        key = tuple(sorted((k, np.shape(v)) for k, v in case["inputs"].items()))
        groups.setdefault(key, []).append(case)
    yield from groups.values()


def inputs(stack: list[dict], name: str, dtype: torch.dtype, grad: bool = True) -> torch.Tensor:
    """Stack one input array of all cases, ``[runs, n]``."""
    return torch.tensor(
        [c["inputs"][name] for c in stack], dtype=dtype, device=DEVICE, requires_grad=grad
    )


def param(stack: list[dict], name: str, dtype: torch.dtype, default: float = 0.5) -> torch.Tensor:
    """Stack one parameter, ``[runs]``."""
    return torch.tensor([c["params"].get(name, default) for c in stack], dtype=dtype, device=DEVICE)


def build(
    cls: type[Algorithm],
    stack: list[dict],
    dtype: torch.dtype,
    calibration: str = "none",
    n_u: int | None = None,
    **hyper: str,
) -> Algorithm:
    """Build an algorithm for a stack of cases; ``hyper`` maps its hyperparameters to names of case
    parameters.
    """
    first = stack[0]["params"]
    prior = param(stack, "pi", dtype)
    return cls(
        Setup(
            prior=prior,
            shifted_prior=prior,
            rate=param(stack, "rate", dtype, 0.3),
            one_sample=torch.ones(len(stack), dtype=torch.bool, device=DEVICE),
            n_p=first.get("n_p", 8),
            n_u=n_u or first.get("n_u", 8),
            batch_p=first.get("n_p", 8),
            batch_u=first.get("n_u", 8),
            calibration=(calibration,) * len(stack),
            hyper={name: [c["params"][key] for c in stack] for name, key in hyper.items()},
        )
    )


def close(
    actual: Any, expected: Any, case: dict, dtype: str, what: str, scale: float | None = None
) -> None:
    """Assert ``|a - b| <= atol + rtol |b|`` with the case's tolerance (``scale`` replaces ``|b|``)."""
    tolerance = case["tolerance"].get(dtype) or case["tolerance"]["float64"]
    a, b = np.asarray(actual, dtype=np.float64), np.asarray(expected, dtype=np.float64)
    assert a.shape == b.shape, f"{case['id']} {what}: shape {a.shape}, expected {b.shape}"
    size = np.abs(b) if scale is None else scale
    excess = np.abs(a - b) - (tolerance["atol"] + tolerance["rtol"] * size)
    assert np.all(excess <= 0), f"{case['id']} {what} ({dtype}): {a} is not {b}"


def check(
    value: torch.Tensor,
    tensors: dict[str, torch.Tensor],
    stack: list[dict],
    dtype: str,
    expected: str = "expected_value",
    gradient: str = "expected_gradient",
) -> None:
    """Compare ``[runs]`` values and the gradients of their sum with the stacked cases."""
    grads = torch.autograd.grad(value.sum(), list(tensors.values()), allow_unused=True)
    for row, case in enumerate(stack):
        close(value[row].item(), case[expected], case, dtype, expected)
        for (name, tensor), grad in zip(tensors.items(), grads, strict=True):
            want = case[gradient].get(name)
            got = torch.zeros_like(tensor[row]) if grad is None else grad[row]
            want = np.zeros(len(got)) if want is None else want
            close(
                got.detach().cpu().numpy(),
                want,
                case,
                dtype,
                f"gradient {name}",
                scale=float(np.max(np.abs(want))),
            )
