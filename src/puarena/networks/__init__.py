"""Networks with a leading run axis: ``[runs, batch, …] -> [runs, batch]`` logits; rows never mix.

Every parameter has the run axis first. ``heads`` returns the two outputs, ``forward`` their
difference. A network is one class in one file of this package or of a plugin; other code only uses
what the class declares.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor, nn

from puarena.errors import UserError, unknown_name
from puarena.networks.base import RunNetwork, Stacked
from puarena.networks.mlp import MLP
from puarena.utils.discovery import discover

__all__ = [
    "DEFAULT",
    "RunNetwork",
    "Stacked",
    "build",
    "get",
    "is_plugin",
    "names",
    "register",
    "resolve",
]

DEFAULT = MLP.name
TABLE, IMAGE = (5,), (3, 16, 16)  # shapes of the examples that a new network is tried on
DEVICES = ("cpu", "cuda")
_plugins: dict[str, type[RunNetwork]] = {}


@lru_cache(maxsize=1)
def _built_in() -> dict[str, type[RunNetwork]]:
    return {cls.name: cls for cls in discover("puarena.networks", RunNetwork) if cls.name}


def names() -> list[str]:
    """Return the names of all networks, those of the package first."""
    return [*_built_in(), *_plugins]


def get(name: str) -> type[RunNetwork]:
    """Return the class of a registered name."""
    networks = {**_built_in(), **_plugins}
    if name not in networks:
        raise unknown_name("network", name, networks)
    return networks[name]


def resolve(network: str | Callable[[int], nn.Module]) -> type[RunNetwork]:
    """Return the class of a network's name, or of a function that returns a module.

    The function is called with the number of features.
    """
    return Stacked if callable(network) else get(network)


def build(
    network: str | Callable[[int], nn.Module],
    seeds: Tensor,
    shape: tuple[int, ...],
    stream: str,
    dtype: torch.dtype,
    precision: str = "float32",
) -> RunNetwork:
    """Build a network, one copy per seed, initialized from the random stream ``stream``.

    Args:
        network: a name, or a function of the number of features that returns a module.
        seeds: the seeds of the runs.
        shape: the shape of one example.
        stream: the name of the random stream.
        dtype: the type of the parameters.
        precision: the precision of the activations.
    """
    if callable(network):
        return Stacked(seeds, shape, f"init:{stream}", dtype, make=network)
    cls = get(network)
    if precision not in cls.precisions:
        raise UserError(
            f"the precision of {network} is '{precision}'; choose one of: "
            f"{', '.join(cls.precisions)}",
            "invalid-value",
        )
    return cls(seeds, shape, f"init:{stream}", dtype, precision)


def register(cls: type[RunNetwork]) -> str:
    """Add a network that is not part of the package, after trying it; return its name."""
    name = cls.name
    if not (isinstance(name, str) and re.fullmatch(r"[a-z][a-z0-9_-]*", name)):
        raise UserError(
            f"{cls.__name__} has the name {name!r}; a network's name is one word in lower case",
            "invalid-plugin",
        )
    known = {**_built_in(), **_plugins}.get(name, cls)
    # The same file may be loaded twice, which gives two classes of the same qualified name.
    if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
        raise UserError(
            f"a network '{name}' exists already ({known.__qualname__}); choose another name",
            "conflict",
        )
    if fault := find_fault(cls):
        raise UserError(f"the network '{name}' cannot be used: {fault}", "invalid-plugin")
    _plugins[name] = cls
    return name


def is_plugin(name: str) -> bool:
    """Return whether a network was registered from outside the package."""
    return name in _plugins


# -- the trial of a new network --------------------------------------------------------------------


def find_fault(cls: type[RunNetwork]) -> str:
    """Return why a class cannot be trained in fleets; empty if it can."""
    if not isinstance(getattr(cls, "images", None), bool):
        return "it does not declare whether it needs images; set images = True or images = False"
    if cls.heads is RunNetwork.heads and cls.forward is RunNetwork.forward:
        return "it defines neither heads nor forward"
    for device in DEVICES:
        capacity = cls.capacity.get(device)
        if not isinstance(capacity, int) or capacity < 1:
            return (
                f"its capacity is {dict(cls.capacity)}; give the number of runs in a fleet, 1 or "
                "more, for each of 'cpu' and 'cuda'"
            )
    for shape in (IMAGE,) if cls.images else (TABLE, IMAGE):
        kind = "images" if shape == IMAGE else "tables"
        try:
            fault = _try_on(cls, shape)
        except Exception as error:  # a plugin may raise anything
            text = f"{type(error).__name__}: {error}".splitlines()[0]
            is_unflattened = shape == IMAGE and not cls.images
            hint = "; images must be flattened with x.flatten(2)" if is_unflattened else ""
            return f"on {kind}, with examples of shape {shape}, it raises {text}{hint}"
        if fault:
            return f"on {kind}, {fault}"
    return ""


def _try_on(cls: type[RunNetwork], shape: tuple[int, ...]) -> str:
    """Try two runs on examples of one shape, together and the second alone; return a fault."""
    runs, batch = 2, 4
    seeds = torch.arange(3, 3 + runs)
    x = torch.randn(runs, batch, *shape, generator=torch.Generator().manual_seed(0))
    both, alone = cls(seeds, shape), cls(seeds[1:], shape)
    logits = both(x)
    if tuple(logits.shape) != (runs, batch):
        return (
            f"its logits for {runs} runs of {batch} examples have the shape {tuple(logits.shape)}"
        )
    parameters = list(both.parameters())
    has_run_axis = [p.dim() >= 2 and len(p) == runs for p in (*parameters, *both.buffers())]
    if not parameters or not all(has_run_axis):
        return "its parameters and buffers do not all begin with the axis of the runs"
    if len(both.decays()) != len(parameters):
        return f"decays() returns {len(both.decays())} masks for {len(parameters)} parameters"
    if not torch.allclose(logits[1:], alone(x[1:]), rtol=1e-3, atol=1e-4):
        return (
            "a run has other logits alone than with another: runs mix, or random numbers do not "
            "depend on the run's seed"
        )
    return ""
