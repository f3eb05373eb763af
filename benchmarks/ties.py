"""Measure how often equal methods are called tied: it should be 95 of 100 times.

    python benchmarks/ties.py
    python benchmarks/ties.py --draws 3000 --problems 4 --splits 5

Scores are drawn from normal distributions with the same mean for every method, so that each
difference is chance. Some problems vary more than others. Prints the share of draws in which the
second method is tied with the best, and the standard error of that share. With ``--methods 10``,
it is the share of the nine others, which is smaller: the best of ten equal methods was lucky.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import pandas as pd

from puarena.report.statistics import compute_standings

# Problems, datasets, splits. With five datasets or more, datasets are drawn instead of splits.
CASES = ((4, 2, 3), (8, 4, 10), (8, 8, 10))
BETWEEN = 1.0  # deviation of a difference between datasets, if datasets are drawn


def measure_coverage(
    problems: int, datasets: int, splits: int, methods: int = 2, draws: int = 300, seed: int = 0
) -> float:
    """Return the share of equal methods that are called tied with the best."""
    random = np.random.default_rng(seed)
    names = [f"p{i}" for i in range(problems)]
    owners = {name: f"d{i % datasets}" for i, name in enumerate(names)}
    index = pd.MultiIndex.from_product([names, range(splits)])
    columns = [f"m{i}" for i in range(methods)]
    between = BETWEEN if datasets >= 5 else 0.0
    tied = 0
    for draw in range(draws):
        level = 80 + 10 * random.normal(size=(problems, 1, 1))
        level = level + between * random.normal(size=(problems, 1, methods))
        spread = np.exp(random.normal(0, 0.5, size=(problems, 1, 1)))
        scores = level + spread * random.normal(size=(problems, splits, methods))
        frame = pd.DataFrame(scores.reshape(-1, methods), index, columns)
        tied += len(compute_standings(frame, owners, seed=draw, count=2000).tied) - 1
    return tied / draws / (methods - 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("--methods", type=int, default=2)
    parser.add_argument("--problems", type=int, help="of a single case, with two per dataset")
    parser.add_argument("--splits", type=int, default=3)
    args = parser.parse_args()
    cases = CASES
    if args.problems:
        cases = ((args.problems, max(1, args.problems // 2), args.splits),)
    for problems, datasets, splits in cases:
        start = time.process_time()
        share = measure_coverage(problems, datasets, splits, args.methods, args.draws)
        error = (share * (1 - share) / args.draws) ** 0.5
        print(
            f"{problems} problems of {datasets} datasets, {splits} splits, {args.methods} methods:"
            f" tied {share:.1%} ± {error:.1%} (n = {args.draws} draws,"
            f" {time.process_time() - start:.0f} s)"
        )


if __name__ == "__main__":
    main()
