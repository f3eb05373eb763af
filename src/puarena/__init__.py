"""puarena: an honest arena for positive-unlabeled learning.

Names are imported when they are first used, so that ``import puarena`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from puarena.errors import UserError

__version__ = "0.2.0"

# The module that defines each name, and the subpackages that need no import of their own.
_MODULES = {
    "run": "puarena.experiments.run",
    "Spec": "puarena.experiments.spec",
    "load": "puarena.report.sources",
    "table": "puarena.report.tables",
    "PUClassifier": "puarena.estimators.classifier",
    "PUNetClassifier": "puarena.estimators.network",
    "PUSearch": "puarena.estimators.search",
    "PUStratifiedKFold": "puarena.estimators.model_selection",
    "PUShuffleSplit": "puarena.estimators.model_selection",
    "PUScorer": "puarena.estimators.model_selection",
    "proxy_accuracy": "puarena.estimators.model_selection",
    "proxy_auc": "puarena.estimators.model_selection",
    "load_model": "puarena.estimators.persistence",
    "save_model": "puarena.estimators.persistence",
}
_SUBPACKAGES = ("classics", "metrics", "priors")
__all__ = [
    "PUClassifier",
    "PUNetClassifier",
    "PUScorer",
    "PUSearch",
    "PUShuffleSplit",
    "PUStratifiedKFold",
    "Spec",
    "UserError",
    "__version__",
    "classics",
    "load",
    "load_model",
    "metrics",
    "priors",
    "proxy_accuracy",
    "proxy_auc",
    "run",
    "save_model",
    "table",
]

if TYPE_CHECKING:
    from puarena import classics, metrics, priors
    from puarena.estimators.classifier import PUClassifier
    from puarena.estimators.model_selection import (
        PUScorer,
        PUShuffleSplit,
        PUStratifiedKFold,
        proxy_accuracy,
        proxy_auc,
    )
    from puarena.estimators.network import PUNetClassifier
    from puarena.estimators.persistence import load_model, save_model
    from puarena.estimators.search import PUSearch
    from puarena.experiments.run import run
    from puarena.experiments.spec import Spec
    from puarena.report.sources import load
    from puarena.report.tables import table


def __getattr__(name: str) -> Any:
    if name in _SUBPACKAGES:
        return import_module(f"puarena.{name}")
    if name not in _MODULES:
        raise AttributeError(f"module 'puarena' has no attribute '{name}'")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
