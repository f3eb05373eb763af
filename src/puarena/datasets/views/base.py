"""What a view is, which ones go together, and how a random number becomes a whole one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torch import Tensor

    from puarena.random import Draws


class View(Protocol):
    """What a view offers. Views are frozen dataclasses: equal, hashed and printed by their values."""

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of one viewed input from that of a stored one."""

    def draws(self, draws: Draws, name: str, n: int) -> dict[str, Tensor]:
        """Return random numbers for ``n`` inputs per step and run, ``[steps, runs, n, …]`` each."""

    def __call__(self, x: Tensor, u: Mapping[str, Tensor]) -> Tensor:
        """Return the view of ``x`` (``[runs, n, …]``) with one step's draws."""


@dataclass(frozen=True)
class Views:
    """The weak and the strong view a dataset is trained with, and the view that evaluation has of it; None leaves
    inputs as they are."""

    weak: View | None = None
    strong: View | None = None
    evaluation: View | None = None


def pick(u: Tensor, count: int) -> Tensor:
    """Return the whole numbers ``0 … count - 1`` that uniform draws stand for (a product may be rounded up)."""
    return (u * count).long().clamp_(max=count - 1)
