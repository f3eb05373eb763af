"""Counter-based random numbers with a leading run axis.

A number is a function of (the run's seed, a named stream, a counter) and of nothing else: not of
the device, not of the runs that travel in the same fleet, not of what was drawn before. So a run
makes the same choices alone and in a fleet, on a CPU and on a GPU, and there is no generator state
to save when a run is interrupted. The mixing function is SplitMix64 (Steele, Lea, Flood: Fast
splittable pseudorandom number generators, OOPSLA 2014).

Shapes: seeds are ``int64 [runs]``; draws are ``[runs, *shape]``.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from math import prod

import numpy as np
import torch
from torch import Tensor

_GOLDEN = 0x9E3779B97F4A7C15 - 2**64  # as signed 64-bit numbers; products wrap around
_MIX_1 = 0xBF58476D1CE4E5B9 - 2**64
_MIX_2 = 0x94D049BB133111EB - 2**64
_QUANTILE_CELLS = 1 << 14


def _shift(z: Tensor, by: int) -> Tensor:
    """Logical right shift of a signed tensor."""
    return (z >> by) & ((1 << (64 - by)) - 1)


def _mix(z: Tensor) -> Tensor:
    z = (z ^ _shift(z, 30)) * _MIX_1
    z = (z ^ _shift(z, 27)) * _MIX_2
    return z ^ _shift(z, 31)


@lru_cache(maxsize=4096)
def stream_id(name: str) -> int:
    """Return a stable 63-bit number for a stream's name."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little") >> 1


def bits(seeds: Tensor, stream: str, shape: tuple[int, ...], start: int = 0) -> Tensor:
    """Return ``int64 [runs, *shape]`` random words: counters ``start, start + 1, …`` of a stream,
    for every run.
    """
    counter = torch.arange(1, prod(shape) + 1, device=seeds.device, dtype=torch.int64) + start
    key = _mix(_mix(seeds + _GOLDEN) ^ stream_id(stream))
    return _mix(key.unsqueeze(-1) + counter * _GOLDEN).view(len(seeds), *shape)


def uniform(
    seeds: Tensor,
    stream: str,
    shape: tuple[int, ...],
    start: int = 0,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Return uniform draws in the open interval (0, 1)."""
    drawn = (_shift(bits(seeds, stream, shape, start), 40).to(torch.float64) + 0.5) * 2.0**-24
    return drawn.to(dtype).clamp_max(1 - 2.0**-24)  # the largest would be rounded to 1 in float32


def normal(seeds: Tensor, stream: str, shape: tuple[int, ...]) -> Tensor:
    """Return standard normal draws in float64."""
    return 2**0.5 * torch.erfinv(2 * uniform(seeds, stream, shape, dtype=torch.float64) - 1)


def integers(
    seeds: Tensor, stream: str, high: int, shape: tuple[int, ...], start: int = 0
) -> Tensor:
    """Return uniform integers in ``0 … high - 1``."""
    return _shift(bits(seeds, stream, shape, start), 33) * high >> 31


def permutation(seeds: Tensor, stream: str, n: int, count: int = 1, start: int = 0) -> Tensor:
    """Return ``int64 [runs, count, n]``: uniformly random permutations of ``0 … n - 1``.

    Random words with the position in their low bits are sorted: one sort, no ties, the same on
    every device.
    """
    width = max(1, (n - 1).bit_length())
    words = bits(seeds, stream, (count, n), start * n) >> width << width | torch.arange(
        n, device=seeds.device
    )
    if (
        words.device.type == "cpu"
    ):  # numpy's vectorized sort is several times faster than torch's here
        order = torch.from_numpy(np.sort(words.numpy(), axis=-1))
    else:
        order = words.sort(-1).values
    return order & ((1 << width) - 1)


@lru_cache(maxsize=32)
def _beta_quantiles(a: float) -> np.ndarray:
    from scipy.special import betaincinv

    return betaincinv(a, a, np.linspace(0.0, 1.0, _QUANTILE_CELLS + 1))


def symmetric_beta(
    seeds: Tensor,
    stream: str,
    a: float,
    shape: tuple[int, ...],
    start: int = 0,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Return Beta(a, a) draws by interpolation in a table of the quantile function."""
    table = torch.as_tensor(_beta_quantiles(float(a)), device=seeds.device)
    position = uniform(seeds, stream, shape, start, torch.float64) * _QUANTILE_CELLS
    cell = position.long()
    return torch.lerp(table[cell], table[cell + 1], position - cell).to(dtype)


class Draws:
    """Random draws for a block of steps ``start … start + count - 1``; every result is ``[count,
    runs, …]``.

    A step's draws depend on the run's seed, the stream's name and the step's number alone.
    """

    def __init__(
        self, seeds: Tensor, start: int, count: int, dtype: torch.dtype = torch.float32
    ) -> None:
        self.seeds, self.start, self.count, self.dtype = seeds, start, count, dtype

    def uniform(self, name: str, *shape: int) -> Tensor:
        """Uniform draws in (0, 1)."""
        size = prod(shape)
        return uniform(
            self.seeds, name, (self.count, *shape), self.start * size, self.dtype
        ).transpose(0, 1)

    def beta(self, name: str, a: float) -> Tensor:
        """One Beta(a, a) draw per step and run."""
        return symmetric_beta(self.seeds, name, a, (self.count,), self.start, self.dtype).transpose(
            0, 1
        )

    def integers(self, name: str, high: int, *shape: int) -> Tensor:
        """Uniform integers in ``0 … high - 1``."""
        return integers(
            self.seeds, name, high, (self.count, *shape), self.start * prod(shape)
        ).transpose(0, 1)

    def permutation(self, name: str, n: int) -> Tensor:
        """One random permutation of ``0 … n - 1`` per step and run."""
        return permutation(self.seeds, name, n, self.count, self.start).transpose(0, 1)
