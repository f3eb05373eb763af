"""What the common optimizer costs whom: the same problems run with the protocol's optimizer and
with the authors' own.

    python benchmarks/optimizers.py PROTOCOL AUTHORS [ALGORITHM ...]

PROTOCOL and AUTHORS are results folders, summaries or published:NAME, of ``puarena run`` with and
without ``--optimizer authors``; AUTHORS may hold several, with a comma. Prints a Markdown table;
nothing is trained. A difference is the mean over problems and splits that both have, with its 95%
interval by Student's t over them, not corrected for how many there are.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

import numpy as np
from pandas import DataFrame
from scipy.stats import t

from puarena import catalog
from puarena.errors import UserError
from puarena.metrics import CRITERIA
from puarena.pu.problem import PROBLEM_COLUMNS
from puarena.report import select
from puarena.report.compare import find_published_criterion
from puarena.report.methods import METHOD_COLUMNS, Method, in_order, read_methods
from puarena.report.sources import Source
from puarena.results import open_results
from puarena.results.combine import EXTENT_FIELDS, JOINED_FIELDS, find_differences

OWN = "authors"  # in the column ``optimizer``
KEYS = [*PROBLEM_COLUMNS, *(name for name in METHOD_COLUMNS if name != "optimizer"), "split"]
SHOWN = ("oa", "pa")


@dataclass(frozen=True)
class Cost:
    """Accuracy of one method, in percent, with either optimizer, over the problems and splits that
    both have.
    """

    method: Method
    protocol: float
    authors: float
    half: float  # of the 95% interval of the difference; NaN of a single pair
    n: int

    @property
    def difference(self) -> float:
        """What the authors' optimizer brings."""
        return self.authors - self.protocol

    @property
    def sure(self) -> bool:
        """Does the interval leave zero out?"""
        return abs(self.difference) > self.half

    @property
    def words(self) -> str:
        """Both means and the difference, as cells of a table."""
        low, high = self.difference - self.half, self.difference + self.half
        interval = "" if math.isnan(self.half) else f" [{low:+.2f}, {high:+.2f}]"
        mark = "**" if self.sure else ""
        return f"{self.protocol:.2f} | {self.authors:.2f} | {mark}{self.difference:+.2f}{mark}{interval}"


def chosen(source: Source, criterion: str) -> DataFrame:
    """What a criterion of the tables chose for every method, in percent, whichever form the profile
    gives it.
    """
    rows = select(source)
    pairs = zip(rows["profile"], rows["criterion"], strict=True)
    rows = rows[[find_published_criterion(profile, name) == criterion for profile, name in pairs]]
    return rows.assign(accuracy=100 * rows["test_accuracy"])


def costs(protocol: DataFrame, authors: DataFrame) -> tuple[list[Cost], list[Method]]:
    """Every method with its own optimizer against the common one; and those that have none of their
    own.
    """
    both = protocol[protocol["optimizer"] != OWN].merge(
        authors, on=KEYS, suffixes=("_protocol", "")
    )
    both = both.dropna(subset=["accuracy_protocol", "accuracy"])
    methods = np.array(read_methods(both), dtype=object)
    found = []
    own = [method for method in in_order(dict.fromkeys(methods)) if method.optimizer == OWN]
    for method in own:
        part = both[[each == method for each in methods]]
        gap = (part["accuracy"] - part["accuracy_protocol"]).to_numpy(float)
        n = len(gap)
        half = float(t.ppf(0.975, n - 1) * gap.std(ddof=1) / math.sqrt(n)) if n > 1 else math.nan
        found.append(
            Cost(method, part["accuracy_protocol"].mean(), part["accuracy"].mean(), half, n)
        )
    having = {method.algorithm for method in own}
    return found, in_order(
        method for method in dict.fromkeys(methods) if method.algorithm not in having
    )


def table(protocol: str, authors: list[str], only: list[str]) -> str:
    """The Markdown table, and what a reader must know beside it."""
    import pandas

    results: dict[str, list[Cost]] = {}
    same: list[Method] = []
    for criterion in SHOWN:
        ours, theirs = (
            chosen(protocol, criterion),
            pandas.concat([chosen(each, criterion) for each in authors]),
        )
        if only:
            theirs = theirs[theirs["base"].isin(only) | theirs["algorithm"].isin(only)]
        results[criterion], same = costs(ours, theirs.drop_duplicates([*KEYS, "optimizer"]))
    if not results["oa"]:
        raise UserError(
            "the two have no problem, method and split in common that was run with an authors' optimizer"
        )
    titles = [CRITERIA[name].title for name in SHOWN]
    heads = " | ".join(f"{title}, protocol | authors | difference" for title in titles)
    lines = [
        f"| method | authors' optimizer | n | {heads} |",
        "| --- | --- | ---: |" + " ---: | ---: | ---: |" * 2,
    ]
    second = {cost.method: cost for cost in results["pa"]}
    for cost in results["oa"]:
        name = cost.method.algorithm
        own = (
            catalog.get(name).authors_optimizer.partition(" (")[0]
            if name in catalog.names()
            else ""
        )
        own = own.replace(", betas 0.9 and 0.999", "")
        other = second[cost.method].words if cost.method in second else " |  | "
        lines.append(f"| {name} | {own} | {cost.n} | {cost.words} | {other} |")
    for criterion, title in zip(SHOWN, titles, strict=True):
        lines += ["", _summary(title, [c for c in results[criterion] if not c.method.supervised])]
    if same:
        names = ", ".join(method.algorithm for method in same)
        lines += [
            "",
            f"No optimizer of their own is declared, so the protocol's is theirs: {names}.",
        ]
    first = open_results(protocol)
    # Another extent matters here, unlike for a merge.
    fields = [field for field in JOINED_FIELDS if field not in EXTENT_FIELDS]
    notes = [
        note for each in authors for note in find_differences(first, open_results(each), fields)
    ]
    notes = [note for note in dict.fromkeys(notes) if not note.startswith("optimizer:")]
    if notes:
        lines += ["", f"The two differ in more than the optimizer ({'; '.join(notes)})."]
    return "\n".join(lines)


def _summary(title: str, found: list[Cost]) -> str:
    """Who gains and who loses under a criterion, in two sentences."""
    gaps = np.array([cost.difference for cost in found])
    up = [cost.method.algorithm for cost in found if cost.sure and cost.difference > 0]
    down = [cost.method.algorithm for cost in found if cost.sure and cost.difference < 0]
    interval = ""
    if len(gaps) > 1:
        half = t.ppf(0.975, len(gaps) - 1) * gaps.std(ddof=1) / math.sqrt(len(gaps))
        interval = f" [{gaps.mean() - half:+.2f}, {gaps.mean() + half:+.2f}]"
    return (
        f"{title}: with their authors' optimizer {len(up)} of {len(found)} methods gain beyond their interval "
        f"({', '.join(up) or 'none'}), {len(down)} lose ({', '.join(down) or 'none'}). Over methods the mean "
        f"difference is {gaps.mean():+.2f}{interval} points, n = {len(gaps)}."
    )


if __name__ == "__main__":
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    try:
        print(table(sys.argv[1], sys.argv[2].split(","), sys.argv[3:]))
    except UserError as error:
        raise SystemExit(str(error)) from None
