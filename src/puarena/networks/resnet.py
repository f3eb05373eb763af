"""Residual networks, one per run: ResNet-32 (the published code's) and ResNet-34 (the paper's
text).

ResNet-32 is the small one for CIFAR: a 3x3 convolution to 16 channels, three stages of five basic
blocks with 16, 32 and 64 channels, average pooling over 8x8. ResNet-34 has a 3x3 stem of 64
channels and stages of 3, 4, 6 and 3 blocks with 64 to 512 channels, averaged over the whole map;
its stem has stride 1 on images of up to 32 pixels and stride 2 on larger ones, so that a 64x64
image costs what a 32x32 one does (the ImageNet stem would leave 2x2 maps). In both, the first block
of every later stage has stride 2 and a 1x1 convolution with batch normalization as its shortcut.

He, Zhang, Ren, Sun: Deep residual learning for image recognition. CVPR 2016.

Batch normalization of a run sees all examples of a pass together and nothing of another run. In
training mode it uses the batch's statistics and moves the running ones, with or without a gradient,
as PyTorch's does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm, conv2d

from puarena import random
from puarena.errors import UserError
from puarena.networks import kernels
from puarena.networks.base import RunNetwork
from puarena.networks.resnet_layout import EPS, MOMENTUM, Unit, lay_out


class ResNet(RunNetwork):
    """A stack of independent residual networks: ``[runs, batch, channels, side, side] -> [runs,
    batch]`` logits.

    All parameters of a run lie in one row of ``weight``. On a GPU with Triton all runs go through
    the same kernels (``kernels``); elsewhere row after row. ``precision`` "bf16" computes and keeps
    activations in bfloat16; parameters, statistics and gradients of parameters stay in ``dtype``.
    """

    family = "resnet"
    images = True
    fills_gpu = True
    default_batch = 64
    batch_exponents = (5, 8)  # 32, 64 and 128 are drawn
    precisions = ("float32", "bf16")
    stages: ClassVar[tuple[tuple[int, int], ...]]  # (blocks, channels) of each
    pool: ClassVar[int | None] = (
        None  # side of the squares that are averaged; None: the whole last map
    )
    large: ClassVar[int | None] = None  # images of more pixels a side get a stem with stride 2

    mean: Tensor  # [runs, channels of all units]: running statistics
    variance: Tensor

    def __init__(
        self,
        seeds: Tensor,
        shape: tuple[int, ...],
        stream: str = "init",
        dtype: torch.dtype = torch.float32,
        precision: str = "float32",
    ) -> None:
        super().__init__(seeds, shape, stream, dtype, precision)
        if len(shape) != 3 or shape[1] != shape[2]:
            raise UserError(
                f"a residual network needs square images, but inputs have shape {shape}; use mlp"
            )
        stem_stride = 2 if self.large is not None and shape[1] > self.large else 1
        self.layout = lay_out(shape[1], shape[0], self.stages, self.pool, stem_stride)
        self.compute = torch.bfloat16 if precision == "bf16" else dtype
        self.width = (-(-shape[1] // stem_stride)) ** 2 * self.stages[0][1]
        self.weight = nn.Parameter(self._initial(seeds, stream, dtype))
        for name, value in (("mean", 0.0), ("variance", 1.0)):
            start = torch.full(
                (len(seeds), self.layout.channels), value, dtype=dtype, device=seeds.device
            )
            self.register_buffer(name, start)

    def _initial(self, seeds: Tensor, stream: str, dtype: torch.dtype) -> Tensor:
        """Convolutions normal with variance ``2 / (k k c_out)``, scales 1, shifts 0, the linear
        layer as PyTorch's.
        """
        layout = self.layout
        theta = torch.zeros(len(seeds), sum(layout.sizes), dtype=dtype, device=seeds.device)
        parts = theta.split(layout.sizes, 1)
        for unit in layout.units:
            drawn = random.normal(seeds, f"{stream}:conv{unit.number}", (unit.weights,))
            parts[unit.number].copy_(drawn * (2 / (unit.kernel**2 * unit.c_out)) ** 0.5)
            parts[len(layout.units) + unit.number].fill_(1.0)
        for part, name in zip(parts[-3:-1], ("weight", "bias"), strict=True):
            drawn = 2 * random.uniform(seeds, f"{stream}:linear:{name}", (part.shape[1],)) - 1
            part.copy_(drawn * layout.features**-0.5)
        return theta

    def decays(self) -> list[Tensor]:
        """Return where weight decay acts: on the convolutions and the linear layer's weights."""
        mask = torch.zeros_like(self.weight[:1])
        parts = mask.split(self.layout.sizes, 1)
        for part in (*parts[: len(self.layout.units)], parts[-3]):
            part.fill_(1.0)
        return [mask]

    def heads(self, x: Tensor) -> Tensor:
        """Return both outputs, ``[runs, batch, 2]``."""
        parts = self.weight.split(self.layout.sizes, 1)
        if kernels.available(self.weight):
            from puarena.networks.kernels.resnet_units import Stack, features

            stack = Stack(
                self.layout, self.weight, (self.mean, self.variance), self.compute, self.training
            )
            last = features(stack, x.permute(0, 1, 3, 4, 2).to(self.compute).contiguous(), parts)
        else:
            rows = [self._row(x[run], run, [part[run] for part in parts]) for run in range(len(x))]
            last = torch.stack(rows)
        linear = parts[-3].view(len(x), 2, -1)
        return torch.baddbmm(parts[-2].unsqueeze(1), self._pooled(last), linear.transpose(1, 2))

    def _pooled(self, last: Tensor) -> Tensor:
        """Average squares of the last map (``[runs, n, side, side, channels]``): ``[runs, n,
        features]``.
        """
        runs, n, side, _, channels = last.shape
        square = self.layout.pool
        cut = last[:, :, : side // square * square, : side // square * square]
        squares = cut.reshape(runs, n, side // square, square, side // square, square, channels)
        return squares.to(self.weight.dtype).mean((3, 5)).reshape(runs, n, -1)

    def _row(self, x: Tensor, run: int, parts: list[Tensor]) -> Tensor:
        """Return the last map of one run, ``[n, side, side, channels]``, with PyTorch's own
        operations.
        """
        units = len(self.layout.units)

        def apply(unit: Unit, x: Tensor) -> Tensor:
            w = (
                parts[unit.number]
                .view(unit.kernel, unit.kernel, unit.c_in, unit.c_out)
                .permute(3, 2, 0, 1)
            )
            y = conv2d(x, w.to(x.dtype), stride=unit.stride, padding=unit.kernel // 2)
            statistics = self.mean[run, unit.channels], self.variance[run, unit.channels]
            scale, shift = parts[units + unit.number], parts[2 * units + unit.number]
            return batch_norm(y, *statistics, scale, shift, self.training, MOMENTUM, EPS)

        x = x.to(self.compute, memory_format=torch.channels_last)
        with torch.backends.cudnn.flags(
            enabled=True, benchmark=False, deterministic=True, allow_tf32=False
        ):
            x = apply(self.layout.stem, x).relu()
            for block in self.layout.blocks:
                inner = apply(block.second, apply(block.first, x).relu())
                x = (inner + (x if block.shortcut is None else apply(block.shortcut, x))).relu()
        return x.permute(0, 2, 3, 1)


class ResNet32(ResNet):
    """The published code's network."""

    name = "resnet32"
    meaning = (
        "the published code's small residual network for images: 15 blocks of 16 to 64 channels"
    )
    capacity: ClassVar[Mapping[str, int]] = {"cpu": 4, "cuda": 32}
    stages = ((5, 16), (5, 32), (5, 64))
    pool = 8


class ResNet34(ResNet):
    """The network of the paper's text."""

    name = "resnet34"
    meaning = (
        "the residual network of the paper's text, for images: 16 blocks of 64 to 512 channels"
    )
    capacity: ClassVar[Mapping[str, int]] = {"cpu": 4, "cuda": 8}
    probe: ClassVar[Mapping[str, tuple[int, int]]] = {"cpu": (1, 2), "cuda": (8, 64)}
    stages = ((3, 64), (4, 128), (6, 256), (3, 512))
    large = 32
