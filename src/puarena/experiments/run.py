"""Run what is missing of a spec: plan it, have an executor train its fleets, note what failed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from puarena import catalog
from puarena.errors import UserError, unknown_name
from puarena.experiments import executors, suites
from puarena.experiments.checkpoints import (
    CHECKPOINT_SECONDS,
    CheckpointFolder,
    find_interrupted,
)
from puarena.experiments.data_source import DataSource
from puarena.experiments.executors.base import Executor, ExecutorOptions
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
from puarena.experiments.progress import Progress, choose_progress
from puarena.experiments.spec import PROBLEM_LISTS, Spec
from puarena.experiments.stop import Stop, Stopped
from puarena.experiments.worker import Failure, Job
from puarena.results import Folder
from puarena.results.planned import Planned
from puarena.utils.notebook import html_table

CLAIM_SECONDS = 1.0  # between two looks at what other processes train


@dataclass
class Outcome:
    """What a call of :func:`run` did."""

    out: Path
    planned: int
    stored: int = 0  # runs that were in the folder before
    computed: int = 0
    elsewhere: int = 0  # runs that other processes computed meanwhile
    failures: list[Failure] = field(default_factory=list)
    failed_before: int = 0  # runs that failed before and were not tried again
    stopped: str = ""  # why it ended early, if it did
    notes: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        """Return the counts and the failures as a table for a notebook."""
        always = {"planned": self.planned, "computed": self.computed}
        others = {
            "there already": self.stored,
            "computed elsewhere": self.elsewhere,
            "failed": sum(failure.runs for failure in self.failures),
            "failed before": self.failed_before,
        }
        counts = always | {what: count for what, count in others.items() if count}
        lines = [(what, f"{count:,}") for what, count in counts.items()]
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
    checkpoint_every: float = CHECKPOINT_SECONDS,
    engine: str | None = None,
    retry_failed: bool = False,
    seconds: float | None = None,
    only: Callable[[RunSpec], bool] | None = None,
    **options: Any,
) -> Outcome:
    """Run what is missing of a spec (or suite, or YAML file) into the results folder ``out``.

    A fleet that fails is noted with its reason and the others continue. Several processes and
    machines can run one spec into one folder: they share the work. An interrupted run continues
    from the checkpoints of its fleets, one every ``checkpoint_every`` seconds.

    ``data`` is a folder that already has the datasets' files. ``fleet_size`` is the largest number
    of runs in a fleet, fixed for a results folder; ``workers`` the number of fleets trained in
    parallel, and ``engine`` an executor (None: chosen automatically). ``capture`` replays captured
    steps on a GPU. ``retry_failed`` tries fleets again that failed before. After ``seconds`` it
    stops. ``only`` selects among the missing runs; the others stay missing. ``progress`` shows the
    progress (False: nothing), or is an object of a subclass of
    :class:`~puarena.experiments.progress.Progress`. ``options`` are changes of the spec as
    :meth:`Spec.override` takes them (``steps=100, algorithms=["nnpu"]``), and options of executors
    (:class:`~puarena.experiments.executors.base.ExecutorOptions`).

    The :class:`Outcome` has the numbers of runs that were ``planned``, ``stored`` (before) and
    ``computed``, the ``failures``, each with its ``reason``, and ``notes`` on what was left out.
    """
    if not isinstance(out, (str, Path)) or not str(out):
        message = f"out is {out!r}; give a folder for the results, such as out='results'"
        raise UserError(message, "invalid-value")
    _check_limits(checkpoint_every, fleet_size, seconds, options.get("fleet_timeout"))
    changes, own_options = _split_options(options)
    own_options = replace(own_options, workers=workers)
    device = choose_device(device, executors.uses_other_machines(engine, own_options))
    plan = make_plan(suites.load(spec).override(**changes), data)
    # Everything that can be wrong is refused before the folder is written.
    fleets = group(plan.runs, fleet_size, device)
    executor = executors.choose(device, fleets, engine, own_options)
    source = DataSource(plan, data)
    source.check()
    revisions = source.revisions()
    spec_hash = plan.spec.hash(revisions)
    methods = [info.to_json() for info in catalog.collect(plan.spec.algorithms)]
    about = {"revisions": revisions, "methods": methods, **describe_environment(device)}
    store = Folder.create(out, plan.spec.to_dict(), spec_hash, **about)
    planned = _keep_fleets(store, plan, fleet_size, device)
    checkpoints = CheckpointFolder(store.path / "progress", spec_hash, device, checkpoint_every)
    job = Job(source, store, device, checkpoints, capture)
    outcome = Outcome(Path(out), len(plan.runs), notes=plan.notes)
    undone, missing = _find_missing(store, plan, outcome, retry_failed, only)
    for each in missing:  # priors are estimated here, for all processes that train
        source.draw_for(each)
    with Stop(seconds) as stop, choose_progress(progress) as display:
        resumed = find_interrupted(store, undone, checkpoints, display.message)
        fleets = _order_fleets(missing, resumed, planned, display)
        try:
            _train(executor, fleets, job, outcome, display, stop)
        except Stopped as stopped:
            if stopped.code != Stop.TIME_IS_UP:
                raise
            outcome.stopped = stopped.reason
    _remove_outdated(store, plan, checkpoints)
    with suppress(UserError):  # such as a full disk; everything is stored
        store.compact()
    return outcome


def _check_limits(checkpoint_every: Any, fleet_size: Any, seconds: Any, fleet_timeout: Any) -> None:
    """Refuse times and sizes that are not positive numbers."""
    if not isinstance(checkpoint_every, (int, float)) or not checkpoint_every >= 0:
        message = f"checkpoint_every is {checkpoint_every!r}; give a number of seconds, 0 or more"
        raise UserError(message, "invalid-value")
    if fleet_size is not None and (type(fleet_size) is not int or fleet_size < 1):
        raise UserError(f"fleet_size is {fleet_size!r}; give 1 or more", "invalid-value")
    for name, value in (("seconds", seconds), ("fleet_timeout", fleet_timeout)):
        if value is not None and (not isinstance(value, (int, float)) or not value > 0):
            message = f"{name} is {value!r}; give a number of seconds above 0"
            raise UserError(message, "invalid-value")


def _split_options(options: Mapping[str, Any]) -> tuple[dict[str, Any], ExecutorOptions]:
    """Return the options of :func:`run` that change the spec, and those of executors."""
    known = {*Spec.model_fields, *PROBLEM_LISTS, "datasets"} - {"problems"}
    changes, others = {}, {}
    for name, value in options.items():
        if name in ExecutorOptions.names():
            others[name] = value
        elif name not in known:
            raise unknown_name("option of run", name, {*known, *ExecutorOptions.names()})
        elif value is not None:
            changes[name] = value
    return changes, ExecutorOptions.of(**others)


def _keep_fleets(store: Folder, plan: Plan, fleet_size: int | None, device: str) -> Planned:
    """Return the planned fleets of a folder; add fleets for runs that it does not know.

    A folder is grouped into fleets once: what a run is trained with changes the rounding of its
    numbers.
    """
    kept = store.planned()
    if kept is not None and fleet_size not in (None, kept.limit):
        size = "the networks' own size" if kept.limit is None else f"at most {kept.limit} runs"
        raise UserError(
            f"'{store.path}' has fleets of {size}, and what a run is trained with changes the "
            f"rounding of its numbers; leave out --fleet-size {fleet_size}, or use another --out",
            "conflict",
        )
    known = kept.runs if kept else {}
    new = [run for run in plan.runs if run.run_id not in known]
    if kept is not None and not new:
        return kept
    limit = kept.limit if kept else fleet_size
    planned = Planned(known | to_planned(group(new, limit, device)), limit)
    try:
        store.keep_planned(planned, first=kept is None)
    except FileExistsError:
        # Another process was faster.
        return _keep_fleets(store, plan, fleet_size, device)
    return planned


def _find_missing(
    store: Folder,
    plan: Plan,
    outcome: Outcome,
    retry_failed: bool,
    only: Callable[[RunSpec], bool] | None,
) -> tuple[list[RunSpec], list[RunSpec]]:
    """Return the runs that are not stored, and those of them that are to be trained now."""
    stored = store.done_runs()
    failed = {} if retry_failed else store.failed()
    undone = [run for run in plan.runs if run.run_id not in stored]
    missing = [run for run in undone if run.run_id not in failed]
    outcome.stored = len(plan.runs) - len(undone)
    outcome.failed_before = len(undone) - len(missing)
    if only is not None:
        missing = [run for run in missing if only(run)]
    return undone, missing


def _order_fleets(
    missing: Sequence[RunSpec],
    resumed: Mapping[FleetSpec, int],
    planned: Planned,
    display: Progress,
) -> list[FleetSpec]:
    """Return the fleets to train, those with checkpoints first, and start the display."""
    left = {run.run_id: run for run in missing}
    steps_done = {}
    for fleet, steps in resumed.items():
        if all(run.run_id in left for run in fleet.runs):
            steps_done[fleet] = steps
            for run in fleet.runs:
                del left[run.run_id]
    fleets = [*steps_done, *restore_fleets(left.values(), planned.runs)]
    display.start(fleets, {fleet.fleet_id: steps for fleet, steps in steps_done.items()})
    for fleet, steps in steps_done.items():
        display.message(f"{fleet.label} continues after {steps / fleet.steps:.0%} of its steps")
    return fleets


def _train(
    executor: Executor,
    fleets: Sequence[FleetSpec],
    job: Job,
    outcome: Outcome,
    display: Progress,
    stop: Stop,
) -> None:
    """Train fleets until each of them is stored or failed, here or by another process."""
    taken: list[FleetSpec] = []  # by other processes
    while fleets:
        with closing(executor.train(fleets, job)) as updates:
            for update in updates:
                if update is None:
                    pass
                elif not update.ending:
                    display.record(update.fleet, update.steps)
                elif update.ending == "taken":
                    taken.append(update.fleet)
                elif update.failure is None:
                    outcome.computed += len(update.fleet.runs)
                    display.end(update.fleet)
                else:
                    failure = _note_failure(job.store, update.fleet, update.failure)
                    outcome.failures.append(failure)
                    display.end(update.fleet, failure.reason)
                stop.check()
        fleets = _wait_for_others(job.store, taken, outcome, display, stop)


def _note_failure(store: Folder, fleet: FleetSpec, failure: Failure) -> Failure:
    """Write down why a fleet failed; return the failure with the number of this attempt."""
    for note in store.failures():
        if note.fleet == fleet.fleet_id:
            failure = replace(failure, attempt=note.attempt + 1)
    facts = asdict(failure)
    for name in ("fleet", "runs", "out_of_memory"):
        del facts[name]
    now = time.strftime("%Y-%m-%dT%H:%M:%S%z")
    runs = [run.run_id for run in fleet.runs]
    store.write_failure(fleet.fleet_id, runs, failure.reason, **facts, time=now)
    return failure


def _wait_for_others(
    store: Folder, taken: list[FleetSpec], outcome: Outcome, display: Progress, stop: Stop
) -> list[FleetSpec]:
    """Wait for the fleets that other processes train, until they are done or given up.

    Return those that were given up; ``taken`` keeps the ones that are still in training.
    """
    if taken:
        display.message(f"{len(taken)} fleets are trained by other processes; waiting for them")
    while taken:
        stop.check()
        claimed = store.claimed()
        free = [fleet for fleet in taken if fleet.claim not in claimed]
        if not free:
            time.sleep(CLAIM_SECONDS)
            continue
        taken[:] = [fleet for fleet in taken if fleet.claim in claimed]
        ended = store.done_runs() | set(store.failed())
        given_up = []
        for fleet in free:
            left = tuple(run for run in fleet.runs if run.run_id not in ended)
            outcome.elsewhere += len(fleet.runs) - len(left)
            if left:
                given_up.append(FleetSpec(left, fleet.claim))
            else:
                display.end(fleet)
        if given_up:
            return given_up
    return []


def _remove_outdated(store: Folder, plan: Plan, checkpoints: CheckpointFolder) -> None:
    """Remove the notes of failed fleets whose runs are stored by now, and their checkpoints.

    They may have been stored in other fleets: the halves of one that did not fit in memory.
    """
    notes, states = store.failures(), store.states()
    if not notes and not states:
        return
    done = store.done_runs()
    for note in notes:
        if set(note.runs) <= done:
            store.clear_failure(note.fleet)
    missing = [run for run in plan.runs if run.run_id not in done]
    find_interrupted(store, missing, checkpoints, report=lambda text: None)
