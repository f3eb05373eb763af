"""The protocol's multilayer perceptron: one hidden layer of 500 ReLU units, two outputs, ``f = z1 - z0``."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from puarena import random


class _Logit(torch.autograd.Function):
    """``f = relu(x W1 + b1) (w2[1] - w2[0]) + b2[1] - b2[0]`` with its gradient written out.

    Only the difference of the two output columns matters for the logit, so the second layer is a weighted sum instead
    of a thin matrix product (several times slower on a CPU); its columns get opposite gradients.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight_1: Tensor, bias_1: Tensor, weight_2: Tensor, bias_2: Tensor) -> Tensor:
        hidden = torch.baddbmm(bias_1, x, weight_1).relu_()
        readout = weight_2[..., 1] - weight_2[..., 0]
        ctx.save_for_backward(x, hidden, readout)
        return (hidden * readout.unsqueeze(1)).sum(-1) + (bias_2[..., 1] - bias_2[..., 0])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (g,) = grads
        x, hidden, readout = ctx.saved_tensors
        g_hidden = torch.ops.aten.threshold_backward(g.unsqueeze(-1) * readout.unsqueeze(1), hidden, 0)
        g_readout = torch.bmm(g.unsqueeze(1), hidden).squeeze(1)
        g_bias = g.sum(-1)[:, None, None]
        return (
            None,  # inputs are data
            torch.bmm(x.transpose(1, 2), g_hidden),
            g_hidden.sum(1, keepdim=True),
            torch.stack([-g_readout, g_readout], -1),
            torch.cat([-g_bias, g_bias], -1),
        )


class MLP(nn.Module):
    """A stack of independent perceptrons: ``[runs, batch, features] -> [runs, batch]`` logits.

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

        def start(name: str, fan_in: int, *shape: int) -> nn.Parameter:
            u = random.uniform(seeds, f"{stream}:{name}", shape, dtype=torch.float64)
            return nn.Parameter(((2 * u - 1) * fan_in**-0.5).to(dtype))

        self.weight_1 = start("weight_1", features, features, hidden)
        self.bias_1 = start("bias_1", features, 1, hidden)
        self.weight_2 = start("weight_2", hidden, hidden, 2)
        self.bias_2 = start("bias_2", hidden, 1, 2)

    def heads(self, x: Tensor) -> Tensor:
        """Return both outputs, ``[runs, batch, 2]``."""
        hidden = torch.baddbmm(self.bias_1, x, self.weight_1).relu()
        return torch.baddbmm(self.bias_2, hidden, self.weight_2)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logit ``z1 - z0``, ``[runs, batch]``; inputs get no gradient."""
        return _Logit.apply(x, self.weight_1, self.bias_1, self.weight_2, self.bias_2)
