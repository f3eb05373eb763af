"""Verifying a submission by machine: check its folder, run one drawn row again, write a verdict.

    python -m puarena.leaderboard.verify results/community/NAME --out verdict.json

The plugins of the folder are run, so that a workflow that calls this must have no secrets and no
right to write. A submission is accepted if its files are complete and unedited, if its numbers are
those of its summary, if its runs are the planned ones, if its algorithms keep the contract, and if
a row that is drawn by lot, one of its own methods on one problem, comes out the same. Numbers of
other rows may still be wrong: draw again, with another seed, to look at more of them.
"""

from __future__ import annotations

import argparse
import secrets
import sys
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from random import Random
from typing import Any

from puarena import __version__, catalog
from puarena.errors import UserError
from puarena.experiments.machine import choose_device
from puarena.experiments.plan import RunSpec, make_plan
from puarena.experiments.spec import load_plugins
from puarena.leaderboard.publish import compute_checksum
from puarena.leaderboard.reproduce import reproduce
from puarena.leaderboard.submit import check_contract, check_results, check_submission
from puarena.report.compare import to_published_csv
from puarena.results import Summary
from puarena.results.published import CARD, NUMBERS, SUMMARY, VERDICT, read_card
from puarena.results.records import Verdict
from puarena.utils.files import write_file

EXIT_REFUSED, EXIT_NOT_REPRODUCED = 2, 1
SEEDS = 2**31  # a seed that nobody chooses is one of these


def verify(
    folder: str | Path,
    seed: int | None = None,
    say: Callable[[str], None] = lambda _: None,
    **options: Any,
) -> Verdict:
    """Check a submission and run one row again; a fault in the folder is an error.

    ``seed`` draws the row (None: a random one); the ``options`` are those of ``puarena.run``.
    """
    folder = Path(folder)
    _check_names(folder)
    check_submission(folder)
    summary = Summary(folder / SUMMARY)
    if to_published_csv(summary) != (folder / NUMBERS).read_text(encoding="utf-8"):
        raise UserError(
            f"'{folder / NUMBERS}' does not have the numbers of '{SUMMARY}'; make both with "
            "'puarena submit'",
            "conflict",
        )
    say("files: complete, unedited, and with the numbers of the summary")
    places = [str(folder.resolve() / Path(plugin).name) for plugin in summary.spec.plugins]
    spec = summary.spec.model_copy(update={"plugins": tuple(places)})
    load_plugins(spec.plugins)
    runs = check_results(summary, spec)
    say(f"runs: {runs}, as planned")
    check_contract(spec, lambda text: say(f"contract: {text}"))
    seed = secrets.randbelow(SEEDS) if seed is None else seed
    drawn = draw_row(make_plan(spec).runs, seed)
    problem = drawn.problem
    say(f"drawn with seed {seed}: {drawn.algorithm} on {problem.label()}")
    found = reproduce(
        folder / SUMMARY, drawn.algorithm, [problem.dataset], [problem.case], **options
    )
    say(found.verdict)
    return Verdict(
        card=compute_checksum(folder / CARD),
        row=drawn.algorithm,
        problem=problem.label(),
        seed=seed,
        reproduced=found.same,
        verdict=found.verdict,
        version=__version__,
        device=choose_device(str(options.get("device", "auto"))),
        date=date.today().isoformat(),
    )


def draw_row(runs: Sequence[RunSpec], seed: int) -> RunSpec:
    """Return a run of the drawn row: a method and a problem, of a plugin or guest if there is one.

    Rows of methods that come with the package would appear under our name, never under theirs.
    """
    own = [run for run in runs if catalog.get(run.algorithm).origin in ("plugin", "guest")]
    rows = {(run.algorithm, run.problem): run for run in own or runs}
    return Random(seed).choice(list(rows.values()))


def _check_names(folder: Path) -> None:
    """Refuse files that the card does not name, and a verdict that somebody brought along."""
    named = {*read_card(folder / SUMMARY).files, CARD}
    for file in sorted(folder.rglob("*")):
        if file.name == VERDICT:
            raise UserError(
                f"'{file}' is written by the machine that verifies; remove it", "conflict"
            )
        if file.is_symlink() or str(file.relative_to(folder)) not in named:
            raise UserError(f"'{file}' is not a file that the card names; remove it", "conflict")


def main(arguments: Sequence[str] | None = None) -> int:
    """Verify the folder that the command line names; return the exit code."""
    parser = argparse.ArgumentParser("puarena.leaderboard.verify", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, help="write the verdict here, as JSON")
    parser.add_argument("--seed", type=int, help="draws the row; default: a random one")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--data", type=Path, help="folder that has the datasets' files")
    parser.add_argument("--workers", type=int)
    given = parser.parse_args(arguments)
    options = {name: getattr(given, name) for name in ("device", "data", "workers")}
    try:
        verdict = verify(given.folder, given.seed, print, **options)
    except UserError as error:
        print(f"refused: {error}")
        return EXIT_REFUSED
    if given.out is not None:
        write_file(given.out, verdict.to_json() + "\n")
    print(f"{given.folder}: {verdict.sentence}")
    return 0 if verdict.reproduced else EXIT_NOT_REPRODUCED


if __name__ == "__main__":
    sys.exit(main())
