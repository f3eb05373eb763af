"""One spec for several: what their folders can be joined under, and which runs a folder is meant to have."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from puarena import datasets, networks, plugins
from puarena.errors import UserError
from puarena.experiments.plan import group, make_plan, to_planned
from puarena.experiments.spec import (
    EVERY_ALGORITHM,
    FULL_PRECISION,
    PROBLEM_LISTS,
    PROBLEM_SIZES,
    ProblemSpec,
    Spec,
    is_path,
)
from puarena.pu.problem import PROBLEM_COLUMNS
from puarena.results import Results, Summary, ask
from puarena.results.sql import sql_name

LISTS = ("algorithms", "prior_source")  # all combinations of these are run, so they can be joined
# What merged folders may differ in; everything else must be the same.
MERGED_FIELDS = ("problems", "splits", "configs", "hyper", "plugins", *LISTS)


def unite(stores: Sequence[Results]) -> tuple[dict[str, Any], str]:
    """The smallest spec that has all runs of these folders, and its hash; refuses different protocols."""
    specs = _agreeing([Spec.load(store.spec) for store in stores])
    if len({store.spec_hash for store in stores}) == 1:
        # A summary names a user's files without their folders.
        whole = [
            spec
            for spec, store in zip(specs, stores, strict=True)
            if not isinstance(store, Summary)
        ]
        return (whole or specs)[0].to_dict(), stores[0].spec_hash
    first = specs[0]
    for store, spec in zip(stores[1:], specs[1:], strict=True):
        for name, (ours, theirs) in first.differences(spec, MERGED_FIELDS).items():
            raise UserError(
                f"'{stores[0].path}' and '{store.path}' have different protocols ({name}: "
                f"{_word(ours)} and {_word(theirs)}); they cannot be merged",
                "conflict",
            )
    lists = {
        key: tuple(dict.fromkeys(name for spec in specs for name in getattr(spec, key)))
        for key in LISTS
        if key in Spec.model_fields
    }
    words = {key: getattr(first, key) for key in ("name", "title", "description")}
    if any(getattr(spec, key) != word for spec in specs for key, word in words.items()):
        words = {"name": "merged", "title": "", "description": ""}
    united = first.model_copy(
        update={
            **words,
            "problems": tuple(_joined(_same_paths(specs))),
            **lists,
            "splits": max(spec.splits for spec in specs),
            "configs": max(spec.configs for spec in specs),
            "hyper": _hyper(stores, specs, lists["algorithms"]),
            "plugins": _plugins(specs),
        }
    )
    return united.to_dict(), united.hash(_revisions(stores))


def _revisions(stores: Sequence[Results]) -> dict[str, str]:
    """What datasets hold whose names do not say it; two folders must have had the same."""
    known: dict[str, tuple[Results, str]] = {}
    for store in stores:
        for name, revision in store.info.get("revisions", {}).items():
            first, theirs = known.setdefault(name, (store, revision))
            if theirs != revision:
                raise UserError(
                    f"the dataset '{name}' differs between '{first.path}' and '{store.path}'; they cannot be merged"
                )
    return {name: revision for name, (_, revision) in known.items()}


def _agreeing(specs: list[Spec]) -> list[Spec]:
    """Specs without images take network and precision from those with images where that makes no difference to them."""
    images = [spec for spec in specs if any(_is_image(part.dataset) for part in spec.problems)]
    if not images:
        return specs
    theirs = {"precision": images[0].precision, "network": images[0].network}
    if not {spec.network for spec in specs} <= {
        None,
        *networks.names(),
    }:  # reading runs no plugin, to know it better
        return specs
    free = [
        spec not in images and _on_tables(spec, spec) == _on_tables(spec, images[0])
        for spec in specs
    ]
    return [
        spec.model_copy(update=theirs) if change else spec
        for spec, change in zip(specs, free, strict=True)
    ]


def _on_tables(spec: Spec, like: Spec) -> list[tuple[str, str]]:
    """Network and precision that the tables of ``spec`` are trained with by the choices of ``like``."""
    trained: list[tuple[str, str]] = []
    for part in spec.problems:
        own = networks.DEFAULT if is_path(part.dataset) else datasets.info(part.dataset).network
        network = networks.get(
            own if like.network is None or networks.get(like.network).images else like.network
        )
        trained.append(
            (
                network.name,
                like.precision if like.precision in network.precisions else FULL_PRECISION,
            )
        )
    return trained


def _is_image(dataset: str) -> bool:
    """Are these images? A user's own dataset is a table, and its files need not be here."""
    return not is_path(dataset) and datasets.info(dataset).kind == "image"


def _word(value: Any) -> str:
    return "unset" if value is None else str(value)


def _hyper(
    stores: Sequence[Results], specs: list[Spec], names: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """All fixed values; an algorithm that two folders have must have the same ones in both."""
    fixed: dict[str, dict[str, Any]] = {}
    for name in (EVERY_ALGORITHM, *names):
        using = [
            (store, spec.hyper.get(name, {}))
            for store, spec in zip(stores, specs, strict=True)
            if name == EVERY_ALGORITHM or name in spec.algorithms
        ]
        for store, values in using:
            if values != using[0][1]:
                what = "every algorithm" if name == EVERY_ALGORITHM else name
                raise UserError(
                    f"'{using[0][0].path}' and '{store.path}' fix different hyperparameters of {what} "
                    f"({json.dumps(using[0][1])} and {json.dumps(values)}); they cannot be merged"
                )
        if using[0][1]:
            fixed[name] = using[0][1]
    return fixed


def _plugins(specs: list[Spec]) -> tuple[str, ...]:
    """The plugin files, each once even if it lies in several places."""
    paths = list(dict.fromkeys(path for spec in specs for path in spec.plugins))
    return tuple(
        paths
        if len(paths) < 2
        else {plugins.digest_of(path): path for path in reversed(paths)}.values()
    )


def _same_paths(specs: list[Spec]) -> list[ProblemSpec]:
    """All problems; a user's table that lies in several places is named by the first of them."""
    problems = [problem for spec in specs for problem in spec.problems]
    places = list(
        dict.fromkeys(problem.dataset for problem in problems if is_path(problem.dataset))
    )
    if len(places) < 2:
        return problems
    seen: dict[str, tuple[str, str]] = {}
    first: dict[str, str] = {}
    for place in places:
        own = datasets.load(place)
        path, revision = seen.setdefault(own.name, (place, own.revision))
        if revision != own.revision:
            raise UserError(
                f"the dataset '{own.name}' differs between '{path}' and '{place}'; they cannot be merged"
            )
        first[place] = path
    return [
        problem.model_copy(update={"dataset": first.get(problem.dataset, problem.dataset)})
        for problem in problems
    ]


def _joined(problems: list[ProblemSpec]) -> list[ProblemSpec]:
    """The same problems in few entries: two that differ in one list only become one."""
    joined: list[ProblemSpec] = []
    for problem in problems:
        for i, other in enumerate(joined):
            differing = [
                key
                for key in PROBLEM_LISTS
                if set(getattr(problem, key)) != set(getattr(other, key))
            ]
            same = all(
                getattr(problem, key) == getattr(other, key) for key in ("dataset", *PROBLEM_SIZES)
            )
            if same and len(differing) <= 1:
                lists = {
                    key: tuple(dict.fromkeys(getattr(other, key) + getattr(problem, key)))
                    for key in differing
                }
                joined[i] = other.model_copy(update=lists)
                break
        else:
            joined.append(problem)
    return joined if len(joined) == len(problems) else _joined(joined)


def planned(store: Results) -> dict[str, dict[str, Any]]:
    """Return the columns of the runs a results folder should have, by run id.

    They are those that it kept, or else those of its spec. A plugin that the spec names is not run
    for this: of such a folder that kept nothing, only the stored runs are known.
    """
    kept = store.planned()
    if kept is not None:
        return kept.runs
    specs = [part["spec"] for part in store.info.get("sources", ())] or [store.spec]
    if any(spec.get("plugins") for spec in specs):
        names = ("run", "algorithm", *PROBLEM_COLUMNS)
        listed = ", ".join(map(sql_name, names))
        with store.reading():
            rows = ask(store.relation(), f"SELECT DISTINCT {listed} FROM curves").fetchall()
        return {row[0]: dict(zip(names, row, strict=True)) for row in rows}
    unique = {json.dumps(spec, sort_keys=True): spec for spec in specs}
    runs = {run.run_id: run for spec in unique.values() for run in make_plan(Spec.load(spec)).runs}
    return to_planned(group(runs.values()))
