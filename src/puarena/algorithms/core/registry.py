"""Which algorithms there are: the package's own files, installed plugins (entry points), plugin files."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterable
from functools import lru_cache
from importlib.metadata import entry_points
from types import ModuleType

from puarena.algorithms import Algorithm
from puarena.algorithms.core.entry import AlgorithmEntry, entries_of
from puarena.errors import UserError, unknown_name
from puarena.paper import place
from puarena.without_torch import torch_or_names

ENTRY_POINT = "puarena.algorithms"
SETTINGS = ("one-sample", "two-sample", "either")

RESERVED = (
    "all",
    "true",
    "none",
    "null",
)  # words that mean something else where algorithms are named

_plugins: dict[str, AlgorithmEntry] = {}


def classes_in(module: ModuleType) -> list[type[Algorithm]]:
    """The algorithms a module defines itself (imported ones do not count), in order of definition."""
    own = [
        c for c in vars(module).values() if isinstance(c, type) and c.__module__ == module.__name__
    ]
    return [c for c in own if issubclass(c, Algorithm) and c.name]


def _by_name(classes: Iterable[type[Algorithm]], origin: str) -> dict[str, AlgorithmEntry]:
    listed = sorted(classes, key=lambda cls: place(cls.name))
    return {e.name: e for cls in listed for e in entries_of(cls, origin)}


@lru_cache(maxsize=2)
def _built_in(package_name: str, origin: str) -> dict[str, AlgorithmEntry]:
    package = importlib.import_module(package_name)
    files = [file.name for file in pkgutil.iter_modules(package.__path__) if not file.ispkg]
    with torch_or_names():
        modules = [importlib.import_module(f"{package_name}.{name}") for name in files]
    found = [cls for module in modules for cls in classes_in(module)]
    released = origin == "released"
    return _by_name([cls for cls in found if bool(cls.variant) == released], origin)


@lru_cache(maxsize=1)
def _installed() -> dict[str, AlgorithmEntry]:
    return _by_name((point.load() for point in entry_points(group=ENTRY_POINT)), "plugin")


def entries() -> dict[str, AlgorithmEntry]:
    """Every registered algorithm by name: in the paper's order, released variants, plugins."""
    own = _built_in("puarena.algorithms", "puarena")
    return {
        **own,
        **_built_in("puarena.algorithms", "released"),
        **_installed(),
        **_plugins,
    }


def names(origin: str | None = None) -> list[str]:
    """The registered names, calibrated forms after their plain form."""
    return [entry.name for entry in entries().values() if origin in (None, entry.origin)]


def get(name: str) -> AlgorithmEntry:
    """The entry of a registered name."""
    known = entries()
    if name not in known:
        raise unknown_name("algorithm", name, known)
    return known[name]


def register(cls: type[Algorithm], built_in: Iterable[str]) -> list[str]:
    """Register an algorithm of a plugin, and its calibrated form; ``built_in`` names cannot be used again."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9._-]*", cls.name):
        raise UserError(
            f"an algorithm is called '{cls.name}'; a name has small letters, digits, '-', '_' and '.' only"
        )
    if cls.name in RESERVED or cls.name.endswith((".yaml", ".yml", ".py")):
        raise UserError(
            f"an algorithm is called '{cls.name}', by which it could not be selected; choose another name"
        )
    if cls.setting not in SETTINGS:
        raise UserError(
            f"the setting of algorithm '{cls.name}' is '{cls.setting}'; choose one of: {', '.join(SETTINGS)}"
        )
    fresh = {e.name: e for e in entries_of(cls, "plugin")}
    clashes = sorted(set(fresh) & set(built_in))
    if clashes:
        raise UserError(
            f"an algorithm is called '{clashes[0]}', which is built in; choose another name"
        )
    _plugins.update(fresh)
    return list(fresh)
