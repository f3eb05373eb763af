"""One launch instead of three: the SGD update as a Triton kernel, where Triton is (CUDA builds of torch bring it)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

BLOCK = 1024


@lru_cache(maxsize=1)
def _kernel() -> Any:
    """Compile-on-first-use kernel, or None without Triton."""
    try:
        import triton
        import triton.language as tl
    except ImportError:
        return None

    @triton.jit
    def update(p, g, buffer, rate, momentum, n, size: tl.constexpr):  # type: ignore[no-untyped-def]  # pragma: no cover
        run = tl.program_id(0)
        at = tl.program_id(1) * size + tl.arange(0, size)
        inside = at < n
        where = run * n + at
        moved = tl.load(buffer + where, mask=inside) * tl.load(momentum + run) + tl.load(g + where, mask=inside)
        tl.store(buffer + where, moved, mask=inside)
        tl.store(p + where, tl.load(p + where, mask=inside) + moved * tl.load(rate + run), mask=inside)

    return update


def sgd_(p: Tensor, g: Tensor, buffer: Tensor, rate: Tensor, momentum: Tensor) -> bool:
    """Do ``buffer = momentum buffer + g; p = p + rate buffer`` row by row; return False if it cannot be done here."""
    kernel = _kernel() if p.is_cuda else None
    if kernel is None or not (p.is_contiguous() and g.is_contiguous()):
        return False
    n = p[0].numel()
    with torch.cuda.device(p.device):
        kernel[(len(p), -(-n // BLOCK))](p, g, buffer, rate, momentum, n, size=BLOCK)
    return True
