"""Matrix products of training steps on the CPU by oneDNN instead of torch's own choice (MKL).

MKL leaves AVX-512 aside on AMD's processors, oneDNN does not: at ``[128, 256] x [256, 500]`` it is
twice as fast there. The choice is a rule by shape and processor, not a race at the start of a
process, so that the same command gives the same bits every time. The measurements behind the rule
are in docs/performance.md.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from puarena.errors import UserError

VARIABLE = "PUARENA_PRODUCTS"
CHOICES = ("auto", "mkl")  # "mkl": no product of a training step by oneDNN, for comparisons
# Inputs of a run (examples x features) from which oneDNN pays: fewer cost less in one batched
# product of several runs than in one call for each.
MIN_INPUTS = 8192


@lru_cache(maxsize=1)
def load_linear() -> Callable[..., Any] | None:
    """Return oneDNN's linear layer, or None where this torch has none."""
    if not torch.backends.mkldnn.is_available():
        return None
    layer = getattr(torch.ops.mkldnn, "_linear_pointwise", None)
    return None if layer is None else layer.default


def read_choice() -> str:
    """Return the value of the environment variable, ``auto`` if there is none."""
    choice = os.environ.get(VARIABLE, "auto")
    if choice not in CHOICES:
        message = f"{VARIABLE} is '{choice}'; choose one of: {', '.join(CHOICES)}"
        raise UserError(message, "invalid-value")
    return choice


def find_threshold(parameters: Tensor) -> int | None:
    """Return the number of inputs of a run from which steps use oneDNN; None is never."""
    if read_choice() == "mkl" or not parameters.is_cpu or parameters.dtype != torch.float32:
        return None
    fast = torch.backends.cpu.get_cpu_capability() == "AVX512" and load_linear() is not None
    return MIN_INPUTS if fast else None


def multiply(a: Tensor, b: Tensor) -> Tensor:
    """Return ``a b`` by oneDNN; either may be a transposed view."""
    linear = load_linear()
    assert linear is not None
    product: Tensor = linear(a, b.t(), None, "none", [], "")
    return product


def make_units(x: Tensor, transposed: Tensor, bias: Tensor) -> Tensor:
    """Return ``relu(x weight + bias)`` by oneDNN, of a transposed weight."""
    linear = load_linear()
    assert linear is not None
    units: Tensor = linear(x, transposed, bias, "relu", [], "")
    return units
