"""The base classes of networks: on the run axis, and any torch module stacked on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from puarena.random import stream_id

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


class Stacked(RunNetwork):
    """One copy of ``make(features)`` per seed; the module takes ``[batch, features]`` and gives one
    or two outputs.

    With one output it is the logit; with two, the logit is the second minus the first. The module
    must not keep buffers (batch normalization) nor draw random numbers (dropout): rows could mix,
    or a run would not repeat itself. A subclass that has a ``name`` defines ``make`` as a static
    method.
    """

    images = False
    make: Callable[[int], nn.Module]

    def __init__(
        self,
        seeds: Tensor,
        shape: tuple[int, ...],
        stream: str = "init",
        dtype: torch.dtype = torch.float32,
        precision: str = "float32",
        make: Callable[[int], nn.Module] | None = None,
    ) -> None:
        super().__init__(seeds, shape, stream, dtype, precision)
        copies = [_seeded(make or self.make, prod(shape), seed, stream) for seed in seeds.tolist()]
        first = copies[0]
        if not isinstance(first, nn.Module) or not list(first.parameters()):
            raise ValueError(
                f"network must build a torch module with parameters, not a {type(first).__name__}"
            )
        if list(first.buffers()) or any(
            isinstance(m, nn.modules.dropout._DropoutNd) for m in first.modules()
        ):
            raise ValueError(
                "network must have neither buffers (batch normalization) nor dropout; use LayerNorm"
            )
        self.names = [name for name, _ in first.named_parameters()]
        for at, parts in enumerate(zip(*(list(c.parameters()) for c in copies), strict=True)):
            stacked = torch.stack([p.detach().to(dtype) for p in parts]).to(seeds.device)
            self.register_parameter(f"p{at}", nn.Parameter(stacked))
        self._skeleton = [first.to("meta")]  # in a list: its parameters are not this module's

    def _one(self, parameters: dict[str, Tensor], x: Tensor) -> Tensor:
        return functional_call(self._skeleton[0], parameters, (x,))

    def heads(self, x: Tensor) -> Tensor:
        """Return both outputs, ``[runs, batch, 2]``; a single output stands beside a zero."""
        parameters: dict[str, Tensor] = dict(zip(self.names, self.parameters(), strict=True))
        z = vmap(self._one)(parameters, x.flatten(2))
        z = z.unsqueeze(-1) if z.dim() == 2 else z
        if z.dim() != 3 or z.shape[-1] not in (1, 2):
            raise ValueError(
                f"network must give one or two outputs per row, and gave shape {tuple(z.shape[1:])}"
            )
        return torch.cat([torch.zeros_like(z), z], -1) if z.shape[-1] == 1 else z


def _seeded(make: Callable[[int], nn.Module], features: int, seed: int, stream: str) -> nn.Module:
    """Build one module with torch's global generator set from the run's seed, and set back
    afterwards.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed((seed ^ stream_id(stream)) % 2**63)
        return make(features)
