"""Train one fleet and store its curves: what every executor runs, wherever it runs it."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import pandas as pd
import torch

from puarena import __version__, catalog, metrics
from puarena import training as engine
from puarena.datasets import Dataset
from puarena.errors import UserError
from puarena.experiments.checkpoints import Checkpoint, CheckpointFolder
from puarena.experiments.data_source import DataSource
from puarena.experiments.plan import FleetSpec, RunSpec
from puarena.experiments.spec import load_plugins
from puarena.results import OK, Folder
from puarena.training.capture import is_out_of_memory
from puarena.utils.processes import HOST

FLEET_FIELDS = (  # of a run, the same for all runs of a fleet
    "batch_size",
    "steps",
    "warmup",
    "record_every",
    "network",
    "precision",
    "optimizer",
)
TIE = 1e-12  # a score of 0 is negative for classics, and would be positive for the metrics
BIAS_COLUMNS = ("label_strength", "posterior_auc")  # of a draw whose labels are biased


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Why a fleet could not be finished: the error, where it happened and after how long."""

    fleet: str
    label: str
    runs: int
    exception: str
    message: str
    place: str = ""  # file and line
    machine: str = HOST
    seconds: float = 0.0
    out_of_memory: bool = False
    attempt: int = 1

    @property
    def reason(self) -> str:
        """The error in one line."""
        place = f" ({self.place})" if self.place else ""
        return f"{self.exception}: {self.message}{place}"


@dataclass(frozen=True)
class FleetUpdate:
    """News of a fleet: how many run-steps are done, and how it ended if it did.

    ``taken`` means that another process has claimed or stored the fleet.
    """

    fleet: FleetSpec
    steps: int = 0
    ending: Literal["", "stored", "failed", "taken"] = ""
    failure: Failure | None = None


Training: TypeAlias = Generator[FleetUpdate, None, pd.DataFrame]  # returns rows of the store


def failed(
    fleet: FleetSpec, exception: str, message: str, seconds: float = 0.0, **facts: Any
) -> FleetUpdate:
    """Return the update of a fleet that failed."""
    failure = Failure(
        fleet=fleet.fleet_id,
        label=fleet.label,
        runs=len(fleet.runs),
        exception=exception,
        message=" ".join(message.split())[:500],
        seconds=round(seconds, 3),
        **facts,
    )
    return FleetUpdate(fleet, ending="failed", failure=failure)


@dataclass(frozen=True)
class Job:
    """What all fleets of a run have in common; it can be sent to another process or machine."""

    source: DataSource
    store: Folder
    device: str
    checkpoints: CheckpointFolder
    capture: bool = True

    def prepare(self) -> None:
        """Register plugins and load the data, in a process that starts with this job."""
        load_plugins(self.source.plan.spec.plugins)
        _ = self.source.datasets

    def train(self, fleet: FleetSpec, in_flight: int = 1) -> Generator[FleetUpdate, None, None]:
        """Claim a fleet, train it from its checkpoint or from the beginning, and store its shard.

        Yields an update at every record and a last one with an ending. Closing the iterator at a
        record saves a checkpoint. ``in_flight`` fleets share the device, and so the time.
        """
        claim, began = self.store.claim(fleet.claim, *fleet.part), time.monotonic()
        if claim is None:
            yield FleetUpdate(fleet, ending="taken")
            return
        try:
            ended = yield from self._train_claimed(fleet, in_flight, claim.is_lost)
        except UserError:
            raise
        # A plugin may call sys.exit; only its own fleet ends with it.
        except (Exception, SystemExit) as error:
            ended = _failed_with(error, fleet, time.monotonic() - began)
            # The frames would keep the fleet's tensors in memory.
            traceback.clear_frames(error.__traceback__)
        finally:
            claim.release()
        yield ended

    def _train_claimed(
        self, fleet: FleetSpec, in_flight: int, is_lost: Callable[[], bool]
    ) -> Generator[FleetUpdate, None, FleetUpdate]:
        """Train a claimed fleet and store it unless another process has; return the ending."""
        if self.store.has_shard(fleet.fleet_id):
            return FleetUpdate(fleet, ending="taken")
        if catalog.get(fleet.first.algorithm).is_classic:
            frame = yield from fit_one_by_one(self, fleet)
        else:
            frame = yield from train_by_steps(self, fleet, in_flight)
        if is_lost() and self.store.has_shard(fleet.fleet_id):
            return FleetUpdate(fleet, ending="taken")
        self.store.write_shard(fleet.fleet_id, frame)
        return FleetUpdate(fleet, fleet.steps, "stored")


def _failed_with(error: BaseException, fleet: FleetSpec, seconds: float) -> FleetUpdate:
    """Describe an unexpected error."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f"{Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else ""
    name, memory = type(error).__name__, is_out_of_memory(error)
    return failed(fleet, name, str(error), seconds, place=place, out_of_memory=memory)


def train_by_steps(job: Job, fleet: FleetSpec, in_flight: int) -> Training:
    """Train the runs of a fleet by steps; runs whose data differ in shape are trained apart."""
    rows = [make_row(run, job.source) for run in fleet.runs]
    parts: dict[Any, list[int]] = {}
    for index, row in enumerate(rows):
        parts.setdefault(engine.shape_of(row), []).append(index)
    first = fleet.first
    shared = {name: getattr(first, name) for name in FLEET_FIELDS}
    views = vars(first.views)
    config = engine.FleetConfig(**shared, **views, device=job.device, capture=job.capture)
    checkpoint = Checkpoint(fleet, job.checkpoints)
    frames, before = [], 0
    for members in parts.values():
        part_rows = [rows[index] for index in members]
        features = job.source.features(first.problem.dataset, job.device)
        part = engine.Fleet(part_rows, config, *features)
        checkpoint.restore(part)
        for step, last in part.segments():
            steps = before + step * len(members)
            if step < last:
                checkpoint.save_if_due(part, steps)
            try:
                yield FleetUpdate(fleet, steps)
            except GeneratorExit:
                checkpoint.save(part, steps)
                raise
        before += part.step * len(members)
        if before < fleet.steps:
            checkpoint.finish(part)
        curves = part.log.curves()
        curves.seconds /= in_flight
        runs = [fleet.runs[index] for index in members]
        frames.append(to_frame(fleet.fleet_id, runs, part_rows, curves, job.device))
    return pd.concat(frames, ignore_index=True)


def fit_one_by_one(job: Job, fleet: FleetSpec) -> Training:
    """Fit the classics of a fleet one after the other."""
    rows = [make_row(run, job.source) for run in fleet.runs]
    dataset = job.source.datasets[fleet.first.problem.dataset]
    frames = []
    for run, row in zip(fleet.runs, rows, strict=True):
        curves = fit_classic(row, dataset)
        frames.append(to_frame(fleet.fleet_id, [run], [row], curves, "cpu"))
        yield FleetUpdate(fleet, len(frames) * run.steps)
    return pd.concat(frames, ignore_index=True)


def fit_classic(row: engine.Row, dataset: Dataset) -> engine.Curves:
    """Fit a classic on the CPU; return a curve of a single record."""
    began = time.perf_counter()
    values = fit_and_evaluate(row, dataset)
    finite = all(np.isfinite(value) for value in values.values())
    records = {name: np.array([[value]]) for name, value in values.items()}
    return engine.Curves(
        step=np.array([1]),
        phase=["fit"],
        selectable=np.array([True]),
        seconds=np.array([time.perf_counter() - began]),
        values={"loss": np.full((1, 1), np.nan), **records},
        diverged=np.array([-1 if finite else 1]),
    )


def fit_and_evaluate(row: engine.Row, dataset: Dataset) -> dict[str, float]:
    """Fit a run's estimator to its training data; return criteria and test metrics."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    entry = catalog.get(row.algorithm)
    data, hidden = row.data, row.hidden
    x = dataset.table(np.concatenate([data.p_train, data.u_train]))
    s = np.repeat([1, 0], [len(data.p_train), len(data.u_train)])
    with threadpool_limits(1):
        priors = data.prior, data.shifted_prior
        model = entry.make_estimator(row.seed, *priors, data.setting.title).fit(x, s)
        scores = [
            torch.from_numpy(model.decision_function(dataset.table(index)) - TIE)[None]
            for index in (data.p_val, data.u_val, data.test)
            if len(index)
        ]
    p, u, *test = scores
    chances = hidden.propensity_val
    validation = metrics.Validation(
        p,
        u,
        p,
        u,
        torch.tensor([data.prior], dtype=torch.float64),
        torch.tensor([data.setting.one_sample]),
        None if hidden.u_val is None else torch.tensor(hidden.u_val)[None],
        None if chances is None else torch.tensor(chances)[None],
    )
    values = metrics.compute_criteria(validation)
    if hidden.test is not None and test:
        labeled = hidden.test_labeled
        flags = None if labeled is None else torch.tensor(labeled)[None]
        truth = torch.tensor(hidden.test)[None]
        values.update(metrics.compute_metrics(test[0], test[0], truth, flags))
    return {name: float(value[0]) for name, value in values.items()}


def make_row(run: RunSpec, source: DataSource) -> engine.Row:
    """Return one run as the training engine takes it."""
    pu, hidden = source.draw_for(run)
    training = run.seed, run.lr, run.momentum, dict(run.hyper), run.calibration
    return engine.Row(run.algorithm, pu, hidden, *training)


def run_columns(run: RunSpec, row: engine.Row) -> dict[str, Any]:
    """Return the columns of the store that are constant for a run."""
    entry = catalog.get(run.algorithm)
    columns = {
        **run.to_columns(),
        **{name: getattr(entry, name) for name in catalog.STORED_FACTS},
        "prior_used": row.data.prior,
        "n_p": len(row.data.p_train),
        "n_u": len(row.data.u_train),
        "version": __version__,
        "torch": str(torch.__version__),
    }
    bias = row.hidden.bias
    if bias is not None:
        columns |= {f"val_{name}": getattr(bias, name) for name in BIAS_COLUMNS}
    return columns


def to_frame(
    fleet_id: str, runs: list[RunSpec], rows: list[engine.Row], curves: engine.Curves, device: str
) -> pd.DataFrame:
    """Return curves as rows of the store: one per run and record, run by run."""
    constant = pd.DataFrame([run_columns(run, row) for run, row in zip(runs, rows, strict=True)])
    steps = curves.diverged.tolist()
    constant["status"] = [OK if step < 0 else f"diverged at step {step}" for step in steps]
    frame = constant.loc[np.repeat(np.arange(len(runs)), len(curves.step))].reset_index(drop=True)
    shared = {
        "step": curves.step,
        "phase": np.array(curves.phase, dtype=object),
        "selectable": curves.selectable,
        "seconds": np.asarray(curves.seconds) / len(runs),
    }
    columns = {name: np.tile(values, len(runs)) for name, values in shared.items()}
    columns |= {name: values.T.reshape(-1) for name, values in curves.values.items()}
    return frame.assign(fleet=fleet_id, device=device, **columns)
