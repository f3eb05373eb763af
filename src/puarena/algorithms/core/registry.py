"""Which algorithms there are: the package's own files, installed plugins (entry points), and files named by a user."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import sys
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import entry_points
from pathlib import Path

from puarena.algorithms.core.base import Algorithm
from puarena.errors import UserError, unknown

ENTRY_POINT = "puarena.algorithms"
RELEASED = "@released"
ORDER = (
    "pn-oracle", "pn-naive", "upu", "nnpu", "nnpu-ga", "nnpu-ss", "pusb", "pubn", "vpu", "pan", "cvir", "dist-pu",
    "p3mix-e", "p3mix-c", "lbe", "count-loss", "robust-pu", "holistic-pu", "pue", "glws",
)  # fmt: skip


@dataclass(frozen=True)
class Entry:
    """A registered name: its class, and whether it is the calibrated form."""

    name: str
    cls: type[Algorithm]
    calibrated: bool
    origin: str  # "puarena", "released" (variants of the published code), "classic" (fitted at once) or "plugin"

    @property
    def title(self) -> str:
        """The name as the paper prints it."""
        return f"{self.cls.title}{'-c' if self.calibrated else ''}{RELEASED if self.name.endswith(RELEASED) else ''}"


_extra: dict[str, Entry] = {}


def _entries_of(classes: list[type[Algorithm]], origin: str) -> dict[str, Entry]:
    found: dict[str, Entry] = {}
    for cls in classes:
        found[cls.name] = Entry(cls.name, cls, False, origin)
        if cls.calibrates:
            base = cls.name.removesuffix(RELEASED)
            name = f"{base}-c{cls.name[len(base) :]}"
            found[name] = Entry(name, cls, True, origin)
    return found


def _classes_in(module: object) -> list[type[Algorithm]]:
    """Return the algorithm classes a module defines itself (imported ones do not count), in order of definition."""
    return [
        c
        for c in vars(module).values()
        if isinstance(c, type) and issubclass(c, Algorithm) and c.__module__ == module.__name__ and c.name  # type: ignore[attr-defined]
    ]


@lru_cache(maxsize=2)
def _built_in(package_name: str = "puarena.algorithms", origin: str = "puarena") -> dict[str, Entry]:
    package = importlib.import_module(package_name)
    classes: list[type[Algorithm]] = []
    for found in pkgutil.iter_modules(package.__path__):
        if not found.ispkg:
            classes += _classes_in(importlib.import_module(f"{package_name}.{found.name}"))
    place = {name: i for i, name in enumerate(ORDER)}
    classes.sort(key=lambda c: place.get(c.name.removesuffix(RELEASED), len(ORDER)))
    return _entries_of(classes, origin)


def _released() -> dict[str, Entry]:
    return _built_in("puarena.algorithms.released", "released")


@lru_cache(maxsize=1)
def _classic() -> dict[str, Entry]:
    from puarena.classics.rows import CLASSICS

    return _entries_of(list(CLASSICS), "classic")


@lru_cache(maxsize=1)
def _installed() -> dict[str, Entry]:
    return _entries_of([e.load() for e in entry_points(group=ENTRY_POINT)], "plugin")


def _all() -> dict[str, Entry]:
    return {**_built_in(), **_released(), **_classic(), **_installed(), **_extra}


def names(origin: str | None = None) -> list[str]:
    """Return the registered names in the order of the paper's tables, calibrated forms after their plain form."""
    return [e.name for e in _all().values() if origin in (None, e.origin)]


def get(name: str) -> Entry:
    """Return the entry of a registered name."""
    entries = _all()
    if name not in entries:
        raise unknown("algorithm", name, entries)
    return entries[name]


def load_plugin(path: str | Path) -> list[str]:
    """Register the algorithms a Python file defines; return their names."""
    file = Path(path)
    if not file.is_file():
        raise UserError(f"plugin '{path}' is not a file; give the path of a Python file that defines an Algorithm")
    spec = importlib.util.spec_from_file_location(f"puarena_plugin_{file.stem}", file)
    if spec is None or spec.loader is None:
        raise UserError(f"plugin '{path}' is not a Python file; give one that ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UserError(f"plugin '{path}' could not be imported: {type(error).__name__}: {error}") from error
    classes = _classes_in(module)
    if not classes:
        raise UserError(f"plugin '{path}' defines no algorithm; subclass puarena.algorithms.Algorithm and set a name")
    taken = [c.name for c in classes if c.name in {**_built_in(), **_classic()}]
    if taken:
        raise UserError(f"plugin '{path}' calls its algorithm '{taken[0]}', which is built in; choose another name")
    entries = _entries_of(classes, "plugin")
    _extra.update(entries)
    return list(entries)
