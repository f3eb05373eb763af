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
from puarena.errors import UserError, unknown_name
from puarena.results import Folder, Results, Summary, open_results
from puarena.results.planned import unite_planned
from puarena.results.schema import FORMAT, MADE_BY, is_value
from puarena.results.sql import sql_name
from puarena.utils.files import write_file
from puarena.utils.identity import digest

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Unite = Callable[
    [Sequence[Results]], tuple[dict[str, Any], str]
]  # the spec that has all runs of folders, and its hash
OVERLAP = {
    "refuse": "a run with two results is an error",
    "first": "take the result of the folder named first",
}
TOLERANCE = 1e-6  # by which two results of a run may differ: sums are rounded otherwise among other neighbors


@dataclass(frozen=True)
class Merged:
    """What a merge did: runs in all, those found in several folders, and the runs taken from each."""

    out: Path
    runs: int
    shared: int
    counts: tuple[int, ...]
    tolerance: float = TOLERANCE  # by which the shared runs may differ
    difference: float = 0.0  # by which they do at most


def merge(
    paths: Sequence[str | Path],
    out: str | Path,
    unite: Unite,
    overlap: str = "refuse",
    tolerance: float = TOLERANCE,
) -> Merged:
    """Join results folders (or exported summaries) into the new folder ``out``.

    A run that two folders have must have the same curve in both, its values within ``tolerance``, unless ``overlap`` is
    ``first``.
    """
    import duckdb

    if overlap not in OVERLAP:
        raise unknown_name("way to treat runs with two results", overlap, OVERLAP)
    out = Path(out)
    if len(paths) < 2:
        raise UserError("merging needs at least two results folders")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"'{out}' already exists; merge into a new folder with another --out")
    stores = [open_results(path) for path in paths]
    _check_versions(stores)
    spec, spec_hash = unite(stores)
    with duckdb.connect() as con:
        owners, shared, difference = _owners(con, stores, overlap, tolerance)
        temp = out.resolve().with_name(f".{out.name}.{os.getpid()}.tmp")
        try:
            counts = _write(con, stores, owners, temp, spec, spec_hash)
            if out.exists():
                out.rmdir()
            os.replace(temp, out)
        except OSError as error:
            raise UserError(
                f"cannot write '{out}' ({(error.strerror or str(error)).lower()})"
            ) from error
        finally:
            shutil.rmtree(temp, ignore_errors=True)
    return Merged(out, len(owners), shared, counts, tolerance, difference)


def _check_versions(stores: list[Results]) -> None:
    """Numbers of another minor version may differ."""
    first, *others = [
        (store.path, str(store.info["versions"].get("puarena", "unknown"))) for store in stores
    ]
    for path, version in others:
        if version.split(".")[:2] != first[1].split(".")[:2]:
            raise UserError(
                f"'{first[0]}' was made by puarena {first[1]} and '{path}' by {version}, whose numbers may differ; "
                "they cannot be merged"
            )


def _owners(
    con: DuckDBPyConnection, stores: list[Results], overlap: str, tolerance: float
) -> tuple[dict[str, int], int, float]:
    """From which folder each run is taken (the one with more records, else the first); how many are in several, and by
    how much they differ there."""
    difference = 0.0
    owners: dict[str, int] = {}
    lengths: dict[str, int] = {}
    shared: set[str] = set()
    for i, store in enumerate(stores):
        with store.reading():
            store.relation(con).create_view(f"source_{i}")
            lengths_here = con.execute(
                f"SELECT run, count(*) FROM source_{i} GROUP BY run"
            ).fetchall()
        for j in sorted({owners[run] for run, _ in lengths_here if run in owners}):
            both = [run for run, _ in lengths_here if owners.get(run) == j]
            shared |= set(both)
            if overlap == "refuse":
                difference = max(difference, _difference(con, stores, both, (j, i), tolerance))
        for run, length in lengths_here:
            if run not in owners or (overlap == "refuse" and length > lengths[run]):
                owners[run], lengths[run] = i, length
    return owners, len(shared), difference


def _difference(
    con: DuckDBPyConnection,
    stores: list[Results],
    runs: list[str],
    pair: tuple[int, int],
    tolerance: float,
) -> float:
    """By how much two results of the same runs differ, record by record; more than the tolerance is refused."""
    a, b = pair
    both = {*stores[a].relation().columns} & {*stores[b].relation().columns}
    values = [sql_name(name) for name in both if is_value(name) or name == "loss"]
    content = [
        sql_name(name)
        for name in both
        if name not in {*MADE_BY, "run", "step"} and sql_name(name) not in values
    ]
    gaps = ", ".join(
        f"CASE WHEN a.{name} IS NOT DISTINCT FROM b.{name} THEN 0 WHEN isfinite(a.{name} - b.{name}) "
        f"THEN abs(a.{name} - b.{name}) ELSE 'inf'::DOUBLE END"
        for name in values
    )
    differs = " OR ".join(f"a.{name} IS DISTINCT FROM b.{name}" for name in content)
    query = f"""
        SELECT a.run, a.algorithm, a.dataset, a.split, a.config,
            CASE WHEN {differs} THEN 'inf'::DOUBLE ELSE greatest(0, {gaps}) END AS gap
        FROM source_{a} AS a JOIN source_{b} AS b USING (run, step)
        WHERE a.run IN (SELECT unnest(?)) ORDER BY gap DESC, a.run LIMIT 1
    """
    with stores[a].reading(), stores[b].reading():
        worst = con.execute(query, [runs]).fetchone()
    if worst is None:
        return 0.0
    run, algorithm, dataset, split, config, gap = worst
    if not gap <= tolerance:
        raise UserError(
            f"'{stores[a].path}' and '{stores[b].path}' have different results of the same run ({run}: {algorithm} on "
            f"{dataset}, split {split}, configuration {config}: they differ by {gap:.3g} and may by {tolerance:g}); "
            "leave one out, or take the first with --overlap first"
        )
    return float(gap)


def _write(
    con: DuckDBPyConnection,
    stores: list[Results],
    owners: dict[str, int],
    folder: Path,
    spec: dict[str, Any],
    spec_hash: str,
) -> tuple[int, ...]:
    """Write the merged folder; return the runs taken from each source."""
    for part in ("shards", "failures"):
        (folder / part).mkdir(parents=True)
    counts = [sum(owner == i for owner in owners.values()) for i in range(len(stores))]
    sources = [
        part
        for store, count in zip(stores, counts, strict=True)
        for part in _provenance(store, count)
    ]
    versions = stores[0].info["versions"]  # which also says who may add to it
    info = {
        "format": FORMAT,
        "spec_hash": spec_hash,
        "versions": versions,
        "sealed": True,
        "spec": spec,
    }
    revisions = {
        name: held for store in stores for name, held in store.info.get("revisions", {}).items()
    }
    info |= {"revisions": revisions} if revisions else {}
    write_file(
        folder / "spec.json",
        json.dumps(info | {"merged_by": __version__, "sources": sources}, indent=2),
    )
    merged = Folder(folder)
    planned = unite_planned([store.planned() for store in stores])
    if planned is not None:
        merged.keep_planned(planned)
    names: set[str] = set()
    for i, store in enumerate(stores):
        mine = [run for run, owner in owners.items() if owner == i]
        for file in store.shards() if mine else ():
            with store.reading():
                query = f"SELECT * FROM {store.rows([file])} WHERE run IN (SELECT unnest(?))"
                frame = con.execute(query, [mine]).df()
            if len(frame):
                fleet = (
                    digest(sorted(set(frame["run"]))) if isinstance(store, Summary) else file.stem
                )
                fleet = _free(fleet, names)
                merged.write_shard(fleet, frame.assign(fleet=fleet))
    names.clear()
    for store in stores:
        for note in store.failures():
            left = [run for run in note["runs"] if run not in owners]
            if left:
                merged.write_failure(_free(note["fleet"], names), left, note["reason"])
    return tuple(counts)


def _free(fleet: str, names: set[str]) -> str:
    """A name no other fleet has: two folders may hold different runs of the same fleet."""
    name, number = fleet, 1
    while name in names:
        number += 1
        name = f"{fleet}+{number}"
    names.add(name)
    return name


def _provenance(store: Results, runs: int) -> list[dict[str, Any]]:
    """Where results come from; of a merged folder, where its parts came from."""
    name = store.path.resolve().name
    parts: list[dict[str, Any]] = store.info.get("sources", [])
    if parts:
        return [part | {"folder": f"{name}/{part['folder']}"} for part in parts]
    kind = "summary" if isinstance(store, Summary) else "results folder"
    about = {"folder": name, "kind": kind, "runs": runs, "spec_hash": store.spec_hash}
    return [{**about, "versions": store.info["versions"], "spec": store.spec}]
