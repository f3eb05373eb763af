"""The perceptron's thin parts as Triton kernels: what surrounds the matrix products in one launch
each way, and the SGD update in one launch instead of three.

A step of these networks is bound by the number of launches. Everything here has a plain counterpart
in ``networks/mlp.py`` or ``training/optim.py``.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from puarena.networks.kernels import enter_device

ROWS = 4  # of a forward program
BATCH, HIDDEN = 32, 64  # examples and hidden units of a backward program's tile
BLOCK = 1024  # parameters of an update's program


@triton.jit
def forward_kernel(  # type: ignore[no-untyped-def]
    hidden, theta, f, n, units, stride, bias_1, weight_2, rows: tl.constexpr, width: tl.constexpr
):
    """``hidden = relu(hidden + b1)`` in place; ``f = hidden (w2[1] - w2[0]) + b2[1] - b2[0]``."""
    run = tl.program_id(0)
    row = tl.program_id(1) * rows + tl.arange(0, rows)
    unit = tl.arange(0, width)
    mine = theta + run.to(tl.int64) * stride
    here = unit < units
    bias = tl.load(mine + bias_1 + unit, mask=here, other=0.0)
    low = tl.load(mine + weight_2 + unit, mask=here, other=0.0)
    high = tl.load(mine + weight_2 + units + unit, mask=here, other=0.0)
    offset = tl.load(mine + weight_2 + 2 * units + 1) - tl.load(mine + weight_2 + 2 * units)
    where = (run.to(tl.int64) * n + row)[:, None] * units + unit[None, :]
    inside = (row < n)[:, None] & here[None, :]
    value = tl.maximum(tl.load(hidden + where, mask=inside, other=0.0) + bias[None, :], 0.0)
    tl.store(hidden + where, value, mask=inside)
    tl.store(f + run * n + row, tl.sum(value * (high - low)[None, :], 1) + offset, mask=row < n)


@triton.jit
def backward_kernel(  # type: ignore[no-untyped-def]
    g,
    hidden,
    theta,
    g_hidden,
    out,
    n,
    units,
    stride,
    bias_1,
    weight_2,
    batch: tl.constexpr,
    width: tl.constexpr,
):
    """Gradients of everything but the first layer's weights, and of the hidden units before the
    ReLU.
    """
    run = tl.program_id(0)
    unit = tl.program_id(1) * width + tl.arange(0, width)
    here = unit < units
    shift = run.to(tl.int64) * stride
    low = tl.load(theta + shift + weight_2 + unit, mask=here, other=0.0)
    high = tl.load(theta + shift + weight_2 + units + unit, mask=here, other=0.0)
    of_bias = tl.zeros([width], tl.float32)
    of_readout = tl.zeros([width], tl.float32)
    of_offset = tl.zeros([batch], tl.float32)
    for start in range(0, n, batch):
        row = start + tl.arange(0, batch)
        slope = tl.load(g + run * n + row, mask=row < n, other=0.0)
        where = (run.to(tl.int64) * n + row)[:, None] * units + unit[None, :]
        inside = (row < n)[:, None] & here[None, :]
        value = tl.load(hidden + where, mask=inside, other=0.0)
        grad = tl.where(value > 0, slope[:, None] * (high - low)[None, :], 0.0)
        tl.store(g_hidden + where, grad, mask=inside)
        of_bias += tl.sum(grad, 0)
        of_readout += tl.sum(slope[:, None] * value, 0)
        of_offset += slope
    mine = out + shift
    tl.store(mine + bias_1 + unit, of_bias, mask=here)
    tl.store(mine + weight_2 + unit, -of_readout, mask=here)
    tl.store(mine + weight_2 + units + unit, of_readout, mask=here)
    if tl.program_id(1) == 0:
        total = tl.sum(of_offset, 0)
        tl.store(mine + weight_2 + 2 * units, -total)
        tl.store(mine + weight_2 + 2 * units + 1, total)


@enter_device
def finish_forward(hidden: Tensor, theta: Tensor, features: int) -> Tensor:
    """Turn ``x W1`` (``[runs, n, units]``) into hidden units, in place, and return the logits."""
    runs, n, units = hidden.shape
    f = torch.empty(runs, n, dtype=hidden.dtype, device=hidden.device)
    width = 1 << (units - 1).bit_length()
    a, b = features * units, (features + 1) * units
    forward_kernel[(runs, -(-n // ROWS))](
        hidden, theta, f, n, units, theta.stride(0), a, b, rows=ROWS, width=width
    )
    return f


@enter_device
def start_backward(g: Tensor, hidden: Tensor, theta: Tensor, out: Tensor, features: int) -> Tensor:
    """Write the gradients of biases and readout into ``out`` and return that of the hidden units
    before the ReLU.
    """
    runs, n, units = hidden.shape
    g_hidden = torch.empty_like(hidden)
    a, b = features * units, (features + 1) * units
    grid = (runs, -(-units // HIDDEN))
    backward_kernel[grid](
        g.contiguous(),
        hidden,
        theta,
        g_hidden,
        out,
        n,
        units,
        theta.stride(0),
        a,
        b,
        batch=BATCH,
        width=HIDDEN,
    )
    return g_hidden


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
