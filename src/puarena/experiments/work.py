"""Train one fleet and store its curves: what every executor has done, wherever it has it done."""

from __future__ import annotations

import time
import traceback
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import torch

from puarena import __version__, catalog
from puarena import training as engine
from puarena.errors import UserError
from puarena.experiments.classics import fit_classics
from puarena.experiments.data_source import DataSource
from puarena.experiments.failures import Broken, Elsewhere, trouble_of
from puarena.experiments.plan import FleetSpec, RunSpec
from puarena.experiments.resume import StateFile, StateFolder
from puarena.experiments.spec import load_plugins
from puarena.experiments.stop import Stopped
from puarena.results import OK, Folder

SHARED = (
    "batch_size",
    "steps",
    "warmup",
    "record_every",
    "network",
    "precision",
    "optimizer",
)  # by a fleet
BIAS = ("label_strength", "posterior_auc")  # of a draw whose labels are not given at random

Work: TypeAlias = Generator[int, None, None]  # yields the run-steps of its fleet that are behind
Training: TypeAlias = Generator[int, None, pd.DataFrame]  # the same, and returns rows of the store


@dataclass(frozen=True)
class Job:
    """What is the same for all fleets of a run; it can be sent to another process or machine.

    Whoever trains a fleet also stores it: nothing but news and errors goes back.
    """

    source: DataSource
    store: Folder
    device: str
    states: StateFolder
    capture: bool = True

    def prepare(self) -> None:
        """Register plugins and load the data, in a process that begins with this job."""
        load_plugins(self.source.plan.spec.plugins)
        _ = self.source.datasets

    def work(self, fleet: FleetSpec, in_flight: int = 1) -> Work:
        """Claim a fleet, train it, from where it was interrupted if it was, and store its shard.

        ``in_flight`` fleets share the device, and so the time that passes. Whoever closes this early, at a record, has
        the fleet's last state kept. What breaks the fleet comes as ``Broken``.
        """
        claim, began = self.store.claim(fleet.claim), time.monotonic()
        if claim is None:
            raise Elsewhere
        broken = None
        try:
            if self.store.has_shard(fleet.fleet_id):
                raise Elsewhere
            if catalog.get(fleet.first.algorithm).is_classic:
                frame = yield from _fit_classics(self, fleet)
            else:
                frame = yield from _train(self, fleet, in_flight)
            if claim.is_lost() and self.store.has_shard(fleet.fleet_id):
                raise Elsewhere
            self.store.write_shard(fleet.fleet_id, frame)
        except (UserError, Elsewhere, Stopped):
            raise
        except (
            Exception,
            SystemExit,
        ) as error:  # a plugin may exit, and nothing else may end with it
            broken = Broken(trouble_of(error, time.monotonic() - began))
            traceback.clear_frames(
                error.__traceback__
            )  # an error that is kept would keep the fleet in memory
        finally:
            claim.release()
        if broken is not None:
            raise broken


def _train(job: Job, fleet: FleetSpec, in_flight: int) -> Training:
    """Train runs by steps; those whose data differ in shape apart."""
    rows = [make_row(run, job.source) for run in fleet.runs]
    parts: dict[Any, list[int]] = {}
    for index, row in enumerate(rows):
        parts.setdefault(engine.shape_of(row), []).append(index)
    first = fleet.first
    shared = {name: getattr(first, name) for name in SHARED}
    config = engine.FleetConfig(
        **shared, **vars(first.views), device=job.device, capture=job.capture
    )
    file = StateFile(fleet, job.states)
    frames, before = [], 0
    for members in parts.values():
        part_rows = [rows[index] for index in members]
        part = engine.Fleet(
            part_rows, config, *job.source.features(first.problem.dataset, job.device)
        )
        file.begin(part)
        for step, total in part.segments():
            done = before + step * len(members)
            if step < total:
                file.record(part, done)
            try:
                yield done
            except GeneratorExit:
                file.keep(part, done)
                raise
        before += part.step * len(members)
        if before < fleet.steps:
            file.end(part)
        curves = part.log.curves()
        curves.seconds /= in_flight
        runs = [fleet.runs[index] for index in members]
        frames.append(to_frame(fleet.fleet_id, runs, part_rows, curves, job.device))
    return pd.concat(frames, ignore_index=True)


def _fit_classics(job: Job, fleet: FleetSpec) -> Training:
    """Fit the classics of a fleet one after the other; they are not trained by steps."""
    rows = [make_row(run, job.source) for run in fleet.runs]
    dataset = job.source.datasets[fleet.first.problem.dataset]
    frames = []
    for run, row, curves in zip(fleet.runs, rows, fit_classics(rows, dataset), strict=True):
        frames.append(to_frame(fleet.fleet_id, [run], [row], curves, "cpu"))
        yield len(frames) * run.steps
    return pd.concat(frames, ignore_index=True)


def make_row(run: RunSpec, source: DataSource) -> engine.Row:
    """The fleet's view of one run."""
    pu, hidden = source.draw_for(run)
    return engine.Row(
        run.algorithm, pu, hidden, run.seed, run.lr, run.momentum, dict(run.hyper), run.calibration
    )


def run_columns(run: RunSpec, row: engine.Row) -> dict[str, Any]:
    """What the store says about a run as a whole: its problem, its method as the catalog has it, its choices."""
    entry = catalog.get(run.algorithm)
    return {
        **run.columns(),
        **{name: getattr(entry, name) for name in catalog.METHOD_COLUMNS},
        "prior_used": row.data.prior,
        "n_p": len(row.data.p_train),
        "n_u": len(row.data.u_train),
        "version": __version__,
        "torch": str(torch.__version__),
        **{
            f"val_{name}": getattr(row.hidden.bias, name)
            for name in BIAS
            if row.hidden.bias is not None
        },
    }


def to_frame(
    fleet_id: str, runs: list[RunSpec], rows: list[engine.Row], curves: engine.Curves, device: str
) -> pd.DataFrame:
    """Curves as rows of the store: one per run and record, run by run."""
    constant = pd.DataFrame([run_columns(run, row) for run, row in zip(runs, rows, strict=True)])
    constant["status"] = [
        OK if step < 0 else f"diverged at step {step}" for step in curves.diverged.tolist()
    ]
    frame = constant.loc[np.repeat(np.arange(len(runs)), len(curves.step))].reset_index(drop=True)
    shared = {
        "step": curves.step,
        "phase": np.array(curves.phase, dtype=object),
        "selectable": curves.selectable,
        "seconds": np.asarray(curves.seconds) / len(runs),
    }
    columns = {name: np.tile(values, len(runs)) for name, values in shared.items()}
    columns.update({name: values.T.reshape(-1) for name, values in curves.values.items()})
    return frame.assign(fleet=fleet_id, device=device, **columns)
