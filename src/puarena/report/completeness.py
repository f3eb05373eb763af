"""Which runs of a results folder are missing, failed or diverged, and which did not train."""

from __future__ import annotations

from collections import Counter

from puarena.report.sources import Source, open_curves
from puarena.results import OK

MAX_KINDS = 5  # of missing runs that are named
MIN_RECORDS = 4  # of the second half of a run, to call its loss frozen
FROZEN = 1e-6  # relative change of the loss
MIN_POINTS = 10  # of P' and of U', to call a ranking random
CHANCE_ERRORS = 2  # standard errors of the AUC of a random ranking (Mann and Whitney)
UNTRAINED = f"""
SELECT algorithm, dataset, count(*) FROM (
    SELECT run, any_value(algorithm) AS algorithm, any_value(dataset) AS dataset,
        arg_max(val_pauc, step) AS pauc, any_value(val_size_p) AS p, any_value(val_size_u) AS u,
        count(*) FILTER (late) AS records,
        max(loss) FILTER (late) AS highest, min(loss) FILTER (late) AS lowest
    FROM (SELECT *, selectable AND 2 * step > max(step) OVER (PARTITION BY run) AS late
          FROM curves WHERE status = '{OK}')
    GROUP BY run)
WHERE records >= {MIN_RECORDS}
        AND highest - lowest <= {FROZEN} * greatest(abs(highest), abs(lowest))
    OR least(p, u) >= {MIN_POINTS}
        AND pauc <= 0.5 + {CHANCE_ERRORS} * sqrt((p + u + 1) / (12 * p * u))
GROUP BY ALL"""


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


def describe_untrained_runs(source: Source) -> list[str]:
    """Return a sentence about finished runs that did not train; none if all did.

    A run did not train if its loss is frozen in the second half of its records, or if its last PAUC
    is no better than that of a random ranking. No true label is used.
    """
    curves = open_curves(source)
    needed = {"loss", "val_pauc", "val_size_p", "val_size_u"}
    if not needed <= curves.columns or (curves.store is not None and curves.store.is_summarized):
        return []
    rows = curves.rows(UNTRAINED)
    kinds = Counter({f"{name} on {dataset}": count for name, dataset, count in sorted(rows)})
    if not kinds:
        return []
    among = f"{_count(kinds.total())} of {len(curves.outcomes):,}"
    return [f"{among} did not train (loss frozen, or PAUC at chance): {_list(kinds)}."]


def _count(number: int) -> str:
    return f"{number:,} {'run' if number == 1 else 'runs'}"


def _list(kinds: Counter[str]) -> str:
    """Return the most frequent kinds with their numbers."""
    common = kinds.most_common(MAX_KINDS)
    texts = [f"{name} ({count:,})" for name, count in common]
    others = kinds.total() - sum(count for _, count in common)
    return ", ".join([*texts, *([f"and {others:,} others"] if others else [])])
