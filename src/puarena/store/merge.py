"""Join the results folders of several people or machines into one.

Runs are named by their content, so the same run has the same name everywhere. Folders of one protocol can be joined:
their specs may name other problems and algorithms, or more splits and configurations. What each brought is kept in
``spec.json`` under ``sources``.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from puarena import __version__, data, networks
from puarena.bench.spec import EVERY, FULL_PRECISION, PROBLEM_LISTS, ProblemSpec, Spec, is_path, plugin_names
from puarena.errors import UserError, unknown
from puarena.store.folder import COLUMNS, FORMAT, Store, scan, write_file
from puarena.store.identity import digest, file_digest
from puarena.store.summary import Summary

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

LISTS = ("algorithms", "prior_source")  # all combinations of these are run, so they can be joined
OWN = ("name", "title", "description", "problems", "splits", "configs", "hyper", "plugins", *LISTS)
PROTOCOL = sorted(set(Spec.model_fields) - set(OWN), key=lambda key: (key != "profile", key))  # must be the same
MADE_BY = ("fleet", "seconds", "device", "version", "torch")  # may differ between two computations of the same run
OVERLAP = {"refuse": "a run with two results is an error", "first": "take the result of the folder named first"}


@dataclass(frozen=True)
class Merged:
    """What a merge did: runs in all, those found in several folders, and the runs taken from each."""

    out: Path
    runs: int
    shared: int
    taken: tuple[int, ...]


def merge(paths: Sequence[str | Path], out: str | Path, overlap: str = "refuse") -> Merged:
    """Join results folders (or exported summaries) into the new folder ``out``.

    A run that two folders have must have the same curve in both, unless ``overlap`` is ``first``.
    """
    import duckdb

    if overlap not in OVERLAP:
        raise unknown("way to treat runs with two results", overlap, OVERLAP)
    out = Path(out)
    if len(paths) < 2:
        raise UserError("merging needs at least two results folders")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"'{out}' is there already; merge into a new folder with another --out")
    stores = [Store.open(path) for path in paths]
    _check_versions(stores)
    spec, spec_hash = unite(stores)
    with duckdb.connect() as con:
        owners, shared = _owners(con, stores, overlap)
        temp = out.resolve().with_name(f".{out.name}.{os.getpid()}.tmp")
        try:
            taken = _write(con, stores, owners, temp, spec, spec_hash)
            if out.exists():
                out.rmdir()
            os.replace(temp, out)
        except OSError as error:
            raise UserError(f"cannot write '{out}' ({(error.strerror or str(error)).lower()})") from error
        finally:
            shutil.rmtree(temp, ignore_errors=True)
    return Merged(out, len(owners), shared, taken)


def _check_versions(stores: list[Store]) -> None:
    """Numbers of another minor version may differ."""
    first, *others = [(store.path, str(store.info["versions"].get("puarena", "unknown"))) for store in stores]
    for path, version in others:
        if version.split(".")[:2] != first[1].split(".")[:2]:
            raise UserError(
                f"'{first[0]}' was made by puarena {first[1]} and '{path}' by {version}, whose numbers may differ; "
                "they cannot be merged"
            )


# specs


def unite(stores: Sequence[Store]) -> tuple[Spec, str]:
    """The smallest spec that has all runs of these folders, and its hash; refuses different protocols."""
    specs = _agreeing([Spec.load(store.spec) for store in stores])
    if len({store.spec_hash for store in stores}) == 1:
        # A summary names a user's files without their folders.
        whole = [spec for spec, store in zip(specs, stores, strict=True) if not isinstance(store, Summary)]
        return (whole or specs)[0], stores[0].spec_hash
    first = specs[0]
    for store, spec in zip(stores[1:], specs[1:], strict=True):
        for key in PROTOCOL:
            ours, theirs = getattr(first, key), getattr(spec, key)
            if ours != theirs:
                raise UserError(
                    f"'{stores[0].path}' and '{store.path}' have different protocols ({key}: {_word(ours)} and "
                    f"{_word(theirs)}); they cannot be merged"
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
    return united, united.hash()


def _agreeing(specs: list[Spec]) -> list[Spec]:
    """Specs without images take network and precision from those with images where that makes no difference to them."""
    images = [spec for spec in specs if any(_is_image(part.dataset) for part in spec.problems)]
    if not images:
        return specs
    theirs = {"precision": images[0].precision, "network": images[0].network}
    free = [spec not in images and _on_tables(spec, spec) == _on_tables(spec, images[0]) for spec in specs]
    return [spec.model_copy(update=theirs) if change else spec for spec, change in zip(specs, free, strict=True)]


def _on_tables(spec: Spec, like: Spec) -> list[tuple[str, str]]:
    """Network and precision that the tables of ``spec`` are trained with by the choices of ``like``."""
    if like.network not in (None, *networks.names()):
        plugin_names(like.plugins)
    trained: list[tuple[str, str]] = []
    for part in spec.problems:
        own = networks.DEFAULT if is_path(part.dataset) else data.info(part.dataset).network
        network = networks.get(own if like.network is None or networks.get(like.network).images else like.network)
        trained.append((network.name, like.precision if like.precision in network.precisions else FULL_PRECISION))
    return trained


def _is_image(dataset: str) -> bool:
    """Are these images? A user's own dataset is a table, and its files need not be here."""
    return not is_path(dataset) and data.info(dataset).kind == "image"


def _word(value: Any) -> str:
    return "unset" if value is None else str(value)


def _hyper(stores: Sequence[Store], specs: list[Spec], names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """All fixed values; an algorithm that two folders have must have the same ones in both."""
    found: dict[str, dict[str, Any]] = {}
    for name in (EVERY, *names):
        using = [
            (store, spec.hyper.get(name, {}))
            for store, spec in zip(stores, specs, strict=True)
            if name == EVERY or name in spec.algorithms
        ]
        for store, values in using:
            if values != using[0][1]:
                what = "every algorithm" if name == EVERY else name
                raise UserError(
                    f"'{using[0][0].path}' and '{store.path}' fix different hyperparameters of {what} "
                    f"({json.dumps(using[0][1])} and {json.dumps(values)}); they cannot be merged"
                )
        if using[0][1]:
            found[name] = using[0][1]
    return found


def _plugins(specs: list[Spec]) -> tuple[str, ...]:
    """The plugin files, each once even if it lies in several places."""
    paths = list(dict.fromkeys(path for spec in specs for path in spec.plugins))
    return tuple(paths if len(paths) < 2 else {file_digest(path): path for path in reversed(paths)}.values())


def _same_paths(specs: list[Spec]) -> list[ProblemSpec]:
    """All problems; a user's table that lies in several places is named by the first of them."""
    from puarena import data

    problems = [problem for spec in specs for problem in spec.problems]
    places = list(dict.fromkeys(problem.dataset for problem in problems if is_path(problem.dataset)))
    if len(places) < 2:
        return problems
    seen: dict[str, tuple[str, str]] = {}
    first: dict[str, str] = {}
    for place in places:
        own = data.load(place)
        path, revision = seen.setdefault(own.name, (place, own.revision))
        if revision != own.revision:
            raise UserError(f"the dataset '{own.name}' differs between '{path}' and '{place}'; they cannot be merged")
        first[place] = path
    return [problem.model_copy(update={"dataset": first.get(problem.dataset, problem.dataset)}) for problem in problems]


def _joined(problems: list[ProblemSpec]) -> list[ProblemSpec]:
    """The same problems in few entries: two that differ in one list only become one."""
    found: list[ProblemSpec] = []
    for problem in problems:
        for i, other in enumerate(found):
            differing = [key for key in PROBLEM_LISTS if set(getattr(problem, key)) != set(getattr(other, key))]
            if other.dataset == problem.dataset and len(differing) <= 1:
                lists = {key: tuple(dict.fromkeys(getattr(other, key) + getattr(problem, key))) for key in differing}
                found[i] = other.model_copy(update=lists)
                break
        else:
            found.append(problem)
    return found if len(found) == len(problems) else _joined(found)


# runs


def _owners(con: DuckDBPyConnection, stores: list[Store], overlap: str) -> tuple[dict[str, int], int]:
    """From which folder each run is taken (the one with more records, else the first); how many are in several."""
    owners: dict[str, int] = {}
    lengths: dict[str, int] = {}
    shared: set[str] = set()
    for i, store in enumerate(stores):
        with store.reading():
            store.relation(con).create_view(f"source_{i}")
            found = con.execute(f"SELECT run, count(*) FROM source_{i} GROUP BY run").fetchall()
        for j in sorted({owners[run] for run, _ in found if run in owners}):
            both = [run for run, _ in found if owners.get(run) == j]
            shared |= set(both)
            if overlap == "refuse":
                _check_equal(con, stores, both, j, i)
        for run, length in found:
            if run not in owners or (overlap == "refuse" and length > lengths[run]):
                owners[run], lengths[run] = i, length
    return owners, len(shared)


def _check_equal(con: DuckDBPyConnection, stores: list[Store], runs: list[str], a: int, b: int) -> None:
    """Two results of one run must be the same, record by record."""
    content = [f'"{name}"' for name in COLUMNS if name not in {*MADE_BY, "run", "step"}]
    differs = " OR ".join(f"a.{name} IS DISTINCT FROM b.{name}" for name in content)
    query = f"""
        SELECT a.run, a.algorithm, a.dataset, a.split, a.config FROM source_{a} AS a JOIN source_{b} AS b
        USING (run, step) WHERE a.run IN (SELECT unnest(?)) AND ({differs}) ORDER BY ALL LIMIT 1
    """
    with stores[a].reading(), stores[b].reading():
        found = con.execute(query, [runs]).fetchone()
    if found:
        run, algorithm, dataset, split, config = found
        raise UserError(
            f"'{stores[a].path}' and '{stores[b].path}' have different results of the same run ({run}: {algorithm} on "
            f"{dataset}, split {split}, configuration {config}); leave one out, or take the first with --overlap first"
        )


def _write(
    con: DuckDBPyConnection,
    stores: list[Store],
    owners: dict[str, int],
    folder: Path,
    spec: Spec,
    spec_hash: str,
) -> tuple[int, ...]:
    """Write the merged folder; return the runs taken from each source."""
    for part in ("shards", "failures"):
        (folder / part).mkdir(parents=True)
    taken = [sum(owner == i for owner in owners.values()) for i in range(len(stores))]
    sources = [part for store, count in zip(stores, taken, strict=True) for part in _provenance(store, count)]
    made = stores[0].info["versions"]  # which also says who may add to it
    info = {"format": FORMAT, "spec_hash": spec_hash, "versions": made, "spec": spec.to_dict()}
    write_file(folder / "spec.json", json.dumps(info | {"merged_by": __version__, "sources": sources}, indent=2))
    merged = Store.open(folder)
    names: set[str] = set()
    for i, store in enumerate(stores):
        mine = [run for run, owner in owners.items() if owner == i]
        for file in store.shards() if mine else ():
            with store.reading():
                query = f"SELECT * FROM {scan([file])} WHERE run IN (SELECT unnest(?))"
                frame = con.execute(query, [mine]).df()
            if len(frame):
                fleet = digest(sorted(set(frame["run"]))) if isinstance(store, Summary) else file.stem
                fleet = _free(fleet, names)
                merged.write_shard(fleet, frame.assign(fleet=fleet))
    names.clear()
    for store in stores:
        for note in store.failures():
            left = [run for run in note["runs"] if run not in owners]
            if left:
                merged.write_failure(_free(note["fleet"], names), left, note["reason"])
    return tuple(taken)


def _free(fleet: str, names: set[str]) -> str:
    """A name no other fleet has: two folders may hold different runs of the same fleet."""
    name, number = fleet, 1
    while name in names:
        number += 1
        name = f"{fleet}+{number}"
    names.add(name)
    return name


def _provenance(store: Store, taken: int) -> list[dict[str, Any]]:
    """Where results come from; of a merged folder, where its parts came from."""
    name = store.path.resolve().name
    parts: list[dict[str, Any]] = store.info.get("sources", [])
    if parts:
        return [part | {"folder": f"{name}/{part['folder']}"} for part in parts]
    kind = "summary" if isinstance(store, Summary) else "results folder"
    about = {"folder": name, "kind": kind, "runs": taken, "spec_hash": store.spec_hash}
    return [{**about, "versions": store.info["versions"], "spec": store.spec}]


def planned(store: Store) -> list[Any]:
    """The runs a results folder is meant to have: those of its spec, or of the specs it was merged from."""
    from puarena.bench.plan import make_plan

    specs = [part["spec"] for part in store.info.get("sources", ())] or [store.spec]
    unique = {json.dumps(spec, sort_keys=True): spec for spec in specs}
    return list({run.run_id: run for spec in unique.values() for run in make_plan(Spec.load(spec)).runs}.values())
