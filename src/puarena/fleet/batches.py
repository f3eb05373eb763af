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

    def _shuffled(self, number: int) -> Tensor:
        """Return the batches of pass ``number``, ``[per_pass, runs, batch]``."""
        if number != self._pass:
            order = random.permutation(self.seeds, f"order:{self.name}", self.n, start=number).squeeze(1)
            used = order[:, : self.per_pass * self.batch]
            self._order = used.reshape(len(self.seeds), self.per_pass, self.batch).transpose(0, 1)
            self._pass = number
        return self._order

    def block(self, start: int, count: int) -> Tensor:
        """Return the positions of steps ``start … start + count - 1``, ``int64 [count, runs, batch]``."""
        parts = []
        while count > 0:
            number, offset = divmod(start, self.per_pass)
            taken = self._shuffled(number)[offset : offset + count]
            parts.append(taken)
            start, count = start + len(taken), count - len(taken)
        return torch.cat(parts)
