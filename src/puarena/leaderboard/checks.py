"""Are these results whole, unedited and of the spec they name? Every doubt is one sentence."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from puarena import __version__, catalog
from puarena.errors import UserError
from puarena.experiments.plan import RunSpec, make_plan
from puarena.experiments.spec import Spec
from puarena.metrics import CRITERIA, Counts
from puarena.results import Folder, Results, ask
from puarena.utils.files import parse_json
from puarena.utils.identity import digest

if TYPE_CHECKING:
    from pandas import DataFrame

COUNTS = ("positive_p", "size_p", "positive_u", "size_u")
EXACT = 1e-9  # what is computed twice from the same counts may differ by


@dataclass(frozen=True)
class Checked:
    """Results that passed: their spec, and what they were computed with."""

    store: Results
    spec: Spec
    runs: int
    versions: tuple[str, ...]
    torch: tuple[str, ...]
    devices: tuple[str, ...]


def check(store: Results) -> Checked:
    """Check everything that can be checked without training anything again; the first doubt is an error."""
    spec = Spec.load(store.spec)
    if spec.hash() != store.spec_hash:
        raise UserError(
            f"the spec in '{store.path}' is not the one its results were made with (it is {spec.hash()}, and "
            f"{store.spec_hash} was noted): it, a plugin or a table of yours was edited since; run it again"
        )
    plan = make_plan(spec)
    with store.reading():
        makers = ask(
            store.relation(), "SELECT DISTINCT version, torch, device FROM curves ORDER BY ALL"
        ).fetchall()
        curves = store.relation().df()
    versions, torch, devices = (tuple(sorted({row[i] for row in makers})) for i in range(3))
    foreign = [
        version for version in versions if version.split(".")[:2] != __version__.split(".")[:2]
    ]
    if foreign:
        raise UserError(
            f"'{store.path}' has results of puarena {', '.join(foreign)}, and this is {__version__}, whose numbers may "
            "differ; run it again with this one"
        )
    for doubt in (*_missing(store, plan.runs), *_edited(store, curves, plan.runs)):
        raise UserError(f"'{store.path}' cannot be accepted: {doubt}")
    return Checked(store, spec, len(plan.runs), versions, torch, devices)


def _missing(store: Results, runs: Sequence[RunSpec]) -> Iterator[str]:
    """Runs that were planned and have no curve."""
    done = store.done_runs()
    lacking = [run for run in runs if run.run_id not in done]
    if lacking:
        counts = Counter(f"{run.algorithm} on {run.problem.label()}" for run in lacking)
        words = ", ".join(f"{name} ({count})" for name, count in counts.most_common(4))
        more = f" and {len(counts) - 4} more" if len(counts) > 4 else ""
        yield f"it is incomplete, {len(lacking)} of {len(runs)} runs are missing: {words}{more}"
    foreign = done - {run.run_id for run in runs}
    if foreign:
        yield f"it has {len(foreign)} runs that its spec does not plan, such as {min(foreign)}"


def _edited(store: Results, curves: DataFrame, runs: Sequence[RunSpec]) -> Iterator[str]:
    """Rows that are not as a run of this plan writes them."""
    planned = {run.run_id: run for run in runs}
    stored = curves[["run", *facts(runs[0]), "hyper"]].drop_duplicates()
    for row in stored.to_dict("records"):
        run = planned[row["run"]]
        wrong = [name for name, value in facts(run).items() if not _equal(row[name], value)]
        if wrong:
            yield f"its run {row['run']} does not have the {wrong[0]} that was planned"
        if not _same_hyper(parse_json(row["hyper"]), {**dict(run.hyper), "momentum": run.momentum}):
            yield f"its run {row['run']} does not have the hyperparameters that were planned"
    if not store.summarized:
        yield from _records(curves, planned)
    if isinstance(store, Folder) and not store.info.get("sources"):
        for fleet, members in curves.groupby("fleet")["run"]:
            if digest(sorted(set(members))) != fleet:
                yield f"its shard {fleet} does not hold the runs that it was written with"
    yield from _inconsistent(curves)


def facts(run: RunSpec) -> dict[str, Any]:
    """What the store must say about a run."""
    return {name: value for name, value in run.columns().items() if name not in ("run", "hyper")}


def _records(curves: DataFrame, planned: dict[str, RunSpec]) -> Iterator[str]:
    """Every curve goes to its end, with a record wherever one is due."""
    for name, steps in curves.groupby("run")["step"]:
        run = planned[str(name)]
        last = run.steps if catalog.get(run.algorithm).is_classic else run.all_steps
        due = {*range(run.record_every, last + 1, run.record_every), last}
        if set(steps) != due or len(steps) != len(due):
            records = f"{len(steps)} records up to step {max(steps)}, not {len(due)} to {last}"
            yield f"the curve of its run {name} has {records}"


def _inconsistent(curves: DataFrame) -> Iterator[str]:
    """Numbers that cannot stand beside one another: they are all counts of the same predictions."""
    import numpy as np

    from puarena.pu import labeling

    lived = curves[curves["status"] == "ok"]
    if {f"val_{name}" for name in COUNTS} <= {*lived}:
        numbers = {name: lived[f"val_{name}"].to_numpy(float) for name in COUNTS}
        one_sample = np.array(
            [labeling.get_setting(code).one_sample for code in lived["setting"]], bool
        )
        counts = Counts(**numbers, prior=lived["prior_used"].to_numpy(float), one_sample=one_sample)
        for record in CRITERIA.values():
            if record.needs == "counts" and record.column in lived:
                with np.errstate(all="ignore"):
                    again = np.asarray(record.compute(counts))
                stored = lived[record.column].to_numpy(float)
                yield from _first(
                    lived,
                    np.abs(stored - again) > EXACT,
                    f"{record.title} is not what its counts give",
                )
    if {"test_accuracy", "test_precision", "test_recall", "test_f1"} <= {*lived}:
        accuracy, p, r, f1 = (
            lived[f"test_{n}"].to_numpy(float) for n in ("accuracy", "precision", "recall", "f1")
        )
        with np.errstate(all="ignore"):
            harmonic = np.where(p + r > 0, 2 * p * r / (p + r), 0.0)
            yield from _first(
                lived, np.abs(f1 - harmonic) > EXACT, "F1 is not that of its precision and recall"
            )
            # Errors are positives not found and negatives taken; so their share gives the share of positives.
            share = (1 - accuracy) / ((1 - r) + r * (1 - p) / p)
            known = np.isfinite(share) & (p > 0)
            usual = (
                lived.assign(share=np.where(known, share, np.nan))
                .groupby("run")["share"]
                .transform("median")
            )
            wrong = known & (np.abs(share - usual.to_numpy(float)) > 1e-6)
        yield from _first(
            lived, wrong, "accuracy, precision and recall cannot be of the same predictions"
        )


def _first(rows: DataFrame, wrong: Any, words: str) -> Iterator[str]:
    if wrong.any():
        row = rows[wrong].iloc[0]
        yield f"at step {row['step']} of its run {row['run']} the {words}"


def _equal(stored: Any, planned: Any) -> bool:
    if isinstance(planned, float):
        return math.isclose(stored, planned, rel_tol=1e-9)
    return bool(stored == planned)


def _same_hyper(stored: dict[str, Any], planned: dict[str, Any]) -> bool:
    return stored.keys() == planned.keys() and all(
        _equal(stored[name], planned[name]) for name in planned
    )
