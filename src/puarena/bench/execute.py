"""Run what is missing of a plan: draw the data, train fleet by fleet, keep each finished fleet as one shard."""

from __future__ import annotations

import json
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch

from puarena import __version__, data, fleet
from puarena.bench.plan import MAX_RUNS, FleetSpec, Plan, RunSpec, group, make_plan
from puarena.bench.progress import Progress, Silent
from puarena.bench.spec import Spec
from puarena.bench.store import Store
from puarena.errors import UserError

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


class DataSource:
    """The datasets of a plan and their PU draws, each loaded and drawn once."""

    def __init__(self, plan: Plan, folder: str | Path | None = None) -> None:
        self.datasets: dict[str, Dataset] = {name: data.load(source, folder) for name, source in plan.sources.items()}
        self.draw = lru_cache(maxsize=None)(self._draw)

    def _draw(self, problem: Problem, split: int) -> tuple[PUData, HiddenLabels]:
        return data.draw(self.datasets[problem.dataset], problem, split)

    def check(self, plan: Plan) -> None:
        """Draw everything before anything is trained, so that data that cannot be supplied is known at once."""
        for run in plan.runs:
            self.draw(run.problem, run.split)


def run(
    spec: Spec | Mapping[str, Any] | str | Path,
    out: str | Path,
    device: str = "auto",
    data: str | Path | None = None,  # a folder, not the room
    progress: Progress | None = None,
    max_runs: int | None = None,
) -> Outcome:
    """Run what is missing of a spec (or suite, or YAML file) into the results folder ``out``.

    A fleet that breaks off is noted with its reason and the others go on; call again to try the missing runs again.
    ``data`` is a folder that already has the datasets' files; ``max_runs`` caps the runs of one fleet.
    """
    device = choose_device(device)
    plan = make_plan(Spec.load(spec))
    source = DataSource(plan, data)
    source.check(plan)
    store = Store.create(out, plan.spec.to_dict(), plan.spec.hash())
    done = store.done_runs()
    missing = [run for run in plan.runs if run.run_id not in done]
    outcome = Outcome(Path(out), len(plan.runs), len(plan.runs) - len(missing), notes=plan.notes)
    fleets = group(missing, max_runs or MAX_RUNS[device])
    with progress or Silent() as live:
        live.start(fleets, found=outcome.found)
        for stack in fleets:
            live.fleet_starts(stack)
            try:
                frame = train_fleet(stack, source, device, live)
            except UserError:
                raise
            except Exception as error:
                failure = Failure(stack.fleet_id, stack.label, len(stack.runs), reason_of(error))
                store.write_failure(stack.fleet_id, [run.run_id for run in stack.runs], failure.reason)
                outcome.failures.append(failure)
                live.fleet_ends(stack, failure.reason)
                continue
            store.write_shard(stack.fleet_id, frame)
            outcome.computed += len(stack.runs)
            live.fleet_ends(stack)
    _forget_mended_failures(store)
    return outcome


def train_fleet(stack: FleetSpec, source: DataSource, device: str, live: Progress | None = None) -> pd.DataFrame:
    """Train one fleet and return its rows for the store; runs whose data differ in shape are trained apart."""
    rows = [make_row(run, source) for run in stack.runs]
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
        device=device,
    )
    frames = []
    for members in parts.values():
        runs = [stack.runs[index] for index in members]
        curves = fleet.train(
            [rows[index] for index in members],
            config,
            source.datasets[first.problem.dataset].features,
            on_record=live.follow(len(members)) if live else None,
        )
        frames.append(to_frame(stack.fleet_id, runs, [rows[index] for index in members], curves, device))
    return pd.concat(frames, ignore_index=True)


def make_row(run: RunSpec, source: DataSource) -> fleet.Row:
    """The fleet's view of one run."""
    pu, hidden = source.draw(run.problem, run.split)
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


def to_frame(
    fleet_id: str, runs: list[RunSpec], rows: list[fleet.Row], curves: fleet.Curves, device: str
) -> pd.DataFrame:
    """Curves as rows of the store: one per run and record."""
    records = len(curves.step)
    shared = {
        "step": curves.step,
        "phase": curves.phase,
        "selectable": curves.selectable,
        "seconds": np.asarray(curves.seconds) / len(runs),
    }
    frames = []
    for index, (run, row) in enumerate(zip(runs, rows, strict=True)):
        problem, stop = run.problem, int(curves.diverged[index])
        constant = {
            "run": run.run_id,
            "fleet": fleet_id,
            "dataset": problem.dataset,
            "case": problem.case,
            "setting": problem.setting,
            "rate": problem.rate,
            "prior": row.data.prior,
            "algorithm": run.algorithm,
            "profile": run.profile,
            "split": run.split,
            "config": run.config,
            "hyper": json.dumps({**dict(run.hyper), "momentum": run.momentum}, sort_keys=True),
            "lr": run.lr,
            "batch_size": run.batch_size,
            "network": run.network,
            "seed": run.seed,
            "n_p": len(row.data.p_train),
            "n_u": len(row.data.u_train),
            "status": "ok" if stop < 0 else f"diverged at step {stop}",
            "device": device,
            "version": __version__,
            "torch": str(torch.__version__),
        }
        values = {name: column[:, index] for name, column in curves.values.items()}
        frames.append(pd.DataFrame({**shared, **values}, index=range(records)).assign(**constant))
    return pd.concat(frames, ignore_index=True)


def reason_of(error: BaseException) -> str:
    """An unexpected error in one line: what it says, and where it happened."""
    place = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(place[-1].filename).name}, line {place[-1].lineno})" if place else ""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:500]}{where}"


def _forget_mended_failures(store: Store) -> None:
    """Remove notes of failed fleets whose runs have been computed since, perhaps in other fleets."""
    notes = store.failures()
    if notes:
        done = store.done_runs()
        for note in notes:
            if set(note["runs"]) <= done:
                store.clear_failure(note["fleet"])
