"""Which runs of a results folder are missing, failed or diverged."""

from __future__ import annotations

from collections import Counter

from puarena.report.sources import Source, open_curves
from puarena.results import OK

MAX_KINDS = 5  # of missing runs that are named


def describe_missing_runs(source: Source) -> list[str]:
    """Return sentences about missing runs; none if everything that was planned is there.

    ``90 of 150 runs; missing: nnpu on digits (30), vpu on digits (30).`` How many runs were planned
    is known if the folder kept its plan. A relation or frame has no folder and so no sentences.
    """
    curves = open_curves(source)
    store = curves.store
    if store is None:
        return []
    planned = store.planned()
    outcomes = curves.outcomes
    failed, diverged = store.failed(outcomes), store.diverged(outcomes)
    sentences = []
    runs = planned.runs if planned else {}
    missing = [row for run, row in runs.items() if run not in outcomes]
    if missing:
        kinds = Counter(f"{row['algorithm']} on {row['dataset']}" for row in missing)
        total = len(runs)
        sentences.append(f"{total - len(missing):,} of {total:,} runs; missing: {_list(kinds)}.")
    if failed:
        sentences.append(f"{_count(len(failed))} failed: {_list(Counter(failed.values()))}.")
    if diverged:
        rows = curves.rows(
            "SELECT algorithm, dataset, count(DISTINCT run) FROM curves "
            f"WHERE status <> '{OK}' GROUP BY ALL"
        )
        kinds = Counter({f"{name} on {dataset}": count for name, dataset, count in sorted(rows)})
        among = f"{_count(len(diverged))} of {len(outcomes):,}"
        sentences.append(f"{among} diverged: {_list(kinds)}.")
    return sentences


def _count(number: int) -> str:
    return f"{number:,} {'run' if number == 1 else 'runs'}"


def _list(kinds: Counter[str]) -> str:
    """Return the most frequent kinds with their numbers."""
    common = kinds.most_common(MAX_KINDS)
    texts = [f"{name} ({count:,})" for name, count in common]
    others = kinds.total() - sum(count for _, count in common)
    return ", ".join([*texts, *([f"and {others:,} others"] if others else [])])
