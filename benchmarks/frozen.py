"""Numbers that a change of structure must not change: recorded once, compared after every step.

    python benchmarks/frozen.py record benchmarks/frozen.json
    python benchmarks/frozen.py compare benchmarks/frozen.json  # exits with 1 if one differs
    python benchmarks/frozen.py compare benchmarks/frozen.json --only demo,tables --work FOLDER

Items: the curves of short runs (``demo``, ``tabular-definition``, ``tabular-released``; ``biased``:
labels not given at random; ``two-sample``, with an estimated prior, too; ``authors``: the authors'
optimizers), every number of results/ (``published``), of the tables that ``puarena report`` makes
of them (``tables``), and the probabilities of ``estimators``. The datasets Letter and USPS must be
where ``puarena data`` puts them, or where PUARENA_DATA says. All of it takes six minutes on two
cores, and everything but the runs half a minute.

A digest is over the exact float64 values of a group of numbers. Its name says what they are the
numbers of, without ids, and in one spelling, whatever it is called in the code (RENAMED). Digests
are equal on all machines with the same builds of torch, numpy and scikit-learn and the same vector
instructions; with others, last bits differ, so ``compare`` begins with what is not as it was. What
was not there when numbers were recorded, such as a method or a column, is no difference.

Two more things must hold, and are not in here: the objectives' golden values and the algorithms'
contract are tests (tests/algorithms/test_golden*.py, tests/algorithms/test_contract.py), and that
killed runs are continued bit by bit is shown by benchmarks/faults.py.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
import warnings
import zlib
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import sklearn
import torch
from sklearn.datasets import load_breast_cancer, load_digits
from threadpoolctl import threadpool_limits

import puarena
from puarena import catalog

RESULTS = Path(__file__).resolve().parents[1] / "results"
RENAMED = {  # parts of names of columns, datasets and files: in older code -> here
    "labelling": "labeling",
    "optimiser": "optimizer",
    "standardised": "standardized",
    "frame": "baseline",
}
OPTIMIZER = "--optimizer"  # the option of ``puarena run``; until bb045c1 it was --optimiser

SHORT = ["--steps", "200", "--splits", "1"]
TABULAR = ["tabular", *SHORT, "--configs", "2", "--profile"]
RUNS = {  # item -> what follows ``puarena run``
    "demo": ["demo"],
    "tabular-definition": [*TABULAR, "definition"],
    "tabular-released": [*TABULAR, "released"],
    "biased": ["bias-demo", *SHORT],
    "two-sample": ["demo", *SHORT, "--settings", "two-sample", "--prior-source", "true,estimate"],
    "authors": ["demo", *SHORT, OPTIMIZER, "authors"],
}

METHOD = ["dataset", "case", "setting", "labeling", "rate", "prior"]
METHOD += ["algorithm", "calibrated", "profile", "prior_source"]
RUN = ["split", "config"]
ROW = ["step", "phase", "test_metric", "metric", "criterion"]
IDS = {"run", "fleet"}  # no numbers, even if all are digits
CURVES = "loss|lr|batch_size|hyper|diverged|n_p|n_u|prior_used|val_.*|test_.*"

METRICS = ["--metric", "accuracy,auc,f1,precision,recall"]
CRITERIA = ["--criterion", "pa,pauc,oa,pa-released"]
ESTIMATORS = ["auto", "nnpu", "vpu", "lbe", "elkan-noto-weighted", "bagging-pu"]

Found = dict[str, Any]  # what a group of numbers is called -> what must stay equal


def rename(text: str) -> str:
    """Spell a name as it is spelled here, whatever it is called in the code."""
    for old, new in RENAMED.items():
        text = text.replace(old, new)
    return text


def digest_numbers(*columns: Any) -> str:
    """Digest exact values as float64, one column after the other; all NaN are the same."""
    values = [np.array(column, np.float64) for column in columns]
    same = [np.where(np.isnan(column), np.nan, column) for column in values]
    content = b"".join(column.astype("<f8").tobytes() for column in same)
    return hashlib.sha256(content).hexdigest()[:10]


def number_hyper(text: str) -> int:
    """Turn the values of hyperparameters into a number; what they are called does not count."""
    return zlib.crc32(" ".join(sorted(map(str, json.loads(text).values()))).encode())


def name_group(values: Iterable[Any]) -> str:
    """Name a group of rows by what is equal in them."""
    return "/".join(rename(f"{x:g}" if isinstance(x, float) else str(x)) for x in values)


def digest_file(
    source: Path, keys: list[str], counted: str = ".*", columns: str | None = None
) -> Found:
    """Digest a file's numbers in groups of equal keys, and say which columns these are.

    Rows are put in order by what they are about, so their order in files does not matter.
    ``columns`` are those that were recorded; None: all numbers.
    """
    if source.suffix == ".csv":
        frame = pd.read_csv(source, dtype={"prior_source": str})
    else:
        frame = duckdb.read_parquet(str(source), union_by_name=True).df()
    frame = frame.rename(columns=rename)
    keys = [name for name in keys if name in frame]
    order = keys + [name for name in RUN + ROW if name in frame and name not in keys]
    if frame.duplicated(order).any():
        raise SystemExit(f"{source}: rows are not told apart by {', '.join(order)}")
    if "hyper" in frame:
        frame["hyper"] = frame["hyper"].map(number_hyper)
    if "status" in frame:  # "ok", or "diverged at step N"
        frame["diverged"] = pd.to_numeric(frame["status"].str.extract(r"(\d+)")[0])
    numbers = [n for n in sorted(frame.columns) if n not in IDS and re.fullmatch(counted, n)]
    numbers = [n for n in numbers if pd.api.types.is_numeric_dtype(frame[n])]
    if columns is not None:
        numbers = [name for name in columns.split() if name in numbers]
    found: Found = {"columns": " ".join(numbers)}
    for values, part in frame.sort_values(order).groupby(keys, dropna=False):
        found[name_group(values)] = digest_numbers(*(part[name] for name in numbers))
    return found


def call_puarena(*words: Any) -> None:
    """Run a command of puarena in a process of its own; stop everything if it fails."""
    command = [sys.executable, "-m", "puarena", "-q", *map(str, words)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr}")


def freeze_run(name: str, work: Path, recorded: Found) -> Found:
    """Train an experiment and digest the curves of every run."""
    out = work / name
    if out.exists():
        raise SystemExit(f"{out} is there already, and would be continued; take another --work")
    call_puarena("run", *RUNS[name], "--out", out, "--device", "cpu")
    shards = out / "shards" / "*.parquet"
    return digest_file(shards, METHOD + RUN, CURVES, recorded.get("columns"))


def freeze_published(work: Path, recorded: Found) -> Found:
    """Digest every number of the published results, but no id; ``work`` is not needed."""
    files = [*sorted(RESULTS.glob("*.parquet")), *sorted(RESULTS.glob("*.csv"))]
    return digest_files({file.name: file for file in files}, recorded)


def freeze_tables(work: Path, recorded: Found) -> Found:
    """Digest the numbers of the tables made of every published result."""
    files = {}
    for name in [file.stem for file in sorted(RESULTS.glob("*.parquet"))]:
        files[name] = work / f"{name}.csv"
        call_puarena("report", f"published:{name}", *METRICS, *CRITERIA, "--csv", files[name])
    return digest_files(files, recorded)


def digest_files(files: dict[str, Path], recorded: Found) -> Found:
    """Digest several files, with a name of each before what was found in it."""
    found = {}
    for name, file in files.items():
        columns = recorded.get(f"{rename(name)} columns")
        for group, digest in digest_file(file, METHOD, columns=columns).items():
            found[f"{rename(name)} {group}"] = digest
    return found


def make_tables() -> dict[str, tuple[Any, Any]]:
    """Make tables of features and which rows are positive."""
    rng = np.random.default_rng(0)
    cancer, digits = load_breast_cancer(), load_digits()
    gaussian = np.arange(600) < 180
    truth = np.arange(500) % 5 < 2
    reds, greens = rng.choice(["red", "blue"], 500), rng.choice(["blue", "green"], 500)
    mixed = pd.DataFrame({"size": rng.normal(size=500) + 2 * truth})
    mixed["age"] = np.where(rng.random(500) < 0.1, np.nan, rng.integers(18, 80, 500))
    mixed["color"] = np.where(truth, reds, greens)
    mixed["town"] = pd.Categorical(rng.choice(["Ulm", "Bonn", "Kiel"], 500))
    mixed.loc[rng.random(500) < 0.1, "color"] = None
    return {
        "cancer": (cancer.data, cancer.target == 1),
        "digits": (digits.data, digits.target == 3),
        "mixed": (mixed, truth),
        "gaussians": (rng.normal(size=(600, 2)) + 2 * gaussian[:, None], gaussian),
    }


def make_classifier(name: str) -> Any:
    """Make the estimator that a name stands for; networks train for 300 steps."""
    if name != "auto" and not catalog.get(name).is_classic:
        return puarena.PUNetClassifier(name, steps=300, random_state=0, device="cpu")
    return puarena.PUClassifier(name, random_state=0, device="cpu")


def freeze_estimators(work: Path, recorded: Found) -> Found:
    """Fit every estimator to every table; a digest of its probabilities, and the first of them."""
    found: Found = {}
    torch.set_num_threads(1)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for table, (x, positive) in make_tables().items():
            labeled = positive & (np.random.default_rng(1).random(len(positive)) < 0.5)
            for name in ESTIMATORS:
                chance = make_classifier(name).fit(x, labeled).predict_proba(x)
                first = [round(float(value), 6) for value in chance[:5, 1]]
                found[f"{table}/{name}"] = [digest_numbers(chance.ravel()), *first]
    return found


ITEMS: dict[str, Callable[[Path, Found], Found]] = {
    **{name: partial(freeze_run, name) for name in RUNS},
    "published": freeze_published,
    "tables": freeze_tables,
    "estimators": freeze_estimators,
}


def tell_versions() -> dict[str, str]:
    """Say what the last bits of numbers depend on."""
    modules = (torch, np, sklearn, pd, duckdb)
    versions = {module.__name__: str(module.__version__) for module in modules}
    vectors = torch.backends.cpu.get_cpu_capability()
    return {"python": platform.python_version(), **versions, "vectors": vectors}


def tell_difference(old: Found, new: Found) -> str:
    """Say what differs, up to five names of a kind; nothing if all is equal."""
    kinds = {
        "differ": [f"{n} ({old[n]} -> {new[n]})" for n in old if n in new and old[n] != new[n]],
        "are gone": [n for n in old if n not in new],
    }
    some = {kind: ", ".join(names[:5]) for kind, names in kinds.items()}
    return "; ".join(f"{len(kinds[kind])} {kind}: {some[kind]}" for kind in kinds if kinds[kind])


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("action", choices=["record", "compare"])
    parser.add_argument("file", type=Path, help="the JSON file of what was recorded")
    parser.add_argument("--only", default=",".join(ITEMS), help="some of the items, with commas")
    parser.add_argument("--work", type=Path, help="keep results folders and tables here")
    arguments = parser.parse_args()
    if unknown := sorted({*arguments.only.split(",")} - {*ITEMS}):
        parser.error(f"unknown: {', '.join(unknown)}; the items are {', '.join(ITEMS)}")
    return arguments


def main() -> int:
    """Record, or compare; return 1 if anything differs."""
    arguments = parse_arguments()
    recording, file = arguments.action == "record", arguments.file
    known = {} if recording and not file.exists() else json.loads(file.read_text())
    here = tell_versions()
    was = known.setdefault("versions", here)
    changed = [f"{n} {was.get(n)} -> {here[n]}" for n in here if was.get(n) != here[n]]
    print(f"{Path(puarena.__file__).parent}; changed since: {', '.join(changed) or 'nothing'}")
    if recording and changed:
        raise SystemExit("numbers of two environments do not go into one file; take another")
    differing = 0
    with tempfile.TemporaryDirectory() as temporary:
        work = arguments.work or Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        for item in arguments.only.split(","):
            began = time.perf_counter()
            before = {} if recording else known.get(item, {})
            found = ITEMS[item](work, before)
            difference = tell_difference(before, found)
            differing += bool(difference)
            verdict = "recorded" if recording else difference or "equal"
            seconds = time.perf_counter() - began
            new = len(found.keys() - before.keys())
            print(
                f"{item}: {verdict} ({len(found)} entries, {new} new, {seconds:.0f} s)", flush=True
            )
            if recording:
                known[item] = found
                file.write_text(json.dumps(known, indent=1) + "\n")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
