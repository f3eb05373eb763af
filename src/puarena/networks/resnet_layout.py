"""What a residual network is made of: its units, their order and where their parameters lie."""

from __future__ import annotations

from dataclasses import dataclass

ALIGN = 64  # a run's parameters are padded to a multiple of so many: aligned rows load faster
EPS, MOMENTUM = 1e-5, 0.1  # of batch normalization


@dataclass(frozen=True)
class Unit:
    """A convolution without bias and the batch normalization after it."""

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
    """``relu(second(relu(first(x))) + shortcut(x))``; the default shortcut is ``x``."""

    first: Unit
    second: Unit
    shortcut: Unit | None


@dataclass(frozen=True)
class Layout:
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
        """Numbers of parameters: every unit's weights, scales, shifts, then the linear layer and
        the padding.
        """
        channels = [unit.c_out for unit in self.units]
        used = [unit.weights for unit in self.units] + channels + channels + [2 * self.features, 2]
        return [*used, -sum(used) % ALIGN]


def lay_out(
    side: int, c_in: int, stages: tuple[tuple[int, int], ...], pool: int | None, stem_stride: int
) -> Layout:
    """Lay out a network: ``stages`` are (blocks, channels); ``pool`` None averages the whole last
    map.
    """
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
            shortcut = (
                unit(width, channels, 1, stride) if stride != 1 or width != channels else None
            )
            blocks.append(
                Block(unit(width, channels, 3, stride), unit(channels, channels, 3, 1), shortcut)
            )
            width = channels
    square = side if pool is None or side < pool else pool
    return Layout(stem, tuple(blocks), tuple(units), side, square)
