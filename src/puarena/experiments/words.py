"""Lists and numbers in words."""

from __future__ import annotations

from collections.abc import Iterable


def enumerated(names: Iterable[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def counted(number: int, noun: str) -> str:
    """``1 split``, ``3 splits``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
