"""Run what is missing of a plan: draw the data, train fleet by fleet, keep each finished fleet as one shard."""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch

from puarena import __version__, catalogue, data, fleet
from puarena.bench.beacon import Beacon
from puarena.bench.classics import curves_of
from puarena.bench.estimated_prior import Estimates, with_prior
from puarena.bench.executors import workers as crew
from puarena.bench.plan import FleetSpec, Plan, RunSpec, group, make_plan
from puarena.bench.progress import Progress, Silent
from puarena.bench.resume import EVERY, Keeper, Place, interrupted
from puarena.bench.spec import ESTIMATE, Spec
from puarena.errors import UserError
from puarena.store import Folder

if TYPE_CHECKING:
    from puarena.data import Dataset, HiddenLabels, Problem, PUData


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
    found: int  # runs that were there already
    computed: int = 0
    failures: list[Failure] = field(default_factory=list)
    notes: tuple[str, ...] = ()


def choose_device(device: str = "auto") -> str:
    """``auto`` is the GPU where there is one; a GPU that is not there is a clear error."""
    if device not in {"auto", "cpu", "cuda"}:
        raise UserError(f"the device is '{device}'; choose one of: auto, cpu, cuda")
    available = torch.cuda.is_available()
    if device == "cuda" and not available:
        raise UserError("there is no CUDA device on this machine; use --device cpu")
    return "cuda" if device != "cpu" and available else "cpu"


@dataclass(frozen=True)
class Settings:
    """How to train, which changes no number.

    The device, where states are kept, fleets side by side (None: what pays), captured steps.
    """

    device: str
    place: Place
    workers: int | None = None
    capture: bool = True


class DataSource:
    """The datasets of a plan and their PU draws, each loaded and drawn once."""

    def __init__(self, plan: Plan, folder: str | Path | None = None, estimates: Estimates | None = None) -> None:
        self.datasets: dict[str, Dataset] = {name: data.load(source, folder) for name, source in plan.sources.items()}
        self.draw = lru_cache(maxsize=None)(self._draw)
        self.estimates = Estimates() if estimates is None else estimates
        self.features = lru_cache(maxsize=None)(self._features)

    def _draw(self, problem: Problem, split: int, salt: str) -> tuple[PUData, HiddenLabels]:
        return data.draw(self.datasets[problem.dataset], problem, split, salt)

    def _features(self, dataset: str, device: str) -> tuple[torch.Tensor, torch.Tensor | None]:
        """A dataset's features on a device, and as evaluation sees them where that differs by more than a view."""
        found = self.datasets[dataset]
        features = torch.as_tensor(found.features).to(device)
        evaluation = None if found.evaluation is None else torch.as_tensor(found.evaluation).to(device)
        if device == "cuda":
            torch.cuda.synchronize()  # fleets read them from streams of their own
        return features, evaluation

    def told(self, run: RunSpec) -> tuple[PUData, HiddenLabels]:
        """A run's data with the prior it is told: the true one or an estimate, made once per draw."""
        pu, hidden = self.draw(run.problem, run.split, run.salt)
        prior = self.estimates.of(run, self.datasets[run.problem.dataset], pu)
        return (pu if prior is None else with_prior(pu, prior)), hidden

    def check(self, plan: Plan) -> None:
        """Draw everything before anything is trained, so that data that cannot be supplied is known at once."""
        for run in plan.runs:
            self.draw(run.problem, run.split, run.salt)


def run(
    spec: Spec | Mapping[str, Any] | str | Path,
    out: str | Path,
    device: str = "auto",
    data: str | Path | None = None,  # a folder, not the room
    progress: Progress | None = None,
    max_runs: int | None = None,
    workers: int | None = None,
    capture: bool = True,
    checkpoint_every: float = EVERY,
) -> Outcome:
    """Run what is missing of a spec (or suite, or YAML file) into the results folder ``out``.

    A fleet that breaks off is noted with its reason and the others go on; call again to try the missing runs again.
    ``data`` is a folder that already has the datasets' files; ``max_runs`` caps the runs of one fleet; ``workers`` is
    the number of fleets trained side by side; ``capture`` replays captured steps on a GPU. Every ``checkpoint_every``
    seconds a fleet keeps its state in ``out``; after an interruption it goes on from there.
    """
    device = choose_device(device)
    if not checkpoint_every >= 0:
        raise UserError(f"states are to be kept every {checkpoint_every} seconds; give 0 or more")
    plan = make_plan(Spec.load(spec))
    source = DataSource(plan, data)
    source.check(plan)
    store = Folder.create(out, plan.spec.to_dict(), plan.spec.hash())
    stored = store.done_runs()
    missing = [run for run in plan.runs if run.run_id not in stored]
    outcome = Outcome(Path(out), len(plan.runs), len(plan.runs) - len(missing), notes=plan.notes)
    settings = Settings(device, Place(store.path / "progress", store.spec_hash, checkpoint_every), workers, capture)
    for each in missing:
        source.told(each)  # estimates of the prior are made here, once, and handed to the workers
    with progress or Silent() as live, Beacon(store.path) as live.beacon:
        begun = interrupted(store, missing, settings.place, device, max_runs, live.say)
        taken = {run.run_id for stack in begun for run in stack.runs}
        fleets = [*begun, *group([run for run in missing if run.run_id not in taken], max_runs, device)]
        live.start(fleets, outcome.found, {stack.fleet_id: done for stack, done in begun.items()})
        for stack, done in begun.items():
            live.say(f"{stack.label} goes on after {done / stack.steps:.0%} of its steps")
        for stack, result in _train_all(fleets, plan, data, source, settings, live):
            if isinstance(result, UserError):
                raise result
            if isinstance(result, Exception):
                failure = Failure(stack.fleet_id, stack.label, len(stack.runs), reason_of(result))
                store.write_failure(stack.fleet_id, [run.run_id for run in stack.runs], failure.reason)
                outcome.failures.append(failure)
                live.fleet_ends(stack, failure.reason)
            else:
                store.write_shard(stack.fleet_id, result)
                outcome.computed += len(stack.runs)
                live.fleet_ends(stack)
    _forget_mended_failures(store)
    if store.states():  # of fleets that were halved
        stored = store.done_runs()
        left = [run for run in missing if run.run_id not in stored]
        interrupted(store, left, settings.place, device, max_runs, say=lambda text: None)
    return outcome


def _train_all(
    fleets: list[FleetSpec],
    plan: Plan,
    folder: str | Path | None,
    source: DataSource,
    settings: Settings,
    live: Progress,
) -> Iterator[crew.Ended]:
    """Train fleets where and how the settings say; yield each with its rows, or with what broke it."""
    thin, wide = ([stack for stack in fleets if stack.fills_gpu is kind] for kind in (False, True))
    if settings.device == "cuda" and thin and wide:  # those that fill the device on their own come last
        return chain(*(_train_all(part, plan, folder, source, settings, live) for part in (thin, wide)))
    at_once = crew.choose_workers(settings.workers, fleets, settings.device)
    settings = replace(settings, workers=at_once)
    trainer = partial(fleet_work, source=source, settings=settings)
    if settings.device == "cuda":
        return crew.on_streams(fleets, trainer, live.news, at_once)
    if at_once > 1 and len(fleets) > 1:
        make = partial(make_trainer, plan, folder, settings, source.estimates)
        return crew.in_processes(fleets, make, live.news, at_once)
    return crew.one_by_one(fleets, trainer, live.news)


def make_trainer(
    plan: Plan, folder: str | Path | None, settings: Settings, estimates: Estimates | None = None
) -> crew.Trainer:
    """What a worker process starts with: plugins registered, data loaded."""
    plan.spec.resolve()
    return partial(fleet_work, source=DataSource(plan, folder, estimates), settings=settings)


def fleet_work(stack: FleetSpec, source: DataSource, settings: Settings) -> crew.Work:
    """Train one fleet, yielding run-steps done at its records; return its rows for the store.

    Runs whose data differ in shape are trained apart. A fleet that was interrupted goes on from its last state.
    """
    rows = [make_row(run, source) for run in stack.runs]
    if catalogue.get(stack.first.algorithm).fits:
        return (yield from classic_work(stack, rows, source))
    parts: dict[Any, list[int]] = {}
    for index, row in enumerate(rows):
        parts.setdefault(fleet.shape_of(row), []).append(index)
    first = stack.first
    config = fleet.FleetConfig(
        batch_size=first.batch_size,
        steps=first.steps,
        warmup=first.warmup,
        record_every=first.record_every,
        network=first.network,
        device=settings.device,
        capture=settings.capture,
        weak=first.views.weak,
        strong=first.views.strong,
        evaluation=first.views.evaluation,
        precision=first.precision,
    )
    keeper = Keeper(stack, settings.place, settings.device)
    frames, before = [], 0
    for members in parts.values():
        mine = [rows[index] for index in members]
        part = fleet.Fleet(mine, config, *source.features(first.problem.dataset, settings.device))
        keeper.begin(part)
        for step, total in part.segments():
            done = before + step * len(members)
            if step < total:
                keeper.record(part, done)
            yield done
        before += part.step * len(members)
        if before < stack.steps:
            keeper.end(part)
        runs = [stack.runs[index] for index in members]
        curves = part.log.curves()
        if settings.device == "cuda":  # fleets in flight share the device
            curves.seconds /= settings.workers or 1
        frames.append(to_frame(stack.fleet_id, runs, mine, curves, settings.device))
    return pd.concat(frames, ignore_index=True)


def classic_work(stack: FleetSpec, rows: list[fleet.Row], source: DataSource) -> crew.Work:
    """Fit the classics of a stack one after the other; they are not trained by steps."""
    dataset = source.datasets[stack.first.problem.dataset]
    frames = []
    for run, row, curves in zip(stack.runs, rows, curves_of(rows, dataset), strict=True):
        frames.append(to_frame(stack.fleet_id, [run], [row], curves, "cpu"))
        yield len(frames) * run.steps
    return pd.concat(frames, ignore_index=True)


def make_row(run: RunSpec, source: DataSource) -> fleet.Row:
    """The fleet's view of one run."""
    pu, hidden = source.told(run)
    return fleet.Row(
        algorithm=run.algorithm,
        data=pu,
        hidden=hidden,
        seed=run.seed,
        lr=run.lr,
        momentum=run.momentum,
        hyper=dict(run.hyper),
        calibration=run.calibration or "weighted",
    )


def run_columns(run: RunSpec, row: fleet.Row) -> dict[str, Any]:
    """What the store says about a run as a whole: its problem, its method as the catalogue has it, its choices."""
    entry = catalogue.get(run.algorithm)
    return {
        "run": run.run_id,
        "dataset": run.problem.dataset,
        "case": run.problem.case,
        "setting": run.problem.setting,
        "labelling": run.problem.labelling,
        "rate": run.problem.rate,
        "prior": run.problem.prior,
        "algorithm": run.algorithm,
        **{fact: getattr(entry, fact) for fact in ("base", "calibrated", "variant", "frame", "supervised")},
        "profile": run.profile,
        "prior_source": run.prior_source.removeprefix(ESTIMATE),
        "prior_used": row.data.prior,
        "split": run.split,
        "config": run.config,
        "hyper": json.dumps({**dict(run.hyper), "momentum": run.momentum}, sort_keys=True),
        "lr": run.lr,
        "batch_size": run.batch_size,
        "network": run.network,
        "precision": run.precision,
        "seed": run.seed,
        "n_p": len(row.data.p_train),
        "n_u": len(row.data.u_train),
    }


def to_frame(
    fleet_id: str, runs: list[RunSpec], rows: list[fleet.Row], curves: fleet.Curves, device: str
) -> pd.DataFrame:
    """Curves as rows of the store: one per run and record, run by run."""
    records = len(curves.step)
    constant = [
        {
            **run_columns(run, row),
            "fleet": fleet_id,
            "status": "ok" if stop < 0 else f"diverged at step {stop}",
            "device": device,
            "version": __version__,
            "torch": str(torch.__version__),
        }
        for run, row, stop in zip(runs, rows, curves.diverged.tolist(), strict=True)
    ]
    frame = pd.DataFrame(constant).loc[np.repeat(np.arange(len(runs)), records)].reset_index(drop=True)
    shared = {
        "step": curves.step,
        "phase": np.array(curves.phase, dtype=object),
        "selectable": curves.selectable,
        "seconds": np.asarray(curves.seconds) / len(runs),
    }
    columns = {name: np.tile(values, len(runs)) for name, values in shared.items()}
    columns.update({name: values.T.reshape(-1) for name, values in curves.values.items()})
    return frame.assign(**columns)


def reason_of(error: BaseException) -> str:
    """An unexpected error in one line: what it says, and where it happened."""
    place = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(place[-1].filename).name}, line {place[-1].lineno})" if place else ""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:500]}{where}"


def _forget_mended_failures(store: Folder) -> None:
    """Remove notes of failed fleets whose runs have been computed since, perhaps in other fleets."""
    notes = store.failures()
    if notes:
        done = store.done_runs()
        for note in notes:
            if set(note["runs"]) <= done:
                store.clear_failure(note["fleet"])
