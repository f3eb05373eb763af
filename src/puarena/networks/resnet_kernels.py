"""Triton kernels for stacks of residual networks: the same launch serves every run.

Activations are ``[runs, n, side, side, channels]``, weights of a run ``[kernel, kernel, c_in, c_out]``, sums are kept
in float32. Nothing is added up in an order that can vary, so the same inputs give the same bits.
"""

from __future__ import annotations

from functools import lru_cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from puarena.networks.resnet import Unit

EPS, MOMENTUM = 1e-5, 0.1  # of batch normalisation
SUMS, GRADIENTS = 1056, 528  # programs wanted for a reduction: eight and four per multiprocessor of an H200


def there() -> bool:
    """Is Triton installed?"""
    return _kernels() is not None


@lru_cache(maxsize=1)
def _kernels() -> Any:
    """Compile-on-first-use kernels, or None without Triton."""
    try:
        import triton
        import triton.language as tl
    except ImportError:
        return None

    @triton.jit
    def convolve(  # type: ignore[no-untyped-def]
        x, w, y, partial, scale, shift, other,
        images, side, c_in, out_side, c_out, pad, w_run, w_tap, w_in, w_out, affine_run,
        size: tl.constexpr, stride: tl.constexpr, back: tl.constexpr,
        measure: tl.constexpr, affine: tl.constexpr, add: tl.constexpr, relu: tl.constexpr,
        exact: tl.constexpr, precision: tl.constexpr, rows: tl.constexpr, depth: tl.constexpr, cols: tl.constexpr,
    ):  # fmt: skip
        """A tile of outputs. ``back``: gather as the gradient of a convolution does, from outputs to inputs.

        With stride 2 a gradient's rows and columns are taken apart by parity: each is reached by every other tap.
        """
        run = tl.program_id(1).to(tl.int64)
        across = tl.cdiv(c_out, cols)
        tile = tl.program_id(0) // across
        col = tl.program_id(0) % across * cols + tl.arange(0, cols)
        index = tile * rows + tl.arange(0, rows)
        apart: tl.constexpr = stride if back else 1
        odd_y = tl.program_id(2) // apart
        odd_x = tl.program_id(2) % apart
        tall = (out_side - odd_y + apart - 1) // apart
        wide = (out_side - odd_x + apart - 1) // apart
        oy = index // wide % tall * apart + odd_y
        ox = index % wide * apart + odd_x
        image = index // (tall * wide)
        inside = image < images
        pixel = (image * out_side + oy) * out_side + ox
        x += run * images * side * side * c_in
        w += run * w_run
        ky = (odd_y + pad) % apart  # the first tap that counts, and how many do
        kx = (odd_x + pad) % apart
        taps_x = (size - kx + apart - 1) // apart
        taps = (size - ky + apart - 1) // apart * taps_x
        blocks = tl.cdiv(c_in, depth)
        total = tl.zeros([rows, cols], tl.float32)
        for at in range(taps * blocks):
            tap_y = ky + at // blocks // taps_x * apart
            tap_x = kx + at // blocks % taps_x * apart
            tap = tap_y * size + tap_x
            channel = at % blocks * depth + tl.arange(0, depth)
            if back:
                iy = (oy + pad - tap_y) // stride
                ix = (ox + pad - tap_x) // stride
                good = inside & (oy + pad >= tap_y) & (ox + pad >= tap_x) & (iy < side) & (ix < side)
            else:
                iy = oy * stride + tap_y - pad
                ix = ox * stride + tap_x - pad
                good = inside & (iy >= 0) & (ix >= 0) & (iy < side) & (ix < side)
            source = ((image * side + iy) * side + ix) * c_in
            weight = w + tap * w_tap + channel[:, None] * w_in + col[None, :] * w_out
            if exact:
                a = tl.load(x + source[:, None] + channel[None, :], mask=good[:, None], other=0.0)
                b = tl.load(weight)
            else:
                valid = channel < c_in
                a = tl.load(x + source[:, None] + channel[None, :], mask=good[:, None] & valid[None, :], other=0.0)
                b = tl.load(weight, mask=valid[:, None] & (col < c_out)[None, :], other=0.0)
            total = tl.dot(a, b, total, input_precision=precision)
        here = col < c_out
        where = (run * images * out_side * out_side + pixel)[:, None] * c_out + col[None, :]
        mask = inside[:, None] & here[None, :]
        if affine:
            total = total * tl.load(scale + run * affine_run + col, mask=here, other=0.0)[None, :]
            total += tl.load(shift + run * affine_run + col, mask=here, other=0.0)[None, :]
        if add:
            total += tl.load(other + where, mask=mask, other=0.0).to(tl.float32)
        if relu:
            total = tl.maximum(total, 0.0)
        value = total.to(y.dtype.element_ty)
        tl.store(y + where, value, mask=mask)
        if measure:  # of what was stored: the tile's mean and its sum of squared distances from that
            stored = tl.where(mask, value.to(tl.float32), 0.0)
            pixels = images * out_side * out_side
            mean = tl.sum(stored, 0) / tl.minimum(pixels - tile * rows, rows)
            away = tl.where(mask, stored - mean[None, :], 0.0)
            to = partial + ((run * tl.cdiv(pixels, rows) + tile) * 2) * c_out + col
            tl.store(to, mean, mask=here)
            tl.store(to + c_out, tl.sum(away * away, 0), mask=here)

    @triton.jit
    def settle(  # type: ignore[no-untyped-def]
        partial, gamma, beta, running_mean, running_variance, out,
        pixels, c, affine_run, running_run, momentum, eps,
        rows: tl.constexpr, tiles: tl.constexpr, cols: tl.constexpr,
    ):  # fmt: skip
        """From the tiles' means and squared distances to mean, rstd, scale and shift; moves the running statistics."""
        run = tl.program_id(0).to(tl.int64)
        col = tl.program_id(1) * cols + tl.arange(0, cols)
        here = col < c
        count = tl.cdiv(pixels, rows)
        partial += run * count * 2 * c
        total = tl.zeros([cols], tl.float32)
        for start in range(0, count, tiles):
            tile = start + tl.arange(0, tiles)
            size = tl.maximum(tl.minimum(pixels - tile * rows, rows), 0).to(tl.float32)
            mask = (tile < count)[:, None] & here[None, :]
            means = tl.load(partial + tile[:, None] * 2 * c + col[None, :], mask=mask, other=0.0)
            total += tl.sum(means * size[:, None], 0)
        mean = total / pixels
        squares = tl.zeros([cols], tl.float32)
        for start in range(0, count, tiles):
            tile = start + tl.arange(0, tiles)
            size = tl.maximum(tl.minimum(pixels - tile * rows, rows), 0).to(tl.float32)
            mask = (tile < count)[:, None] & here[None, :]
            means = tl.load(partial + tile[:, None] * 2 * c + col[None, :], mask=mask, other=0.0)
            inner = tl.load(partial + tile[:, None] * 2 * c + c + col[None, :], mask=mask, other=0.0)
            away = means - mean[None, :]
            squares += tl.sum(tl.where(mask, inner + away * away * size[:, None], 0.0), 0)
        rstd = 1.0 / tl.sqrt(squares / pixels + eps)
        scale = tl.load(gamma + run * affine_run + col, mask=here, other=0.0) * rstd
        shift = tl.load(beta + run * affine_run + col, mask=here, other=0.0) - mean * scale
        to = out + run * 4 * c + col
        tl.store(to, mean, mask=here)
        tl.store(to + c, rstd, mask=here)
        tl.store(to + 2 * c, scale, mask=here)
        tl.store(to + 3 * c, shift, mask=here)
        old = tl.load(running_mean + run * running_run + col, mask=here, other=0.0)
        tl.store(running_mean + run * running_run + col, old + momentum * (mean - old), mask=here)
        old = tl.load(running_variance + run * running_run + col, mask=here, other=0.0)
        fresh = squares / tl.maximum(pixels - 1, 1)
        tl.store(running_variance + run * running_run + col, old + momentum * (fresh - old), mask=here)

    @triton.jit
    def normalise(  # type: ignore[no-untyped-def]
        y, scale, shift, other, out, pixels, c, affine_run,
        add: tl.constexpr, relu: tl.constexpr, rows: tl.constexpr, cols: tl.constexpr,
    ):  # fmt: skip
        """``scale y + shift``, plus ``other``, cut at zero."""
        run = tl.program_id(1).to(tl.int64)
        across = tl.cdiv(c, cols)
        pixel = tl.program_id(0) // across * rows + tl.arange(0, rows)
        col = tl.program_id(0) % across * cols + tl.arange(0, cols)
        here = col < c
        mask = (pixel < pixels)[:, None] & here[None, :]
        where = (run * pixels + pixel)[:, None] * c + col[None, :]
        value = tl.load(y + where, mask=mask, other=0.0).to(tl.float32)
        value = value * tl.load(scale + run * affine_run + col, mask=here, other=0.0)[None, :]
        value += tl.load(shift + run * affine_run + col, mask=here, other=0.0)[None, :]
        if add:
            value += tl.load(other + where, mask=mask, other=0.0).to(tl.float32)
        if relu:
            value = tl.maximum(value, 0.0)
        tl.store(out + where, value.to(out.dtype.element_ty), mask=mask)

    @triton.jit
    def normalise_sums(  # type: ignore[no-untyped-def]
        g, out, y, measured, cut, partial, pixels, c, chunk,
        relu: tl.constexpr, keep: tl.constexpr, rows: tl.constexpr, cols: tl.constexpr,
    ):  # fmt: skip
        """A chunk's sums of the gradient and of the gradient times the normalised outputs."""
        run = tl.program_id(1).to(tl.int64)
        across = tl.cdiv(c, cols)
        part = tl.program_id(0) // across
        col = tl.program_id(0) % across * cols + tl.arange(0, cols)
        here = col < c
        mean = tl.load(measured + run * 4 * c + col, mask=here, other=0.0)
        rstd = tl.load(measured + run * 4 * c + c + col, mask=here, other=0.0)
        plain = tl.zeros([cols], tl.float32)
        weighted = tl.zeros([cols], tl.float32)
        for start in range(0, chunk, rows):
            pixel = part * chunk + start + tl.arange(0, rows)
            mask = (pixel < pixels)[:, None] & here[None, :]
            where = (run * pixels + pixel)[:, None] * c + col[None, :]
            value = tl.load(g + where, mask=mask, other=0.0).to(tl.float32)
            if relu:
                value = tl.where(tl.load(out + where, mask=mask, other=0.0).to(tl.float32) > 0, value, 0.0)
            if keep:
                tl.store(cut + where, value.to(cut.dtype.element_ty), mask=mask)
            normal = (tl.load(y + where, mask=mask, other=0.0).to(tl.float32) - mean[None, :]) * rstd[None, :]
            plain += tl.sum(value, 0)
            weighted += tl.sum(value * normal, 0)
        to = partial + (run * (tl.num_programs(0) // across) + part) * 2 * c + col
        tl.store(to, plain, mask=here)
        tl.store(to + c, weighted, mask=here)

    @triton.jit
    def normalise_backward(  # type: ignore[no-untyped-def]
        g, out, y, measured, sums, dy, pixels, c,
        relu: tl.constexpr, rows: tl.constexpr, cols: tl.constexpr,
    ):  # fmt: skip
        """``scale (g - (sum g + normal sum(g normal)) / pixels)``."""
        run = tl.program_id(1).to(tl.int64)
        across = tl.cdiv(c, cols)
        pixel = tl.program_id(0) // across * rows + tl.arange(0, rows)
        col = tl.program_id(0) % across * cols + tl.arange(0, cols)
        here = col < c
        mask = (pixel < pixels)[:, None] & here[None, :]
        where = (run * pixels + pixel)[:, None] * c + col[None, :]
        mean = tl.load(measured + run * 4 * c + col, mask=here, other=0.0)
        rstd = tl.load(measured + run * 4 * c + c + col, mask=here, other=0.0)
        scale = tl.load(measured + run * 4 * c + 2 * c + col, mask=here, other=0.0)
        plain = tl.load(sums + run * 2 * c + col, mask=here, other=0.0) / pixels
        weighted = tl.load(sums + run * 2 * c + c + col, mask=here, other=0.0) / pixels
        value = tl.load(g + where, mask=mask, other=0.0).to(tl.float32)
        if relu:
            value = tl.where(tl.load(out + where, mask=mask, other=0.0).to(tl.float32) > 0, value, 0.0)
        normal = (tl.load(y + where, mask=mask, other=0.0).to(tl.float32) - mean[None, :]) * rstd[None, :]
        value = scale[None, :] * (value - plain[None, :] - normal * weighted[None, :])
        tl.store(dy + where, value.to(dy.dtype.element_ty), mask=mask)

    @triton.jit
    def weight_gradient(  # type: ignore[no-untyped-def]
        x, dy, partial, pixels, side, c_in, out_side, c_out, stride, pad, chunk,
        size: tl.constexpr, taps: tl.constexpr, precision: tl.constexpr,
        rows: tl.constexpr, depth: tl.constexpr, cols: tl.constexpr,
    ):  # fmt: skip
        """A chunk's sum of inputs times gradients of outputs, for one tap or the three of a row of the kernel."""
        run = tl.program_id(2).to(tl.int64)
        part = tl.program_id(1)
        across = tl.cdiv(c_out, cols)
        down = tl.cdiv(c_in, depth)
        col = tl.program_id(0) % across * cols + tl.arange(0, cols)
        channel = tl.program_id(0) // across % down * depth + tl.arange(0, depth)
        tap = tl.program_id(0) // (across * down) * taps
        valid = channel < c_in
        here = col < c_out
        x += run * (pixels // (out_side * out_side)) * side * side * c_in
        dy += run * pixels * c_out
        first = tl.zeros([depth, cols], tl.float32)
        if taps == 3:
            second = tl.zeros([depth, cols], tl.float32)
            third = tl.zeros([depth, cols], tl.float32)
        for start in range(0, chunk, rows):
            pixel = part * chunk + start + tl.arange(0, rows)
            inside = pixel < pixels
            g = tl.load(dy + pixel[:, None] * c_out + col[None, :], mask=inside[:, None] & here[None, :], other=0.0)
            iy = pixel // out_side % out_side * stride + tap // size - pad
            ix = pixel % out_side * stride + tap % size - pad
            source = ((pixel // (out_side * out_side) * side + iy) * side + ix) * c_in
            inside = inside & (iy >= 0) & (iy < side)
            at = x + source[None, :] + channel[:, None]
            good = valid[:, None] & (inside & (ix >= 0) & (ix < side))[None, :]
            first = tl.dot(tl.load(at, mask=good, other=0.0), g, first, input_precision=precision)
            if taps == 3:
                good = valid[:, None] & (inside & (ix >= -1) & (ix < side - 1))[None, :]
                second = tl.dot(tl.load(at + c_in, mask=good, other=0.0), g, second, input_precision=precision)
                good = valid[:, None] & (inside & (ix >= -2) & (ix < side - 2))[None, :]
                third = tl.dot(tl.load(at + 2 * c_in, mask=good, other=0.0), g, third, input_precision=precision)
        mask = valid[:, None] & here[None, :]
        block = (part * tl.num_programs(2) + run) * size * size + tap
        to = partial + (block * c_in + channel)[:, None] * c_out + col[None, :]
        tl.store(to, first, mask=mask)
        if taps == 3:
            tl.store(to + c_in * c_out, second, mask=mask)
            tl.store(to + 2 * c_in * c_out, third, mask=mask)

    return SimpleNamespace(
        convolve=convolve,
        settle=settle,
        normalise=normalise,
        normalise_sums=normalise_sums,
        normalise_backward=normalise_backward,
        weight_gradient=weight_gradient,
    )


def _block(c: int, most: int) -> int:
    """Return the smallest power of two that holds ``c`` channels, between 16 and ``most``."""
    return min(most, max(16, 1 << (c - 1).bit_length()))


def _precision(x: Tensor) -> str:
    """Return how products are taken: float32 as three products of tensor cores, which loses nothing that matters."""
    return "tf32x3" if x.dtype == torch.float32 else "ieee"


def _launch_convolve(
    x: Tensor,
    w: Tensor,
    unit: Unit,
    shape: torch.Size | tuple[int, ...],
    back: bool,
    partial: Tensor | None = None,
    affine: tuple[Tensor, Tensor] | None = None,
    other: Tensor | None = None,
    relu: bool = False,
) -> Tensor:
    """Return the outputs, of ``shape``, of a convolution or (``back``) of its gradient with respect to its inputs."""
    runs, n, side, _, c_in = x.shape
    out_side, c_out = shape[2], shape[4]
    y = x.new_empty(shape)
    rows, depth, cols, warps, stages = _convolve_shape(c_in, c_out, x.dtype, back)
    w_in, w_out = (1, unit.c_out) if back else (unit.c_out, 1)
    scale, shift = affine or (y, y)
    apart = unit.stride if back else 1
    tiles = -(-n * (-(-out_side // apart)) ** 2 // rows)
    grid = (tiles * -(-c_out // cols), runs, apart**2)
    _kernels().convolve[grid](
        x, w, y, y if partial is None else partial, scale, shift, y if other is None else other,
        n, side, c_in, out_side, c_out, unit.kernel // 2,
        w.stride(0), unit.c_in * unit.c_out, w_in, w_out, scale.stride(0),
        size=unit.kernel, stride=unit.stride, back=back,
        measure=partial is not None, affine=affine is not None, add=other is not None, relu=relu,
        exact=c_in % depth == 0 and c_out % cols == 0, precision=_precision(x),
        rows=rows, depth=depth, cols=cols, num_warps=warps, num_stages=stages,
    )  # fmt: skip
    return y


def _convolve_shape(c_in: int, c_out: int, dtype: torch.dtype, back: bool) -> tuple[int, int, int, int, int]:
    """Return rows, depth and columns of a tile, warps and stages: the fastest of those measured on an H200."""
    if dtype == torch.float32:
        return 128, _block(c_in, 32), _block(c_out, 128), 8 if c_out > 64 else 4, 3
    depth, cols = _block(c_in, 64), _block(c_out, 128 if back else 256)
    if cols <= 32:
        return 256, depth, cols, 4, 2
    if cols == 64:
        return 128, depth, cols, 4, 3 if back else 2
    return (128, depth, cols, 4, 3) if cols == 128 else (128, depth, cols, 8, 4)


def _outputs(x: Tensor, unit: Unit) -> tuple[int, ...]:
    side = -(-x.shape[2] // unit.stride)
    return (*x.shape[:2], side, side, unit.c_out)


def convolve(
    x: Tensor, w: Tensor, unit: Unit, affine: tuple[Tensor, Tensor], other: Tensor | None = None, relu: bool = False
) -> Tensor:
    """Return ``scale conv(x) + shift``, plus ``other``, cut at zero with ``relu``."""
    return _launch_convolve(x, w, unit, _outputs(x, unit), False, affine=affine, other=other, relu=relu)


def convolve_and_measure(x: Tensor, w: Tensor, unit: Unit) -> tuple[Tensor, Tensor]:
    """Return the convolution and, for every tile and channel, mean and squared distance from it."""
    shape = _outputs(x, unit)
    tiles = -(-shape[1] * shape[2] * shape[3] // _convolve_shape(unit.c_in, unit.c_out, x.dtype, False)[0])
    partial = torch.empty(shape[0], tiles, 2, unit.c_out, dtype=torch.float32, device=x.device)
    return _launch_convolve(x, w, unit, shape, False, partial=partial), partial


def convolve_back(dy: Tensor, w: Tensor, unit: Unit, shape: torch.Size, other: Tensor | None = None) -> Tensor:
    """Return the gradient of a convolution's inputs (of ``shape``), plus ``other``."""
    return _launch_convolve(dy, w, unit, shape, True, other=other)


def settle(
    y: Tensor, unit: Unit, partial: Tensor, gamma: Tensor, beta: Tensor, running: tuple[Tensor, Tensor]
) -> Tensor:
    """Return mean, rstd, scale and shift, ``[runs, 4, channels]``, and move the running statistics."""
    runs, n, side, _, c = y.shape
    out = torch.empty(runs, 4, c, dtype=torch.float32, device=y.device)
    pixels = n * side * side
    cols = 8
    tiles = min(512, 1 << (partial.shape[1] - 1).bit_length())
    _kernels().settle[(runs, -(-c // cols))](
        partial, gamma, beta, *running, out, pixels, c, gamma.stride(0), running[0].stride(0), MOMENTUM, EPS,
        rows=_convolve_shape(unit.c_in, c, y.dtype, False)[0], tiles=tiles, cols=cols,
    )  # fmt: skip
    return out


def _sheet(c: int, elements: int = 2048) -> tuple[int, int]:
    """Return rows and columns of an elementwise program's tile."""
    cols = _block(c, 128)
    return elements // cols, cols


def normalise(y: Tensor, measured: Tensor, other: Tensor | None, relu: bool) -> Tensor:
    """Return ``scale y + shift``, plus ``other``, cut at zero with ``relu``."""
    runs, n, side, _, c = y.shape
    out = torch.empty_like(y)
    rows, cols = _sheet(c)
    pixels = n * side * side
    _kernels().normalise[(-(-pixels // rows) * -(-c // cols), runs)](
        y, measured[:, 2], measured[:, 3], y if other is None else other, out, pixels, c, measured.stride(0),
        add=other is not None, relu=relu, rows=rows, cols=cols,
    )  # fmt: skip
    return out


def normalise_sums(
    g: Tensor, out: Tensor, y: Tensor, measured: Tensor, relu: bool, keep: bool
) -> tuple[Tensor, Tensor]:
    """Return the sums of ``g`` and of ``g`` times the normalised outputs, ``[runs, 2, channels]``, and ``g``.

    With ``relu``, ``g`` counts where the outputs are positive; with ``keep`` it is returned so cut.
    """
    runs, n, side, _, c = y.shape
    rows, cols = _sheet(c, 4096)
    pixels, across = n * side * side, -(-c // cols)
    parts = max(1, min(-(-pixels // rows), SUMS // (runs * across)))
    chunk = -(-pixels // (parts * rows)) * rows
    parts = -(-pixels // chunk)
    partial = torch.empty(runs, parts, 2, c, dtype=torch.float32, device=y.device)
    cut = torch.empty_like(g) if keep else g
    _kernels().normalise_sums[(parts * across, runs)](
        g, out, y, measured, cut, partial, pixels, c, chunk, relu=relu, keep=keep, rows=rows, cols=cols
    )
    return partial.sum(1), cut


def normalise_backward(g: Tensor, out: Tensor, y: Tensor, measured: Tensor, sums: Tensor, relu: bool) -> Tensor:
    """Return the gradient of the outputs before normalisation."""
    runs, n, side, _, c = y.shape
    dy = torch.empty_like(y)
    rows, cols = _sheet(c)
    pixels = n * side * side
    _kernels().normalise_backward[(-(-pixels // rows) * -(-c // cols), runs)](
        g, out, y, measured, sums, dy, pixels, c, relu=relu, rows=rows, cols=cols
    )
    return dy


def weight_gradient(x: Tensor, dy: Tensor, unit: Unit) -> Tensor:
    """Return the gradient of a convolution's weights, ``[runs, weights]`` in float32."""
    runs, n, side, _, c_in = x.shape
    out_side, c_out = dy.shape[2], dy.shape[4]
    pixels = n * out_side * out_side
    rows, depth, cols, taps, warps, stages = _gradient_shape(unit, x.dtype)
    blocks = unit.kernel**2 // taps * -(-c_in // depth) * -(-c_out // cols)
    parts = max(1, min(-(-pixels // (4 * rows)), GRADIENTS // (runs * blocks)))
    chunk = -(-pixels // (parts * rows)) * rows
    parts = -(-pixels // chunk)
    partial = torch.empty(parts, runs, unit.weights, dtype=torch.float32, device=x.device)
    _kernels().weight_gradient[(blocks, parts, runs)](
        x, dy, partial, pixels, side, c_in, out_side, c_out, unit.stride, unit.kernel // 2, chunk,
        size=unit.kernel, taps=taps, precision=_precision(x), rows=rows, depth=depth, cols=cols, num_warps=warps,
        num_stages=stages,
    )  # fmt: skip
    return partial[0] if parts == 1 else partial.sum(0)


def _gradient_shape(unit: Unit, dtype: torch.dtype) -> tuple[int, int, int, int, int, int]:
    """Return pixels at a time, input channels, output channels and taps of a program, warps and stages."""
    taps = unit.kernel  # a row of the kernel
    if dtype == torch.float32:
        return 32, _block(unit.c_in, 64), _block(unit.c_out, 64), taps, 4, 2
    depth, cols = _block(unit.c_in, 128), _block(unit.c_out, 256)
    if depth * cols >= 128 * 128:
        return 64, depth, cols, 1, 8 if cols == 256 else 4, 3
    return (64, depth, cols, taps, 8, 3) if depth * cols >= 64 * 64 else (128, depth, cols, taps, 4, 2)
