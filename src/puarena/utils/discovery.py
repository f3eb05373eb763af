"""Discovery of what the modules of a package declare: a new file needs no entry in a list."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from types import ModuleType
from typing import Any, TypeVar

Base = TypeVar("Base")


def import_modules(package: str) -> list[ModuleType]:
    """Import the modules of a package in the order of their names; subpackages are left out."""
    files = pkgutil.iter_modules(import_module(package).__path__)
    return [import_module(f"{package}.{file.name}") for file in files if not file.ispkg]


def find_declared(package: str, attribute: str) -> list[Any]:
    """Return the value of ``attribute`` in every module of a package that defines it."""
    modules = import_modules(package)
    return [getattr(module, attribute) for module in modules if hasattr(module, attribute)]


def discover(package: str, base: type[Base]) -> list[type[Base]]:
    """Return the subclasses of ``base`` that the modules of a package define."""
    return [cls for module in import_modules(package) for cls in find_classes(module, base)]


def find_classes(module: ModuleType, base: type[Base]) -> list[type[Base]]:
    """Return the subclasses of ``base`` that a module itself defines, in their order."""
    found = []
    for value in vars(module).values():
        is_own = isinstance(value, type) and value.__module__ == module.__name__
        if is_own and issubclass(value, base) and value is not base:
            found.append(value)
    return found
