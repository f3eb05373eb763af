"""Classics that people try first, as scikit-learn estimators around any scikit-learn classifier: one file each."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOMES = {
    "BaggingPUClassifier": "bagging",
    "BiasedClassifier": "biased",
    "ElkanNotoClassifier": "elkan_noto",
    "PUExtraTreesClassifier": "puet",
    "SarEMClassifier": "sar_em",
    "SpiesClassifier": "spies",
}
__all__ = [
    "BaggingPUClassifier",
    "BiasedClassifier",
    "ElkanNotoClassifier",
    "PUExtraTreesClassifier",
    "SarEMClassifier",
    "SpiesClassifier",
]

if TYPE_CHECKING:
    from puarena.classics.bagging import BaggingPUClassifier
    from puarena.classics.biased import BiasedClassifier
    from puarena.classics.elkan_noto import ElkanNotoClassifier
    from puarena.classics.puet import PUExtraTreesClassifier
    from puarena.classics.sar_em import SarEMClassifier
    from puarena.classics.spies import SpiesClassifier


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'puarena.classics' has no attribute '{name}'")
    return getattr(import_module(f"puarena.classics.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
