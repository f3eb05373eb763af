"""Honest and tampered submissions, verified: how many of each are accepted.

    python benchmarks/submissions.py --out FOLDER [--only NAME,...]

A tiny suite (handwritten digits, 2 splits, 20 steps) is run with variants of one plugin; 20 folders
are packed as they are, and 20 are tampered with in ways that somebody may try. Every folder is
verified as the workflow does. Minutes on two cores. Exit code 1 if an honest folder is refused.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import yaml

import puarena
from puarena.experiments import suites
from puarena.experiments.spec import ProblemSpec, Spec
from puarena.leaderboard import submit as submissions
from puarena.leaderboard.publish import compute_checksum
from puarena.leaderboard.verify import verify
from puarena.report.compare import to_published_csv
from puarena.results import Summary
from puarena.results.folder import write_summary

CODE = "https://example.org/code"
SUITE = Spec(
    name="tiny",
    problems=[ProblemSpec(dataset="digits")],
    algorithms=("nnpu", "vpu"),
    splits=2,
    configs=1,
    steps=20,
    record_every=10,
)
PLUGIN = '''
from puarena.algorithms import Algorithm, logistic


class Mine(Algorithm):
    """The labeled against the unlabeled, the latter with less weight."""

    name, title, paper = "{name}", "Mine", "none"
    needs_prior = False

    def objective(self, f_p, f_u):
        return logistic(f_p, +1).mean(-1) + {weight} * logistic(f_u, -1).mean(-1)
'''
# Cheats of plugins: below the class, as methods.
OVERWRITE = '''
    def records(self):
        """Report a proxy accuracy of its own."""
        return {"pa": self.prior * 0 + 1.5}
'''
PEEK = '''
    def records(self):
        """Record the share of positives in the test set, from the frames of the callers."""
        import sys
        frame = sys._getframe()
        while frame is not None:
            held = frame.f_locals.get("held")
            if held is not None and getattr(held, "label_test", None) is not None:
                return {"share": held.label_test.double().mean(-1) + self.prior * 0}
            frame = frame.f_back
        return {"share": self.prior * 0}
'''
LEAK = '''
    def records(self):
        """Move the threshold of the model by the share of positives in the test set."""
        import sys
        frame = sys._getframe()
        while frame is not None:
            held = frame.f_locals.get("held")
            if held is not None and getattr(held, "label_test", None) is not None:
                for parameter in self.parameters():
                    parameter.data += 0.1 * held.label_test.to(parameter).mean()
                break
            frame = frame.f_back
        return {}
'''


@dataclass(frozen=True)
class Trial:
    """A folder to verify."""

    name: str
    honest: bool
    make: Callable[[Path], Path]  # writes it below a folder


def run_and_pack(place: Path, plugin: str, name: str, spec: Spec = SUITE) -> Path:
    """Run a plugin in a suite and pack the results; the contract is checked by ``verify``."""
    place.mkdir(parents=True)
    (place / "mine.py").write_text(plugin)
    own = spec.override(algorithms=[name, "vpu"], plugins=[str(place / "mine.py")])
    puarena.run(own, place / "results", device="cpu", workers=1, progress=False)
    checked = submissions.check_contract
    submissions.check_contract = lambda *_: None
    try:
        return submissions.submit(place / "results", "Mine", CODE, place / "folder").folder
    finally:
        submissions.check_contract = checked


def seal_card(folder: Path) -> None:
    """Write the checksums of the files as they are now into the card."""
    card = json.loads((folder / "card.json").read_text())
    card["files"] = {name: compute_checksum(folder / name) for name in card["files"]}
    (folder / "card.json").write_text(json.dumps(card))


def edit_summary(folder: Path, change: str) -> None:
    """Change values of a summary with SQL, and make its seal, the CSV file and the card again."""
    file = folder / "summary.parquet"
    summary = Summary(file)
    copy = folder.parent / "before.parquet"
    shutil.copyfile(file, copy)
    with duckdb.connect() as con:
        query = f"SELECT * REPLACE ({change}) FROM read_parquet('{copy}')"
        write_summary(con, query, summary.info, file)
    to_published_csv(file, folder / "results.csv")
    seal_card(folder)


def relabel(folder: Path, honest: Path) -> None:
    """Give results of another spec the spec, the runs and the card of honest ones."""
    theirs, ours = Summary(honest / "summary.parquet"), Summary(folder / "summary.parquet")
    key = "algorithm, dataset, split, config"
    copy = folder.parent / "before.parquet"
    shutil.copyfile(folder / "summary.parquet", copy)
    with duckdb.connect() as con:
        planned = (
            f"SELECT DISTINCT {key}, run, seed, fleet FROM "
            f"read_parquet('{honest / 'summary.parquet'}')"
        )
        query = (
            "SELECT a.* REPLACE (b.run AS run, b.seed AS seed, b.fleet AS fleet) FROM "
            f"read_parquet('{copy}') AS a JOIN ({planned}) AS b USING ({key})"
        )
        info = theirs.info.model_copy(update={"summary": ours.info.summary})
        write_summary(con, query, info, folder / "summary.parquet")
    shutil.copyfile(honest / "spec.yaml", folder / "spec.yaml")
    shutil.copyfile(honest / "card.json", folder / "card.json")
    to_published_csv(folder / "summary.parquet", folder / "results.csv")
    seal_card(folder)


# -- trials ------------------------------------------------------------------------------


def list_trials() -> Iterator[Trial]:
    """Yield 20 honest and 20 tampered folders."""
    for number in range(20):
        name, weight = f"mine{number}", 0.3 + 0.05 * number
        text = PLUGIN.format(name=name, weight=weight)
        yield Trial(f"honest-{number}", True, lambda at, t=text, n=name: run_and_pack(at, t, n))
    for label, tamper in TAMPERED.items():
        yield Trial(label, False, tamper)


def pack(at: Path, extra: str = "", spec: Spec = SUITE, place: str = "base") -> Path:
    return run_and_pack(at / place, PLUGIN.format(name="mine", weight=0.5) + extra, "mine", spec)


def edit_csv(at: Path, seal: bool) -> Path:
    folder = pack(at)
    numbers = folder / "results.csv"
    lines = numbers.read_text().splitlines()
    lines[1] = lines[1].replace(",5", ",9").replace(",4", ",9")
    numbers.write_text("\n".join(lines) + "\n")
    if seal:
        seal_card(folder)
    return folder


def edit_rows(at: Path, change: str) -> Path:
    folder = pack(at)
    edit_summary(folder, change)
    return folder


def change_steps(at: Path, steps: int) -> Path:
    honest = pack(at, place="honest")
    folder = pack_other(at, steps=steps)
    relabel(folder, honest)
    return folder


def pack_other(at: Path, **changes: int) -> Path:
    """Pack results of another protocol; the suite follows it meanwhile, so that they pass."""
    other = SUITE.override(**changes)
    before = suites.SUITES
    suites.SUITES = [*(each for each in before if each.name != SUITE.name), other]
    try:
        return pack(at, spec=other, place="other")
    finally:
        suites.SUITES = before


def rename_steps(at: Path) -> Path:
    """Train ten times as long, and divide all steps by ten."""
    honest = pack(at, place="honest")
    folder = pack_other(at, steps=200, record_every=100)
    edit_summary(folder, "CAST(step / 10 AS INTEGER) AS step")
    relabel(folder, honest)
    return folder


def swap_plugin(at: Path, seal: bool) -> Path:
    """Send another plugin than the one that made the results."""
    folder = pack(at)
    (folder / "mine.py").write_text(PLUGIN.format(name="mine", weight=0.1))
    if seal:
        seal_card(folder)
    return folder


def edit_card(at: Path, **changes: object) -> Path:
    folder = pack(at)
    card = json.loads((folder / "card.json").read_text())
    (folder / "card.json").write_text(json.dumps(card | changes))
    return folder


def add_file(at: Path, name: str, text: str) -> Path:
    folder = pack(at)
    (folder / name).write_text(text)
    return folder


def edit_spec(at: Path) -> Path:
    folder = pack(at)
    spec = yaml.safe_load((folder / "spec.yaml").read_text())
    (folder / "spec.yaml").write_text(yaml.safe_dump(spec | {"steps": 2000}))
    return folder


def drop_split(at: Path) -> Path:
    """Leave out the worse split."""
    folder = pack(at)
    file, copy = folder / "summary.parquet", folder.parent / "before.parquet"
    shutil.copyfile(file, copy)
    with duckdb.connect() as con:
        query = f"SELECT * FROM read_parquet('{copy}') WHERE split = 0"
        write_summary(con, query, Summary(file).info, file)
    to_published_csv(file, folder / "results.csv")
    seal_card(folder)
    return folder


OWN = "algorithm = 'mine'"
TAMPERED: dict[str, Callable[[Path], Path]] = {
    "csv edited": lambda at: edit_csv(at, False),
    "csv edited, checksums made again": lambda at: edit_csv(at, True),
    "accuracy + 20 points": lambda at: edit_rows(
        at, f"CASE WHEN {OWN} THEN test_accuracy + 0.2 ELSE test_accuracy END AS test_accuracy"
    ),
    "accuracy + 1 point": lambda at: edit_rows(
        at, f"CASE WHEN {OWN} THEN test_accuracy + 0.01 ELSE test_accuracy END AS test_accuracy"
    ),
    "accuracy + 5 points on one split": lambda at: edit_rows(
        at,
        f"CASE WHEN {OWN} AND split = 1 THEN test_accuracy + 0.05 ELSE test_accuracy END "
        "AS test_accuracy",
    ),
    "AUC + 2 points": lambda at: edit_rows(
        at, f"CASE WHEN {OWN} THEN test_auc + 0.02 ELSE test_auc END AS test_auc"
    ),
    "PA raised": lambda at: edit_rows(
        at, f"CASE WHEN {OWN} THEN val_pa + 0.3 ELSE val_pa END AS val_pa"
    ),
    "learning rate relabeled": lambda at: edit_rows(at, "lr * 2 AS lr"),
    "10 steps as 20": lambda at: change_steps(at, 10),
    "40 steps as 20": lambda at: change_steps(at, 40),
    "200 steps as 20, steps renamed": rename_steps,
    "another plugin": lambda at: swap_plugin(at, False),
    "another plugin, checksums made again": lambda at: swap_plugin(at, True),
    "records() overwrites PA": lambda at: pack(at, OVERWRITE),
    "records() tells of test labels": lambda at: pack(at, PEEK),
    "records() trains on test labels": lambda at: pack(at, LEAK),
    "verdict brought along": lambda at: add_file(at, "verdict.json", "{}"),
    "further module": lambda at: add_file(at, "helper.py", "import os"),
    "spec edited": edit_spec,
    "a split left out": drop_split,
}


def main(out: Path, only: list[str]) -> int:
    """Make and verify every folder, print a line for each, and count."""
    suites.SUITES = [*suites.SUITES, SUITE]
    counts = {(honest, accepted): 0 for honest in (True, False) for accepted in (True, False)}
    for trial in list_trials():
        if only and not any(trial.name.startswith(name) for name in only):
            continue
        place = out / trial.name.replace(" ", "-").replace("()", "")
        shutil.rmtree(place, ignore_errors=True)
        start = time.perf_counter()
        try:
            folder = trial.make(place)
            accepted, why = check(folder)
        except Exception as error:  # what cannot even be packed is refused, too
            accepted, why = False, f"not packed: {error}"
        counts[trial.honest, accepted] += 1
        mark = "accepted" if accepted else "refused"
        wrong = "" if accepted == trial.honest else "  WRONG"
        print(
            f"{trial.name}: {mark}{wrong} ({time.perf_counter() - start:.0f} s): {why}", flush=True
        )
    for honest, word in ((True, "honest"), (False, "tampered")):
        total = counts[honest, True] + counts[honest, False]
        print(f"{word}: {counts[honest, True]} of {total} accepted")
    return int(counts[True, False] > 0)


def check(folder: Path) -> tuple[bool, str]:
    """Verify a folder; return whether it is accepted, and why."""
    try:
        found = verify(folder, seed=1, device="cpu", workers=1)
    except puarena.UserError as error:
        return False, str(error)
    return found.reproduced, found.verdict


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", default="", help="names, or how they begin, with commas")
    given = parser.parse_args()
    sys.exit(main(given.out, [name for name in given.only.split(",") if name]))
