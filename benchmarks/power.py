"""Measure which changes of a method ``puarena reproduce`` finds, and how often it is wrong.

    python benchmarks/power.py --out power --data DIR

Trains nnPU on Letter: as it is, with its loss changed by a millionth (which is how another machine
differs: by its rounding), and with its positive risk multiplied by some factors. Then draws runs,
and counts how often the test of shifts calls the row changed. Interrupted, it goes on where it was.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from scipy.stats import norm, rankdata

import puarena
from puarena.algorithms.nnpu import NonNegativeRisk
from puarena.leaderboard.reproduce import FALSE_ALARMS, find_shifts, pair_last_records
from puarena.report.statistics.bootstrap import TIE_DIGITS
from puarena.results import open_results

ROUNDING = 1.000001
FACTORS = (ROUNDING, 1.05, 1.15, 1.3)
COUNTS = (12, 20, 40, 60)  # runs of a row
CRITERIA = 3  # whose chosen models are tested, too: they make the correction larger


@contextmanager
def change_risk(factor: float) -> Iterator[None]:
    """Multiply the positive risk of nnPU."""
    plain = NonNegativeRisk.objective

    def objective(self: NonNegativeRisk, f_p: Any, f_u: Any) -> Any:
        positive, negative = self.risk_parts(f_p, f_u)
        return factor * positive + negative.clamp_min(-self.beta)

    NonNegativeRisk.objective = objective
    try:
        yield
    finally:
        NonNegativeRisk.objective = plain


def measure_power(
    gaps: dict[str, Any], count: int, draws: int, flip: bool = False, seed: int = 0
) -> float:
    """Return the share of draws of so many runs that are called changed.

    ``flip``: each run is taken with either sign, so that there is no shift but the runs' scatter.
    """
    random = np.random.default_rng(seed)
    table = np.array(list(gaps.values()), float).round(TIE_DIGITS)
    at = random.integers(table.shape[1], size=(draws, count))
    signs = random.choice([-1, 1], size=at.shape) if flip else 1
    smallest = np.min([compute_p(signs * row[at]) for row in table], 0)
    return float(((len(table) + 3 * CRITERIA) * smallest < FALSE_ALARMS).mean())


def compute_p(gaps: Any) -> Any:
    """Return p of the signed-rank test of every row, by the normal distribution: fast."""
    ranks = rankdata(np.abs(gaps), axis=1)
    signed = (np.sign(gaps) * ranks).sum(1)
    return 2 * norm.sf(np.abs(signed) / np.sqrt((ranks**2).sum(1)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--draws", type=int, default=1000)
    args = parser.parse_args()
    changes = {"algorithms": ["nnpu"], "datasets": ["letter"], "steps": args.steps}
    options = {"device": "cpu", "workers": 1, "data": args.data, "engine": "inline"}
    for factor in (1.0, *FACTORS):
        with change_risk(factor):
            puarena.run("tabular", args.out / f"{factor:.7g}", **changes, **options, progress=False)
        print(f"trained with {factor:.7g}", flush=True)
    plain = open_results(args.out / "1")
    print(
        "| positive risk times |",
        " | ".join(f"n = {count}" for count in COUNTS),
        "| p of all runs |",
    )
    print("| --- |", " | ".join("---:" for _ in COUNTS), "| --- |")
    for factor in FACTORS:
        con = duckdb.connect()
        other = open_results(args.out / f"{factor:.7g}")
        gaps = pair_last_records(con, plain.relation(con), other.relation(con))
        flip = factor == ROUNDING
        shares = [measure_power(gaps, count, args.draws, flip) for count in COUNTS]
        first = find_shifts(gaps)[0]
        p = min(1, (len(gaps) + 3 * CRITERIA) * first.p)
        cells = [*(f"{share:.1%}" for share in shares), f"{p:.2g} ({first.what})"]
        print(f"| {factor:.7g} |", " | ".join(cells), "|")


if __name__ == "__main__":
    main()
