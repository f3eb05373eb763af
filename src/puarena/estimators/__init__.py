"""Estimators for tables of positives and unlabeled rows, by scikit-learn's conventions."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from puarena.estimators.evaluation import Evaluation, evaluate
    from puarena.estimators.hand_checks import Checks, choose_checks, update_with_checks
    from puarena.estimators.scar import ScarTest, scar_test

_MODULES = {
    "Checks": "hand_checks",
    "Evaluation": "evaluation",
    "ScarTest": "scar",
    "choose_checks": "hand_checks",
    "evaluate": "evaluation",
    "scar_test": "scar",
    "update_with_checks": "hand_checks",
}
__all__ = [
    "Checks",
    "Evaluation",
    "ScarTest",
    "choose_checks",
    "evaluate",
    "scar_test",
    "update_with_checks",
]


def __getattr__(name: str) -> Any:
    """Import a name when it is first used."""
    if name not in _MODULES:
        raise AttributeError(f"module 'puarena.estimators' has no attribute '{name}'")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
