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
from scipy.stats import wilcoxon

import puarena
from puarena.algorithms.nnpu import NonNegativeRisk
from puarena.leaderboard.reproduce import FALSE_ALARMS, pair_last_records
from puarena.report.statistics.bootstrap import TIE_DIGITS
from puarena.results import open_results

ROUNDING = 1.000001
FACTORS = (ROUNDING, 1.05, 1.15, 1.3)
COUNTS = (12, 20, 40, 60, 120)  # runs of a row
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


def measure_power(gaps: dict[str, Any], count: int, draws: int, seed: int = 0) -> float:
    """Return the share of draws of so many runs that are called changed."""
    random = np.random.default_rng(seed)
    table = np.array(list(gaps.values()), float).round(TIE_DIGITS)
    at = random.integers(table.shape[1], size=(draws, count))
    # As find_shifts, for all draws at once.
    smallest = np.min([wilcoxon(row[at], zero_method="zsplit", axis=1).pvalue for row in table], 0)
    return float(((len(table) + 3 * CRITERIA) * smallest < FALSE_ALARMS).mean())


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
    print("| positive risk times |", " | ".join(f"n = {count}" for count in COUNTS), "|")
    print("| --- |", " | ".join("---:" for _ in COUNTS), "|")
    for factor in FACTORS:
        con = duckdb.connect()
        other = open_results(args.out / f"{factor:.7g}")
        gaps = pair_last_records(con, plain.relation(con), other.relation(con))
        shares = [measure_power(gaps, count, args.draws) for count in COUNTS]
        print(f"| {factor:.7g} |", " | ".join(f"{share:.1%}" for share in shares), "|")


if __name__ == "__main__":
    main()
