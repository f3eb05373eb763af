"""Finding the files of a package that declare something, so that a new one is one file and no list has to name it."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType


def modules_of(package: ModuleType) -> Iterator[ModuleType]:
    """Import the modules of a package, in the order of their names."""
    for module in pkgutil.iter_modules(package.__path__):
        yield import_module(f"{package.__name__}.{module.name}")
