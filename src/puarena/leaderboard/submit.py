"""Submissions: small folders with all that is needed to believe a row, or to compute it again."""

from __future__ import annotations

import math
import re
import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse

import yaml

from puarena import __version__, catalog
from puarena.errors import UserError
from puarena.experiments.plan import RunSpec, make_plan
from puarena.experiments.spec import Spec
from puarena.leaderboard.publish import (
    check_files,
    describe_differences,
    find_suite,
    make_card,
    name_community_board,
    share_board,
    write_card,
)
from puarena.report.compare import to_published_csv
from puarena.report.export import export, portable
from puarena.results import Folder, Results, Summary, open_results
from puarena.results.folder import have_same_numbers
from puarena.results.published import (
    CARD,
    COMMUNITY,
    NUMBERS,
    SUMMARY,
    list_summaries,
    read_card,
)
from puarena.results.records import Card
from puarena.utils.files import cannot_write, write_file
from puarena.utils.identity import digest

if TYPE_CHECKING:
    from pandas import DataFrame

MAX_SUBMISSION_BYTES = 1_000_000
SPEC = "spec.yaml"
MAX_LISTED_GAPS = 4
MAX_AUTHOR = 120  # characters


@dataclass(frozen=True)
class Submission:
    """A folder that is ready to be sent."""

    folder: Path
    name: str
    suite: str
    profile: str
    methods: tuple[str, ...]
    bytes: int
    board: str  # on which it appears

    @property
    def instructions(self) -> str:
        """The next steps, for the submitter."""
        place = f"results/{COMMUNITY}/{self.folder.name}"
        return (
            f"{self.folder} is ready ({self.bytes / 1e3:,.0f} kB): {', '.join(self.methods)} in "
            f"the suite {self.suite}, profile {self.profile}. It appears on the board "
            f"{self.board}.\n"
            f"Next: put it into {place} of a clone of the repository, look at it with\n"
            "'make site', and open a pull request with that folder alone. Reviewers rerun a row "
            "of it with\n"
            f"'puarena reproduce {place}/{SUMMARY} {self.methods[0]}'."
        )


def submit(
    source: str | Path,
    name: str,
    code: str,
    out: str | Path | None = None,
    say: Callable[[str], None] = lambda _: None,
    author: str = "",
) -> Submission:
    """Check a results folder and pack it; with a fault in it, nothing is written.

    The folder's plugins are run, to check that their methods keep the contract.
    """
    slug = _check_about(name, code, author)
    store = open_results(source)
    if not isinstance(store, Folder):
        raise UserError(
            f"'{source}' is a summary; submit the results folder that it was made from",
            "not-supported",
        )
    plugins = [Path(plugin) for plugin in store.spec.plugins]
    if len({plugin.name for plugin in plugins}) < len(plugins):
        raise UserError(
            "two plugins of the spec have the same file name; rename one of them, and run it again",
            "conflict",
        )
    # First: the data of a suite's problems may be fetched, and those of other specs may not.
    suite, _ = find_suite(store.spec)
    runs = check_results(store)
    card = make_card(
        store,
        name=name,
        author=author,
        code=code,
        suite=suite,
        methods=store.spec.algorithms,
        runs={"planned": runs, "done": runs},
        published=date.today().isoformat(),
        command=f"puarena run {SPEC} --out RESULTS",
    )
    board = find_board(card)
    check_contract(store.spec, say)
    folder = Path(out) if out is not None else Path(f"{slug}-{suite}-{store.spec.profile}")
    if folder.exists():
        raise UserError(f"'{folder}' already exists; remove it, or use another --out", "conflict")
    try:
        folder.mkdir(parents=True)
        size = _pack(folder, store, card, plugins)
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise cannot_write(folder, error) from error
    except UserError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    spec = store.spec
    return Submission(folder, name, suite, spec.profile, spec.algorithms, size, board)


def find_board(card: Card) -> str:
    """Return the board on which a submission appears; raises an error if its rows cannot."""
    board = name_community_board(card)
    owners: dict[str, str] = {}
    for name, summary in list_summaries().items():
        other = read_card(summary)
        is_submission = name.startswith(f"{COMMUNITY}/")
        # A newer submission of the same name replaces the older one.
        if not share_board(card, other) or other.departs or other.name == card.name:
            continue
        if not is_submission:
            board = name
        methods = other.methods if is_submission else Summary(summary).spec.algorithms
        owners = dict.fromkeys(methods, f"'{other.name}'" if is_submission else "puarena") | owners
    taken = {method: owners[method] for method in card.methods if method in owners}
    if len(taken) == len(card.methods) or {*taken.values()} - {"puarena"}:
        words = ", ".join(f"{method} (of {owner})" for method, owner in taken.items())
        raise UserError(
            f"'{card.name}' would not appear: the board {board} has rows of this name already: "
            f"{words}; submit a method of your own, under a name of its own",
            "conflict",
        )
    return board


def _check_about(name: str, code: str, author: str = "") -> str:
    """Check the name of a submission and the address of its code; return the name for a folder."""
    if len(author) > MAX_AUTHOR or not author.isprintable():
        raise UserError(f"--author takes up to {MAX_AUTHOR} characters", "invalid-value")
    if not name.strip() or len(name) > 80 or not name.isprintable():
        raise UserError(
            "--name needs a name of one to eighty characters, such as 'Soft PU'", "invalid-value"
        )
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    if not slug:
        raise UserError(
            f"--name '{name}' has no letter or digit from which a folder could be named",
            "invalid-value",
        )
    address = urlparse(code)
    if address.scheme not in ("http", "https") or not address.netloc:
        raise UserError(
            f"--code takes the address of the method's code (https://...), and '{code}' was given",
            "invalid-value",
        )
    return slug


def check_contract(spec: Spec, say: Callable[[str], None]) -> None:
    """Check that the algorithms of plugins keep the contract; they are trained for this."""
    entries = [catalog.get(name) for name in spec.algorithms]
    own = [each.name for each in entries if each.origin == "plugin" and not each.is_guest]
    if not own:
        return
    from puarena.testing import contract

    for name, promise, problem in contract.check_all(own):
        if problem is not None:
            raise UserError(
                f"{name} breaks the contract of the benchmark ({promise}: {problem}); see "
                "'puarena check'",
                "invalid-plugin",
            )
        say(f"{name}: {promise}")


def _pack(folder: Path, store: Results, card: Card, plugins: list[Path]) -> int:
    """Write the files of a submission; return their size."""
    export(store, folder / SUMMARY)
    to_published_csv(folder / SUMMARY, folder / NUMBERS)
    spec = portable(store.info.spec)
    write_file(folder / SPEC, yaml.safe_dump(spec, sort_keys=False, allow_unicode=True))
    for plugin in plugins:
        shutil.copyfile(plugin, folder / plugin.name)
    files = sorted(folder.iterdir())
    write_card(folder / CARD, card, files)
    return _check_size(folder)


def _check_size(folder: Path) -> int:
    size = sum(file.stat().st_size for file in folder.iterdir())
    if size > MAX_SUBMISSION_BYTES:
        raise UserError(
            f"'{folder}' has {size / 1e6:.1f} MB, and at most {MAX_SUBMISSION_BYTES / 1e6:g} MB "
            "are accepted",
            "invalid-value",
        )
    return size


def check_submission(folder: Path) -> Card:
    """Return the card of a complete and unedited submission; none of its code is run."""
    summary = folder / SUMMARY
    card = read_card(summary)
    if not {SUMMARY, NUMBERS, SPEC} <= card.files.keys() or not card.code or not card.methods:
        raise UserError(
            f"the card of '{folder}' is incomplete; make it with 'puarena submit'", "wrong-format"
        )
    _check_about(card.name, card.code, card.author)
    check_files(card, folder)
    _check_size(folder)
    store = Summary(summary)
    spec = store.spec
    suite, protocol = find_suite(spec)
    facts = {
        "spec_hash": store.spec_hash,
        "suite": suite,
        "profile": spec.profile,
        "methods": spec.algorithms,
    }
    wrong = [key for key, value in facts.items() if getattr(card, key) != value]
    if wrong or describe_differences(spec, protocol):
        raise UserError(
            f"the card of '{folder}' does not agree with its summary ({', '.join(wrong)})",
            "conflict",
        )
    runs = len(store.done_runs())
    if runs != store.facts.runs or runs != card.runs.get("done"):
        raise UserError(
            f"'{folder}' is incomplete: it has {runs} runs, and its card says "
            f"{card.runs.get('done')}",
            "missing-data",
        )
    return card


# -- checks of a results folder ----------------------------------------------------------


def check_results(store: Results, places: Spec | None = None) -> int:
    """Check results against their spec, without training; return the number of runs.

    The first fault is an error. ``places``: the spec with the paths of plugins, if they moved.
    """
    spec = places or store.spec
    found = spec.hash(store.info.revisions)
    if found != store.spec_hash:
        raise UserError(
            f"the spec in '{store.path}' is not the one its results were computed with (it is "
            f"{found}, and {store.spec_hash} was stored): it or a plugin was edited since; run it "
            "again",
            "conflict",
        )
    planned = {run.run_id: run for run in make_plan(spec).runs}
    with store.reading():
        curves = store.relation().df()
    fault = (
        _find_foreign_version(curves)
        or _find_missing_runs(curves, planned)
        or _find_edited_rows(curves, planned)
        or _find_wrong_curve(store, curves, planned)
        or _find_wrong_fleet(store, curves)
    )
    if fault:
        raise UserError(f"'{store.path}' cannot be accepted: {fault}", "conflict")
    return len(planned)


def _find_foreign_version(curves: DataFrame) -> str:
    for version in sorted(set(curves["version"])):
        if not have_same_numbers(version, __version__):
            return (
                f"it has results of puarena {version}, and this is {__version__}, whose numbers "
                "may differ; run it again with this one"
            )
    return ""


def _find_missing_runs(curves: DataFrame, planned: Mapping[str, RunSpec]) -> str:
    """Return which planned runs have no curve, or which runs were not planned."""
    done = set(curves["run"])
    missing = [run for name, run in planned.items() if name not in done]
    if missing:
        counts = Counter(f"{run.algorithm} on {run.problem.label()}" for run in missing)
        words = [f"{name} ({count})" for name, count in counts.most_common(MAX_LISTED_GAPS)]
        if len(counts) > MAX_LISTED_GAPS:
            words.append(f"and {len(counts) - MAX_LISTED_GAPS} more")
        share = f"{len(missing)} of {len(planned)} runs"
        return f"it is incomplete, {share} are missing: {', '.join(words)}"
    foreign = done - planned.keys()
    if foreign:
        return f"it has {len(foreign)} runs that its spec does not plan, such as {min(foreign)}"
    return ""


def _find_edited_rows(curves: DataFrame, planned: Mapping[str, RunSpec]) -> str:
    """Return which run was not stored as it is planned."""
    names = list(next(iter(planned.values())).to_columns())
    for row in curves[names].drop_duplicates().to_dict("records"):
        for name, value in planned[row["run"]].to_columns().items():
            if not _are_equal(row[name], value):
                return f"its run {row['run']} does not have the {name} that was planned"
    return ""


def _are_equal(stored: Any, planned: Any) -> bool:
    if isinstance(planned, float):
        return math.isclose(stored, planned, rel_tol=1e-9)
    return bool(stored == planned)


def _find_wrong_curve(store: Results, curves: DataFrame, planned: Mapping[str, RunSpec]) -> str:
    """Return which curve lacks a record, or does not go to its end.

    A summary has the last record of every run, and those that a criterion chose.
    """
    for name, steps in curves.groupby("run")["step"]:
        run = planned[str(name)]
        last = run.steps if catalog.get(run.algorithm).is_classic else run.all_steps
        due = {*range(run.record_every, last + 1, run.record_every), last}
        if store.is_summarized:
            if max(steps) != last or not set(steps) <= due:
                return f"its run {name} ends at step {max(steps)}, not {last}"
        elif set(steps) != due or len(steps) != len(due):
            return (
                f"the curve of its run {name} has {len(steps)} records up to step {max(steps)}, "
                f"not {len(due)} to {last}"
            )
    return ""


def _find_wrong_fleet(store: Results, curves: DataFrame) -> str:
    """Return which shard has other runs than those it is named after."""
    if not isinstance(store, Folder) or store.info.sources:
        return ""
    for fleet, members in curves.groupby("fleet")["run"]:
        if digest(sorted(set(members))) != fleet:
            return f"its shard {fleet} does not hold the runs that it was written with"
    return ""
