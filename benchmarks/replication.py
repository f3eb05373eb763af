"""The figures of docs/replication.md, from the published summaries: seconds, a toy aside no
training.

    python benchmarks/replication.py            the effects, each with n and an interval
    python benchmarks/replication.py --tables   both profiles and the published numbers side by
                                                side, in Markdown

With ``--results DIR`` from the summaries in a folder, such as the one that ``make replicate``
writes.

Intervals are 95% intervals of a mean by Student's t. Over methods: one value per method, the mean
over its problems.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable

import numpy as np
from pandas import DataFrame
from scipy.stats import f_oneway, t

from puarena.report import aggregate, select
from puarena.report.compare import PAPER_METRICS, compare, count_agreement, read_published

PROFILES = {
    "released": "pa-released",
    "definition": "pa",
}  # and the form of PA that its tables select by

FOUR = ("upu", "nnpu", "nnpu-ga", "pusb")


def interval(values: Iterable[float], unit: str) -> str:
    """A mean with its interval and n."""
    x = np.asarray(list(values), float)
    half = t.ppf(0.975, len(x) - 1) * x.std(ddof=1) / math.sqrt(len(x))
    return f"{x.mean():+.2f} [{x.mean() - half:+.2f}, {x.mean() + half:+.2f}] points, n = {len(x)} {unit}"


def source(profile: str) -> str:
    """The published summary, or the one in the folder after ``--results``."""
    if "--results" in sys.argv:
        return f"{sys.argv[sys.argv.index('--results') + 1]}/tabular-{profile}.parquet"
    return f"published:tabular-{profile}"


def selection(profile: str) -> DataFrame:
    """What each criterion chose for every method that competes."""
    chosen = select(source(profile))
    return chosen[~chosen["baseline"] & ~chosen["supervised"]]


def effects(profile: str) -> None:
    """How PA and calibration work in one profile."""
    chosen, pa = selection(profile), PROFILES[profile]
    keys = ["dataset", "case", "algorithm", "split"]
    wide = chosen.pivot_table(
        index=keys, columns="criterion", values=["test_recall", "test_accuracy"]
    )
    for metric in ("recall", "accuracy"):
        gap = (
            100
            * (wide[f"test_{metric}"][pa] - wide[f"test_{metric}"]["oa"])
            .groupby("algorithm")
            .mean()
        )
        print(
            f"{profile}: {metric} of what PA chooses minus what OA chooses: {interval(gap, 'methods')}"
        )
    oracle = chosen[chosen["criterion"] == "oa"]
    mean = (
        100
        * oracle.groupby(["base", "dataset", "case", "calibrated"])["test_accuracy"]
        .mean()
        .unstack()
    )
    gain = (mean[True] - mean[False]).dropna()
    print(
        f"{profile}: accuracy of calibrated minus plain under OA: {interval(gain, 'methods x problems')}"
    )
    for base, values in gain.groupby("base"):
        print(
            f"    {base}: {', '.join(f'{value:+.1f}' for value in values)} (letter 1, 2, usps 1, 2)"
        )


def four_rows(profile: str) -> None:
    """Do the calibrated forms of uPU, nnPU, nnPU-GA and PUSB differ by more than their splits do?"""
    chosen = selection(profile)
    rows = chosen[(chosen["criterion"] == "oa") & chosen["calibrated"] & chosen["base"].isin(FOUR)]
    for (dataset, case), part in rows.groupby(["dataset", "case"]):
        test = f_oneway(*[method["test_accuracy"] for _, method in part.groupby("base")])
        words = f"F = {test.statistic:.2f}, p = {test.pvalue:.3f} (n = 4 rows x 3 splits)"
        print(f"{profile}: the four calibrated rows on {dataset} case {case}: {words}")


def one_algorithm() -> None:
    """Train the four rows as released with one seed on one made-up problem: do their curves differ?"""
    from puarena.testing.contract import make_toy_problem
    from puarena.training import FleetConfig, Row, train

    for prior in (0.5, 0.3):
        x, data, hidden = make_toy_problem(prior)
        config = FleetConfig(batch_size=32, steps=200, record_every=50)
        rows = [
            Row(f"{name}-c@released", data, hidden, 7, 0.01, 0.9, {}, "batch-union")
            for name in FOUR
        ]
        values = [train([row], config, x).values for row in rows]
        for name, curve in zip(FOUR[1:], values[1:], strict=True):
            gaps = {
                k: np.abs(curve[k] - values[0][k]).max()
                for k in ("loss", "test_accuracy", "test_auc")
            }
            words = ", ".join(f"{key} {gap:.1g}" for key, gap in gaps.items())
            print(
                f"one seed, prior {prior}: {name}-c@released differs from upu-c@released at most by {words}"
            )


def published_effects() -> None:
    """The same in the published tables of Letter and USPS, both cases."""
    numbers = {
        ((k[0].dataset, k[0].case), *k[1:]): v[0]
        for k, v in read_published().items()
        if k[0].dataset in ("letter", "usps")
    }
    problems = sorted({key[0] for key in numbers})
    methods = sorted({key[1:3] for key in numbers})
    for metric in ("recall", "accuracy"):
        gaps = [
            np.mean(
                [numbers[(d, *m, metric, "pa")] - numbers[(d, *m, metric, "oa")] for d in problems]
            )
            for m in methods
        ]
        print(
            f"published: {metric} of what PA chooses minus what OA chooses: {interval(gaps, 'methods')}"
        )
    calibrated = [base for base, is_calibrated in methods if is_calibrated]
    gain = [
        numbers[d, b, True, "accuracy", "oa"] - numbers[d, b, False, "accuracy", "oa"]
        for d in problems
        for b in calibrated
    ]
    print(
        f"published: accuracy of calibrated minus plain under OA: {interval(gain, 'methods x problems')}"
    )


def agreements() -> None:
    """How many cells agree, and how the rankings correlate."""
    for profile in PROFILES:
        comparisons = compare(source(profile))
        print(f"{profile}: {count_agreement(comparisons).verdict}")
        for case in (1, 2):
            part = [item for item in comparisons if item.problem.case == case]
            print(f"    case {case}: {count_agreement(part).verdict}")
        lines = [x for item in comparisons if item.metric in PAPER_METRICS for x in item.cells]
        far = sum(
            abs(x.difference) > 3 * math.hypot(x.ours_error, x.published_error) for x in lines
        )
        middle = np.median([abs(line.difference) for line in lines])
        print(
            f"    median difference {middle:.2f} points; beyond 3 combined standard errors {far} of {len(lines)}"
        )
        for item in comparisons:
            if item.metric == "accuracy":
                near = sum(cell.agrees for cell in item.cells)
                where = f"{item.problem.dataset} {item.problem.case}"
                what = f"{where}, accuracy by {item.published_criterion}"
                print(
                    f"    {what}: Spearman {item.spearman:.2f} (n = {len(item.cells)}), {near} agree"
                )


def tables() -> None:
    """Accuracy under OA, side by side."""
    theirs = {(k[0].dataset, k[0].case, *k[1:]): v for k, v in read_published().items()}
    ours = {}
    for profile in PROFILES:
        numbers = aggregate(select(source(profile), ["oa"]), ["accuracy"])
        for row in numbers.itertuples():
            ours[profile, row.dataset, row.case, row.base, row.calibrated] = (
                f"{row.mean:.2f} ± {row.stderr:.2f}"
            )
    for dataset in ("letter", "usps"):
        print(f"\n### {dataset.upper() if dataset == 'usps' else 'Letter'}: accuracy under OA\n")
        print(
            "| method | definition, 1 | released, 1 | published, 1 | definition, 2 | released, 2 "
            "| published, 2 |"
        )
        print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
        for base, calibrated in dict.fromkeys(key[3:] for key in ours):
            cells = []
            for case in (1, 2):
                cells += [
                    ours.get((p, dataset, case, base, calibrated), "") for p in sorted(PROFILES)
                ]
                published = theirs.get((dataset, case, base, calibrated, "accuracy", "oa"))
                cells.append(f"{published[0]:.2f} ± {published[1]:.2f}" if published else "")
            print(f"| {base}{'-c' if calibrated else ''} | {' | '.join(cells)} |")


if __name__ == "__main__":
    if "--tables" in sys.argv:
        tables()
    else:
        agreements()
        published_effects()
        for name in PROFILES:
            effects(name)
            four_rows(name)
        one_algorithm()
