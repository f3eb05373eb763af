"""Which networks there are: those of this package's files, and those that plugins bring."""

from __future__ import annotations

import importlib
import pkgutil
import re
from functools import lru_cache

import torch

from puarena.errors import UserError, unknown_name
from puarena.networks.base import RunNetwork
from puarena.without_torch import torch_or_names

TABLE, IMAGE = (5,), (3, 16, 16)  # shapes of the examples that a new network is tried with
DEVICES = ("cpu", "cuda")
_plugins: dict[str, type[RunNetwork]] = {}


@lru_cache(maxsize=1)
def _built_in() -> dict[str, type[RunNetwork]]:
    package = importlib.import_module("puarena.networks")
    files = [file.name for file in pkgutil.iter_modules(package.__path__) if not file.ispkg]
    with torch_or_names():
        modules = [importlib.import_module(f"{package.__name__}.{file}") for file in files]
    return {
        cls.name: cls
        for module in modules
        for cls in vars(module).values()
        if isinstance(cls, type)
        and issubclass(cls, RunNetwork)
        and cls.__module__ == module.__name__
        and cls.name
    }


def names() -> list[str]:
    """Return the names of all networks, the package's own first."""
    return [*_built_in(), *_plugins]


def get(name: str) -> type[RunNetwork]:
    """Return the class of a registered name."""
    networks = {**_built_in(), **_plugins}
    if name not in networks:
        raise unknown_name("network", name, networks)
    return networks[name]


def register(cls: type[RunNetwork]) -> str:
    """Add a network that is not of this package, if it is fit for use; return its name."""
    name = cls.name
    if not (isinstance(name, str) and re.fullmatch(r"[a-z][a-z0-9_-]*", name)):
        raise UserError(
            f"{cls.__name__} has the name {name!r}; a network's name is one word in lower case"
        )
    known = {**_built_in(), **_plugins}.get(name, cls)
    if (known.__module__, known.__qualname__) != (
        cls.__module__,
        cls.__qualname__,
    ):  # a file may be loaded twice
        raise UserError(
            f"there is a network '{name}' already ({known.__qualname__}); give the new one another name"
        )
    if fault := _fault(cls):
        raise UserError(f"the network '{name}' cannot be used: {fault}")
    _plugins[name] = cls
    return name


def is_plugin(name: str) -> bool:
    """Was this network registered from outside the package?"""
    return name in _plugins


def _fault(cls: type[RunNetwork]) -> str:
    """What a class lacks to be trained in fleets, in words; empty for a fit one."""
    if not isinstance(getattr(cls, "images", None), bool):
        return "it does not say whether it needs images; set images = True or images = False"
    if cls.heads is RunNetwork.heads and cls.forward is RunNetwork.forward:
        return "it defines neither heads nor forward"
    if any(
        not isinstance(cls.capacity.get(device), int) or cls.capacity[device] < 1
        for device in DEVICES
    ):
        return f"its capacity is {dict(cls.capacity)}; give the runs of a fleet, 1 or more, for each of 'cpu' and 'cuda'"
    for shape in (IMAGE,) if cls.images else (TABLE, IMAGE):
        kind = "images" if shape == IMAGE else "tables"
        try:
            fault = _fault_on(cls, shape)
        except Exception as error:
            words = f"{type(error).__name__}: {error}".splitlines()[0]
            hint = (
                "; images must be flattened with x.flatten(2)"
                if shape == IMAGE and not cls.images
                else ""
            )
            return f"on {kind}, with examples of shape {shape}, it ends in {words}{hint}"
        if fault:
            return f"on {kind}, {fault}"
    return ""


def _fault_on(cls: type[RunNetwork], shape: tuple[int, ...]) -> str:
    """Try two runs on examples of one shape, together and the second alone."""
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
    if not parameters or any(p.dim() < 2 or len(p) != runs for p in (*parameters, *both.buffers())):
        return "its parameters and buffers do not all begin with the axis of the runs"
    if len(both.decays()) != len(parameters):
        return f"decays() gives {len(both.decays())} masks for {len(parameters)} parameters"
    if not torch.allclose(logits[1:], alone(x[1:]), rtol=1e-3, atol=1e-4):
        return "a run gives other logits alone than beside another: runs mix, or draw numbers not of their seeds"
    return ""
