"""The pages of the Python reference: what the package and its rooms name as public, documented by
its docstrings.
"""

from __future__ import annotations

import inspect
from importlib import import_module

import puarena

FOLDER = "reference"
ROOMS = {  # in the order of the navigation
    "estimators": "practitioners",
    "priors": "class priors",
    "classics": "the classics",
    "metrics": "criteria and metrics",
    "algorithms": "writing an algorithm",
    "networks": "networks",
    "datasets": "datasets",
    "pu": "positive-unlabeled problems",
    "report": "tables and pages",
    "results": "stored results",
}
MORE = {  # public names that are not in a room's ``__all__``
    "report": (
        "puarena.report.compare.Comparison",
        "puarena.report.compare.compare",
        "puarena.report.statistics.Statistics",
        "puarena.report.statistics.summarize",
    ),
    "algorithms": (
        "puarena.algorithms.Passes",
        "puarena.testing.contract.check_algorithm",
        "puarena.plugins.load",
    ),
}


def pages() -> dict[str, str]:
    """All pages by their paths: the package itself first, then its rooms."""
    first = _page(
        "The package",
        "The names that `import puarena` provides.",
        _documented("puarena", puarena.__all__),
    )
    made = {f"{FOLDER}/index.md": first}
    for room, words in ROOMS.items():
        module = import_module(f"puarena.{room}")
        about = inspect.cleandoc(module.__doc__ or "")
        names = (*_documented(f"puarena.{room}", module.__all__), *MORE.get(room, ()))
        made[f"{FOLDER}/{room}.md"] = _page(f"puarena.{room}: {words}", about, names)
    return made


def _documented(module: str, names: list[str]) -> tuple[str, ...]:
    """Where the classes and functions among these names have their home; the others are values."""
    found = [getattr(import_module(module), name) for name in names]
    kept = [item for item in found if inspect.isclass(item) or inspect.isfunction(item)]
    return tuple(
        f"{item.__module__}.{item.__qualname__}"
        for item in kept
        if item.__module__.startswith("puarena")
    )


def _page(title: str, about: str, names: tuple[str, ...]) -> str:
    return (
        "\n\n".join([f"# {title}", about, *(f"::: {name}" for name in dict.fromkeys(names))]) + "\n"
    )
