"""SGD with momentum on the run axis: every parameter is ``[runs, …]``, learning rate and momentum are ``[runs]``."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn


def _like(per_run: Tensor, parameter: Tensor) -> Tensor:
    return per_run.view(-1, *[1] * (parameter.dim() - 1))


class RunSGD:
    """The update of ``torch.optim.SGD``, with one learning rate per run and rows that can be left alone.

    Weight decay acts on weights only: not on biases and normalisation, whose shape is a single row per run.
    """

    def __init__(
        self,
        network: nn.Module,
        lr: Tensor,
        momentum: Tensor,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        self.parameters = list(network.parameters())
        self.buffers = [torch.zeros_like(p) for p in self.parameters]
        self.lr, self.momentum = lr, momentum
        self.nesterov = nesterov
        self.decay = [weight_decay if name.split(".")[-1].startswith("weight") else 0.0 for name, _ in network.named_parameters()]

    @torch.no_grad()
    def step(self, grads: Iterable[Tensor], factor: Tensor, active: Tensor | None = None) -> None:
        """Apply one update; ``factor`` scales the learning rate, rows where ``active`` is False stay as they are."""
        rate = -self.lr * factor
        if active is not None:
            rate = torch.where(active, rate, torch.zeros_like(rate))
        for p, g, buffer, decay in zip(self.parameters, grads, self.buffers, self.decay, strict=True):
            if decay:
                g = g.add(p, alpha=decay)
            moved = torch.mul(buffer, _like(self.momentum, p)).add_(g)
            if active is not None:
                moved = torch.where(_like(active, p), moved, buffer)
            buffer.copy_(moved)
            direction = g + buffer * _like(self.momentum, p) if self.nesterov else buffer
            p.addcmul_(direction, _like(rate, p))

    @torch.no_grad()
    def freeze(self, rows: Tensor) -> None:
        """Stop the rows where the bool tensor ``rows`` is True: zero parameters, momentum and learning rate."""
        for tensor in (*self.parameters, *self.buffers):
            tensor.masked_fill_(_like(rows, tensor), 0.0)
        self.lr.masked_fill_(rows, 0.0)
