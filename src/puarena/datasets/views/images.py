"""Views of color images: bytes are moved and changed, then normalized."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from puarena.datasets.views import View
from puarena.random import Draws

Channels = tuple[float, float, float]


@lru_cache
def _constants(
    mean: Channels, std: Channels, device: torch.device, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Return the factor and the offset of bytes, ``[3, 1, 1]`` each, on a device."""
    scale = [1 / (255 * s) for s in std]
    offset = [-m / s for m, s in zip(mean, std, strict=True)]
    first, second = (
        torch.tensor(v, dtype=dtype, device=device).view(-1, 1, 1) for v in (scale, offset)
    )
    return first, second


@dataclass(frozen=True)
class ImageView:
    """Parts that map bytes ``[runs, n, 3, height, width]`` to bytes in turn, and normalization.

    The result has the draws' type, or single precision without draws.
    """

    mean: Channels
    std: Channels
    parts: tuple[View, ...] = ()

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of one viewed image from that of a stored one."""
        for part in self.parts:
            shape = part.shape(shape)
        return shape

    def draws(self, draws: Draws, name: str, n: int) -> dict[str, Tensor]:
        """Return the random numbers of all parts."""
        # Made here, because a step must not copy them from the host.
        _constants(self.mean, self.std, draws.seeds.device, draws.dtype)
        return {
            key: values for part in self.parts for key, values in part.draws(draws, name, n).items()
        }

    def __call__(self, x: Tensor, u: Mapping[str, Tensor]) -> Tensor:
        """Return the view of ``x``."""
        for part in self.parts:
            x = part(x, u)
        dtype = next((values.dtype for values in u.values()), torch.float32)
        scale, offset = _constants(self.mean, self.std, x.device, dtype)
        return torch.addcmul(offset, x, scale)
