"""Running averages of networks (teachers)."""

from __future__ import annotations

from copy import deepcopy

import torch
from torch import Tensor, nn


def frozen_copy(network: nn.Module) -> nn.Module:
    """Return a copy of a network that no gradient reaches."""
    return deepcopy(network).requires_grad_(False)


@torch.no_grad()
def ema_(average: nn.Module, network: nn.Module, decay: float) -> None:
    """Move the average: ``decay * average + (1 - decay) * network``, parameter by parameter; buffers are copied."""
    torch._foreach_lerp_(list(average.parameters()), list(network.parameters()), 1 - decay)
    for mine, theirs in zip(average.buffers(), network.buffers(), strict=True):
        mine.copy_(theirs)


@torch.no_grad()
def move_(average: nn.Module, network: nn.Module, by: Tensor) -> None:
    """Move an average's parameters by a part (0-dim, 0 to 1) of the way to a network's; its buffers stay its own."""
    mine: list[Tensor] = list(average.parameters())
    theirs: list[Tensor] = list(network.parameters())
    torch._foreach_lerp_(mine, theirs, [by] * len(mine))
