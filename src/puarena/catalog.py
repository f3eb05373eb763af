"""Every method there is by name: algorithms trained by steps, and classics that are fitted at once."""

from __future__ import annotations

from puarena.algorithms.core import registry
from puarena.algorithms.core.entry import Entry
from puarena.classics.entries import CLASSICS
from puarena.errors import unknown_name


def entries() -> dict[str, Entry]:
    """All entries by name, in the order of the paper's tables; classics and plugins after them."""
    return {**registry.entries(), **CLASSICS}


def names(origin: str | None = None) -> list[str]:
    """The registered names, calibrated forms after their plain form."""
    return [entry.name for entry in entries().values() if origin in (None, entry.origin)]


def form(name: str, variant: str) -> str:
    """The name of the same method in another variant ("released"), where there is one; else the name itself."""
    entry = get(name)
    same = [
        e.name
        for e in entries().values()
        if (e.base, e.calibrated) == (entry.base, entry.calibrated)
    ]
    return next((other for other in same if get(other).variant == variant), name)


def get(name: str) -> Entry:
    """The entry of a registered name."""
    known = entries()
    if name not in known:
        raise unknown_name("algorithm", name, known)
    return known[name]
