"""Join the results folders of several people or machines into one.

Runs are named by their content, so the same run has the same name everywhere. Folders of one protocol can be joined:
their specs may name other problems and algorithms, or more splits and configurations. What each brought is kept in
``spec.json`` under ``sources``.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from puarena import __version__
from puarena.errors import UserError, unknown
from puarena.files import write_file
from puarena.store import Folder, Store, Summary, open_store
from puarena.store.identity import digest
from puarena.store.schema import FORMAT, MADE_BY
from puarena.store.sql import sql_name

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Unite = Callable[[Sequence[Store]], tuple[dict[str, Any], str]]  # the spec that has all runs of folders, and its hash
OVERLAP = {"refuse": "a run with two results is an error", "first": "take the result of the folder named first"}


@dataclass(frozen=True)
class Merged:
    """What a merge did: runs in all, those found in several folders, and the runs taken from each."""

    out: Path
    runs: int
    shared: int
    taken: tuple[int, ...]


def merge(paths: Sequence[str | Path], out: str | Path, unite: Unite, overlap: str = "refuse") -> Merged:
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
    stores = [open_store(path) for path in paths]
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
    both = {*stores[a].relation().columns} & {*stores[b].relation().columns}
    content = [sql_name(name) for name in both if name not in {*MADE_BY, "run", "step"}]
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
    spec: dict[str, Any],
    spec_hash: str,
) -> tuple[int, ...]:
    """Write the merged folder; return the runs taken from each source."""
    for part in ("shards", "failures"):
        (folder / part).mkdir(parents=True)
    taken = [sum(owner == i for owner in owners.values()) for i in range(len(stores))]
    sources = [part for store, count in zip(stores, taken, strict=True) for part in _provenance(store, count)]
    made = stores[0].info["versions"]  # which also says who may add to it
    info = {"format": FORMAT, "spec_hash": spec_hash, "versions": made, "spec": spec}
    write_file(folder / "spec.json", json.dumps(info | {"merged_by": __version__, "sources": sources}, indent=2))
    merged = Folder(folder)
    names: set[str] = set()
    for i, store in enumerate(stores):
        mine = [run for run, owner in owners.items() if owner == i]
        for file in store.shards() if mine else ():
            with store.reading():
                query = f"SELECT * FROM {store.rows([file])} WHERE run IN (SELECT unnest(?))"
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
