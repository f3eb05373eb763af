"""Residual networks of all runs at once on a GPU: units and blocks with their gradients written
out.

Activations are ``[runs, n, side, side, channels]``. A unit is a convolution whose kernel also
collects the statistics of its outputs, and a pass that normalizes, adds the shortcut and cuts at
zero; in evaluation mode it is one kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from puarena.networks.kernels import resnet_launches as launches
from puarena.networks.resnet_layout import EPS, Block, Layout, Unit


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
        return launches.convolve(
            x, self.weights[unit.number], unit, affine=affine, other=other, relu=relu
        )

    def forward(
        self, unit: Unit, x: Tensor, relu: bool, other: Tensor | None = None
    ) -> tuple[Tensor, list[Tensor]]:
        """Return a unit's outputs in training mode, and what its gradient needs."""
        y, partial = launches.convolve_and_measure(x, self.weights[unit.number], unit)
        at = unit.channels
        running = self.mean[:, at], self.variance[:, at]
        measured = launches.settle(y, unit, partial, self.gamma[:, at], self.beta[:, at], running)
        out = launches.normalize(y, measured, other, relu)
        return out, [x, y, out, measured]

    def backward(
        self, unit: Unit, saved: Sequence[Tensor], g: Tensor, relu: bool, keep: bool = False
    ) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor], Tensor]:
        """Return the gradient of the convolution's outputs, of (weights, scales, shifts), and of
        what was added.

        The last is ``g`` where the outputs are positive; without ``keep`` it is ``g`` as it came.
        """
        x, y, out, measured = saved
        sums, cut = launches.normalize_sums(g, out, y, measured, relu, keep)
        dy = launches.normalize_backward(cut, out, y, measured, sums, relu and not keep)
        return dy, (launches.weight_gradient(x, dy, unit), sums[:, 1], sums[:, 0]), cut

    def input_gradient(
        self, unit: Unit, like: Tensor, dy: Tensor, other: Tensor | None = None
    ) -> Tensor:
        """Return the gradient of a convolution's inputs, ``other`` added."""
        return launches.convolve_back(dy, self.weights[unit.number], unit, like.shape, other)


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
