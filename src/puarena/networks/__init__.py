"""Networks with a leading run axis: ``[runs, batch, …] -> [runs, batch]`` logits, rows never mix.

Every parameter has the run axis first. ``heads`` gives the two outputs, ``forward`` their difference.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from puarena.errors import unknown
from puarena.networks.base import RunNetwork
from puarena.networks.mlp import MLP

NETWORKS: dict[str, Callable[..., RunNetwork]] = {"mlp": MLP}


def build(name: str, seeds: Tensor, shape: tuple[int, ...], stream: str, dtype: torch.dtype) -> RunNetwork:
    """Build a network for inputs of ``shape``, one copy per seed, initialised from the stream ``stream``."""
    if name not in NETWORKS:
        raise unknown("network", name, NETWORKS)
    features = 1
    for size in shape:
        features *= size
    return NETWORKS[name](seeds, features, stream=f"init:{stream}", dtype=dtype)


__all__ = ["MLP", "NETWORKS", "RunNetwork", "build"]
