"""What a network on the run axis offers, and what it declares about itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn

Descend = Callable[[int, Tensor], None]  # takes a run and the gradient of its first parameters


class RunNetwork(nn.Module):
    """A stack of independent networks, one per seed: ``[runs, batch, …] -> [runs, batch]`` logits.

    Parameters are ``[runs, …]``, and so are buffers. A subclass that can be named in a spec
    declares its ``name`` and ``images``, defines ``heads`` or ``forward``, and is built from the
    seeds of its runs and the shape of one example. A network that does not need images must take
    them too: it flattens its inputs (``x.flatten(2)``).
    """

    name: ClassVar[str] = ""
    family: ClassVar[str] = ""  # networks of one kind
    images: ClassVar[bool]  # needs images
    meaning: ClassVar[str] = ""
    capacity: ClassVar[Mapping[str, int]] = {
        "cpu": 16,
        "cuda": 64,
    }  # runs of one fleet, at most: time or memory
    fills_gpu: ClassVar[bool] = False  # one fleet has enough to do for a GPU
    default_batch: ClassVar[int] = 128  # of configuration 0
    batch_exponents: ClassVar[tuple[int, int]] = (
        4,
        7,
    )  # of two, cut to an integer: 16, 32 and 64 are drawn
    precisions: ClassVar[tuple[str, ...]] = ("float32",)  # what activations can be computed in
    probe: ClassVar[Mapping[str, tuple[int, int]]] = {"cpu": (1, 8), "cuda": (8, 64)}
    """Runs and batch size, at most, with which a step on images is timed."""

    # The largest number of activations of one example in a layer: bounds how many go through at
    # once
    width: int = 512

    def __init__(
        self,
        seeds: Tensor,
        shape: tuple[int, ...],
        stream: str = "init",
        dtype: torch.dtype = torch.float32,
        precision: str = "float32",
    ) -> None:
        super().__init__()

    def heads(self, x: Tensor) -> Tensor:
        """Return both outputs, ``[runs, batch, 2]``."""
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        """Return the logit ``z1 - z0``, ``[runs, batch]``; inputs get no gradient."""
        z = self.heads(x)
        return z[..., 1] - z[..., 0]

    def decays(self) -> list[Tensor]:
        """Return where weight decay acts, one mask per parameter: on matrices, not on biases and
        normalization.
        """
        return [torch.full_like(p[:1], float(p.dim() > 2)) for p in self.parameters()]

    def descend_early(self, loss: Tensor, descend: Descend) -> int:
        """Have ``descend`` called in the backward pass of a loss, run by run, if that is possible.

        Return for how many numbers of each run, the first of the only parameter; the gradient that
        the backward pass gives has no values for them. An update is faster while the gradient is
        in the cache.
        """
        return 0
