"""Residual networks, one per run: ResNet-32 (the published code's) and ResNet-34 (the paper's text).

ResNet-32 is the small one for CIFAR: a 3x3 convolution to 16 channels, three stages of five basic blocks with 16, 32
and 64 channels, average pooling over 8x8. ResNet-34 has a 3x3 stem of 64 channels and stages of 3, 4, 6 and 3 blocks
with 64 to 512 channels, averaged over the whole map; its stem has stride 1 on images of up to 32 pixels and stride 2
on larger ones, so that a 64x64 image costs what a 32x32 one does (the ImageNet stem would leave 2x2 maps). In both,
the first block of every later stage has stride 2 and a 1x1 convolution with batch normalisation as its shortcut.

He, Zhang, Ren, Sun: Deep residual learning for image recognition. CVPR 2016.

Batch normalisation of a run sees all examples of a pass together and nothing of another run. In training mode it uses
the batch's statistics and moves the running ones, with or without a gradient, as PyTorch's does.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm, conv2d

from puarena import random
from puarena.errors import UserError
from puarena.networks import resnet_fused
from puarena.networks.base import RunNetwork
from puarena.networks.resnet_kernels import EPS, MOMENTUM

ALIGN = 64  # a run's parameters are padded to a multiple of so many: aligned rows load faster
PRECISIONS = ("float32", "bf16")


@dataclass(frozen=True)
class Unit:
    """A convolution without bias and the batch normalisation after it."""

    number: int  # in the order of the network's parameters
    c_in: int
    c_out: int
    kernel: int
    stride: int
    channel: int  # where its channels begin among those of all units

    @property
    def weights(self) -> int:
        """Number of weights, stored as ``[kernel, kernel, c_in, c_out]``."""
        return self.kernel**2 * self.c_in * self.c_out

    @property
    def channels(self) -> slice:
        """Its channels among those of all units."""
        return slice(self.channel, self.channel + self.c_out)


@dataclass(frozen=True)
class Block:
    """``relu(second(relu(first(x))) + shortcut(x))``; without a shortcut unit it is ``x`` itself."""

    first: Unit
    second: Unit
    shortcut: Unit | None


@dataclass(frozen=True)
class Plan:
    """What a network is made of."""

    stem: Unit
    blocks: tuple[Block, ...]
    units: tuple[Unit, ...]
    map: int  # side of the last feature map
    pool: int  # side of the squares that are averaged

    @property
    def features(self) -> int:
        """Inputs of the linear layer."""
        return (self.map // self.pool) ** 2 * self.units[-1].c_out

    @property
    def channels(self) -> int:
        """Channels of all units together."""
        return sum(unit.c_out for unit in self.units)

    @property
    def sizes(self) -> list[int]:
        """Numbers of parameters: every unit's weights, scales, shifts, then the linear layer and the padding."""
        channels = [unit.c_out for unit in self.units]
        used = [unit.weights for unit in self.units] + channels + channels + [2 * self.features, 2]
        return [*used, -sum(used) % ALIGN]


def make_plan(side: int, c_in: int, stages: tuple[tuple[int, int], ...], pool: int | None, stem_stride: int) -> Plan:
    """Lay out a network: ``stages`` are (blocks, channels); ``pool`` None averages the whole last map."""
    units: list[Unit] = []

    def unit(c_in: int, c_out: int, kernel: int, stride: int) -> Unit:
        channel = units[-1].channel + units[-1].c_out if units else 0
        units.append(Unit(len(units), c_in, c_out, kernel, stride, channel))
        return units[-1]

    stem = unit(c_in, stages[0][1], 3, stem_stride)
    side = -(-side // stem_stride)
    blocks, width = [], stages[0][1]
    for stage, (count, channels) in enumerate(stages):
        for at in range(count):
            stride = 2 if stage > 0 and at == 0 else 1
            side = -(-side // stride)
            shortcut = unit(width, channels, 1, stride) if stride != 1 or width != channels else None
            blocks.append(Block(unit(width, channels, 3, stride), unit(channels, channels, 3, 1), shortcut))
            width = channels
    square = side if pool is None or side < pool else pool
    return Plan(stem, tuple(blocks), tuple(units), side, square)


class ResNet(RunNetwork):
    """A stack of independent residual networks: ``[runs, batch, channels, side, side] -> [runs, batch]`` logits.

    All parameters of a run lie in one row of ``weight``. On a GPU with Triton all runs go through the same kernels
    (``resnet_kernels``); elsewhere row after row. ``precision`` "bf16" computes and keeps activations in bfloat16;
    parameters, statistics and gradients of parameters stay in ``dtype``.
    """

    mean: Tensor  # [runs, channels of all units]: running statistics
    variance: Tensor

    def __init__(
        self,
        seeds: Tensor,
        shape: tuple[int, ...],
        stages: tuple[tuple[int, int], ...],
        pool: int | None = None,
        large: int | None = None,
        stream: str = "init",
        dtype: torch.dtype = torch.float32,
        precision: str = "float32",
    ) -> None:
        super().__init__()
        if len(shape) != 3 or shape[1] != shape[2]:
            raise UserError(f"a residual network needs square images, and the inputs have the shape {shape}; use mlp")
        if precision not in PRECISIONS:
            raise UserError(f"the precision is '{precision}'; choose one of: {', '.join(PRECISIONS)}")
        stem_stride = 2 if large is not None and shape[1] > large else 1
        self.plan = make_plan(shape[1], shape[0], stages, pool, stem_stride)
        self.compute = torch.bfloat16 if precision == "bf16" else dtype
        self.width = (-(-shape[1] // stem_stride)) ** 2 * stages[0][1]
        self.weight = nn.Parameter(self._initial(seeds, stream, dtype))
        for name, value in (("mean", 0.0), ("variance", 1.0)):
            start = torch.full((len(seeds), self.plan.channels), value, dtype=dtype, device=seeds.device)
            self.register_buffer(name, start)

    def _initial(self, seeds: Tensor, stream: str, dtype: torch.dtype) -> Tensor:
        """Convolutions normal with variance ``2 / (k k c_out)``, scales 1, shifts 0, the linear layer as PyTorch's."""
        plan = self.plan
        theta = torch.zeros(len(seeds), sum(plan.sizes), dtype=dtype, device=seeds.device)
        parts = theta.split(plan.sizes, 1)
        for unit in plan.units:
            drawn = random.normal(seeds, f"{stream}:conv{unit.number}", (unit.weights,))
            parts[unit.number].copy_(drawn * (2 / (unit.kernel**2 * unit.c_out)) ** 0.5)
            parts[len(plan.units) + unit.number].fill_(1.0)
        for part, name in zip(parts[-3:-1], ("weight", "bias"), strict=True):
            drawn = 2 * random.uniform(seeds, f"{stream}:linear:{name}", (part.shape[1],)) - 1
            part.copy_(drawn * plan.features**-0.5)
        return theta

    def decays(self) -> list[Tensor]:
        """Return where weight decay acts: on the convolutions and the linear layer's weights."""
        mask = torch.zeros_like(self.weight[:1])
        parts = mask.split(self.plan.sizes, 1)
        for part in (*parts[: len(self.plan.units)], parts[-3]):
            part.fill_(1.0)
        return [mask]

    def heads(self, x: Tensor) -> Tensor:
        """Return both outputs, ``[runs, batch, 2]``."""
        parts = self.weight.split(self.plan.sizes, 1)
        if resnet_fused.available(self.weight):
            last = resnet_fused.features(self, x.permute(0, 1, 3, 4, 2).to(self.compute).contiguous(), parts)
        else:
            rows = [self._row(x[run], run, [part[run] for part in parts]) for run in range(len(x))]
            last = torch.stack(rows)
        linear = parts[-3].view(len(x), 2, -1)
        return torch.baddbmm(parts[-2].unsqueeze(1), self._pooled(last), linear.transpose(1, 2))

    def _pooled(self, last: Tensor) -> Tensor:
        """Average squares of the last map (``[runs, n, side, side, channels]``): ``[runs, n, features]``."""
        runs, n, side, _, channels = last.shape
        square = self.plan.pool
        cut = last[:, :, : side // square * square, : side // square * square]
        squares = cut.reshape(runs, n, side // square, square, side // square, square, channels)
        return squares.to(self.weight.dtype).mean((3, 5)).reshape(runs, n, -1)

    def _row(self, x: Tensor, run: int, parts: list[Tensor]) -> Tensor:
        """Return the last map of one run, ``[n, side, side, channels]``, with PyTorch's own operations."""
        units = len(self.plan.units)

        def apply(unit: Unit, x: Tensor) -> Tensor:
            w = parts[unit.number].view(unit.kernel, unit.kernel, unit.c_in, unit.c_out).permute(3, 2, 0, 1)
            y = conv2d(x, w.to(x.dtype), stride=unit.stride, padding=unit.kernel // 2)
            statistics = self.mean[run, unit.channels], self.variance[run, unit.channels]
            scale, shift = parts[units + unit.number], parts[2 * units + unit.number]
            return batch_norm(y, *statistics, scale, shift, self.training, MOMENTUM, EPS)

        x = x.to(self.compute, memory_format=torch.channels_last)
        with torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False):
            x = apply(self.plan.stem, x).relu()
            for block in self.plan.blocks:
                inner = apply(block.second, apply(block.first, x).relu())
                x = (inner + (x if block.shortcut is None else apply(block.shortcut, x))).relu()
        return x.permute(0, 2, 3, 1)


def resnet32(seeds: Tensor, shape: tuple[int, ...], **how: object) -> ResNet:
    """Build the published code's network."""
    return ResNet(seeds, shape, ((5, 16), (5, 32), (5, 64)), pool=8, **how)  # type: ignore[arg-type]


def resnet34(seeds: Tensor, shape: tuple[int, ...], **how: object) -> ResNet:
    """Build the network of the paper's text."""
    return ResNet(seeds, shape, ((3, 64), (4, 128), (6, 256), (3, 512)), large=32, **how)  # type: ignore[arg-type]
