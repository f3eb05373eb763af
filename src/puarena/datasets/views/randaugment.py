"""RandAugment with FixMatch's operations, drawn with magnitude and direction for every image."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import cos, radians, sin
from typing import NamedTuple

import torch
from torch import Tensor

from puarena.datasets.views import pick
from puarena.datasets.views.geometry import warp
from puarena.random import Draws

OPERATIONS = (
    "autocontrast",
    "brightness",
    "color",
    "contrast",
    "equalize",
    "identity",
    "posterize",
    "rotate",
    "sharpness",
    "shear x",
    "shear y",
    "solarize",
    "translate x",
    "translate y",
)
MAGNITUDES = tuple(range(1, 10))  # of ten
CHOICES = tuple(product(OPERATIONS, MAGNITUDES, (1, -1)))  # a choice is known by its place here
NO_CHOICE = len(CHOICES)


class _Settings(NamedTuple):
    """The operations of all choices, and of no choice: ``[choices + 1, …]``."""

    operation: Tensor  # index into OPERATIONS
    table: Tensor  # of gray levels, if it does not depend on the image
    contrast: Tensor  # factor of the blend with the mean; 1 changes nothing
    mix: Tensor  # factor of the blend with a gray or a smooth image; 1 changes nothing
    maps: Tensor  # ``[choices + 1, 5, 6]``, see ``_make_map``


@lru_cache
def get_settings(device: torch.device) -> _Settings:
    """Return the operations on a device; a step that copied them there could not be captured."""
    rows = [*CHOICES, ("identity", 1, 1)]

    def factors(*blends: str) -> Tensor:
        return torch.tensor(
            [_blend_factor(m) if operation in blends else 1.0 for operation, m, _ in rows],
            device=device,
        )

    return _Settings(
        operation=torch.tensor(
            [OPERATIONS.index(operation) for operation, _, _ in rows], device=device
        ),
        table=torch.tensor(
            [_make_table(operation, m) for operation, m, _ in rows],
            dtype=torch.uint8,
            device=device,
        ),
        contrast=factors("contrast"),
        mix=factors("color", "sharpness"),
        maps=torch.tensor([_make_map(*row) for row in rows], dtype=torch.float64, device=device),
    )


def _blend_factor(m: int) -> float:
    return m * 0.9 / 10 + 0.05


def _make_table(operation: str, m: int) -> list[int]:
    levels = torch.arange(256)
    if operation == "brightness":
        return blend(torch.zeros(256), levels, torch.tensor(_blend_factor(m))).tolist()
    if operation == "posterize":
        step = 2 ** (8 - (int(m * 4 / 10) + 4))
        return (levels - levels % step).tolist()
    if operation == "solarize":
        return torch.where(levels < 256 - int(m * 256 / 10), levels, 255 - levels).tolist()
    return levels.tolist()


def _make_map(operation: str, m: int, sign: int) -> list[list[float]]:
    """Return an affine map from the middle of a pixel of the result to the source.

    It has five parts of six numbers: independent of the image size, multiplied by its width,
    by its height, and likewise for shifts, which are by whole pixels.
    """
    a, b, d, e = 1.0, 0.0, 0.0, 1.0
    parts = [[0.0] * 6 for _ in range(5)]
    slant = sign * m * 0.3 / 10
    if operation == "rotate":  # around the center
        angle = -radians(sign * int(m * 30 / 10))
        a, b, d, e = cos(angle), sin(angle), -sin(angle), cos(angle)
        parts[1] = [0, 0, (1 - a) / 2, 0, 0, -d / 2]
        parts[2] = [0, 0, -b / 2, 0, 0, (1 - e) / 2]
    elif operation == "shear x":
        b = slant
    elif operation == "shear y":
        d = slant
    elif operation == "translate x":
        parts[3][2] = slant
    elif operation == "translate y":
        parts[4][5] = slant
    parts[0] = [a, b, (a + b) / 2, d, e, (d + e) / 2]
    return parts


def _scale_maps(maps: Tensor, height: int, width: int) -> Tensor:
    """Return the affine maps for a size, in 16.16 fixed-point numbers, ``[choices + 1, 6]``."""
    fixed, by_width, by_height, shift_by_width, shift_by_height = maps.unbind(1)
    shift = (shift_by_width * width + shift_by_height * height).trunc()
    total = fixed + by_width * width + by_height * height + shift
    return (total * (1 << 16) + 0.5).floor().long()


def operate(x: Tensor, choice: Tensor) -> Tensor:
    """Apply to every image of ``x`` (bytes ``[n, 3, height, width]``) its choice (``[n]``).

    The operations have three groups: pixels are moved, gray levels are looked up, images are
    blended. Two of them leave an image as it is, so that a group can measure the image in ``x``.
    """
    known = get_settings(x.device)
    operation = known.operation[choice].view(-1, 1, 1)

    def chosen(name: str) -> Tensor:
        return operation == OPERATIONS.index(name)

    luminance = gray(x)
    table = known.table[choice].unsqueeze(1)
    table = torch.where(
        chosen("contrast"),
        make_contrast_table(luminance, known.contrast[choice].view(-1, 1, 1)),
        table,
    )
    table = torch.where(chosen("autocontrast"), make_autocontrast_table(x), table)
    table = torch.where(chosen("equalize"), make_equalize_table(x), table)
    base = torch.where(chosen("sharpness").unsqueeze(-1), smooth(x), luminance)
    moved = warp(x, _scale_maps(known.maps, *x.shape[-2:])[choice])
    return blend(base, lookup(moved, table), known.mix[choice].view(-1, 1, 1, 1))


@dataclass(frozen=True)
class RandAugment:
    """``layers`` operations in turn, drawn with replacement, each applied with a probability.

    The magnitude is drawn from 1 … 9 of ten, and with it a direction for operations that have one.
    """

    layers: int
    probability: float = 1.0

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape unchanged."""
        return shape

    def draws(self, draws: Draws, name: str, n: int) -> dict[str, Tensor]:
        """Return a uniform number per layer, ``[steps, runs, n, layers]``, which decides it."""
        get_settings(draws.seeds.device)
        return {"augment": draws.uniform(f"view:{name}:augment", n, self.layers)}

    def choices(self, u: Mapping[str, Tensor]) -> Tensor:
        """Return the choices, ``[…, layers]``."""
        return pick(u["augment"], round(len(CHOICES) / self.probability)).clamp_(max=NO_CHOICE)

    def __call__(self, x: Tensor, u: Mapping[str, Tensor]) -> Tensor:
        """Return ``x`` after all layers."""
        images = x.flatten(0, 1)
        for choice in self.choices(u).flatten(0, 1).unbind(-1):
            images = operate(images, choice)
        return images.view_as(x)


# Pillow's ImageOps and ImageEnhance on batches of images: bytes ``[n, 3, height, width]``. Every
# image has its own factor. An operation on single gray levels is a table ``[n, 3 or 1, 256]`` for
# ``lookup``; the others blend an image with a degenerate one. Results are those of Pillow, to the
# gray level.


def lookup(x: Tensor, table: Tensor) -> Tensor:
    """Replace every gray level by what the image's and channel's table has for it."""
    return table.expand(-1, x.shape[1], -1).gather(-1, x.flatten(-2).long()).view_as(x)


def blend(base: Tensor, x: Tensor, factor: Tensor) -> Tensor:
    """Return ``base`` (factor 0) to ``x`` (factor 1), cut down to whole gray levels."""
    base = base.float()
    return (base + factor * (x.float() - base)).byte()


def gray(x: Tensor) -> Tensor:
    """Return the luminance, ``[n, 1, height, width]``."""
    red, green, blue = x.int().split(1, 1)
    return ((19595 * red + 38470 * green + 7471 * blue + (1 << 15)) >> 16).byte()


def smooth(x: Tensor) -> Tensor:
    """Return averages over 3 x 3 pixels with a weight of 5 in the middle; the border is kept."""
    wide = x.float()
    across = wide[..., :-2] + wide[..., 1:-1] + wide[..., 2:]
    total = (
        across[..., :-2, :] + across[..., 1:-1, :] + across[..., 2:, :] + 4 * wide[..., 1:-1, 1:-1]
    )
    result = x.clone()
    result[..., 1:-1, 1:-1] = (total / 13 + 0.5).byte()
    return result


def make_contrast_table(luminance: Tensor, factor: Tensor) -> Tensor:
    """Return the table that moves gray levels to the mean; ``factor`` is ``[n, 1, 1]``."""
    flat = luminance.flatten(-2)
    count = flat.shape[-1]
    mean = (2 * flat.sum(-1, keepdim=True) + count) // (2 * count)
    return blend(mean, _all_levels(luminance), factor)


def make_autocontrast_table(x: Tensor) -> Tensor:
    """Return the table that spreads a channel's gray levels over all of them."""
    low, high = (bound.double().unsqueeze(-1) for bound in x.flatten(-2).aminmax(dim=-1))
    levels = _all_levels(x)
    # 255 / tensor would be a product with the reciprocal, with other last bits.
    scale = torch.full_like(low, 255) / (high - low)
    spread = (levels * scale + -low * scale).clamp(0, 255).byte()
    return torch.where(high > low, spread, levels.byte())


def make_equalize_table(x: Tensor) -> Tensor:
    """Return the table that makes a channel's gray levels about equally frequent."""
    index = x.flatten(-2).long()
    one = torch.ones((), dtype=torch.int64, device=x.device).expand_as(index)
    counts = torch.zeros(*x.shape[:2], 256, dtype=torch.int64, device=x.device).scatter_add_(
        -1, index, one
    )
    brightest = counts.gather(-1, index.amax(-1, keepdim=True))
    step = (index.shape[-1] - brightest) // 255
    darker = counts.cumsum(-1) - counts
    even = ((step // 2 + darker) // step.clamp(min=1)).clamp(max=255)
    return torch.where(step > 0, even, _all_levels(x)).byte()


def _all_levels(x: Tensor) -> Tensor:
    return torch.arange(256, device=x.device)
