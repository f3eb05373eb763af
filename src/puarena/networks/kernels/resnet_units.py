"""Residual networks of all runs at once on a GPU: units and blocks with their gradients written
out.

Activations are ``[runs, n, side, side, channels]``. A unit is a convolution whose kernel also
collects the statistics of its outputs, and a pass that normalizes, adds the shortcut and cuts at
zero; in evaluation mode it is one kernel. Weights of a run are ``[kernel, kernel, c_in, c_out]``,
sums are kept in float32. Nothing is added up in an order that can vary, so the same inputs give the
same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from puarena.networks.kernels import enter_device, fit_stages
from puarena.networks.kernels import resnet as kernels
from puarena.networks.resnet_layout import EPS, MOMENTUM, Block, Layout, Unit


def features(stack: Stack, x: Tensor, parts: Sequence[Tensor]) -> Tensor:
    """Return the last map of every run from inputs with channels last; ``parts`` are the parameters
    by ``sizes``.
    """
    layout = stack.layout
    if not stack.training:
        x = stack.evaluate(layout.stem, x, True)
        for block in layout.blocks:
            other = x if block.shortcut is None else stack.evaluate(block.shortcut, x, False)
            x = stack.evaluate(block.second, stack.evaluate(block.first, x, True), True, other)
        return x
    count = len(layout.units)

    def of(unit: Unit) -> tuple[Tensor, Tensor, Tensor]:
        return parts[unit.number], parts[count + unit.number], parts[2 * count + unit.number]

    x = _Stem.apply(stack, layout.stem, x, *of(layout.stem))
    for block in layout.blocks:
        third = () if block.shortcut is None else of(block.shortcut)
        x = _Block.apply(stack, block, x, *of(block.first), *of(block.second), *third)
    return x


class Stack:
    """What the passes of one forward call share: the parameters as they are computed with, and the
    statistics.
    """

    def __init__(
        self,
        layout: Layout,
        weight: Tensor,
        running: tuple[Tensor, Tensor],
        compute: torch.dtype,
        training: bool,
    ) -> None:
        self.layout, self.training = layout, training
        self.mean, self.variance = running
        with torch.no_grad():
            self.weights = weight.to(compute).split(layout.sizes, 1)
            theta, c = weight, layout.channels
            begin = sum(layout.sizes[: len(layout.units)])
            self.gamma, self.beta = theta[:, begin : begin + c], theta[:, begin + c : begin + 2 * c]
            if not training:
                self.scale = self.gamma * torch.rsqrt(self.variance + EPS)
                self.shift = self.beta - self.mean * self.scale

    def evaluate(self, unit: Unit, x: Tensor, relu: bool, other: Tensor | None = None) -> Tensor:
        """Return a unit's outputs in evaluation mode."""
        affine = self.scale[:, unit.channels], self.shift[:, unit.channels]
        return convolve(x, self.weights[unit.number], unit, affine=affine, other=other, relu=relu)

    def forward(
        self, unit: Unit, x: Tensor, relu: bool, other: Tensor | None = None
    ) -> tuple[Tensor, list[Tensor]]:
        """Return a unit's outputs in training mode, and what its gradient needs."""
        y, partial = convolve_and_measure(x, self.weights[unit.number], unit)
        at = unit.channels
        running = self.mean[:, at], self.variance[:, at]
        measured = settle(y, unit, partial, self.gamma[:, at], self.beta[:, at], running)
        out = normalize(y, measured, other, relu)
        return out, [x, y, out, measured]

    def backward(
        self, unit: Unit, saved: Sequence[Tensor], g: Tensor, relu: bool, keep: bool = False
    ) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor], Tensor]:
        """Return the gradient of the convolution's outputs, of (weights, scales, shifts), and of
        what was added.

        The last is ``g`` where the outputs are positive; without ``keep`` it is ``g`` as it came.
        """
        x, y, out, measured = saved
        sums, cut = normalize_sums(g, out, y, measured, relu, keep)
        dy = normalize_backward(cut, out, y, measured, sums, relu and not keep)
        return dy, (weight_gradient(x, dy, unit), sums[:, 1], sums[:, 0]), cut

    def input_gradient(
        self, unit: Unit, like: Tensor, dy: Tensor, other: Tensor | None = None
    ) -> Tensor:
        """Return the gradient of a convolution's inputs, ``other`` added."""
        return convolve_back(dy, self.weights[unit.number], unit, like.shape, other)


class _Stem(torch.autograd.Function):
    """The first unit; images get no gradient."""

    @staticmethod
    def forward(ctx: Any, stack: Stack, unit: Unit, x: Tensor, *parameters: Tensor) -> Tensor:
        out, saved = stack.forward(unit, x, True)
        ctx.stack, ctx.unit = stack, unit
        ctx.save_for_backward(*saved)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        _, of_parameters, _ = ctx.stack.backward(
            ctx.unit, ctx.saved_tensors, grads[0].contiguous(), True
        )
        return None, None, None, *of_parameters


class _Block(torch.autograd.Function):
    """A basic block."""

    @staticmethod
    def forward(ctx: Any, stack: Stack, block: Block, x: Tensor, *parameters: Tensor) -> Tensor:
        inner, first = stack.forward(block.first, x, True)
        other, third = (
            (x, []) if block.shortcut is None else stack.forward(block.shortcut, x, False)
        )
        out, second = stack.forward(block.second, inner, True, other)
        ctx.stack, ctx.block = stack, block
        ctx.save_for_backward(*first, *second, *third)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        stack, block = ctx.stack, ctx.block
        saved = ctx.saved_tensors
        first, second, third = saved[:4], saved[4:8], saved[8:]
        x, inner = first[0], second[0]
        dy, of_second, other = stack.backward(
            block.second, second, grads[0].contiguous(), True, keep=True
        )
        g = stack.input_gradient(block.second, inner, dy)
        of_third: tuple[Tensor, ...] = ()
        if block.shortcut is not None:
            dy, of_third, _ = stack.backward(block.shortcut, third, other, False)
            other = stack.input_gradient(block.shortcut, x, dy)
        dy, of_first, _ = stack.backward(block.first, first, g, True)
        return (
            None,
            None,
            stack.input_gradient(block.first, x, dy, other),
            *of_first,
            *of_second,
            *of_third,
        )


SUMS, GRADIENTS = (
    1056,
    528,
)  # programs wanted for a reduction: eight and four per multiprocessor of an H200


def _block(c: int, most: int) -> int:
    """Return the smallest power of two that holds ``c`` channels, between 16 and ``most``."""
    return min(most, max(16, 1 << (c - 1).bit_length()))


def _precision(x: Tensor) -> str:
    """Return how products are taken: float32 as three products of tensor cores, which loses nothing
    that matters.
    """
    return "tf32x3" if x.dtype == torch.float32 else "ieee"


@enter_device
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
    """Return the outputs, of ``shape``, of a convolution or (``back``) of its gradient with respect
    to its inputs.
    """
    runs, n, side, _, c_in = x.shape
    out_side, c_out = shape[2], shape[4]
    y = x.new_empty(shape)
    rows, depth, cols, warps, stages = _convolve_shape(c_in, c_out, x.dtype, back)
    w_in, w_out = (1, unit.c_out) if back else (unit.c_out, 1)
    scale, shift = affine or (y, y)
    apart = unit.stride if back else 1
    tiles = -(-n * (-(-out_side // apart)) ** 2 // rows)
    grid = (tiles * -(-c_out // cols), runs, apart**2)
    kernels.convolve[grid](
        x,
        w,
        y,
        y if partial is None else partial,
        scale,
        shift,
        y if other is None else other,
        n,
        side,
        c_in,
        out_side,
        c_out,
        unit.kernel // 2,
        w.stride(0),
        unit.c_in * unit.c_out,
        w_in,
        w_out,
        scale.stride(0),
        size=unit.kernel,
        stride=unit.stride,
        back=back,
        measure=partial is not None,
        affine=affine is not None,
        add=other is not None,
        relu=relu,
        exact=c_in % depth == 0 and c_out % cols == 0,
        precision=_precision(x),
        rows=rows,
        depth=depth,
        cols=cols,
        num_warps=warps,
        num_stages=fit_stages(x, stages, depth * (rows + cols)),
    )
    return y


def _convolve_shape(
    c_in: int, c_out: int, dtype: torch.dtype, back: bool
) -> tuple[int, int, int, int, int]:
    """Return rows, depth and columns of a tile, warps and the most stages: the fastest of those
    measured on an H200.
    """
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
    x: Tensor,
    w: Tensor,
    unit: Unit,
    affine: tuple[Tensor, Tensor],
    other: Tensor | None = None,
    relu: bool = False,
) -> Tensor:
    """Return ``scale conv(x) + shift``, plus ``other``, cut at zero with ``relu``."""
    return _launch_convolve(
        x, w, unit, _outputs(x, unit), False, affine=affine, other=other, relu=relu
    )


def convolve_and_measure(x: Tensor, w: Tensor, unit: Unit) -> tuple[Tensor, Tensor]:
    """Return the convolution and, for every tile and channel, mean and squared distance from it."""
    shape = _outputs(x, unit)
    tiles = -(
        -shape[1] * shape[2] * shape[3] // _convolve_shape(unit.c_in, unit.c_out, x.dtype, False)[0]
    )
    partial = torch.empty(shape[0], tiles, 2, unit.c_out, dtype=torch.float32, device=x.device)
    return _launch_convolve(x, w, unit, shape, False, partial=partial), partial


def convolve_back(
    dy: Tensor, w: Tensor, unit: Unit, shape: torch.Size, other: Tensor | None = None
) -> Tensor:
    """Return the gradient of a convolution's inputs (of ``shape``), plus ``other``."""
    return _launch_convolve(dy, w, unit, shape, True, other=other)


@enter_device
def settle(
    y: Tensor,
    unit: Unit,
    partial: Tensor,
    gamma: Tensor,
    beta: Tensor,
    running: tuple[Tensor, Tensor],
) -> Tensor:
    """Return mean, rstd, scale and shift, ``[runs, 4, channels]``; move the running statistics."""
    runs, n, side, _, c = y.shape
    out = torch.empty(runs, 4, c, dtype=torch.float32, device=y.device)
    pixels = n * side * side
    cols = 8
    tiles = min(512, 1 << (partial.shape[1] - 1).bit_length())
    kernels.settle[(runs, -(-c // cols))](
        partial,
        gamma,
        beta,
        *running,
        out,
        pixels,
        c,
        gamma.stride(0),
        running[0].stride(0),
        MOMENTUM,
        EPS,
        rows=_convolve_shape(unit.c_in, c, y.dtype, False)[0],
        tiles=tiles,
        cols=cols,
    )
    return out


def _sheet(c: int, elements: int = 2048) -> tuple[int, int]:
    """Return rows and columns of an elementwise program's tile."""
    cols = _block(c, 128)
    return elements // cols, cols


@enter_device
def normalize(y: Tensor, measured: Tensor, other: Tensor | None, relu: bool) -> Tensor:
    """Return ``scale y + shift``, plus ``other``, cut at zero with ``relu``."""
    runs, n, side, _, c = y.shape
    out = torch.empty_like(y)
    rows, cols = _sheet(c)
    pixels = n * side * side
    kernels.normalize[(-(-pixels // rows) * -(-c // cols), runs)](
        y,
        measured[:, 2],
        measured[:, 3],
        y if other is None else other,
        out,
        pixels,
        c,
        measured.stride(0),
        add=other is not None,
        relu=relu,
        rows=rows,
        cols=cols,
    )
    return out


@enter_device
def normalize_sums(
    g: Tensor, out: Tensor, y: Tensor, measured: Tensor, relu: bool, keep: bool
) -> tuple[Tensor, Tensor]:
    """Return the sums of ``g`` and of ``g`` times the normalized outputs, ``[runs, 2, channels]``,
    and ``g``.

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
    kernels.normalize_sums[(parts * across, runs)](
        g,
        out,
        y,
        measured,
        cut,
        partial,
        pixels,
        c,
        chunk,
        relu=relu,
        keep=keep,
        rows=rows,
        cols=cols,
    )
    return partial.sum(1), cut


@enter_device
def normalize_backward(
    g: Tensor, out: Tensor, y: Tensor, measured: Tensor, sums: Tensor, relu: bool
) -> Tensor:
    """Return the gradient of the outputs before normalization."""
    runs, n, side, _, c = y.shape
    dy = torch.empty_like(y)
    rows, cols = _sheet(c)
    pixels = n * side * side
    kernels.normalize_backward[(-(-pixels // rows) * -(-c // cols), runs)](
        g, out, y, measured, sums, dy, pixels, c, relu=relu, rows=rows, cols=cols
    )
    return dy


@enter_device
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
    kernels.weight_gradient[(blocks, parts, runs)](
        x,
        dy,
        partial,
        pixels,
        side,
        c_in,
        out_side,
        c_out,
        unit.stride,
        unit.kernel // 2,
        chunk,
        size=unit.kernel,
        taps=taps,
        precision=_precision(x),
        rows=rows,
        depth=depth,
        cols=cols,
        num_warps=warps,
        num_stages=fit_stages(x, stages, rows * (depth + cols)),
    )
    return partial[0] if parts == 1 else partial.sum(0)


def _gradient_shape(unit: Unit, dtype: torch.dtype) -> tuple[int, int, int, int, int, int]:
    """Return pixels at a time, input channels, output channels and taps of a program, warps and
    stages.
    """
    taps = unit.kernel  # a row of the kernel
    if dtype == torch.float32:
        return 32, _block(unit.c_in, 64), _block(unit.c_out, 64), taps, 4, 2
    depth, cols = _block(unit.c_in, 128), _block(unit.c_out, 256)
    if depth * cols >= 128 * 128:
        return 64, depth, cols, 1, 8 if cols == 256 else 4, 3
    return (
        (64, depth, cols, taps, 8, 3) if depth * cols >= 64 * 64 else (128, depth, cols, taps, 4, 2)
    )
