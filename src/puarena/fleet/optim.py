"""SGD with momentum on the run axis: every parameter is ``[runs, …]``, learning rate and momentum are ``[runs]``."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from puarena.networks import RunNetwork, kernels


def _like(per_run: Tensor, parameter: Tensor) -> Tensor:
    return per_run.view(-1, *[1] * (parameter.dim() - 1))


class RunSGD:
    """The update of ``torch.optim.SGD``, with one learning rate per run and rows that can be left alone.

    Weight decay acts where the network's ``decays()`` says: one mask per parameter.
    """

    def __init__(
        self, network: RunNetwork, lr: Tensor, momentum: Tensor, weight_decay: float = 0.0, nesterov: bool = False
    ) -> None:
        self.parameters = list(network.parameters())
        self.buffers = [torch.zeros_like(p) for p in self.parameters]
        self.descent, self.momentum, self.nesterov = -lr, momentum, nesterov
        self.decays = [mask * weight_decay for mask in network.decays()] if weight_decay else []

    @torch.no_grad()
    def step(self, grads: Sequence[Tensor], factor: Tensor | None = None, active: Tensor | None = None) -> None:
        """Apply one update; ``factor`` scales the learning rate, rows where ``active`` is False stay as they are."""
        rate = self.descent if factor is None else self.descent * factor
        if self.decays:
            grads = [g.addcmul(p, d) for g, p, d in zip(grads, self.parameters, self.decays, strict=True)]
        kept = [] if active is None else [t.clone() for t in (*self.parameters, *self.buffers)]
        for p, g, buffer in zip(self.parameters, grads, self.buffers, strict=True):
            if not self.nesterov and p.is_cuda and p.is_contiguous() and g.is_contiguous() and kernels.installed():
                from puarena.fleet.sgd_kernel import sgd_

                sgd_(p, g, buffer, rate, self.momentum)
                continue
            momentum = _like(self.momentum, p)
            buffer.mul_(momentum).add_(g)
            p.addcmul_(torch.addcmul(g, buffer, momentum) if self.nesterov else buffer, _like(rate, p))
        if active is not None:  # also undoes what a gradient that is not finite did
            for now, before in zip((*self.parameters, *self.buffers), kept, strict=True):
                now.copy_(torch.where(_like(active, now), now, before))

    def state(self) -> dict[str, Tensor]:
        """Return what changes besides the parameters, by name."""
        return {"descent": self.descent, **{f"momentum.{i}": buffer for i, buffer in enumerate(self.buffers)}}

    @torch.no_grad()
    def freeze(self, rows: Tensor) -> None:
        """Stop the rows where the bool tensor ``rows`` is True: zero parameters, momentum and learning rate."""
        for tensor in (*self.parameters, *self.buffers):
            tensor.masked_fill_(_like(rows, tensor), 0.0)
        self.descent.masked_fill_(rows, 0.0)
