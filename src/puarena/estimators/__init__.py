"""Estimators for tables of positives and unlabeled rows, by scikit-learn's conventions."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from puarena.estimators.scar import ScarTest, scar_test

__all__ = ["ScarTest", "scar_test"]


def __getattr__(name: str) -> Any:
    """Import the test of labeling at random when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module 'puarena.estimators' has no attribute '{name}'")
    return getattr(import_module(f"{__name__}.scar"), name)
