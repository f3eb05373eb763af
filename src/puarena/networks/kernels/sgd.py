"""One launch instead of three: the SGD update as a Triton kernel (imported where Triton is, see
``optim``).
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from puarena.networks.kernels import enter_device

BLOCK = 1024


@triton.jit
def update(p, g, buffer, rate, momentum, n, size: tl.constexpr):  # type: ignore[no-untyped-def]  # pragma: no cover
    run = tl.program_id(0)
    at = tl.program_id(1) * size + tl.arange(0, size)
    inside = at < n
    where = run * n + at
    moved = tl.load(buffer + where, mask=inside) * tl.load(momentum + run) + tl.load(
        g + where, mask=inside
    )
    tl.store(buffer + where, moved, mask=inside)
    tl.store(p + where, tl.load(p + where, mask=inside) + moved * tl.load(rate + run), mask=inside)


@enter_device
def sgd_(p: Tensor, g: Tensor, buffer: Tensor, rate: Tensor, momentum: Tensor) -> None:
    """Do ``buffer = momentum buffer + g; p = p + rate buffer`` by row on contiguous tensors."""
    n = p[0].numel()
    update[(len(p), -(-n // BLOCK))](p, g, buffer, rate, momentum, n, size=BLOCK)
