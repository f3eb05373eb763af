"""Crops, resized crops, affine maps and cut-outs.

Images are bytes, ``[…, channels, height, width]``. Nothing is padded: the source of every pixel is
computed, and all pixels are fetched in one gather.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import log, pi

import torch
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample

from puarena.datasets.views import pick
from puarena.random import Draws

GRAY = 127


def fetch(x: Tensor, row: Tensor, column: Tensor) -> Tensor:
    """Return the pixels of ``x`` in every channel.

    The rows and columns broadcast to ``[…, height, width]``.
    """
    index = row * x.shape[-1] + column
    flat = index.flatten(-2).unsqueeze(-2).expand(*x.shape[:-2], -1)
    return x.flatten(-2).gather(-1, flat).unflatten(-1, index.shape[-2:])


def crop_shape(shape: tuple[int, ...], side: int | None) -> tuple[int, ...]:
    """Return the shape of a square crop; a side that an image does not have is left as it is."""
    return shape if side is None else (*shape[:-2], min(side, shape[-2]), min(side, shape[-1]))


@dataclass(frozen=True)
class CenterCrop:
    """The middle of an image; the whole image if it is not larger."""

    side: int

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the crop."""
        return crop_shape(shape, self.side)

    def draws(self, draws: Draws, name: str, n: int) -> dict[str, Tensor]:
        """Return nothing: the crop is not random."""
        return {}

    def __call__(self, x: Tensor, u: Mapping[str, Tensor]) -> Tensor:
        """Return the middle of ``x``."""
        height, width = self.shape(x.shape)[-2:]
        top, left = (x.shape[-2] - height) // 2, (x.shape[-1] - width) // 2
        return x[..., top : top + height, left : left + width]


@dataclass(frozen=True)
class RandomCrop:
    """Mirror with probability 1/2, pad by reflection, cut a window out at random.

    ``side`` is that of the window; None means the image's own. Reflection needs an image that is
    larger than the padding.
    """

    side: int | None = None
    padding: int = 0

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the window."""
        return crop_shape(shape, self.side)

    def draws(self, draws: Draws, name: str, n: int) -> dict[str, Tensor]:
        """Return uniform numbers for ``n`` images per step and run."""
        return {key: draws.uniform(f"view:{name}:{key}", n) for key in ("flip", "top", "left")}

    def __call__(self, x: Tensor, u: Mapping[str, Tensor]) -> Tensor:
        """Return the windows of ``x``."""
        height, width = self.shape(x.shape)[-2:]
        row = self._source(u["top"], x.shape[-2], height)
        column = self._source(u["left"], x.shape[-1], width)
        column = torch.where(u["flip"].unsqueeze(-1) < 0.5, x.shape[-1] - 1 - column, column)
        return fetch(x, row.unsqueeze(-1), column.unsqueeze(-2))

    def _source(self, u: Tensor, length: int, size: int) -> Tensor:
        """Return the source of each of the window's ``size`` pixels on an axis of ``length``."""
        start = pick(u, length + 2 * self.padding - size + 1) - self.padding
        place = start.unsqueeze(-1) + torch.arange(size, device=u.device)
        last = length - 1
        return last - (last - place.abs()).abs() if self.padding else place


@dataclass(frozen=True)
class ResizedCrop:
    """Cut out a window of random area and aspect ratio, resize it, mirror it with probability 1/2.

    As torchvision's RandomResizedCrop: of ten tries the first window that fits is used, otherwise
    the largest central one of an allowed aspect ratio. Pixels are interpolated between four
    neighbors. Pillow averages over a little more when it shrinks, a negligible difference for 73
    pixels to 64.
    """

    side: int
    area: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    tries: int = 10

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the resized window."""
        return crop_shape(shape, self.side)

    def draws(self, draws: Draws, name: str, n: int) -> dict[str, Tensor]:
        """Return uniform numbers for ``n`` images per step and run."""
        once = {key: draws.uniform(f"view:{name}:{key}", n) for key in ("flip", "top", "left")}
        return once | {
            key: draws.uniform(f"view:{name}:{key}", n, self.tries) for key in ("area", "ratio")
        }

    def window(
        self, u: Mapping[str, Tensor], height: int, width: int
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return top, left, height and width of the windows, whole numbers as floats."""
        low, high = log(self.ratio[0]), log(self.ratio[1])
        ratio = torch.exp(low + (high - low) * u["ratio"])
        area = height * width * (self.area[0] + (self.area[1] - self.area[0]) * u["area"])
        wide, tall = (area * ratio).sqrt().round(), (area / ratio).sqrt().round()
        fits = (wide > 0) & (wide <= width) & (tall > 0) & (tall <= height)
        first = fits.byte().argmax(-1, keepdim=True)
        fitting = fits.any(-1)
        central_h = min(height, round(width / self.ratio[0]))
        central_w = min(width, round(height * self.ratio[1]))
        tall = torch.where(fitting, tall.gather(-1, first).squeeze(-1), central_h)
        wide = torch.where(fitting, wide.gather(-1, first).squeeze(-1), central_w)
        top = torch.where(
            fitting, (u["top"] * (height - tall + 1)).floor(), (height - central_h) // 2
        )
        left = torch.where(
            fitting, (u["left"] * (width - wide + 1)).floor(), (width - central_w) // 2
        )
        return torch.minimum(top, height - tall), torch.minimum(left, width - wide), tall, wide

    def __call__(self, x: Tensor, u: Mapping[str, Tensor]) -> Tensor:
        """Return the resized windows of ``x``."""
        height, width = x.shape[-2:]
        out_h, out_w = self.shape(x.shape)[-2:]
        top, left, tall, wide = self.window(u, height, width)
        row = _place_pixels(top, tall, out_h) * (2 / height) - 1
        column = _place_pixels(left, wide, out_w) * (2 / width) - 1
        column = torch.where(u["flip"].unsqueeze(-1) < 0.5, column.flip(-1), column)
        size = (*x.shape[:2], out_h, out_w)
        grid = torch.stack([column.unsqueeze(-2).expand(size), row.unsqueeze(-1).expand(size)], -1)
        images = x.to(grid.dtype).flatten(0, 1)
        seen = grid_sample(
            images, grid.flatten(0, 1), mode="bilinear", padding_mode="border", align_corners=False
        )
        return seen.round().byte().unflatten(0, x.shape[:2])


def _place_pixels(start: Tensor, length: Tensor, size: int) -> Tensor:
    """Return the places of ``size`` pixels in a window, at least half a pixel from its border."""
    start, length = start.unsqueeze(-1), length.unsqueeze(-1)
    place = (torch.arange(size, device=start.device) + 0.5) * (length / size)
    return start + torch.minimum(place.clamp(min=0.5), length - 0.5)


def warp(x: Tensor, maps: Tensor) -> Tensor:
    """Move the pixels of ``x`` (``[n, channels, height, width]``) by affine maps, as Pillow does.

    ``maps`` is ``[n, 6]``.

    A map leads from a pixel of the result to its source; outside of the image it is black. Its
    numbers are Pillow's 16.16 fixed-point ones: what a column, a row and the origin add to the
    source's column, and then to its row.
    """
    height, width = x.shape[-2:]
    across = torch.arange(width, device=x.device)
    down = torch.arange(height, device=x.device).unsqueeze(-1)
    a, b, c, d, e, f = maps[:, None, None].unbind(-1)
    column, row = (c + b * down + a * across) >> 16, (f + e * down + d * across) >> 16
    near_column, near_row = column.clamp(0, width - 1), row.clamp(0, height - 1)
    outside = (column != near_column) | (row != near_row)
    return fetch(x, near_row, near_column).masked_fill(outside.unsqueeze(1), 0)


@dataclass(frozen=True)
class CutOut:
    """A gray square around a random point; the part outside of the image is lost.

    ``side`` is that of the square; None draws it evenly from 0 to half the image's width. As in the
    published code a square that would begin above or left of the image begins at its border. That
    code paints one row and one column more, because its drawing routine counts both ends.
    """

    side: int | None = None

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape unchanged."""
        return shape

    def draws(self, draws: Draws, name: str, n: int) -> dict[str, Tensor]:
        """Return uniform numbers for ``n`` images per step and run."""
        wanted = ["cut_x", "cut_y"] + (["cut_side"] if self.side is None else [])
        return {key: draws.uniform(f"view:{name}:{key}", n) for key in wanted}

    def __call__(self, x: Tensor, u: Mapping[str, Tensor]) -> Tensor:
        """Return ``x`` without its squares."""
        height, width = x.shape[-2:]
        side = pick(u["cut_side"], width // 2 + 1).unsqueeze(-1) if self.side is None else self.side
        rows, columns = (
            _find_covered(u["cut_y"], height, side),
            _find_covered(u["cut_x"], width, side),
        )
        return x.masked_fill((rows.unsqueeze(-1) & columns.unsqueeze(-2)).unsqueeze(-3), GRAY)


def _find_covered(u: Tensor, length: int, side: Tensor | int) -> Tensor:
    """Return which pixels of an axis a square around a random point covers, ``[…, length]``."""
    start = (u.unsqueeze(-1) * length - side / 2).clamp(min=0).floor()
    place = torch.arange(length, device=u.device)
    return (place >= start) & (place < start + side)


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
