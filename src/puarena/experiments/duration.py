"""How long a plan takes: its work, and the speed of this machine, measured for a moment."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from puarena import catalog, datasets, networks
from puarena import training as engine
from puarena.datasets import Views
from puarena.experiments import executors
from puarena.experiments.data_source import check_problems
from puarena.experiments.machine import choose_device
from puarena.experiments.plan import FleetSpec, Plan, group
from puarena.experiments.progress import FIXED_BATCH
from puarena.pu import HiddenLabels, PUData, Sizes, labeling

TRAINING_PASSES = 3  # what an example costs in a training step, in evaluations of an example
PROBE_ALGORITHM = "nnpu"  # a step of which has cost 1
PROBE_RECORDS = 4
PROBE_STEPS = {"cpu": 20, "cuda": 100}  # from record to record, for tables
PROBE_IMAGE_STEPS = {"cpu": 1, "cuda": 10}
PROBE_RUNS = {"cpu": 12, "cuda": 256}  # at most, for tables
STORE_SECONDS = 0.05  # to store a fleet


@dataclass(frozen=True)
class Shape:
    """The sizes of a fleet's data that decide how long a step and a record take."""

    features: tuple[int, ...]  # of one example as networks see it
    n_p: int
    n_u: int
    test: int
    batch_size: int
    network: str
    precision: str = "float32"
    views: Views = field(default_factory=Views)
    stored: tuple[int, ...] | None = None  # of one stored example, if that differs

    @property
    def image(self) -> bool:
        """Whether the examples are images."""
        return len(self.features) > 1

    @property
    def epoch(self) -> int:
        """The number of steps that see the larger of P and U once."""
        return max(1, -(-max(self.n_p, self.n_u) // self.batch_size))

    @property
    def evaluated(self) -> int:
        """The number of examples that a record evaluates."""
        return self.n_p // 10 + self.n_u // 10 + self.test


def summarize(
    plan: Plan,
    device: str = "auto",
    folder: str | Path | None = None,
    engine: str | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Return how many runs, fleets and steps (of all runs) a plan has, and how long it takes here.

    What ``run`` refuses before it trains is refused here with the same message.
    """
    device = choose_device(device)
    check_problems(plan, folder)
    fleets = group(plan.runs, device=device)
    chosen = executors.ExecutorOptions.of(**options)
    executor = executors.choose(device, fleets, engine, chosen)
    seconds = executor.estimate(fleets, estimate_fleets(plan, fleets, device))
    return {
        "runs": len(plan.runs),
        "fleets": len(fleets),
        "steps": sum(fleet.steps for fleet in fleets),
        "seconds": round(seconds, 1),
        "device": device,
    }


def estimate_fleets(plan: Plan, fleets: list[FleetSpec], device: str) -> list[float]:
    """Return the seconds that each fleet takes alone: its work at the speed of its network.

    On tables the speed is measured for each batch size: of many features, what a step costs
    whatever its batch size is several times FIXED_BATCH.
    """
    speeds: dict[Any, float] = {}
    seconds = []
    for fleet in fleets:
        shape = shape_of(plan, fleet)
        batch_size = None if shape.image else shape.batch_size
        key = shape.features, shape.network, shape.precision, shape.views, batch_size
        if key not in speeds:
            speeds[key] = measure_speed(shape, len(fleet.runs), device)
        steps = fleet.first.all_steps
        records = -(-steps // fleet.first.record_every)
        entry = catalog.get(fleet.first.algorithm)
        step = entry.cost * work_of_step(shape)
        if entry.passes_every_epoch:
            step += (shape.n_p + shape.n_u) / shape.epoch
        work = len(fleet.runs) * (steps * step + records * shape.evaluated)
        seconds.append(STORE_SECONDS + work / speeds[key])
    return seconds


def work_of_step(shape: Shape) -> float:
    """Return what a training step of one run costs, in evaluations of an example."""
    # Small networks also pay for every operation; that of a residual network is nothing to this.
    fixed = 0 if shape.image else FIXED_BATCH
    return TRAINING_PASSES * 2 * (shape.batch_size + fixed)


def shape_of(plan: Plan, fleet: FleetSpec) -> Shape:
    """Return the sizes of a fleet's data, from what is known of the dataset without reading it."""
    first = fleet.first
    info = datasets.info(plan.sources[first.problem.dataset])
    prior = info.prior_of(first.problem.case)
    if first.problem.observed:
        n_p = round(first.problem.rate * info.size)
        n = Sizes(n_p, info.size - n_p)
    else:
        n = first.problem.sizes(info.size, first.problem.prior or prior, prior)
    test = round(info.examples * (info.test_fraction or 0.2))
    training = first.batch_size, first.network, first.precision, first.views
    return Shape(tuple(info.shape), n.n_p, n.n_u, test, *training, info.stored)


def shrink(shape: Shape, runs: int, device: str) -> tuple[Shape, int]:
    """Return the shape and the number of runs to measure: for images, a few examples."""
    if not shape.image:
        return shape, min(runs, PROBE_RUNS[device])
    most, batch = networks.get(shape.network).probe[device]
    batch = min(batch, shape.batch_size)
    few = max(10, 2 * batch)
    small = replace(shape, n_p=few, n_u=few, test=few // 10, batch_size=batch)
    return small, min(runs, most)


def measure_speed(shape: Shape, runs: int, device: str) -> float:
    """Return how much work a fleet of this shape does in a second, on synthetic data."""
    shape, runs = shrink(shape, runs, device)
    features, rows = make_synthetic(shape, runs)
    evaluation = None if shape.stored is None else make_pixels(len(features), shape.features)
    steps = (PROBE_IMAGE_STEPS if shape.image else PROBE_STEPS)[device]
    config = engine.FleetConfig(
        batch_size=shape.batch_size,
        steps=PROBE_RECORDS * steps,
        record_every=steps,
        network=shape.network,
        device=device,
        precision=shape.precision,
        **vars(shape.views),
    )
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as a worker process has it
    try:
        seconds = engine.train(rows, config, features, evaluation=evaluation).seconds
    finally:
        torch.set_num_threads(threads)
    work = runs * (steps * work_of_step(shape) + shape.evaluated)
    return work / float(np.median(np.diff(seconds)))


def make_pixels(n: int, shape: tuple[int, ...]) -> np.ndarray:
    """Return random images."""
    return np.random.default_rng(0).integers(0, 256, (n, *shape), dtype=np.uint8)


def make_synthetic(shape: Shape, runs: int) -> tuple[np.ndarray, list[engine.Row]]:
    """Return random features and runs whose index sets have the sizes of the real ones."""
    rng = np.random.default_rng(0)
    val_p, val_u = shape.n_p // 10, shape.n_u // 10
    total = shape.n_p + shape.n_u + shape.test
    if shape.image:
        features = make_pixels(total, shape.stored or shape.features)
    else:
        features = rng.standard_normal((total, *shape.features), dtype=np.float32)
    rows = []
    for seed in range(runs):
        sizes = [val_p, shape.n_p - val_p, val_u, shape.n_u - val_u]
        parts = np.split(rng.permutation(total), np.cumsum(sizes))
        p_val, p_train, u_val, u_train, test = parts
        rate = shape.n_p / (shape.n_p + shape.n_u)
        pu = PUData(
            p_train,
            u_train,
            p_val,
            u_val,
            test,
            0.5,
            rate,
            0.5,
            labeling.get_setting(labeling.DEFAULT_SETTING),
        )
        labels = [rng.random(len(part)) < 0.5 for part in (u_train, u_val, test)]
        rows.append(engine.Row(PROBE_ALGORITHM, pu, HiddenLabels(*labels), seed))
    return features, rows
