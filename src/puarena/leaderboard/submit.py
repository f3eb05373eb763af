"""A submission: a small folder with everything that a reader of the table needs to believe a row, or to repeat it."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import yaml

from puarena import catalog
from puarena.errors import UserError
from puarena.experiments.spec import Spec
from puarena.leaderboard.checks import Checked, check
from puarena.leaderboard.protocol import differences, suite_of
from puarena.leaderboard.publish import card_of, check_files, write_card
from puarena.report.compare import to_published_csv
from puarena.report.export import export, portable
from puarena.results import Folder, Summary, open_results
from puarena.results.published import CARD, COMMUNITY, NUMBERS, SUMMARY, read_card
from puarena.utils.files import cannot_write, write_file

LIMIT = 1_000_000  # bytes of a submission
SPEC = "spec.yaml"
KEYS = ("name", "code", "suite", "profile", "spec_hash", "version", "methods", "files")


@dataclass(frozen=True)
class Submission:
    """A folder that is ready to be sent."""

    folder: Path
    name: str
    suite: str
    profile: str
    methods: tuple[str, ...]
    size: int

    @property
    def what_to_do(self) -> str:
        """The next steps, for the submitter."""
        return (
            f"{self.folder} is ready ({self.size / 1e3:,.0f} kB): {', '.join(self.methods)} in the suite {self.suite}, "
            f"profile {self.profile}.\n"
            f"Next: put it into results/{COMMUNITY}/{self.folder.name} of a clone of the repository, look at it with\n"
            "'make site', and open a pull request with that folder alone. Reviewers rerun a row of it with\n"
            f"'puarena reproduce results/{COMMUNITY}/{self.folder.name}/{SUMMARY} {self.methods[0]}'."
        )


def submit(
    source: str | Path,
    name: str,
    code: str,
    out: str | Path | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Submission:
    """Check a results folder and pack it; the first thing that is wrong with it is an error, and nothing is written."""
    if not name.strip() or len(name) > 80 or not name.isprintable():
        raise UserError("--name needs a name of one to eighty characters, such as 'Soft PU'")
    if urlparse(code).scheme not in ("http", "https") or not urlparse(code).netloc:
        raise UserError(
            f"--code takes the address of the method's code (https://...), and '{code}' was given"
        )
    store = open_results(source)
    if not isinstance(store, Folder):
        raise UserError(f"'{source}' is a summary; submit the results folder that it was made from")
    plugins = [Path(plugin) for plugin in store.spec.get("plugins", ())]
    if len({plugin.name for plugin in plugins}) < len(plugins):
        raise UserError(
            "two plugins of the spec have the same file name; rename one of them, and run it again"
        )
    checked = check(store)
    suite, _ = suite_of(checked.spec)
    _keeps_contract(checked.spec, say)
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    if not slug:
        raise UserError(
            f"--name '{name}' has no letter or digit from which a folder could be named"
        )
    folder = Path(out) if out is not None else Path(f"{slug}-{suite}-{checked.spec.profile}")
    if folder.exists():
        raise UserError(f"'{folder}' already exists; remove it, or use another --out")
    try:
        folder.mkdir(parents=True)
        size = _write(folder, checked, {"name": name, "code": code, "suite": suite}, plugins)
        if size > LIMIT:
            raise UserError(
                f"the submission would have {size / 1e6:.1f} MB, and at most {LIMIT / 1e6:g} MB are accepted"
            )
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise cannot_write(folder, error) from error
    except UserError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return Submission(folder, name, suite, checked.spec.profile, checked.spec.algorithms, size)


def _keeps_contract(spec: Spec, say: Callable[[str], None]) -> None:
    """The algorithms of plugins must keep what every algorithm promises; they are trained to see it."""
    own = [name for name in spec.algorithms if catalog.get(name).origin == "plugin"]
    if not own:
        return
    from puarena.testing import contract

    for name, promise, problem in contract.check_all(own):
        if problem is not None:
            raise UserError(
                f"{name} breaks the contract of the benchmark ({promise}: {problem}); see 'puarena check'"
            )
        say(f"{name}: {promise}")


def _write(folder: Path, checked: Checked, about: dict[str, Any], plugins: list[Path]) -> int:
    """Write the files of a submission; return their size."""
    export(checked.store, folder / SUMMARY)
    to_published_csv(folder / SUMMARY, folder / NUMBERS)
    spec = json.loads(json.dumps(portable(checked.spec.to_dict())))
    write_file(folder / SPEC, yaml.safe_dump(spec, sort_keys=False, allow_unicode=True))
    for plugin in plugins:
        shutil.copyfile(plugin, folder / plugin.name)
    files = [
        folder / SUMMARY,
        folder / NUMBERS,
        folder / SPEC,
        *(folder / plugin.name for plugin in plugins),
    ]
    facts = (
        card_of(checked.store)
        | about
        | {"methods": list(checked.spec.algorithms), "runs": checked.runs}
    )
    facts |= {"submitted": date.today().isoformat(), "command": f"puarena run {SPEC} --out RESULTS"}
    write_card(folder / CARD, facts, files)
    return sum(file.stat().st_size for file in folder.iterdir())


def check_submission(folder: Path) -> dict[str, Any]:
    """The card of a submission that is whole and as it was packed; nothing of the submitter's code is run."""
    summary = folder / SUMMARY
    card = read_card(summary)
    lacking = [key for key in KEYS if not card.get(key)]
    if lacking:
        raise UserError(
            f"the card of '{folder}' has no {', '.join(lacking)}; make it with 'puarena submit'"
        )
    if not {SUMMARY, NUMBERS, SPEC} <= set(card["files"]):
        raise UserError(
            f"the card of '{folder}' does not name all of its files; make it with 'puarena submit'"
        )
    check_files(card, folder)
    size = sum(file.stat().st_size for file in folder.iterdir())
    if size > LIMIT:
        raise UserError(
            f"'{folder}' has {size / 1e6:.1f} MB, and at most {LIMIT / 1e6:g} MB are accepted"
        )
    store = Summary(summary)
    spec = Spec.load(store.spec)
    suite, protocol = suite_of(spec)
    facts = {
        "spec_hash": store.spec_hash,
        "suite": suite,
        "profile": spec.profile,
        "methods": list(spec.algorithms),
    }
    wrong = [key for key, value in facts.items() if card[key] != value]
    if wrong or differences(spec, protocol):
        raise UserError(
            f"the card of '{folder}' does not agree with its summary ({', '.join(wrong)})"
        )
    runs, planned = len(store.done_runs()), store.info["summary"]["runs"]
    if runs != planned or runs != card.get("runs"):
        raise UserError(
            f"'{folder}' is incomplete: {runs} runs, and its card says {card.get('runs')}"
        )
    return card
