"""Networks with a leading run axis: ``[runs, batch, …] -> [runs, batch]`` logits, rows never mix.

Every parameter has the run axis first. ``heads`` gives the two outputs, ``forward`` their difference.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import torch
from torch import Tensor, nn

from puarena.errors import unknown
from puarena.networks.base import RunNetwork
from puarena.networks.mlp import MLP
from puarena.networks.resnet import ResNet, resnet32, resnet34
from puarena.networks.stacked import Stacked

RESIDUAL: dict[str, Callable[..., RunNetwork]] = {"resnet32": resnet32, "resnet34": resnet34}
NETWORKS: dict[str, Callable[..., RunNetwork]] = {"mlp": MLP, **RESIDUAL}
MEANINGS = {
    "mlp": "one hidden layer of 500 ReLU units; images are flattened",
    "resnet32": "the published code's small residual network for images: 15 blocks of 16 to 64 channels",
    "resnet34": "the residual network of the paper's text, for images: 16 blocks of 64 to 512 channels",
}


def build(
    name: str | Callable[[int], nn.Module],
    seeds: Tensor,
    shape: tuple[int, ...],
    stream: str,
    dtype: torch.dtype,
    precision: str = "float32",
) -> RunNetwork:
    """Build a network for inputs of ``shape``, one copy per seed, initialised from the stream ``stream``.

    ``name`` is one of ``NETWORKS``, or a function of the number of features that returns a module (``Stacked``).
    ``precision`` is that of a residual network's activations ("float32" or "bf16"); the others always use ``dtype``.
    """
    if callable(name):
        return Stacked(name, seeds, prod(shape), f"init:{stream}", dtype)
    if name not in NETWORKS:
        raise unknown("network", name, NETWORKS)
    if name in RESIDUAL:
        return RESIDUAL[name](seeds, shape, stream=f"init:{stream}", dtype=dtype, precision=precision)
    return NETWORKS[name](seeds, prod(shape), stream=f"init:{stream}", dtype=dtype)


__all__ = ["MEANINGS", "MLP", "NETWORKS", "RESIDUAL", "ResNet", "RunNetwork", "Stacked", "build"]
