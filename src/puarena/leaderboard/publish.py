"""Results to be published: a summary, the same numbers as a plain CSV, and a card that says what made them."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from puarena.errors import UserError
from puarena.experiments.spec import PROTOCOL_OPTIMIZER, Spec
from puarena.experiments.status import FolderStatus, read_status
from puarena.leaderboard.protocol import command_of, departures
from puarena.report.compare import to_published_csv
from puarena.report.export import export, portable
from puarena.results import Results, ask, open_results
from puarena.results import published as shelf
from puarena.utils.files import cannot_write, write_file

LIMIT = 5_000_000  # bytes of all published results together: they travel with the package


@dataclass(frozen=True)
class Published:
    """What was written, and where it stands."""

    files: tuple[Path, ...]
    status: FolderStatus

    departs: tuple[str, ...]  # from the suite of its name

    @property
    def shelf_size(self) -> int:
        """Bytes of everything that is published in the folder."""
        return sum(
            file.stat().st_size for file in self.files[0].parent.rglob("*") if file.is_file()
        )


def publish(
    source: str | Path | Results,
    out: str | Path,
    name: str | None = None,
    commit: str = "",
    machine: str = "",
    wall_seconds: float | None = None,
    partial: bool = False,
    replace: bool = False,
) -> Published:
    """Write ``NAME.parquet``, ``NAME.csv`` and ``NAME.json`` into a folder.

    ``partial`` publishes what is there of incomplete results, and the card names what is not. Numbers that are out are
    not changed under the same version of puarena unless told to ``replace`` them; those of an older version move to a
    folder named after it.
    """
    store = source if isinstance(source, Results) else open_results(source)
    spec = Spec.load(store.spec)
    name = (
        name
        or f"{spec.name}-{spec.profile}{'' if spec.optimizer == PROTOCOL_OPTIMIZER else f'-{spec.optimizer}'}"
    )
    if not re.fullmatch(r"[a-z0-9][a-z0-9.-]{0,60}", name):
        raise UserError(
            f"'{name}' is not a valid name: use small letters, digits, dots and dashes only"
        )
    where = read_status(store)
    if where.counts["missing"] + where.counts["failed"] and not partial:
        raise UserError(
            f"'{store.path}' is incomplete ({where.line}); finish it with 'puarena run', or publish what is there with "
            "--partial"
        )
    folder = Path(out)
    summary, numbers, card = (folder / f"{name}.{end}" for end in ("parquet", "csv", "json"))
    facts = card_of(store) | {
        "name": name,
        "commit": commit,
        "machine": machine,
        "wall_seconds": wall_seconds,
    }
    departs = departures(spec)
    facts |= {
        "published": date.today().isoformat(),
        "runs": where.counts,
        "missing": missing_of(where),
    }
    facts |= {"departs": departs, **_extent(spec)} | (
        {} if command_of(spec) else {"spec": portable(store.spec)}
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _make_room(summary, numbers, card, facts, replace)
    except OSError as error:
        raise cannot_write(folder, error) from error
    export(
        store, summary, [f"Not the suite as it stands: {'; '.join(departs)}."] if departs else []
    )
    to_published_csv(summary, numbers)
    write_card(card, facts, (summary, numbers))
    return Published((summary, numbers, card), where, tuple(departs))


def _extent(spec: Spec) -> dict[str, Any]:
    """How much was run, and with which optimizer."""
    return {key: getattr(spec, key) for key in ("splits", "configs", "steps", "optimizer")}


def _make_room(
    summary: Path, numbers: Path, card: Path, facts: dict[str, Any], replace: bool
) -> None:
    """What was published before under this name is kept apart, or stays."""
    if not summary.exists() or replace:
        return
    before = shelf.read_card(summary)
    old, new = (".".join(str(each["version"]).split(".")[:2]) for each in (before, facts))
    if old == new:
        raise UserError(
            f"'{summary}' is published already, with puarena {before['version']}: numbers of one version are frozen; "
            "use another --name, or --replace if they are wrong"
        )
    kept = summary.parent / old
    kept.mkdir(exist_ok=True)
    for file in (summary, numbers, card):
        if file.exists():
            os.replace(file, kept / file.name)


def card_of(store: Results) -> dict[str, Any]:
    """What made these results, as far as they say it themselves."""
    with store.reading():
        makers = ask(
            store.relation(), "SELECT DISTINCT version, torch, device FROM curves ORDER BY ALL"
        ).fetchall()
        spent = "SELECT sum(s) FROM (SELECT max(seconds) AS s FROM curves GROUP BY run)"
        ((seconds,),) = ask(store.relation(), spent).fetchall()
    if not makers:
        raise UserError(f"'{store.path}' has no results yet, so there is nothing to publish")
    return {
        "suite": store.spec.get("name", ""),
        "profile": store.spec.get("profile", ""),
        "spec_hash": store.spec_hash,
        "command": _command(store),
        "version": _joined(row[0] for row in makers),
        "torch": _joined(row[1] for row in makers),
        "device": _joined(row[2] for row in makers),
        "versions": store.info["versions"],
        "training_seconds": round(float(seconds or 0.0), 1),  # of all fleets, one after the other
    }


def missing_of(where: FolderStatus) -> list[str]:
    """What is not there, by problem and algorithm, in words."""
    return [
        f"{branch.algorithm} on {problem.label(prior=True)}: "
        f"{branch.planned - branch.done} of {branch.planned} runs"
        for problem, branches in where.problems.items()
        for branch in branches
        if not branch.complete
    ]


def write_card(card: Path, facts: dict[str, Any], files: Iterable[Path]) -> None:
    """Write a card with the digests of the files it is about, so that a later change is noticed."""
    write_file(
        card,
        json.dumps(facts | {"files": {file.name: sha256(file) for file in files}}, indent=2) + "\n",
    )


def sha256(file: Path) -> str:
    """The digest of a file."""
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        raise UserError(f"the file '{file}' cannot be read") from None


def check_files(card: dict[str, Any], folder: Path) -> None:
    """Refuse files that are not those the card was written about."""
    for name, digest in dict(card.get("files", {})).items():
        if Path(name).name != name or sha256(folder / name) != digest:
            raise UserError(
                f"'{folder / name}' was edited after its card was written; make it again"
            )


def _command(store: Results) -> str:
    spec = Spec.load(store.spec)
    command = None if spec.plugins else command_of(spec)
    return f"{command or 'puarena run SPEC.yaml'} --out RESULTS"


def _joined(words: Iterable[Any]) -> str:
    return ", ".join(dict.fromkeys(map(str, words)))
