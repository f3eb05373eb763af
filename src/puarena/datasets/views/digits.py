"""Views of small gray images, stored as one row of numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import pi

import torch
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample

from puarena.random import Draws


@dataclass(frozen=True)
class AffineView:
    """Flip (probability 1/2), rotation, shift and jitter of brightness and contrast.

    Pixels are resampled to the nearest one, as in the published pipeline. ``black`` is the value of
    an empty pixel after normalization and ``white`` that of a full one; both bound the jitter.
    """

    side: tuple[int, int]
    rotation: float  # degrees, either way
    shift: float = 0.0  # fraction of the side, either way
    jitter: float = 0.0  # brightness and contrast factors in 1 ± jitter
    black: float = 0.0
    white: float = 1.0

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape unchanged."""
        return shape

    def draws(self, draws: Draws, name: str, n: int) -> dict[str, Tensor]:
        """Return uniform numbers for ``n`` images per step and run, ``[steps, runs, n]`` each."""
        wanted = ["flip", "rotation"]
        wanted += ["shift_x", "shift_y"] if self.shift else []
        wanted += ["brightness", "contrast"] if self.jitter else []
        return {key: draws.uniform(f"view:{name}:{key}", n) for key in wanted}

    def __call__(self, x: Tensor, u: Mapping[str, Tensor]) -> Tensor:
        """Return the view of ``x`` (``[runs, n, height * width]``)."""
        images = x.reshape(-1, 1, *self.side) - self.black
        angle = ((2 * u["rotation"] - 1) * self.rotation * pi / 180).reshape(-1)
        mirror = torch.where(u["flip"] < 0.5, -1.0, 1.0).to(x.dtype).reshape(-1)
        zero = torch.zeros_like(angle)
        dx, dy = (
            (2 * u[k] - 1).reshape(-1) * 2 * self.shift if self.shift else zero
            for k in ("shift_x", "shift_y")
        )
        cos, sin = torch.cos(angle), torch.sin(angle)
        top = torch.stack([mirror * cos, -mirror * sin, dx], -1)
        bottom = torch.stack([sin, cos, dy], -1)
        grid = affine_grid(torch.stack([top, bottom], 1), list(images.shape), align_corners=False)
        moved = grid_sample(images, grid, mode="nearest", padding_mode="zeros", align_corners=False)
        if self.jitter:
            span = self.white - self.black
            bright, contrast = (
                (1 + (2 * u[k] - 1) * self.jitter).reshape(-1, 1, 1, 1)
                for k in ("brightness", "contrast")
            )
            moved = (moved * bright).clamp(0, span)
            mean = moved.mean((1, 2, 3), keepdim=True)
            moved = (mean + (moved - mean) * contrast).clamp(0, span)
        return (moved + self.black).reshape(x.shape)
