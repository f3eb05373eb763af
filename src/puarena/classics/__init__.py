"""Classic methods as scikit-learn estimators around any scikit-learn classifier: one file each.

Each class declares in ``forms`` how experiments run it, so that it is registered as a method.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

_MODULES = {
    "BaggingPUClassifier": "bagging",
    "BiasedClassifier": "biased",
    "ClassicForm": "wrapper",
    "DownSampledForestClassifier": "forest",
    "ElkanNotoClassifier": "elkan_noto",
    "MaxentClassifier": "maxent",
    "NaiveClassifier": "naive",
    "PRIOR": "guests",
    "PUExtraTreesClassifier": "puet",
    "PUWrapper": "wrapper",
    "SarEMClassifier": "sar_em",
    "SpiesClassifier": "spies",
    "UNLABELED_PRIOR": "guests",
}
__all__ = [
    "PRIOR",
    "UNLABELED_PRIOR",
    "BaggingPUClassifier",
    "BiasedClassifier",
    "ClassicForm",
    "DownSampledForestClassifier",
    "ElkanNotoClassifier",
    "MaxentClassifier",
    "NaiveClassifier",
    "PUExtraTreesClassifier",
    "PUWrapper",
    "SarEMClassifier",
    "SpiesClassifier",
]

if TYPE_CHECKING:
    from puarena.classics.bagging import BaggingPUClassifier
    from puarena.classics.biased import BiasedClassifier
    from puarena.classics.elkan_noto import ElkanNotoClassifier
    from puarena.classics.forest import DownSampledForestClassifier
    from puarena.classics.guests import PRIOR, UNLABELED_PRIOR
    from puarena.classics.maxent import MaxentClassifier
    from puarena.classics.naive import NaiveClassifier
    from puarena.classics.puet import PUExtraTreesClassifier
    from puarena.classics.sar_em import SarEMClassifier
    from puarena.classics.spies import SpiesClassifier
    from puarena.classics.wrapper import ClassicForm, PUWrapper


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'puarena.classics' has no attribute '{name}'")
    return getattr(import_module(f"puarena.classics.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
