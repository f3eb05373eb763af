"""Triton kernels for stacks of residual networks; ``resnet_units`` has their shapes and launches
them.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def convolve(  # type: ignore[no-untyped-def]
    x,
    w,
    y,
    partial,
    scale,
    shift,
    other,
    images,
    side,
    c_in,
    out_side,
    c_out,
    pad,
    w_run,
    w_tap,
    w_in,
    w_out,
    affine_run,
    size: tl.constexpr,
    stride: tl.constexpr,
    back: tl.constexpr,
    measure: tl.constexpr,
    affine: tl.constexpr,
    add: tl.constexpr,
    relu: tl.constexpr,
    exact: tl.constexpr,
    precision: tl.constexpr,
    rows: tl.constexpr,
    depth: tl.constexpr,
    cols: tl.constexpr,
):
    """A tile of outputs. ``back``: gather as the gradient of a convolution does, from outputs to
    inputs.

    With stride 2 a gradient's rows and columns are taken apart by parity: each is reached by every
    other tap.
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
            a = tl.load(
                x + source[:, None] + channel[None, :],
                mask=good[:, None] & valid[None, :],
                other=0.0,
            )
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
    partial,
    gamma,
    beta,
    running_mean,
    running_variance,
    out,
    pixels,
    c,
    affine_run,
    running_run,
    momentum,
    eps,
    rows: tl.constexpr,
    tiles: tl.constexpr,
    cols: tl.constexpr,
):
    """From the tiles' means and squared distances to mean, rstd, scale and shift; moves the running
    statistics.
    """
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
def normalize(  # type: ignore[no-untyped-def]
    y,
    scale,
    shift,
    other,
    out,
    pixels,
    c,
    affine_run,
    add: tl.constexpr,
    relu: tl.constexpr,
    rows: tl.constexpr,
    cols: tl.constexpr,
):
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
def normalize_sums(  # type: ignore[no-untyped-def]
    g,
    out,
    y,
    measured,
    cut,
    partial,
    pixels,
    c,
    chunk,
    relu: tl.constexpr,
    keep: tl.constexpr,
    rows: tl.constexpr,
    cols: tl.constexpr,
):
    """A chunk's sums of the gradient and of the gradient times the normalized outputs."""
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
            value = tl.where(
                tl.load(out + where, mask=mask, other=0.0).to(tl.float32) > 0, value, 0.0
            )
        if keep:
            tl.store(cut + where, value.to(cut.dtype.element_ty), mask=mask)
        normal = (tl.load(y + where, mask=mask, other=0.0).to(tl.float32) - mean[None, :]) * rstd[
            None, :
        ]
        plain += tl.sum(value, 0)
        weighted += tl.sum(value * normal, 0)
    to = partial + (run * (tl.num_programs(0) // across) + part) * 2 * c + col
    tl.store(to, plain, mask=here)
    tl.store(to + c, weighted, mask=here)


@triton.jit
def normalize_backward(  # type: ignore[no-untyped-def]
    g,
    out,
    y,
    measured,
    sums,
    dy,
    pixels,
    c,
    relu: tl.constexpr,
    rows: tl.constexpr,
    cols: tl.constexpr,
):
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
    normal = (tl.load(y + where, mask=mask, other=0.0).to(tl.float32) - mean[None, :]) * rstd[
        None, :
    ]
    value = scale[None, :] * (value - plain[None, :] - normal * weighted[None, :])
    tl.store(dy + where, value.to(dy.dtype.element_ty), mask=mask)


@triton.jit
def weight_gradient(  # type: ignore[no-untyped-def]
    x,
    dy,
    partial,
    pixels,
    side,
    c_in,
    out_side,
    c_out,
    stride,
    pad,
    chunk,
    size: tl.constexpr,
    taps: tl.constexpr,
    precision: tl.constexpr,
    rows: tl.constexpr,
    depth: tl.constexpr,
    cols: tl.constexpr,
):
    """A chunk's sum of inputs times gradients of outputs, for one tap or the three of a row of the
    kernel.
    """
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
        g = tl.load(
            dy + pixel[:, None] * c_out + col[None, :],
            mask=inside[:, None] & here[None, :],
            other=0.0,
        )
        iy = pixel // out_side % out_side * stride + tap // size - pad
        ix = pixel % out_side * stride + tap % size - pad
        source = ((pixel // (out_side * out_side) * side + iy) * side + ix) * c_in
        inside = inside & (iy >= 0) & (iy < side)
        at = x + source[None, :] + channel[:, None]
        good = valid[:, None] & (inside & (ix >= 0) & (ix < side))[None, :]
        first = tl.dot(tl.load(at, mask=good, other=0.0), g, first, input_precision=precision)
        if taps == 3:
            good = valid[:, None] & (inside & (ix >= -1) & (ix < side - 1))[None, :]
            second = tl.dot(
                tl.load(at + c_in, mask=good, other=0.0), g, second, input_precision=precision
            )
            good = valid[:, None] & (inside & (ix >= -2) & (ix < side - 2))[None, :]
            third = tl.dot(
                tl.load(at + 2 * c_in, mask=good, other=0.0), g, third, input_precision=precision
            )
    mask = valid[:, None] & here[None, :]
    block = (part * tl.num_programs(2) + run) * size * size + tap
    to = partial + (block * c_in + channel)[:, None] * c_out + col[None, :]
    tl.store(to, first, mask=mask)
    if taps == 3:
        tl.store(to + c_in * c_out, second, mask=mask)
        tl.store(to + 2 * c_in * c_out, third, mask=mask)
