"""What ``puarena list`` prints, as plain rows."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Rows = list[dict[str, Any]]
DATASET_FIELDS = (
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


@dataclass(frozen=True)
class Listing:
    """One kind of thing that can be listed: its rows, and the columns for the terminal."""

    read: Callable[[], Rows]
    columns: tuple[str, ...]


def list_algorithms() -> Rows:
    """Return every registered method."""
    from puarena import catalog

    rows = []
    for entry in catalog.get_all().values():
        years = re.findall(r"\b(?:19|20)\d\d\b", entry.paper)
        rows.append(entry.to_json() | {"year": years[-1] if years else ""})
    return rows


def list_datasets() -> Rows:
    """Return every built-in dataset."""
    from puarena import datasets

    rows = []
    for info in map(datasets.info, datasets.names()):
        row = {name: getattr(info, name) for name in DATASET_FIELDS}
        row |= {"shape": list(info.shape), "classes": info.class_count}
        known = info.default_prior == info.default_prior  # NaN: not known
        row |= {"cases": {}, "prior": info.default_prior if known else None}
        row["labels"] = "observed" if info.observed_setting else "simulated"
        for case, positive in info.cases.items():
            row["cases"][str(case)] = [info.class_names[index] for index in positive]
        rows.append(row)
    return rows


def list_criteria() -> Rows:
    """Return every criterion of model selection."""
    from puarena.metrics import CRITERIA

    return [
        {"name": c.name, "title": c.title, "meaning": c.meaning, "needs_true_labels": c.oracle}
        for c in CRITERIA.values()
    ]


def list_networks() -> Rows:
    """Return every network."""
    from puarena.networks import get, names

    return [
        {"name": cls.name, "family": cls.family, "needs_images": cls.images, "meaning": cls.meaning}
        for cls in map(get, names())
    ]


def list_suites() -> Rows:
    """Return every named experiment."""
    from puarena.experiments import suites

    fields = ("name", "title", "description")
    return [{name: getattr(suite, name) for name in fields} for suite in suites.SUITES]


def list_engines() -> Rows:
    """Return every executor."""
    from puarena.experiments import executors

    rows = []
    for name, kind in executors.executor_types().items():
        meaning = (inspect.getdoc(kind) or "").partition("\n")[0]
        rows.append({"name": name, "devices": list(kind.devices), "meaning": meaning})
    return rows


def list_mechanisms() -> Rows:
    """Return every labeling mechanism."""
    from puarena.pu import labeling

    rows = []
    for mechanism in map(labeling.get_mechanism, labeling.list_mechanisms()):
        names = {"name": mechanism.text, "aliases": list(mechanism.aliases)}
        rows.append(names | {"meaning": mechanism.meaning})
    return rows


LISTINGS = {
    "algorithms": Listing(list_algorithms, ("name", "setting", "needs_prior", "year")),
    "datasets": Listing(
        list_datasets, ("name", "examples", "classes", "labels", "network", "description")
    ),
    "criteria": Listing(list_criteria, ("name", "needs_true_labels", "meaning")),
    "networks": Listing(list_networks, ("name", "needs_images", "meaning")),
    "suites": Listing(list_suites, ("name", "description")),
    "engines": Listing(list_engines, ("name", "devices", "meaning")),
    "mechanisms": Listing(list_mechanisms, ("name", "aliases", "meaning")),
}
