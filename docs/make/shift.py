"""Check the paper's three claims about internal label shift, in seconds.

    python docs/make/shift.py
    python docs/make/shift.py published:label-shift-letter

The claims, for methods made for two samples: their plain form is worse on one-sample data than on
two-sample data; the more so the more points are labeled; and calibration repairs that. Each number
is a difference of test accuracy in points, models selected by PA, averaged over the methods; the
interval is a 95% bootstrap interval over the splits of each problem, widened for few splits, and n
counts problems times splits.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import pairwise

import pandas as pd
from known import Gain, collect_gains

from puarena.report.select import add_labels, select

SOURCE = "published:label-shift-letter"
PLAIN, TWO, CALIBRATED = "OS", "TS", "OS calibrated"
LOWEST = (
    60.0  # mean accuracy, where half of the points are positive, below which nothing is learned
)
KEYS = ["dataset", "case", "split"]


def read_scores(source: str, criterion: str = "pa") -> pd.DataFrame:
    """Return accuracy in points: base, form and rate as columns.

    The lines are the problems and splits that have every value.
    """
    frame = add_labels(select(source))
    frame = frame[(frame["criterion"] == criterion) & ~frame["baseline"] & ~frame["supervised"]]
    form = frame["setting"].map({"os": PLAIN, "ts": TWO}) + frame["calibrated"].map(
        {True: " calibrated", False: ""}
    )
    frame = frame.assign(form=form, score=100 * frame["test_accuracy"])
    table = frame.pivot_table("score", KEYS, ["base", "form", "rate"])
    index = [(f"{dataset} {case}", split) for dataset, case, split in table.index]
    table.index = pd.MultiIndex.from_tuples(index, names=["problem", "split"])
    return table.dropna()


def choose_methods(table: pd.DataFrame) -> tuple[list[str], list[str]]:
    """Return the methods that have every form, and those of them that trained everywhere."""
    forms = table.columns.to_frame(index=False).groupby("base")["form"].agg(set)
    bases = [str(base) for base, found in forms.items() if {PLAIN, TWO, CALIBRATED} <= found]
    worst = table.mean().groupby("base").min()
    return bases, [base for base in bases if worst[base] >= LOWEST]


def average_methods(table: pd.DataFrame, bases: Sequence[str]) -> pd.DataFrame:
    """Return the mean over methods."""
    return table[list(bases)].T.groupby(level=["form", "rate"]).mean().T


def compare(first: pd.Series, second: pd.Series) -> Gain:
    """Return the paired difference of two columns."""
    (gain,) = collect_gains(pd.DataFrame({"first": first, "second": second}), "second")
    return gain


def list_claims(table: pd.DataFrame) -> dict[str, dict[str, Gain]]:
    """Return the differences that each claim is about, by what is compared."""
    rates = sorted({rate for form, rate in table.columns if form == TWO})
    all_rates = sorted({rate for form, rate in table.columns if form == PLAIN})
    gaps = {rate: table[TWO, rate] - table[PLAIN, rate] for rate in rates}
    zero = 0 * gaps[rates[0]]
    return {
        "Plain forms lose on one-sample data (two samples minus one)": {
            f"{rate:.0%}": compare(gap, zero) for rate, gap in gaps.items()
        },
        "The more, the more points are labeled (growth of that difference)": {
            f"{low:.0%} to {high:.0%}": compare(gaps[high], gaps[low])
            for low, high in pairwise(rates)
        },
        "Calibration repairs it (calibrated minus plain, one sample)": {
            f"{rate:.0%}": compare(table[CALIBRATED, rate], table[PLAIN, rate])
            for rate in all_rates
        },
        "What is left (two samples minus calibrated one-sample)": {
            f"{rate:.0%}": compare(table[TWO, rate], table[CALIBRATED, rate]) for rate in rates
        },
    }


def arrange_claims(source: str = SOURCE) -> str:
    """Return the claims and each method's share in them as Markdown."""
    table = read_scores(source)
    lines = []
    every, trained = choose_methods(table)
    groups = {f"{len(every)} methods": every}
    if trained and trained != every:
        names = ", ".join(f"`{name}`" for name in trained)
        groups[f"{names}, whose means are all above {LOWEST:g}"] = trained
    for title, bases in groups.items():
        lines += ["", f"Mean over {title}:", ""]
        for claim, gains in list_claims(average_methods(table, bases)).items():
            n = next(iter(gains.values())).n
            cells = [
                f"{at}: {gain.mean:+.1f} [{gain.low:+.1f}, {gain.high:+.1f}]"
                for at, gain in gains.items()
            ]
            lines.append(f"- {claim}, n = {n}: {'; '.join(cells)}.")
    means = table.mean().unstack("rate")
    rates = list(means.columns)
    lines += ["", f"| method | data | {' | '.join(f'{rate:.0%}' for rate in rates)} |"]
    lines.append(f"| --- | --- |{' ---: |' * len(rates)}")
    for (base, form), row in means.iterrows():
        cells = ["" if pd.isna(value) else f"{value:.1f}" for value in row]
        lines.append(f"| `{base}` | {form} | {' | '.join(cells)} |")
    return "\n".join(lines[1:])


if __name__ == "__main__":
    print(arrange_claims(*sys.argv[1:2]))
