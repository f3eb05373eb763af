"""How labels are given: a *setting* decides where P and U come from, a *mechanism* which positives
are labeled.

Every subclass of :class:`Setting` and :class:`Mechanism` in the files of this folder is found. A
mechanism is a frozen dataclass whose fields are its parameters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

from puarena.errors import UserError, unknown_name
from puarena.pu.labeling.base import Candidates, Demand, Mechanism, Setting
from puarena.utils.discovery import discover

__all__ = [
    "DEFAULT_SETTING",
    "OBSERVED",
    "SCAR",
    "Candidates",
    "Demand",
    "Mechanism",
    "Setting",
    "describe_mechanism",
    "get_mechanism",
    "get_setting",
    "list_mechanisms",
    "list_settings",
]

DEFAULT_SETTING, SCAR = "os", "scar"
OBSERVED = "observed"  # no mechanism: the labels that the data came with
MAX_PARAMETER = 1e6  # with far less a mechanism is deterministic


@cache
def list_settings() -> list[Setting]:
    """Return all settings."""
    return [cls() for cls in discover(__name__, Setting)]  # type: ignore[type-abstract]


def get_setting(name: str | Setting) -> Setting:
    """Return a setting by its code or title, in any case."""
    if isinstance(name, Setting):
        return name
    known = {}
    for setting in list_settings():
        known[setting.code] = known[setting.title] = setting
    if str(name).lower() not in known:
        raise unknown_name("setting", str(name), known)
    return known[str(name).lower()]


@cache
def _mechanisms() -> dict[str, type[Mechanism]]:
    found = discover(__name__, Mechanism)  # type: ignore[type-abstract]
    return {cls.name: cls for cls in sorted(found, key=lambda cls: cls.name != SCAR)}


def list_mechanisms() -> list[str]:
    """Return the names of the mechanisms that can be drawn, labeling at random first."""
    return [name for name in _mechanisms() if name != OBSERVED]


def get_mechanism(text: str) -> Mechanism:
    """Return the mechanism for ``name(parameter=value,…)``.

    The name may be an alias from the literature. A mechanism without any bias left is returned as
    labeling at random.
    """
    name, bracket, inside = text.strip().lower().partition("(")
    if bool(bracket) != inside.endswith(")") or inside.count(")") > 1:
        message = f"labeling '{text}' is not of the form name(parameter=value,…): check brackets"
        raise UserError(message, "invalid-value")
    inside = inside.removesuffix(")")
    cls, preset = _find_mechanism(name)
    # An alias of one range may be written as sar-pu(0.2,0.8).
    if len(preset) == 1 and inside and "=" not in inside:
        inside = f"{next(iter(preset))}={':'.join(inside.split(','))}"
    mechanism: Mechanism = cls(**{**preset, **_read_parameters(name, cls, inside)})
    return _mechanisms()[SCAR]() if mechanism.uniform else mechanism


def _find_mechanism(name: str) -> tuple[type[Mechanism], dict[str, Any]]:
    """Return the class of a name or alias, and the parameters that an alias presets."""
    known: dict[str, tuple[type[Mechanism], dict[str, Any]]] = {}
    for own_name, cls in _mechanisms().items():
        known[own_name] = cls, {}
        for alias, preset in cls.aliases.items():
            known[alias] = cls, dict(preset)
    if name not in known:
        raise unknown_name("labeling", name, known)
    return known[name]


def _read_parameters(name: str, cls: type[Mechanism], text: str) -> dict[str, Any]:
    """Return the parameters of ``parameter=value,…``, with the types of their defaults."""
    defaults: dict[str, Any] = {field.name: field.default for field in fields(cls)}
    values: dict[str, Any] = {}
    for item in filter(None, text.split(",")):
        key, _, value = (part.strip() for part in item.partition("="))
        if key not in defaults:
            raise unknown_name(f"parameter of labeling {name}", key, defaults)
        if key in values:
            raise UserError(f"{key} of labeling {name} is given twice", "conflict")
        kind = type(defaults[key])
        try:
            values[key] = kind(value)
        except ValueError:
            message = f"{key} of labeling {name} must be of type {kind.__name__}, and is '{value}'"
            raise UserError(message, "invalid-value") from None
        if isinstance(values[key], float) and not abs(values[key]) <= MAX_PARAMETER:
            message = f"{key} of labeling {name} must be a finite number, and is {value}"
            raise UserError(message, "invalid-value")
    return values


@dataclass(frozen=True)
class MechanismDescription:
    """A mechanism's text as stored results have it, in parts for tables and figures."""

    name: str
    short: str
    meaning: str
    strength: float  # of the bias; NaN if there is no number for it


def describe_mechanism(text: str) -> MechanismDescription:
    """Describe a mechanism of stored results, which need not be known in this installation."""
    try:
        mechanism = get_mechanism(text)
    except UserError:
        return MechanismDescription(text, text, "", math.nan)
    strength = 0.0 if mechanism.name == SCAR else getattr(mechanism, mechanism.measured, math.nan)
    return MechanismDescription(mechanism.name, mechanism.short, mechanism.meaning, float(strength))
