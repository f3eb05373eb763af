"""Networks with a leading run axis: ``[runs, batch, …] -> [runs, batch]`` logits, rows never mix.

Every parameter has the run axis first. ``heads`` gives the two outputs, ``forward`` their difference. A network is one
class in one file of this package, or in a plugin's; what it declares is all that the other rooms know of it.
"""

from __future__ import annotations

from collections.abc import Callable

from puarena.errors import UserError
from puarena.without_torch import torch_or_names

with torch_or_names():
    import torch
    from torch import Tensor, nn

    from puarena.networks.base import RunNetwork
    from puarena.networks.mlp import MLP
    from puarena.networks.registry import get, is_plugin, names, register
    from puarena.networks.stacked import Stacked

DEFAULT = MLP.name  # where nobody names one


def kind_of(network: str | Callable[[int], nn.Module]) -> type[RunNetwork]:
    """Return the class of a network's name, or of a function of the number of features that returns a module."""
    return Stacked if callable(network) else get(network)


def build(
    network: str | Callable[[int], nn.Module],
    seeds: Tensor,
    shape: tuple[int, ...],
    stream: str,
    dtype: torch.dtype,
    precision: str = "float32",
) -> RunNetwork:
    """Build a network for inputs of ``shape``, one copy per seed, initialized from the stream ``stream``.

    ``network`` is a name, or a function of the number of features that returns a module (``Stacked``).
    """
    if callable(network):
        return Stacked(seeds, shape, f"init:{stream}", dtype, make=network)
    cls = get(network)
    if precision not in cls.precisions:
        raise UserError(
            f"the precision of {network} is '{precision}'; choose one of: {', '.join(cls.precisions)}"
        )
    return cls(seeds, shape, f"init:{stream}", dtype, precision)


__all__ = [
    "DEFAULT",
    "RunNetwork",
    "Stacked",
    "build",
    "get",
    "is_plugin",
    "kind_of",
    "names",
    "register",
]
