"""What there is to run, as plain rows: the single source of ``puarena list``."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

from puarena.without_torch import torch_or_names

Rows = list[dict[str, Any]]


def algorithms() -> Rows:
    """Every registered algorithm."""
    from puarena import catalog
    from puarena.algorithms.core.describe import describe

    return [describe(entry) | {"year": _year(entry.paper)} for entry in catalog.entries().values()]


def _year(paper: str) -> str:
    """The last year that a citation names."""
    years = re.findall(r"\b(?:19|20)\d\d\b", paper)
    return years[-1] if years else ""


def datasets() -> Rows:
    """Every built-in dataset."""
    from puarena import datasets

    plain = (
        "name",
        "title",
        "description",
        "kind",
        "examples",
        "size",
        "network",
        "license",
        "citation",
    )
    return [
        {name: getattr(info, name) for name in plain}
        | {
            "shape": list(info.shape),
            "classes": info.class_count,
            "cases": {
                str(case): [info.class_names[c] for c in chosen]
                for case, chosen in info.cases.items()
            },
            "prior": info.default_prior,
        }
        for info in map(datasets.info, datasets.names())
    ]


def criteria() -> Rows:
    """Every way to choose a model."""
    from puarena.metrics import CRITERIA

    return [
        {"name": c.name, "title": c.title, "meaning": c.meaning, "needs_true_labels": c.oracle}
        for c in CRITERIA.values()
    ]


def networks() -> Rows:
    """Every network."""
    from puarena.networks import get, names

    return [
        {"name": cls.name, "family": cls.family, "needs_images": cls.images, "meaning": cls.meaning}
        for cls in map(get, names())
    ]


def suites() -> Rows:
    """Every named experiment."""
    from puarena.experiments import suites as known

    specs = [known.get(name) for name in known.names()]
    return [
        {"name": spec.name, "title": spec.title, "description": spec.description} for spec in specs
    ]


def engines() -> Rows:
    """Every executor."""
    with torch_or_names():
        from puarena.experiments import executors

        kinds = executors.kinds()
    return [
        {
            "name": name,
            "devices": list(kind.devices),
            "meaning": (inspect.getdoc(kind) or "").partition("\n")[0],
        }
        for name, kind in kinds.items()
    ]


KINDS: dict[str, Callable[[], Rows]] = {
    "algorithms": algorithms,
    "datasets": datasets,
    "criteria": criteria,
    "networks": networks,
    "suites": suites,
    "engines": engines,
}
SHOWN = {  # the columns for the terminal; JSON has all of them
    "algorithms": ("name", "setting", "needs_prior", "year"),
    "datasets": ("name", "examples", "classes", "network", "description"),
    "criteria": ("name", "needs_true_labels", "meaning"),
    "networks": ("name", "needs_images", "meaning"),
    "suites": ("name", "description"),
    "engines": ("name", "devices", "meaning"),
}


HEADS = {"needs_prior": "prior"}


def show(kind: str, hint: bool = True) -> None:
    """Print one list in columns, and a hint to more."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in SHOWN[kind]:
        table.add_column(HEADS.get(column, column.replace("_", " ")), no_wrap=column == "name")
    for row in KINDS[kind]():
        table.add_row(*(_words(row[column]) for column in SHOWN[kind]))
    Console(highlight=False, markup=False).print(table)
    if kind == "algorithms" and hint:
        words = "'puarena explain NAME' says what one does; --json prints everything"
        Console(highlight=False, markup=False, stderr=True).print(words)


def _words(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(value) if isinstance(value, list) else str(value)
