"""Which examples a step sees: each set in shuffled order without replacement, the last incomplete batch dropped."""

from __future__ import annotations

import torch
from torch import Tensor

from puarena import random


class Cycle:
    """Endless shuffled passes over ``0 … n - 1`` in batches of ``batch``, for every run from its own seed."""

    def __init__(self, seeds: Tensor, name: str, n: int, batch: int) -> None:
        self.seeds, self.name, self.n, self.batch = seeds, name, n, batch
        self.per_pass = n // batch
        self._pass = -1
        self._order = torch.empty(0)

    def _shuffled(self, first: int, last: int) -> Tensor:
        """Return the batches of passes ``first … last``, ``[passes * per_pass, runs, batch]``; the last is kept."""
        if first == last == self._pass:
            return self._order
        order = random.permutation(
            self.seeds, f"order:{self.name}", self.n, last - first + 1, start=first
        )
        batches = (
            order[..., : self.per_pass * self.batch]
            .reshape(len(self.seeds), -1, self.batch)
            .transpose(0, 1)
        )
        self._pass, self._order = last, batches[-self.per_pass :].clone()
        return batches

    def block(self, start: int, count: int) -> Tensor:
        """Return the positions of steps ``start … start + count - 1``, ``int64 [count, runs, batch]``."""
        first, last = start // self.per_pass, (start + count - 1) // self.per_pass
        begin = start - first * self.per_pass
        return self._shuffled(first, last)[begin : begin + count]
