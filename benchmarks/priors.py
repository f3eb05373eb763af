"""Measure how far the prior estimators are off where the true prior is known.

    python benchmarks/priors.py
    python benchmarks/priors.py --data letter,usps --methods bbe,saturation --priors 0.2,0.4
    python benchmarks/priors.py --data pima,openml:31:class=bad --labelings 0.1,20
    python benchmarks/priors.py --data xor,gaussians,two-kinds --methods saturation,bbe,km2

Data are datasets of the benchmark, drawn at priors of one's choice, real tables as in
benchmarks/practice.py, as they are, or points of ``TOYS``, of which a third of the positives are
labeled. Prints the mean error, the mean absolute error, and how often the interval contains the
prior.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from practice import TABLES, give_labels, load_table

from puarena import UserError, datasets
from puarena.datasets.encoding import TableEncoder
from puarena.errors import unknown_name
from puarena.priors import METHODS, PriorWarning, method_named
from puarena.priors.estimate import draw_sample, refit_sample, run_method
from puarena.priors.sample import Sample
from puarena.pu import Problem, draw_pu_data, labeling

MAX_TABLE_ROWS = 3000
TOY_ROWS = 2000
TOY_FREQUENCY = 1 / 3  # share of the positives that are labeled

Draw = tuple[dict[str, Any], Sample]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


def draw_problems(
    name: str, priors: Sequence[float], settings: Sequence[str], splits: int, folder: Path | None
) -> Iterator[Draw]:
    """Draw a dataset of the benchmark at every prior, in every setting."""
    dataset = datasets.load(name, folder)
    for setting, prior, split in product(settings, priors, range(splits)):
        rate = labeling.get_setting(setting).modest_rate(prior)
        pu, _ = draw_pu_data(dataset, Problem(name, 1, setting, rate, prior), split)
        p = dataset.table(np.r_[pu.p_val, pu.p_train]).astype(np.float64)
        u = dataset.table(np.r_[pu.u_val, pu.u_train]).astype(np.float64)
        facts = {"data": name, "setting": labeling.get_setting(setting).title, "at": f"{prior:g}"}
        yield facts | {"split": split, "prior": pu.prior, "rate": pu.rate}, Sample(p, u)


def draw_tables(name: str, labelings: Sequence[str], splits: int) -> Iterator[Draw]:
    """Draw rows of a real table and label some of its positives."""
    frame, truth = load_table(name)
    for way, split in product(labelings, range(splits)):
        rng = np.random.default_rng([split, len(way), len(truth)])
        rows = rng.permutation(len(truth))[:MAX_TABLE_ROWS]
        table, positive = frame.iloc[rows], truth[rows]
        numbers = TableEncoder().fit(table).dense(table)
        labeled = give_labels(positive, numbers, way, rng)
        facts = {"data": name, "setting": "one-sample", "at": way, "split": split}
        facts |= {"prior": float(positive.mean()), "rate": float(labeled.mean())}
        yield facts, draw_sample(table, labeled, random_state=split)


def place_xor(positive: Flags, rng: np.random.Generator) -> Floats:
    """Return points of four groups; opposite ones have the same class."""
    side = rng.choice([-1, 1], size=len(positive))
    return 2.0 * np.stack([side, np.where(positive, side, -side)], 1)


def place_gaussians(positive: Flags, rng: np.random.Generator) -> Floats:
    """Return the centers of two groups that are far apart."""
    return np.stack([6.0 * positive, np.zeros(len(positive))], 1)


def place_two_kinds(positive: Flags, rng: np.random.Generator) -> Floats:
    """Return the centers of three groups: positives, negatives, and both."""
    mixed = rng.random(len(positive)) < 0.5
    return np.stack([np.where(mixed, 0.0, np.where(positive, 6.0, -6.0)), 0 * mixed], 1)


TOYS = {"xor": place_xor, "gaussians": place_gaussians, "two-kinds": place_two_kinds}


def draw_toys(name: str, priors: Sequence[float], splits: int) -> Iterator[Draw]:
    """Draw points around the centers of a toy and label some positives at random."""
    for prior, split in product(priors, range(splits)):
        rng = np.random.default_rng([split, round(1000 * prior)])
        positive = rng.random(TOY_ROWS) < prior
        points = TOYS[name](positive, rng) + rng.normal(size=(TOY_ROWS, 2))
        labeled = positive & (rng.random(TOY_ROWS) < TOY_FREQUENCY)
        facts = {"data": name, "setting": "one-sample", "at": f"{prior:g}", "split": split}
        facts |= {"prior": float(positive.mean()), "rate": float(labeled.mean())}
        yield facts, draw_sample(points, labeled, random_state=split)


def measure(draws: Iterable[Draw], methods: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield a result for every draw and method; methods share out-of-fold scores."""
    for facts, sample in draws:
        refits = refit_sample(sample)
        for method in methods:
            began = time.perf_counter()
            setting = labeling.get_setting(facts["setting"])
            sample.setting = setting
            found = run_method(sample, METHODS[method], setting, None, {}, refits)
            low, high = found.interval
            yield facts | {
                "method": method,
                "estimate": found.value,
                "bias": found.value - facts["prior"],
                "error": abs(found.value - facts["prior"]),
                "covered": low <= facts["prior"] <= high,
                "seconds": round(time.perf_counter() - began, 3),
            }


def print_errors(frame: pd.DataFrame) -> None:
    """Print the mean absolute error by data, setting, method and prior or labeling."""
    by = ["data", "setting", "method"]
    errors = frame.pivot_table(index=by, columns="at", values="error", sort=False)
    means = frame.groupby(by)[["error", "bias", "covered"]].mean()
    errors = errors.join(means.rename(columns={"error": "mean", "bias": "mean error"}))
    print("mean absolute error of the prior, at true priors (of real tables: label frequencies)")
    print(errors.to_string(float_format="%.3f", na_rep=""))


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line, measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", default="digits", help="datasets, tables and toys")
    parser.add_argument("--priors", default="0.2,0.4,0.6,0.8", help="true priors of datasets")
    parser.add_argument("--labelings", default="0.1,0.3,0.5,20", help="of real tables")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--settings", default="one-sample")
    parser.add_argument("--splits", type=int, default=1, help="draws of a problem")
    parser.add_argument("--folder", type=Path, help="where the datasets are")
    given = parser.parse_args(arguments)
    priors = [float(prior) for prior in given.priors.split(",")]
    lines = []
    try:
        methods = [method_named(name) for name in given.methods.split(",")]
        for name in methods:
            if name not in METHODS:
                raise unknown_name("method", name, METHODS)
        for name in given.data.split(","):
            if name in TOYS:
                draws = draw_toys(name, priors, given.splits)
            elif name in TABLES or ":" in name:
                draws = draw_tables(name, given.labelings.split(","), given.splits)
            else:
                settings = given.settings.split(",")
                draws = draw_problems(name, priors, settings, given.splits, given.folder)
            for line in measure(draws, methods):
                lines.append(line)
                place = f"{line['data']} {line['setting']} {line['at']} {line['method']}"
                print(f"{place}: {line['estimate']:.3f}", file=sys.stderr, flush=True)
    except UserError as error:
        parser.error(str(error))
    print_errors(pd.DataFrame(lines))


if __name__ == "__main__":
    warnings.simplefilter("ignore", PriorWarning)
    main()
