"""What is missing of a results folder, failed or diverged: said before any number."""

from __future__ import annotations

from collections import Counter

from puarena.report.sources import Source, opened
from puarena.results import OK

SHOWN = 5  # kinds of missing runs named one by one


def completeness(source: Source) -> list[str]:
    """Sentences about what is not there; none where everything that was planned is there and sound.

    ``90 of 150 runs; missing: nnpu on digits (30), vpu on digits (30).`` How many runs were planned is known where the
    folder kept its plan. A relation or frame has no folder, so nothing is said about it.
    """
    curves = opened(source)
    store = curves.store
    if store is None:
        return []
    planned = store.planned()
    outcomes = store.outcomes()
    failed, diverged = store.failed(outcomes), store.diverged(outcomes)
    sentences = []
    if planned is not None:
        missing = [row for run, row in planned.runs.items() if run not in outcomes]
        if missing:
            kinds = Counter(f"{row['algorithm']} on {row['dataset']}" for row in missing)
            done = len(planned.runs) - len(missing)
            sentences.append(f"{done:,} of {len(planned.runs):,} runs; missing: {_listed(kinds)}.")
    if failed:
        reasons = Counter(failed.values())
        sentences.append(f"{_runs(len(failed))} failed: {_listed(reasons)}.")
    if diverged:
        among = (
            f" of {len(outcomes):,}"
            if len(outcomes) > len(diverged)
            else ", which are all there are,"
        )
        sql = f"SELECT algorithm, dataset, count(DISTINCT run) FROM curves WHERE status <> '{OK}' GROUP BY ALL"
        kinds = Counter(
            {f"{name} on {dataset}": count for name, dataset, count in sorted(curves.rows(sql))}
        )
        sentences.append(f"{_runs(len(diverged))}{among} diverged: {_listed(kinds)}.")
    return sentences


def _runs(count: int) -> str:
    return f"{count:,} {'run' if count == 1 else 'runs'}"


def _listed(kinds: Counter[str]) -> str:
    """The most frequent kinds with their numbers."""
    shown = [f"{name} ({count:,})" for name, count in kinds.most_common(SHOWN)]
    others = sum(kinds.values()) - sum(count for _, count in kinds.most_common(SHOWN))
    return ", ".join([*shown, *([f"and {others:,} others"] if others else [])])
