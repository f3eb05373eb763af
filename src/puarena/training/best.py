"""The best checkpoint of every row, kept on the device while the fleet trains on."""

from __future__ import annotations

import torch
from torch import Tensor

from puarena import metrics
from puarena.algorithms import Algorithm, Phase


class Best:
    """Each row's networks at the record that a criterion liked best so far (the first of equals).

    Records of a phase that is not selectable, and rows that are lost, do not count. What ``Algorithm.outputs`` reads
    must be parameters or a network's buffers; teachers are networks.
    """

    def __init__(self, algorithm: Algorithm, criterion: str) -> None:
        self.algorithm, self.criterion = algorithm, metrics.criterion(criterion)
        like = algorithm.prior
        self.value = torch.full_like(like, -self.criterion.sign * float("inf"), dtype=torch.float64)
        self.step = torch.full_like(like, -1, dtype=torch.int64)
        self.kept = {name: tensor.detach().clone() for name, tensor in self._now().items()}

    def _now(self) -> dict[str, Tensor]:
        """Return the parameters, and the buffers of networks (running statistics), ``[runs, …]`` each."""
        children = self.algorithm.named_children()
        buffers = {
            f"{child}.{name}": b
            for child, network in children
            for name, b in network.named_buffers()
        }
        return {**dict(self.algorithm.named_parameters()), **buffers}

    def state(self) -> dict[str, Tensor]:
        """Return all that is kept, by name."""
        kept = {f"kept.{name}": tensor for name, tensor in self.kept.items()}
        return {"value": self.value, "step": self.step, **kept}

    @torch.no_grad()
    def offer(self, step: int, phase: Phase, value: Tensor, lost: Tensor) -> None:
        """Keep the present state of the rows whose ``value`` (``[runs]``) is the best yet."""
        if not phase.selectable:
            return
        sign = self.criterion.sign
        better = (sign * value > sign * self.value) & ~lost
        self.value = torch.where(better, value, self.value)
        self.step = torch.where(better, torch.full_like(self.step, step), self.step)
        for name, now in self._now().items():
            rows = better.view(-1, *[1] * (now.dim() - 1))
            self.kept[name].copy_(torch.where(rows, now, self.kept[name]))

    @torch.no_grad()
    def restore(self) -> None:
        """Put every row back to its best state."""
        for name, now in self._now().items():
            now.copy_(self.kept[name])
