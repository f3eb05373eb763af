"""Print the figures of "What is known" in docs/results.md, from published results, in seconds.

    python docs/make/known.py
    python docs/make/known.py --results tabular-ten-splits --metric auc

For each source: what calibration gains, which methods are above the naive baselines, the best, and
what selection without true labels costs. ``arrange_gains`` is the table of that page. Differences are paired by problem and split; intervals are
95% bootstrap intervals over the splits of each problem, widened for few splits, and say nothing of
other datasets. n counts problems times splits.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from puarena.metrics import CRITERIA, METRICS
from puarena.report.select import add_labels, select
from puarena.report.statistics import collect_scores, compute_standings, describe_winner
from puarena.report.statistics.bootstrap import compute_differences
from puarena.results.published import PREFIX

SOURCES = ("tabular-ten-splits", "tables-standardised")
BASELINES = ("pn-naive", "pn-quantile")
CRITERION = "pa"


@dataclass(frozen=True)
class Gain:
    """A mean paired difference in points with its interval."""

    name: str
    mean: float
    low: float
    high: float
    n: int

    @property
    def side(self) -> str:
        """Where the whole interval is."""
        return "above" if self.low > 0 else "below" if self.high < 0 else "not told apart"

    def __str__(self) -> str:
        return f"{self.name} {self.mean:+.2f} [{self.low:+.2f}, {self.high:+.2f}]"


def collect_gains(scores: pd.DataFrame, reference: str) -> list[Gain]:
    """Return the gain of every column over one of them, the largest first."""
    rows = compute_differences(scores, reference).to_dict("records")
    return [
        Gain(row["algorithm"], row["value"], row["low"], row["high"], int(row["n"])) for row in rows
    ]


def pivot(selection: pd.DataFrame, metric: str, criterion: str) -> pd.DataFrame:
    """Return scores in points: a line per problem and split, a column per method."""
    record = METRICS[metric]
    part = selection[selection["criterion"] == criterion]
    part = part.assign(score=record.factor * part[record.column].astype(float))
    table = part.pivot_table("score", ["problem", "split"], "method")
    return table.dropna(axis=1)


def compare_calibrated(scores: pd.DataFrame) -> list[Gain]:
    """Return the gain of every calibrated form over its plain one."""
    gains = []
    for name in scores.columns:
        if f"{name}-c" in scores:
            pair = scores[[name, f"{name}-c"]]
            gains += [Gain(name, g.mean, g.low, g.high, g.n) for g in collect_gains(pair, name)]
    return sorted(gains, key=lambda gain: -gain.mean)


def compare_criteria(selection: pd.DataFrame, metric: str) -> list[Gain]:
    """Return what criteria lose against selection by true labels, on average over methods."""
    names = [name for name in CRITERIA if name in {*selection["criterion"]}]
    competing = selection[~selection["baseline"] & ~selection["supervised"]]
    tables = {name: pivot(competing, metric, name) for name in names}
    common = sorted(set.intersection(*({*table.columns} for table in tables.values())))
    means = pd.DataFrame({name: table[common].mean(axis=1) for name, table in tables.items()})
    return collect_gains(means, "oa")


def read_table(source: str, metric: str) -> tuple[pd.DataFrame, pd.DataFrame, list[str]]:
    """Return a source's selection, its scores, and the methods that compete."""
    selection = add_labels(select(PREFIX + source))
    table = pivot(selection, metric, CRITERION)
    kinds: Any = selection.drop_duplicates("method").set_index("method")
    apart = kinds["baseline"] | kinds["supervised"]
    return selection, table, [name for name in table.columns if not apart[name]]


def group_by_dataset(selection: pd.DataFrame, table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the scores of all problems, and of each dataset if there are two or three."""
    datasets = dict(zip(selection["problem"], selection["dataset"], strict=True))
    owners = table.index.get_level_values(0).map(datasets)
    groups = {"all": table}
    if 1 < len({*owners}) < 4:
        groups |= {name: table[owners == name] for name in sorted({*owners})}
    return groups


def arrange_gains(source: str = SOURCES[0], metric: str = "accuracy") -> str:
    """Return the gains over the naive baselines as Markdown."""
    selection, table, competing = read_table(source, metric)
    columns = {}
    for group, part in group_by_dataset(selection, table).items():
        for baseline in BASELINES if group == "all" else BASELINES[1:]:
            where = "" if group == "all" else f"{group}, "
            head = f"{where}over `{baseline}`, n = {len(part)}"
            found = collect_gains(part[[*competing, baseline]], baseline)
            columns[head] = {gain.name: gain for gain in found}
    order = [*columns.values()][1]
    lines = [f"| method | {' | '.join(columns)} |", f"| --- |{' ---: |' * len(columns)}"]
    for name in order:
        cells = []
        for gains in columns.values():
            gain = gains[name]
            text = f"{gain.mean:+.2f} [{gain.low:+.2f}, {gain.high:+.2f}]"
            cells.append(f"**{text}**" if gain.side == "above" else text)
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def print_sides(gains: Sequence[Gain], baseline: str) -> None:
    """Print which methods are above a baseline, below it, or not told apart."""
    print(f"\nagainst {baseline} (n = {gains[0].n}):")
    for side in ("above", "not told apart", "below"):
        found = [gain for gain in gains if gain.side == side]
        print(f"  {side}, {len(found)}: {'; '.join(map(str, found))}")


def print_known(source: str, metric: str) -> None:
    """Print the figures of one source."""
    selection, table, competing = read_table(source, metric)
    problems = table.index.get_level_values(0)
    counts = problems.value_counts()
    print(f"\n## {source}: {metric}, models selected by {CRITERION.upper()}")
    print("; ".join(f"{name}: {count} splits" for name, count in counts.items()))
    print(f"\ncalibrated minus plain (n = {len(table)}):")
    print("  " + "; ".join(map(str, compare_calibrated(table))))
    for group, part in group_by_dataset(selection, table).items():
        print(f"\n### {group}, n = {len(part)}")
        for baseline in (name for name in BASELINES if name in part):
            print_sides(collect_gains(part[[*competing, baseline]], baseline), baseline)
    scores = collect_scores(selection, metric, CRITERION)
    found = compute_standings(scores.splits, scores.datasets, METRICS[metric].higher)
    print(f"\n{describe_winner(found, metric)}")
    best = str(found.table.index[0])
    for gain in collect_gains(table[competing], best)[:12]:
        print(f"  {gain}")
    gains = compare_criteria(selection, metric)
    print(f"\ncriteria against OA, mean over methods (n = {gains[0].n}):")
    print("  " + "; ".join(map(str, gains)))


def main(words: Sequence[str] | None = None) -> None:
    """Read the command line and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--results", default=",".join(SOURCES), help="names of published results")
    parser.add_argument("--metric", default="accuracy", choices=list(METRICS))
    given = parser.parse_args(words)
    for source in given.results.split(","):
        print_known(source, given.metric)


if __name__ == "__main__":
    main()
