"""Views of a batch: augmentation as tensor code, with randomness from each run's own stream.

A view maps inputs ``[runs, n, …]`` and this step's draws ``{name: [runs, n, …]}`` to the input of a
network. The draws are made in advance for a block of steps, so that a view reads nothing from the
host.

Datasets build their views of the parts in this folder. Importing this package does not import
torch; the parts do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torch import Tensor

    from puarena.random import Draws

__all__ = ["View", "Views"]


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
