"""Publishing results: a summary, its numbers as a CSV file, and a card that says what made them."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import product
from pathlib import Path
from typing import Any

from puarena import datasets
from puarena.errors import UserError
from puarena.experiments import suites
from puarena.experiments.spec import (
    PROBLEM_LISTS,
    PROFILES,
    PROTOCOL_OPTIMIZER,
    Spec,
    as_tuple,
)
from puarena.experiments.status import FolderStatus, read_status
from puarena.pu import labeling
from puarena.report.compare import to_published_csv
from puarena.report.export import export, portable
from puarena.results import Results, ask, open_results
from puarena.results.folder import have_same_numbers
from puarena.results.published import COMMUNITY, read_card
from puarena.results.records import Card
from puarena.utils.files import cannot_read, cannot_write, write_file

MAX_PUBLISHED_BYTES = 5_000_000  # of all published results, which are part of the package
# Methods may be anyone's; problems and fixed hyperparameters are compared separately.
FREE_FIELDS = ("algorithms", "plugins", "problems", "hyper")
# Copies of a table with natural class frequencies differ by a few rows, and so in their prior.
PRIOR_TOLERANCE = 0.02
MAX_LISTED_PROBLEMS = 4
SPEC_COMMAND = (
    "puarena run SPEC.yaml"  # of results that no command line makes; the card has the spec
)


COMMAND_FIELDS = ("splits", "configs", "steps", "network", "precision", "optimizer")


@dataclass(frozen=True)
class Publication:
    """The files that were written, how complete they are, and how they depart from the suite."""

    files: tuple[Path, ...]
    status: FolderStatus
    departs: tuple[str, ...]

    @property
    def shelf_bytes(self) -> int:
        """The size of everything that is published in the folder."""
        files = [file for file in self.files[0].parent.rglob("*") if file.is_file()]
        return sum(file.stat().st_size for file in files)


def publish(
    source: str | Path | Results,
    out: str | Path,
    name: str | None = None,
    commit: str = "",
    machine: str = "",
    wall_seconds: float | None = None,
    partial: bool = False,
    replace: bool = False,
    question: str = "",
) -> Publication:
    """Write ``NAME.parquet``, ``NAME.csv`` and ``NAME.json`` into a folder.

    ``question``: what the results answer, for the front page of the leaderboards.
    ``partial`` accepts incomplete results; the card lists what is missing. Published numbers are
    not changed under the same version of puarena unless ``replace`` is set; those of an older
    version move to a folder named after it.
    """
    store = open_results(source)
    spec = store.spec
    name = name or _default_name(spec)
    if not re.fullmatch(r"[a-z0-9][a-z0-9.-]{0,60}", name):
        raise UserError(
            f"'{name}' is not a valid name: use small letters, digits, dots and dashes only",
            "invalid-value",
        )
    where = read_status(store)
    if where.counts["missing"] + where.counts["failed"] and not partial:
        raise UserError(
            f"'{store.path}' is incomplete ({where.line}); finish it with 'puarena run', or "
            "publish what is there with --partial",
            "missing-data",
        )
    departs = describe_departures(spec)
    card = make_card(
        store,
        name=name,
        commit=commit,
        machine=machine,
        wall_seconds=wall_seconds,
        published=date.today().isoformat(),
        runs=where.counts,
        missing=_list_missing(where),
        departs=tuple(departs),
        question=question,
    )
    folder = Path(out)
    summary, numbers, card_file = (folder / f"{name}.{end}" for end in ("parquet", "csv", "json"))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _move_older((summary, numbers, card_file), card, replace)
    except OSError as error:
        raise cannot_write(folder, error) from error
    notes = [f"Not the suite as it stands: {'; '.join(departs)}."] if departs else []
    export(store, summary, notes)
    to_published_csv(summary, numbers)
    write_card(card_file, card, (summary, numbers))
    return Publication((summary, numbers, card_file), where, tuple(departs))


def _default_name(spec: Spec) -> str:
    optimizer = "" if spec.optimizer == PROTOCOL_OPTIMIZER else f"-{spec.optimizer}"
    return f"{spec.name}-{spec.profile}{optimizer}"


def _move_older(files: Sequence[Path], card: Card, replace: bool) -> None:
    """Move the files of an older version to a folder; refuse to change those of this version."""
    summary = files[0]
    if not summary.exists() or replace:
        return
    before = read_card(summary)
    if have_same_numbers(before.version, card.version):
        raise UserError(
            f"'{summary}' is published already, with puarena {before.version}: numbers of one "
            "version are frozen; use another --name, or --replace if they are wrong",
            "conflict",
        )
    older = summary.parent / minor_version(before)
    older.mkdir(exist_ok=True)
    for file in files:
        if file.exists():
            os.replace(file, older / file.name)


def _list_missing(where: FolderStatus) -> tuple[str, ...]:
    """Return what is missing, by problem and algorithm, in words."""
    return tuple(
        f"{branch.algorithm} on {problem.dataset} case {problem.case} ({problem.setting}, rate "
        f"{problem.rate:g}, prior {problem.prior:g}): {branch.planned - branch.done} of "
        f"{branch.planned} runs"
        for problem, branches in where.problems.items()
        for branch in branches
        if not branch.complete
    )


# -- cards -------------------------------------------------------------------------------


def make_card(store: Results, **facts: Any) -> Card:
    """Return a card with what results say of themselves, and other ``facts``."""
    with store.reading():
        relation = store.relation()
        query = "SELECT DISTINCT version, torch, device FROM curves ORDER BY ALL"
        makers = ask(relation, query).fetchall()
        spent = "SELECT sum(s) FROM (SELECT max(seconds) AS s FROM curves GROUP BY run)"
        ((seconds,),) = ask(relation, spent).fetchall()
    if not makers:
        raise UserError(
            f"'{store.path}' has no results yet, so there is nothing to publish", "no-results"
        )
    versions, torch, devices = (_join(row[i] for row in makers) for i in range(3))
    spec = store.spec
    known = store.info.command or (write_command(spec) if store.info.sources else "")
    command = known or SPEC_COMMAND
    content: dict[str, Any] = {
        "suite": spec.name,
        "profile": spec.profile,
        "spec_hash": store.spec_hash,
        "command": f"{command} --out RESULTS",
        "version": versions,
        "torch": torch,
        "device": devices,
        "versions": store.info.versions,
        "training_seconds": round(float(seconds or 0.0), 1),
        "splits": spec.splits,
        "configs": spec.configs,
        "steps": spec.steps,
        "optimizer": spec.optimizer,
        "files": {},
    }
    if not known:
        content["spec"] = portable(store.info.spec)
    return Card(**content | facts)


def write_card(target: Path, card: Card, files: Iterable[Path]) -> None:
    """Write a card with the checksums of its files, so that a later change is noticed."""
    checksums = {file.name: compute_checksum(file) for file in files}
    write_file(target, card.model_copy(update={"files": checksums}).to_json() + "\n")


def check_files(card: Card, folder: Path) -> None:
    """Raise an error if a file is not the one that the card was written about."""
    for name, checksum in card.files.items():
        if Path(name).name != name or compute_checksum(folder / name) != checksum:
            raise UserError(
                f"'{folder / name}' was edited after its card was written; make it again",
                "damaged-file",
            )


def compute_checksum(file: Path) -> str:
    """Return the SHA-256 of a file."""
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError as error:
        raise cannot_read(file, error) from None


def minor_version(card: Card) -> str:
    """Return the version that decides the numbers, such as ``0.2``."""
    return ".".join(card.version.split(".")[:2])


def share_board(card: Card, other: Card) -> bool:
    """Return whether two cards are of one suite, profile and version."""
    facts = ((each.suite, each.profile, minor_version(each)) for each in (card, other))
    return len(set(facts)) == 1


def name_community_board(card: Card) -> str:
    """Return the name of the board of a submission to a suite without published results."""
    return f"{card.suite}-{card.profile}-{COMMUNITY}"


def _join(values: Iterable[Any]) -> str:
    return ", ".join(dict.fromkeys(map(str, values)))


# -- suites ------------------------------------------------------------------------------


def find_suite(spec: Spec) -> tuple[str, Spec]:
    """Return the suite whose protocol a spec follows; raises an error if there is none.

    Methods and plugins may be anyone's; problems, protocol, splits and configurations are the
    suite's.
    """
    differences = {
        (name, profile): describe_differences(spec, suites.get(name).override(profile=profile))
        for name, profile in product(suites.names(), PROFILES)
    }
    for (name, profile), differing in differences.items():
        if not differing:
            return name, suites.get(name).override(profile=profile)
    # The error names the suite of the same name, otherwise the nearest one.
    name, profile = min(
        differences,
        key=lambda key: (key[0] != spec.name, key[1] != spec.profile, len(differences[key])),
    )
    plugins = "".join(f" --plugin {shlex.quote(plugin)}" for plugin in spec.plugins)
    option = "" if profile == "definition" else f" --profile {profile}"
    raise UserError(
        f"the spec '{spec.name}' is not the suite '{name}' "
        f"({'; '.join(differences[name, profile][:3])}); make the results with 'puarena run "
        f"{name}{option} --algorithms {','.join(spec.algorithms)}{plugins} --out NEW'",
        "invalid-spec",
    )


def write_command(spec: Spec) -> str:
    """Return the ``puarena run`` command of a resolved spec; empty if there is none."""
    if spec.name not in suites.names() or spec.plugins or any(p.has_path() for p in spec.problems):
        return ""
    # Only the suite is resolved: names of a stranger's spec may stand for code.
    suite = suites.get(spec.name).override(profile=spec.profile).resolve()
    own, theirs = _list_command_values(spec), _list_command_values(suite)
    given = {name: values for name, values in own.items() if values != theirs[name]}
    # Not every spec is a product of lists, or has options for all its values.
    if suite.override(**given).hash() != spec.hash():
        return ""
    if spec.profile != Spec.model_fields["profile"].default:
        given["profile"] = spec.profile
    words = ["puarena", "run", spec.name]
    for name, values in given.items():
        words += [f"--{name}", ",".join(map(str, as_tuple(values)))]
    return shlex.join(words)


def _list_command_values(spec: Spec) -> dict[str, Any]:
    """Return what options of ``puarena run`` choose, each value once."""
    lists = {
        name: tuple(dict.fromkeys(v for problem in spec.problems for v in getattr(problem, name)))
        for name in PROBLEM_LISTS
    }
    names = tuple(dict.fromkeys(problem.dataset for problem in spec.problems))
    fields = {name: getattr(spec, name) for name in COMMAND_FIELDS}
    return {"algorithms": spec.algorithms, "datasets": names, **lists, **fields}


def describe_departures(spec: Spec) -> list[str]:
    """Return how a spec departs from the suite of its name, in words; nothing if it does not."""
    if spec.name not in suites.names():
        return [f"'{spec.name}' is no suite that comes with the package"]
    suite = suites.get(spec.name).override(profile=spec.profile)
    words = describe_differences(spec, suite)
    if spec.configs == 1 < suite.configs:
        words.append("with one configuration, the default, nothing is searched")
    return words


def describe_differences(spec: Spec, suite: Spec) -> list[str]:
    """Return in what a spec differs from a suite, in words."""
    words = [
        f"{field} is {own}, and {suites_own} in the suite"
        for field, (own, suites_own) in spec.differences(suite, FREE_FIELDS).items()
    ]
    if spec.hyper != suite.hyper:
        others = "it fixes other hyperparameters than the suite"
        words.append(others if spec.hyper else "it fixes no hyperparameters")
    own_problems, suite_problems = _expand_problems(spec), _expand_problems(suite)
    missing, foreign = suite_problems - own_problems, own_problems - suite_problems
    if missing:
        words.append(f"it lacks {_list_problems(missing)}")
    if foreign:
        words.append(f"the suite has no {_list_problems(foreign)}")
    return words


def _expand_problems(spec: Spec) -> set[tuple[Any, ...]]:
    """Return every problem as dataset, case, setting, rate, prior and labeling."""
    problems = set()
    for part in spec.problems:
        own, tolerance = 0.0, 0.0
        # A user's table is not read, and a table elsewhere not fetched, for a foreign spec.
        if part.dataset in datasets.names():
            info = datasets.info(part.dataset)
            if info.observed_setting:
                # Nothing of such a problem is chosen but its case.
                problems |= {
                    (part.dataset, case, info.observed_setting, 0.0, 0.0, labeling.OBSERVED)
                    for case in part.cases
                }
                continue
            own, tolerance = info.default_prior, 0.0 if info.balanced else PRIOR_TOLERANCE
        for values in product(*(getattr(part, name) for name in PROBLEM_LISTS)):
            case, setting, rate, prior, mechanism = values
            if prior is None or abs(prior - own) <= tolerance:
                prior = own
            problems.add((part.dataset, case, setting, rate, prior, mechanism))
    return problems


def _list_problems(problems: Iterable[tuple[Any, ...]]) -> str:
    words = []
    for dataset, case, setting, rate, prior, mechanism in sorted(problems):
        what = f"{setting}, {rate:.0%}, prior {prior:.3g}"
        if mechanism == labeling.OBSERVED:
            what = f"{setting}, observed labels"
        words.append(f"{dataset} case {case} ({what})")
    more = len(words) - MAX_LISTED_PROBLEMS
    others = f" and {more} more" if more > 0 else ""
    return ", ".join(words[:MAX_LISTED_PROBLEMS]) + others
