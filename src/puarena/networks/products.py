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
from math import inf
from typing import Any

import torch
from torch import Tensor

from puarena.errors import UserError

VARIABLE = "PUARENA_PRODUCTS"
PRODUCT_CHOICES = ("auto", "mkl")  # "mkl": no product of a training step by oneDNN, for comparisons
# oneDNN pays from so many inputs of a run (examples x features): fewer cost less in one batched
# product of several runs than in one call for each. Narrow tables keep the bits that they had.
MIN_INPUTS, MIN_FEATURES = 8192, 32


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
    if choice not in PRODUCT_CHOICES:
        message = f"{VARIABLE} is '{choice}'; choose one of: {', '.join(PRODUCT_CHOICES)}"
        raise UserError(message, "invalid-value")
    return choice


def find_threshold(parameters: Tensor, features: int) -> float:
    """Return the number of inputs of a run from which a step uses oneDNN; infinity is never."""
    suits = parameters.is_cpu and parameters.dtype == torch.float32 and features >= MIN_FEATURES
    if read_choice() == "mkl" or not suits or load_linear() is None:
        return inf
    return MIN_INPUTS if torch.backends.cpu.get_cpu_capability() == "AVX512" else inf


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
