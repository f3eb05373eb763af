"""PU learning for practitioners: estimators, searches, scores and splits with the manners of scikit-learn."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from puarena.estimators.scar import ScarTest, scar_test

_HOMES = {"ScarTest": "scar", "scar_test": "scar"}
__all__ = ["ScarTest", "scar_test"]


def __getattr__(name: str) -> Any:
    """The tests of labeling at random, imported when they are first used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'puarena.estimators' has no attribute '{name}'")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
