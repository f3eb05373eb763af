"""Pillow's ImageOps and ImageEnhance on batches of images: bytes ``[n, 3, height, width]``.

Every image has its own factor. An operation on single gray levels is a table ``[n, 3 or 1, 256]``
for ``lookup``; the others blend an image with a degenerate one. Results are those of Pillow, to the
gray level.
"""

from __future__ import annotations

import torch
from torch import Tensor


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
