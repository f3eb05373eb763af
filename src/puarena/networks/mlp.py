"""The protocol's multilayer perceptron: one hidden layer of 500 ReLU units, two outputs, ``f = z1 - z0``."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from puarena import random
from puarena.networks import fused
from puarena.networks.base import RunNetwork

Parts = tuple[Tensor, Tensor, Tensor, Tensor]


class _Logit(torch.autograd.Function):
    """``f = relu(x W1 + b1) (w2[1] - w2[0]) + b2[1] - b2[0]`` with its gradient written out.

    Only the difference of the two output columns matters for the logit, so the second layer is a weighted sum instead
    of a thin matrix product (several times slower on a CPU); its columns get opposite gradients.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, theta: Tensor, hidden_units: int) -> Tensor:
        weight_1, bias_1, weight_2, bias_2 = split(theta, x.shape[-1], hidden_units)
        if fused.available(theta):
            hidden = torch.bmm(x, weight_1)
            f = fused.finish_forward(hidden, theta, x.shape[-1])
        else:
            hidden = torch.baddbmm(bias_1, x, weight_1).relu_()
            readout = weight_2[:, 1] - weight_2[:, 0]
            f = (hidden * readout.unsqueeze(1)).sum(-1) + (bias_2[..., 1] - bias_2[..., 0])
        ctx.save_for_backward(x, hidden, theta)
        return f

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (g,) = grads
        x, hidden, theta = ctx.saved_tensors
        out = torch.empty_like(theta)
        g_weight_1, g_bias_1, g_weight_2, g_bias_2 = split(out, x.shape[-1], hidden.shape[-1])
        if fused.available(theta):
            g_hidden = fused.start_backward(g, hidden, theta, out, x.shape[-1])
        else:
            _, _, weight_2, _ = split(theta, x.shape[-1], hidden.shape[-1])
            readout = weight_2[:, 1] - weight_2[:, 0]
            g_hidden = torch.ops.aten.threshold_backward(g.unsqueeze(-1) * readout.unsqueeze(1), hidden, 0)
            torch.sum(g_hidden, 1, keepdim=True, out=g_bias_1)
            torch.bmm(g.unsqueeze(1), hidden, out=g_weight_2[:, 1:])
            torch.neg(g_weight_2[:, 1], out=g_weight_2[:, 0])
            torch.sum(g, -1, out=g_bias_2[:, 0, 1])
            torch.neg(g_bias_2[..., 1], out=g_bias_2[..., 0])
        torch.bmm(x.transpose(1, 2), g_hidden, out=g_weight_1)
        return None, out, None  # inputs are data


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

    def __init__(
        self,
        seeds: Tensor,
        features: int,
        hidden: int = 500,
        stream: str = "init",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
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
        hidden = torch.baddbmm(bias_1, x, weight_1).relu()
        return torch.baddbmm(bias_2, hidden, weight_2.transpose(1, 2))

    def forward(self, x: Tensor) -> Tensor:
        """Return the logit ``z1 - z0``, ``[runs, batch]``; inputs get no gradient."""
        return _Logit.apply(x, self.weight, self.hidden)
