"""What a view is, and how a random number becomes a whole one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from torch import Tensor

from puarena.random import Draws


class View(Protocol):
    """What a view offers."""

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of one viewed input from that of a stored one."""

    def draws(self, draws: Draws, name: str, n: int) -> dict[str, Tensor]:
        """Return random numbers for ``n`` inputs per step and run, ``[steps, runs, n, …]`` each."""

    def __call__(self, x: Tensor, u: Mapping[str, Tensor]) -> Tensor:
        """Return the view of ``x`` (``[runs, n, …]``) with one step's draws."""


def pick(u: Tensor, count: int) -> Tensor:
    """Return the whole numbers ``0 … count - 1`` that uniform draws stand for (a product may be rounded up)."""
    return (u * count).long().clamp_(max=count - 1)
