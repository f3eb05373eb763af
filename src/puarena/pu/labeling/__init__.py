"""How labels are given: a *setting* says where P and U come from, a *mechanism* which positives are labeled.

Each is one file of this folder, found there: one with ``SETTING`` (an instance of :class:`Setting`) or one with
``MECHANISM`` (a subclass of :class:`Mechanism`, a frozen dataclass whose fields are its parameters).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Any

from puarena.errors import UserError, unknown_name
from puarena.pu.labeling.base import Candidates, Demand, Mechanism, Setting
from puarena.utils.discovery import find_declared

__all__ = [
    "DEFAULT",
    "SCAR",
    "Candidates",
    "Demand",
    "Mechanism",
    "Setting",
    "get",
    "meaning",
    "mechanism",
    "mechanisms",
    "names",
    "settings",
    "short",
    "strength",
    "way",
]

LARGEST = 1e6  # of a mechanism's parameters: with far less nothing is left to chance
DEFAULT, SCAR = "os", "scar"  # what a problem has that names no other


def names() -> list[str]:
    """Return the codes of the settings."""
    return [setting.code for setting in settings()]


@cache
def settings() -> list[Setting]:
    """Return the settings."""
    return find_declared(__name__, "SETTING")


def get(name: str | Setting) -> Setting:
    """Return a setting by its code or title, in any case."""
    if isinstance(name, Setting):
        return name
    known = {word: setting for setting in settings() for word in (setting.code, setting.title)}
    if str(name).lower() not in known:
        raise unknown_name("setting", str(name), known)
    return known[str(name).lower()]


def mechanisms() -> list[str]:
    """Return the names of the mechanisms, labeling at random first."""
    return list(_mechanisms())


def meaning(text: str) -> str:
    """Return in words who is labeled; nothing for a mechanism that is not known here."""
    return mechanism(text).meaning if _known(text) else ""


def short(text: str) -> str:
    """Return a mechanism's text without the parameters that are as usual."""
    return mechanism(text).short if _known(text) else text


def way(text: str) -> str:
    """Return the name of a mechanism, whatever its parameters; the text itself where it is not known here."""
    return mechanism(text).name if _known(text) else text


def strength(text: str) -> float:
    """Return the number that says how strong a mechanism is; NaN where it has none."""
    labeling = mechanism(text) if _known(text) else None
    if labeling is None or labeling.name == SCAR:
        return math.nan if labeling is None else 0.0
    return float(getattr(labeling, labeling.measured, math.nan))


def _known(text: str) -> bool:
    try:
        return bool(mechanism(text))
    except UserError:
        return False


def mechanism(text: str) -> Mechanism:
    """Return a mechanism by its name or one it has in the literature, and parameters: ``name(parameter=value,…)``.

    One without any bias left is labeling at random.
    """
    name, bracket, inside = text.strip().lower().partition("(")
    if inside.count(")") != len(bracket) or not inside.endswith(")" * len(bracket)):
        raise UserError(
            f"labeling '{text}' is not of the form name(parameter=value,…): a bracket is missing"
        )
    inside = inside.removesuffix(")")
    aliases = {
        alias: (cls, preset)
        for cls in _mechanisms().values()
        for alias, preset in cls.aliases.items()
    }
    known: dict[str, tuple[type[Mechanism], Mapping[str, Any]]] = {
        own: (cls, {}) for own, cls in _mechanisms().items()
    } | aliases
    if name not in known:
        raise unknown_name("labeling", name, known)
    cls, preset = known[name]
    defaults: dict[str, Any] = {field.name: field.default for field in fields(cls)}
    values: dict[str, Any] = dict(preset)
    if name in aliases and len(preset) == 1 and inside and "=" not in inside:  # sar-pu(0.2,0.8)
        inside = f"{next(iter(preset))}={':'.join(inside.split(','))}"
    given: set[str] = set()
    for item in filter(None, inside.split(",")):
        key, _, value = (word.strip() for word in item.partition("="))
        if key not in defaults:
            raise unknown_name(f"parameter of labeling {name}", key, defaults)
        if key in given:
            raise UserError(f"{key} of labeling {name} is given twice")
        given.add(key)
        kind = type(defaults[key])
        try:
            values[key] = kind(value)
        except ValueError:
            raise UserError(
                f"{key} of labeling {name} must be of type {kind.__name__}, and is '{value}'"
            ) from None
        if isinstance(values[key], float) and not abs(values[key]) <= LARGEST:
            raise UserError(f"{key} of labeling {name} must be a finite number, and is {value}")
    chosen: Mechanism = cls(**values)
    return _mechanisms()[SCAR]() if chosen.uniform else chosen


@cache
def _mechanisms() -> dict[str, type[Mechanism]]:
    return {
        cls.name: cls
        for cls in sorted(find_declared(__name__, "MECHANISM"), key=lambda cls: cls.name != SCAR)
    }
