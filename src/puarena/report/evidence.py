"""What the figures and the page are drawn from, read from the stored curves in a few queries."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from puarena.data import labelling
from puarena.report.select import CRITERIA, GROUP, METRICS, PROBLEM, default_criteria, load, names, opened, select
from puarena.report.table import Row
from puarena.store import Store, ask

if TYPE_CHECKING:
    from pandas import DataFrame

    from puarena.report.select import Source


@dataclass(frozen=True)
class Evidence:
    """What the figures are drawn from, all of it read from the stored curves."""

    selection: DataFrame  # one row per problem, method, split and criterion, as ``select`` gives it, with labels
    best: DataFrame  # the highest test value of any selectable checkpoint, per problem, method and split
    seconds: DataFrame  # of one training run, per problem and method
    curves: DataFrame  # test metrics by step of what a criterion selected; ``even``: of the evenly spaced records


def evidence(
    source: Source,
    criteria: Iterable[str] | None = None,
    algorithms: Sequence[str] | None = None,
    points: int = 60,
    selection: DataFrame | None = None,
) -> Evidence:
    """Read everything the figures need; ``points`` is about how many records of a learning curve are kept."""
    by = names("criterion", criteria, CRITERIA, default_criteria(source))
    chosen = select(source, by) if selection is None else selection
    if algorithms is not None:
        chosen = chosen[chosen["algorithm"].isin(list(algorithms))]
    chosen = labeled(chosen)
    source = opened(source)
    summary = isinstance(source, Store) and source.summarized  # it has few records, and the best may be missing
    curves = load(source)
    keys = ", ".join(f'"{key}"' for key in GROUP)
    best = ", ".join(f"max({c}) FILTER (WHERE selectable AND NOT isnan({c})) AS {c}" for c in METRICS.values())
    none = "WHERE false " if summary else ""
    found = ask(curves, f"SELECT {keys}, split, {best} FROM curves {none}GROUP BY ALL").df()
    spent = "max(seconds)" if "seconds" in curves.columns else "CAST(NULL AS DOUBLE)"
    times = f"SELECT {keys}, split, config, {spent} AS seconds FROM curves GROUP BY ALL"
    seconds = ask(curves, f"SELECT {keys}, avg(seconds) AS seconds FROM ({times}) GROUP BY ALL").df()
    return Evidence(chosen, labeled(found), labeled(seconds), _thinned(curves, chosen, points))


def _thinned(curves: Any, chosen: DataFrame, points: int) -> DataFrame:
    """The learning curves of the selected configurations: evenly spaced records, and the selected ones."""
    import pandas

    keys = [*GROUP, "split", "config"]
    picked = chosen.dropna(subset=["config", "step"]).astype({"config": int, "step": int})
    if picked.empty:
        return labeled(picked[[*keys, "step", *METRICS.values()]].assign(even=False))
    listed = ", ".join(f'"{key}"' for key in keys)
    runs = ", ".join("'" + str(run).replace("'", "''") + "'" for run in sorted(set(picked["run"])))
    query = f"""
        SELECT * EXCLUDE (place, places) FROM (
            SELECT {listed}, step, {", ".join(METRICS.values())},
                   row_number() OVER (PARTITION BY {listed} ORDER BY step) AS place,
                   count(*) OVER (PARTITION BY {listed}) AS places
            FROM curves WHERE run IN ({runs}))
        WHERE place % greatest(1, places // {points}) = 0 OR place = places OR place = 1
    """
    even = ask(curves, query).df().merge(picked[keys].drop_duplicates(), on=keys).assign(even=True)
    own = picked[[*keys, "step", *METRICS.values()]].assign(even=False)
    both = pandas.concat([even, own]).drop_duplicates([*keys, "step"])
    return labeled(both.sort_values([*keys, "step"], ignore_index=True))


def labeled(frame: DataFrame) -> DataFrame:
    """The same rows with ``method`` and ``problem``, the names a reader sees."""
    pairs = frame[["algorithm", "profile"]].drop_duplicates()
    label = {(a, p): Row(str(a), str(p), ()).label for a, p in pairs.itertuples(index=False)}
    problems = frame[list(PROBLEM)].drop_duplicates()
    several = problems.groupby(list(PROBLEM[:-1]), dropna=False).size().max() if len(problems) else 0
    by_text = {  # by their text, because a NaN is not equal to itself
        tuple(map(str, (d, c, s, r, p))): problem_label(d, c, s, r, p, several > 1)
        for d, c, s, r, p in problems.itertuples(index=False, name=None)
    }
    return frame.assign(
        method=[label[pair] for pair in zip(frame["algorithm"], frame["profile"], strict=True)],
        problem=[by_text[tuple(map(str, row))] for row in frame[list(PROBLEM)].itertuples(index=False, name=None)],
    )


def problem_label(dataset: str, case: int, setting: str, rate: float, prior: float, with_prior: bool = False) -> str:
    """A problem in a few words: ``letter, case 1, OS 30%``."""
    last = f", prior {prior:.3g}" if with_prior and not math.isnan(prior) else ""
    return f"{dataset}, case {case}, {labelling.get(setting).short} {100 * rate:.4g}%{last}"
