"""The protocol's multilayer perceptron: one hidden layer of 500 ReLU units, two outputs, ``f = z1 - z0``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from puarena import random
from puarena.networks import kernels
from puarena.networks.base import RunNetwork

Parts = tuple[Tensor, Tensor, Tensor, Tensor]
TILE = 1 << 19  # hidden units of a tile on the CPU: two megabytes in float32


class _Logit(torch.autograd.Function):
    """``f = relu(x W1 + b1) (w2[1] - w2[0]) + b2[1] - b2[0]`` with its gradient written out.

    Only the difference of the two output columns matters for the logit, so the second layer is a weighted sum and its
    columns get opposite gradients. The hidden units' gradient is ``g`` times the readout where they are active, so the
    first layer's is one product of the scaled inputs with the pattern of active units, ``([x g, g]^T active) readout``.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, theta: Tensor, units: int) -> Tensor:
        weight_1 = split(theta, x.shape[-1], units)[0]
        if kernels.available(theta):
            from puarena.networks.kernels.mlp import finish_forward

            hidden = torch.bmm(x, weight_1)
            f = finish_forward(hidden, theta, x.shape[-1])
        else:
            hidden = x.new_empty(*x.shape[:2], units)
            f = tiled_forward(x, theta, units, hidden)
        ctx.save_for_backward(x, hidden, theta)
        return f

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (g,) = grads
        x, hidden, theta = ctx.saved_tensors
        out = torch.empty_like(theta)
        if kernels.available(theta):
            from puarena.networks.kernels.mlp import start_backward

            g_hidden = start_backward(g, hidden, theta, out, x.shape[-1])
            torch.bmm(x.transpose(1, 2), g_hidden, out=split(out, x.shape[-1], hidden.shape[-1])[0])
        else:
            tiled_backward(x, theta, hidden, g, out)
        return None, out, None  # inputs are data


def tiles(runs: int, n: int, units: int) -> Iterator[tuple[slice, slice]]:
    """Cut ``[runs, n]`` into pieces whose hidden units stay in a core's cache: several runs, or rows of one."""
    rows = max(1, TILE // units)
    if n > rows:
        yield from ((slice(r, r + 1), slice(a, a + rows)) for r in range(runs) for a in range(0, n, rows))
    else:
        step = max(1, TILE // (n * units))
        yield from ((slice(r, r + step), slice(0, n)) for r in range(0, runs, step))


def tiled_forward(x: Tensor, theta: Tensor, units: int, hidden: Tensor | None = None) -> Tensor:
    """Return the logits; ``hidden``, if given, is filled with the hidden units."""
    if len(x) == 1 and x.shape[1] * units <= TILE:
        return _alone(x[0], theta[0], units, hidden).unsqueeze(0)
    weight_1, bias_1, weight_2, bias_2 = split(theta, x.shape[-1], units)
    readout, offset = weight_2[:, 1] - weight_2[:, 0], bias_2[:, :, 1] - bias_2[:, :, 0]
    f = x.new_empty(x.shape[:2])
    for run, row in tiles(x.shape[0], x.shape[1], units):
        h = None if hidden is None else hidden[run, row]
        h = torch.baddbmm(bias_1[run], x[run, row], weight_1[run], out=h).relu_()
        f[run, row] = (h * readout[run].unsqueeze(1)).sum(-1) + offset[run]
    return f


def _alone(x: Tensor, theta: Tensor, units: int, hidden: Tensor | None) -> Tensor:
    """The logits of one run and one tile: plain matrix products, which cost less to call."""
    a, b = x.shape[-1] * units, (x.shape[-1] + 1) * units
    h = torch.addmm(theta[a:b], x, theta[:a].view(-1, units), out=None if hidden is None else hidden[0]).relu_()
    low, high = theta[b : b + units], theta[b + units : b + 2 * units]
    return torch.mv(h, high - low).add_(theta[-1] - theta[-2])


def _alone_backward(x: Tensor, theta: Tensor, hidden: Tensor, g: Tensor, out: Tensor) -> None:
    """``tiled_backward`` of one run."""
    units, b = hidden.shape[-1], (x.shape[-1] + 1) * hidden.shape[-1]
    low, high = out[b : b + units], out[b + units : b + 2 * units]
    torch.mv(hidden.t(), g, out=high)
    torch.neg(high, out=low)
    column = g.unsqueeze(1)
    first_layer = out[:b].view(-1, units)
    torch.mm(torch.cat([x * column, column], 1).t(), hidden.sign(), out=first_layer)
    first_layer *= theta[b + units : b + 2 * units] - theta[b : b + units]
    torch.sum(g, 0, out=out[-1])
    torch.neg(out[-1], out=out[-2])


def tiled_backward(x: Tensor, theta: Tensor, hidden: Tensor, g: Tensor, out: Tensor) -> None:
    """Write the gradient of every parameter into ``out``."""
    if len(x) == 1:
        _alone_backward(x[0], theta[0], hidden[0], g[0], out[0])
        return
    features, units = x.shape[-1], hidden.shape[-1]
    _, _, weight_2, _ = split(theta, features, units)
    _, _, g_weight_2, g_bias_2 = split(out, features, units)
    readout = (weight_2[:, 1] - weight_2[:, 0]).unsqueeze(1)
    scaled = torch.cat([x * g.unsqueeze(-1), g.unsqueeze(-1)], -1).transpose(1, 2)
    first_layer = out[:, : (features + 1) * units].view(-1, features + 1, units)  # weights, then biases
    for run, _ in tiles(len(x), 1, units * x.shape[1]):
        h = hidden[run]
        torch.bmm(g[run].unsqueeze(1), h, out=g_weight_2[run, 1:])
        torch.mul(torch.bmm(scaled[run], h.sign()), readout[run], out=first_layer[run])
    torch.neg(g_weight_2[:, 1], out=g_weight_2[:, 0])
    torch.sum(g, -1, out=g_bias_2[:, 0, 1])
    torch.neg(g_bias_2[..., 1], out=g_bias_2[..., 0])


def split(theta: Tensor, features: int, hidden: int) -> Parts:
    """Return views of the rows of ``theta``: ``[features, hidden]``, ``[1, hidden]``, ``[2, hidden]``, ``[1, 2]``."""
    runs, a, b = len(theta), features * hidden, (features + 1) * hidden
    return (
        theta[:, :a].view(runs, features, hidden),
        theta[:, a:b].view(runs, 1, hidden),
        theta[:, b : b + 2 * hidden].view(runs, 2, hidden),
        theta[:, b + 2 * hidden :].view(runs, 1, 2),
    )


class MLP(RunNetwork):
    """A stack of independent perceptrons: ``[runs, batch, features] -> [runs, batch]`` logits.

    All weights of a run lie in one row of ``weight``, so that an update is a few operations on one tensor.
    Weights and biases start uniform in ``±1/sqrt(fan_in)`` like PyTorch's linear layer, each run from its own seed.
    """

    name = "mlp"
    family = "mlp"
    images = False
    meaning = "one hidden layer of 500 ReLU units; images are flattened"
    capacity: ClassVar[Mapping[str, int]] = {"cpu": 64, "cuda": 256}
    probe: ClassVar[Mapping[str, tuple[int, int]]] = {"cpu": (2, 128), "cuda": (32, 128)}

    def __init__(
        self,
        seeds: Tensor,
        shape: tuple[int, ...],
        stream: str = "init",
        dtype: torch.dtype = torch.float32,
        precision: str = "float32",
        hidden: int = 500,
    ) -> None:
        super().__init__(seeds, shape, stream, dtype, precision)
        features = prod(shape)
        self.features, self.hidden = features, hidden
        size = (features + 3) * hidden + 2
        theta = 2 * random.uniform(seeds, stream, (size,), dtype=torch.float64) - 1
        for part, fan_in in zip(split(theta, features, hidden), (features, features, hidden, hidden), strict=True):
            part.mul_(fan_in**-0.5)
        self.weight = nn.Parameter(theta.to(dtype))

    def parts(self) -> Parts:
        """Return views of the first layer's weights and biases and the second's, as ``split`` says."""
        return split(self.weight, self.features, self.hidden)

    def decays(self) -> list[Tensor]:
        """Return where weight decay acts, one mask per parameter: on weights, not on biases."""
        mask = torch.ones_like(self.weight[:1])
        _, bias_1, _, bias_2 = split(mask, self.features, self.hidden)
        bias_1.zero_()
        bias_2.zero_()
        return [mask]

    def heads(self, x: Tensor) -> Tensor:
        """Return both outputs, ``[runs, batch, 2]``."""
        weight_1, bias_1, weight_2, bias_2 = self.parts()
        hidden = torch.baddbmm(bias_1, x.flatten(2), weight_1).relu()
        return torch.baddbmm(bias_2, hidden, weight_2.transpose(1, 2))

    def forward(self, x: Tensor) -> Tensor:
        """Return the logit ``z1 - z0``, ``[runs, batch]``; inputs get no gradient."""
        x = x.flatten(2)
        if torch.is_grad_enabled() or kernels.available(self.weight):
            return _Logit.apply(x, self.weight, self.hidden)
        return tiled_forward(x, self.weight, self.hidden)
