"""Run what is missing of a spec: plan it, have an executor train fleet by fleet, note what failed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from puarena.errors import UserError, unknown_name
from puarena.experiments import executors, suites
from puarena.experiments.beacon import Beacon
from puarena.experiments.data_source import DataSource
from puarena.experiments.display import progress_of
from puarena.experiments.executors.base import Ended, How
from puarena.experiments.failures import Elsewhere, Trouble, trouble_of
from puarena.experiments.forecast import costs
from puarena.experiments.machine import choose_device, describe_environment
from puarena.experiments.plan import (
    FleetSpec,
    Plan,
    RunSpec,
    group,
    make_plan,
    restore_fleets,
    to_planned,
)
from puarena.experiments.progress import Progress
from puarena.experiments.resume import EVERY, StateFolder, interrupted_fleets
from puarena.experiments.spec import PROBLEM_LISTS, Spec
from puarena.experiments.stop import Stop, Stopped
from puarena.experiments.work import Job
from puarena.results import Folder
from puarena.results.planned import Planned
from puarena.utils.notebook import html_table

POLL = 1.0  # seconds between two looks at what other processes work on


@dataclass(frozen=True, kw_only=True)
class Failure(Trouble):
    """A fleet that broke off: which, how many runs it had, at which attempt, and what broke it."""

    fleet: str
    label: str
    runs: int
    attempt: int


@dataclass
class Outcome:
    """What a call of :func:`run` did."""

    out: Path
    planned: int
    stored: int  # runs that needed no training: they were in the folder already
    computed: int = 0
    elsewhere: int = 0  # runs that other processes computed meanwhile
    failures: list[Failure] = field(default_factory=list)
    failed_before: int = 0  # runs that failed before and were not tried again
    stopped: str = ""  # why it ended early, if it did
    notes: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        """The outcome in a notebook: how many runs, what failed and why, what was left out."""
        counts = {
            "planned": self.planned,
            "there already": self.stored,
            "computed": self.computed,
            "computed elsewhere": self.elsewhere,
            "failed": sum(failure.runs for failure in self.failures),
            "failed before": self.failed_before,
        }
        lines = [
            (what, f"{count:,}")
            for what, count in counts.items()
            if count or what in ("planned", "computed")
        ]
        failed = [f"{failure.label} failed: {failure.reason}" for failure in self.failures]
        ended = [f"Stopped: {self.stopped}"] if self.stopped else []
        return html_table((), lines, f"runs in {self.out}", [*failed, *ended, *self.notes])


def run(
    spec: Spec | Mapping[str, Any] | str | Path,
    out: str | Path,
    device: str = "auto",
    data: str | Path | None = None,
    progress: Progress | bool = True,
    fleet_size: int | None = None,
    workers: int | None = None,
    capture: bool = True,
    checkpoint_every: float = EVERY,
    engine: str | None = None,
    retry_failed: bool = False,
    seconds: float | None = None,
    only: Callable[[RunSpec], bool] | None = None,
    **options: Any,
) -> Outcome:
    """Run what is missing of a spec (or suite, or YAML file) into the results folder ``out``.

    A fleet that breaks off is noted with its reason and the others go on; ``retry_failed`` tries such fleets again.
    Several processes and machines can run one spec into one folder: they share the work.
    ``data`` is a folder that already has the datasets' files; ``fleet_size`` caps the runs of one fleet, once for a
    folder; ``workers`` is the number of fleets trained side by side; ``capture`` replays captured steps on a GPU. Every
    ``checkpoint_every`` seconds a fleet keeps its state in ``out``; after an interruption it goes on from there.
    ``engine`` names an executor (None: what pays on the device). ``options`` change the experiment as the command
    line's do (``steps=100, algorithms=["nnpu"], rates=0.2``: what :meth:`Spec.override` takes), or are what else
    executors may be told (:class:`~puarena.experiments.executors.base.How`). After ``seconds`` it stops in good order. Of
    the missing runs ``only`` some can be wanted; the others stay missing. ``progress``: True shows it on stderr, in a
    notebook below the cell; False shows nothing; an object of a subclass of
    :class:`~puarena.experiments.progress.Progress` is told what happens.

    The :class:`Outcome` says how many runs were ``planned``, ``stored`` (there already) and ``computed``, which fleets
    failed (``failures``, each with its ``reason``) and what was left out (``notes``); ``out`` is the folder, for
    ``puarena.table`` and ``puarena.load``.
    """
    if not isinstance(out, (str, Path)) or not str(out):
        raise UserError(f"out is {out!r}; give a folder for the results, such as out='results'")
    _check_limits(
        checkpoint_every, fleet_size, seconds=seconds, fleet_timeout=options.get("fleet_timeout")
    )
    changes, wishes = _split_options(options)
    device = choose_device(device, executors.train_elsewhere(engine, wishes))
    plan = make_plan(suites.load(spec).override(**changes), data)
    executors.choose(
        device, workers, group(plan.runs, fleet_size, device), engine, wishes
    )  # refuses before it writes
    source = DataSource(plan, data)
    source.check()
    revisions = source.revisions()
    store = Folder.create(
        out,
        plan.spec.to_dict(),
        plan.spec.hash(revisions),
        revisions=revisions,
        **describe_environment(device),
    )
    planned = _grouping(store, plan, fleet_size, device)
    stored = store.done_runs()
    failed = {} if retry_failed else store.failed()
    undone = [run for run in plan.runs if run.run_id not in stored]
    missing = [run for run in undone if run.run_id not in failed and (only is None or only(run))]
    source.estimate_priors(missing)
    outcome = Outcome(Path(out), len(plan.runs), len(plan.runs) - len(undone), notes=plan.notes)
    outcome.failed_before = sum(run.run_id in failed for run in undone)
    states = StateFolder(store.path / "progress", store.spec_hash, device, checkpoint_every)
    job = Job(source, store, device, states, capture)
    with Stop(seconds) as stop, progress_of(progress) as live, Beacon(store.path) as live.beacon:
        say = partial(live.safely, live.say)
        resumed = {
            fleet: done
            for fleet, done in interrupted_fleets(store, undone, states, say).items()
            if not any(run.run_id in failed for run in fleet.runs)
        }
        in_resumed = {run.run_id for fleet in resumed for run in fleet.runs}
        fleets = [
            *resumed,
            *restore_fleets([run for run in missing if run.run_id not in in_resumed], planned.runs),
        ]
        executor = executors.choose(device, workers, fleets, engine, replace(wishes, stop=stop))
        live.expect(costs(plan, fleets), executor.lanes(fleets))
        live.start(fleets, {fleet.fleet_id: done for fleet, done in resumed.items()})
        for fleet, done in resumed.items():
            say(f"{fleet.label} continues after {done / fleet.steps:.0%} of its steps")

        def news(fleet: FleetSpec, done: int) -> None:
            live.news(fleet, done)
            stop.check()

        try:
            shared: list[FleetSpec] = []  # with other processes, which have claimed them
            while fleets:
                for ended in executor.train(fleets, job, news):
                    if isinstance(ended.error, Elsewhere):
                        shared.append(ended.fleet)
                        live.elsewhere(ended.fleet)
                    else:
                        _note(store, ended, outcome, live)
                    stop.check()
                fleets = _released(store, shared, outcome, live, stop)
        except Stopped as stopped:
            if stopped.code != Stop.TIME_IS_UP:
                raise
            outcome.stopped = stopped.why
    _forget_mended_failures(store)
    if not outcome.stopped and store.states():  # of fleets that were halved
        stored = store.done_runs()
        interrupted_fleets(
            store,
            [run for run in undone if run.run_id not in stored],
            states,
            say=lambda text: None,
        )
    return outcome


def _check_limits(every: float, fleet_size: int | None, **times: float | None) -> None:
    """Refuse times and sizes that are none."""
    if not isinstance(every, (int, float)) or not every >= 0:
        raise UserError(f"checkpoint_every is {every!r}; give a number of seconds, 0 or more")
    if fleet_size is not None and (type(fleet_size) is not int or fleet_size < 1):
        raise UserError(f"fleet_size is {fleet_size!r}; give 1 or more")
    for name, value in times.items():
        if value is not None and (not isinstance(value, (int, float)) or not value > 0):
            raise UserError(f"{name} is {value!r}; give a number of seconds above 0")


def _split_options(options: Mapping[str, Any]) -> tuple[dict[str, Any], How]:
    """Options of :func:`run` apart: what changes the spec, and what executors are told."""
    changes = {*Spec.model_fields, *PROBLEM_LISTS, "datasets"} - {"problems"}
    for name in options:
        if name not in {*changes, *How.options()}:
            raise unknown_name("option of run", name, {*changes, *How.options()})
    return (
        {name: value for name, value in options.items() if name in changes and value is not None},
        How.of(**{name: value for name, value in options.items() if name not in changes}),
    )


def _grouping(store: Folder, plan: Plan, asked: int | None, device: str) -> Planned:
    """The fleets of a folder: those it has, and for runs that it does not know, new ones."""
    kept = store.planned()
    if kept is not None and asked not in (None, kept.limit):
        size = "the networks' own size" if kept.limit is None else f"at most {kept.limit} runs"
        raise UserError(
            f"'{store.path}' has fleets of {size}, and what a run is trained with changes the rounding of its numbers: "
            f"leave --fleet-size {asked} away, or use another --out"
        )
    known = kept.runs if kept else {}
    new = [run for run in plan.runs if run.run_id not in known]
    if kept is not None and not new:
        return kept
    limit = kept.limit if kept else asked
    planned = Planned(known | to_planned(group(new, limit, device)), limit)
    try:
        store.keep_planned(planned, first=kept is None)
    except FileExistsError:  # somebody else was first just now
        return _grouping(store, plan, asked, device)
    return planned


def _note(store: Folder, ended: Ended, outcome: Outcome, live: Progress) -> None:
    """Count a fleet that ended, and note what broke it; a mistake that a user can put right ends the whole run."""
    fleet = ended.fleet
    if isinstance(ended.error, UserError):
        raise ended.error
    if ended.error is None:
        outcome.computed += len(fleet.runs)
        live.fleet_ends(fleet)
        return
    trouble = trouble_of(ended.error)
    before = [note for note in store.failures() if note["fleet"] == fleet.fleet_id]
    facts = asdict(trouble) | {
        "label": fleet.label,
        "attempt": int(before[0].get("attempt", 1)) + 1 if before else 1,
    }
    failure = Failure(**facts, fleet=fleet.fleet_id, runs=len(fleet.runs))
    del facts["memory"]
    runs, now = [run.run_id for run in fleet.runs], time.strftime("%Y-%m-%dT%H:%M:%S%z")
    store.write_failure(fleet.fleet_id, runs, trouble.reason, **facts, time=now)
    outcome.failures.append(failure)
    live.fleet_ends(fleet, failure.reason)


def _released(
    store: Folder, shared: list[FleetSpec], outcome: Outcome, live: Progress, stop: Stop
) -> list[FleetSpec]:
    """Wait for what other processes have claimed; return fleets that they gave up. ``shared`` keeps the others."""
    if shared:
        live.safely(
            live.say, f"{len(shared)} fleets are trained by other processes; waiting for them"
        )
    while shared:
        stop.check()
        claimed = store.claimed()
        released = [fleet for fleet in shared if fleet.claim not in claimed]
        if not released:
            time.sleep(POLL)
            continue
        shared[:] = [fleet for fleet in shared if fleet.claim in claimed]
        done, failed = store.done_runs(), store.failed()
        again = []
        for fleet in released:
            left = tuple(
                run for run in fleet.runs if run.run_id not in done and run.run_id not in failed
            )
            outcome.elsewhere += len(fleet.runs) - len(left)
            if left:
                again.append(FleetSpec(left, fleet.group))
            else:
                live.fleet_ends(fleet)
        if again:
            return again
    return []


def _forget_mended_failures(store: Folder) -> None:
    """Remove notes of failed fleets whose runs have been computed since, perhaps in other fleets."""
    notes = store.failures()
    done = store.done_runs() if notes else set()
    for note in notes:
        if set(note["runs"]) <= done:
            store.clear_failure(note["fleet"])
