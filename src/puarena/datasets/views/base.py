"""The interface of views, and the whole numbers that uniform draws stand for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torch import Tensor

    from puarena.random import Draws


class View(Protocol):
    """The interface of a view. Views are frozen dataclasses: compared and hashed by value."""

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of one viewed input from that of a stored one."""

    def draws(self, draws: Draws, name: str, n: int) -> dict[str, Tensor]:
        """Return random numbers for ``n`` inputs per step and run, ``[steps, runs, n, …]`` each."""

    def __call__(self, x: Tensor, u: Mapping[str, Tensor]) -> Tensor:
        """Return the view of ``x`` (``[runs, n, …]``) with one step's draws."""


@dataclass(frozen=True)
class Views:
    """The weak and the strong view for training, and the view for evaluation; None is no change."""

    weak: View | None = None
    strong: View | None = None
    evaluation: View | None = None


def pick(u: Tensor, count: int) -> Tensor:
    """Return the whole numbers ``0 … count - 1`` that uniform draws stand for.

    A product may be rounded up to ``count``.
    """
    return (u * count).long().clamp_(max=count - 1)
