"""Run what is missing of a spec: plan it, have an executor train fleet by fleet, note what failed."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from puarena.bench import executors, suites
from puarena.bench.beacon import Beacon
from puarena.bench.device import choose_device
from puarena.bench.executors.base import Ended
from puarena.bench.plan import group, make_plan
from puarena.bench.progress import Progress
from puarena.bench.resume import EVERY, StateFolder, interrupted_fleets
from puarena.bench.sources import DataSource
from puarena.bench.spec import Spec
from puarena.bench.work import Job
from puarena.errors import UserError
from puarena.store import Folder


@dataclass(frozen=True)
class Failure:
    """A fleet that broke off: which, how many runs it had, and why."""

    fleet: str
    label: str
    runs: int
    reason: str


@dataclass
class Outcome:
    """What a call of :func:`run` did."""

    out: Path
    planned: int
    stored: int  # runs that needed no training: they were in the folder already
    computed: int = 0
    failures: list[Failure] = field(default_factory=list)
    notes: tuple[str, ...] = ()


def run(
    spec: Spec | Mapping[str, Any] | str | Path,
    out: str | Path,
    device: str = "auto",
    data: str | Path | None = None,
    progress: Progress | None = None,
    max_runs: int | None = None,
    workers: int | None = None,
    capture: bool = True,
    checkpoint_every: float = EVERY,
    engine: str | None = None,
) -> Outcome:
    """Run what is missing of a spec (or suite, or YAML file) into the results folder ``out``.

    A fleet that breaks off is noted with its reason and the others go on; call again to try the missing runs again.
    ``data`` is a folder that already has the datasets' files; ``max_runs`` caps the runs of one fleet; ``workers`` is
    the number of fleets trained side by side; ``capture`` replays captured steps on a GPU. Every ``checkpoint_every``
    seconds a fleet keeps its state in ``out``; after an interruption it goes on from there. ``engine`` names an
    executor (None: what pays on the device).
    """
    device = choose_device(device)
    if not checkpoint_every >= 0:
        raise UserError(f"states are to be kept every {checkpoint_every} seconds; give 0 or more")
    plan = make_plan(suites.load(spec), data)
    source = DataSource(plan, data)
    source.check()
    store = Folder.create(out, plan.spec.to_dict(), plan.spec.hash())
    stored = store.done_runs()
    missing = [run for run in plan.runs if run.run_id not in stored]
    source.estimate_priors(missing)
    outcome = Outcome(Path(out), len(plan.runs), len(plan.runs) - len(missing), notes=plan.notes)
    states = StateFolder(store.path / "progress", store.spec_hash, device, checkpoint_every)
    job = Job(source, store, device, states, capture)
    with progress or Progress() as live, Beacon(store.path) as live.beacon:
        resumed = interrupted_fleets(store, missing, states, max_runs, live.say)
        in_resumed = {run.run_id for fleet in resumed for run in fleet.runs}
        fleets = [*resumed, *group([run for run in missing if run.run_id not in in_resumed], max_runs, device)]
        executor = executors.choose(device, workers, fleets, engine)
        live.start(fleets, {fleet.fleet_id: done for fleet, done in resumed.items()})
        for fleet, done in resumed.items():
            live.say(f"{fleet.label} goes on after {done / fleet.steps:.0%} of its steps")
        for ended in executor.train(fleets, job, live.news):
            failure = _failure(ended)
            if failure is None:
                outcome.computed += len(ended.fleet.runs)
            else:
                store.write_failure(failure.fleet, [run.run_id for run in ended.fleet.runs], failure.reason)
                outcome.failures.append(failure)
            live.fleet_ends(ended.fleet, failure.reason if failure else None)
    _forget_mended_failures(store)
    if store.states():  # of fleets that were halved
        stored = store.done_runs()
        left = [run for run in missing if run.run_id not in stored]
        interrupted_fleets(store, left, states, max_runs, say=lambda text: None)
    return outcome


def _failure(ended: Ended) -> Failure | None:
    """What broke a fleet, if anything did; a mistake that a user can put right ends the whole run."""
    if ended.error is None:
        return None
    if isinstance(ended.error, UserError):
        raise ended.error
    return Failure(ended.fleet.fleet_id, ended.fleet.label, len(ended.fleet.runs), reason_of(ended.error))


def reason_of(error: BaseException) -> str:
    """An unexpected error in one line: what it says, and where it happened."""
    place = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(place[-1].filename).name}, line {place[-1].lineno})" if place else ""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:500]}{where}"


def _forget_mended_failures(store: Folder) -> None:
    """Remove notes of failed fleets whose runs have been computed since, perhaps in other fleets."""
    notes = store.failures()
    done = store.done_runs() if notes else set()
    for note in notes:
        if set(note["runs"]) <= done:
            store.clear_failure(note["fleet"])
