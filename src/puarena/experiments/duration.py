"""How long a plan takes: measured on this machine with a few real training steps of every shape.

Nothing is read: the data are synthetic. On images the time goes with the number of examples that pass through a
network, so a few runs and small batches are measured there, and the rest is in proportion.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from puarena import catalog, datasets, networks
from puarena import training as engine
from puarena.experiments import executors
from puarena.experiments.data_source import check_problems
from puarena.experiments.machine import choose_device
from puarena.experiments.plan import FleetSpec, Plan, group
from puarena.training.synthetic import Shape, pixels, synthetic

BUDGET = 2.5  # seconds for all probes together
PROBED = {
    "cpu": 12,
    "cuda": 256,
}  # runs in a probe of tables, at most; more cost in proportion on a CPU
SEGMENT = {"cpu": 1, "cuda": 10}  # steps from record to record in a probe on images
PASS = 1 / 3  # of what a training step costs per example: evaluation has no backward pass
WRITING = 0.05  # seconds to store one fleet


@dataclass(frozen=True)
class Speed:
    """Seconds per fleet, and per step and record of ``runs`` runs of a shape."""

    start: float
    step: float
    record: float
    runs: int
    shape: Shape


def summarize(
    plan: Plan,
    device: str = "auto",
    folder: str | Path | None = None,
    workers: int | None = None,
    engine: str | None = None,
    **how: Any,
) -> dict[str, Any]:
    """Counts and seconds of a plan: runs, fleets, steps (of all runs together, warm-up included), seconds, device.

    What ``run`` refuses before it trains is refused here, in the same words.
    """
    device = choose_device(device)
    check_problems(plan, folder)
    fleets = group(plan.runs, device=device)
    executor = executors.choose(device, workers, fleets, engine, executors.How.of(**how))
    return {
        "runs": len(plan.runs),
        "fleets": len(fleets),
        "steps": sum(fleet.steps for fleet in fleets),
        "seconds": round(total_seconds(plan, fleets, device, executor), 1),
        "device": device,
    }


def total_seconds(
    plan: Plan, fleets: list[FleetSpec], device: str, executor: executors.Executor
) -> float:
    """Seconds to train, evaluate and store these fleets here, from a probe of every input size and batch size."""
    shapes: dict[tuple[Any, ...], Shape] = {}
    sizes: dict[tuple[Any, ...], int] = {}
    for fleet in fleets:
        shape, runs = reduced(shape_of(plan, fleet), len(fleet.runs), device)
        shapes.setdefault(shape.key, shape)
        sizes[shape.key] = max(sizes.get(shape.key, 0), runs)
    speeds = {
        key: probe(shape, sizes[key], device, BUDGET / len(shapes)) for key, shape in shapes.items()
    }
    each = []
    for fleet in fleets:
        shape = shape_of(plan, fleet)
        each.append(_seconds(fleet, shape, speeds[reduced(shape, 1, device)[0].key]))
    return executor.duration(fleets, each)


def _seconds(fleet: FleetSpec, shape: Shape, speed: Speed) -> float:
    """One fleet's time; one of another size than the probed one is taken to cost in proportion."""
    steps = fleet.first.all_steps
    records = -(-steps // fleet.first.record_every)
    step = (
        speed.step
        * catalog.get(fleet.first.algorithm).cost
        * shape.batch_size
        / speed.shape.batch_size
    )
    example = speed.record / speed.shape.evaluated
    record = example * shape.evaluated
    if catalog.get(fleet.first.algorithm).passes_every_epoch:
        step += example * (shape.n_p + shape.n_u) / shape.epoch
    return WRITING + speed.start + len(fleet.runs) / speed.runs * (steps * step + records * record)


def shape_of(plan: Plan, fleet: FleetSpec) -> Shape:
    """Sizes of a fleet's data, from what is known of the dataset without reading it."""
    first = fleet.first
    info = datasets.info(plan.sources[first.problem.dataset])
    prior = info.prior_of(first.problem.case)
    n = first.problem.sizes(info.size, first.problem.prior or prior, prior)
    test = round(info.examples * (info.test_fraction or 0.2))
    how = first.batch_size, first.network, first.precision, first.views
    return Shape(tuple(info.shape), n.n_p, n.n_u, test, *how, info.stored)


def reduced(shape: Shape, runs: int, device: str) -> tuple[Shape, int]:
    """The shape and the number of runs that are probed for these: as they are for tables, a few examples of images."""
    if not shape.image:
        return shape, min(runs, PROBED[device])
    most, batch = networks.get(shape.network).probe[device]
    batch = min(batch, shape.batch_size)
    few = max(10, 2 * batch)  # a tenth of which is for validation
    return replace(shape, n_p=few, n_u=few, test=few // 10, batch_size=batch), min(runs, most)


def probe(shape: Shape, runs: int, device: str, budget: float) -> Speed:
    """Train synthetic data of this shape for a moment."""
    features, rows = synthetic(shape, runs)
    evaluation = None if shape.stored is None else pixels(len(features), shape.features)

    def timed(steps: int, every: int) -> tuple[float, float]:
        """Seconds to set up, and from record to record."""
        config = engine.FleetConfig(
            batch_size=shape.batch_size,
            steps=steps,
            record_every=every,
            network=shape.network,
            device=device,
            precision=shape.precision,
            **vars(shape.views),
        )
        began = time.perf_counter()
        seconds = engine.train(rows, config, features, evaluation=evaluation).seconds
        return max(time.perf_counter() - began - float(seconds[-1]), 0.0), float(
            np.median(np.diff(seconds))
        )

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as a worker process has it
    try:
        if shape.image:
            every = SEGMENT[device]
            start, one = timed(3 * every, every)
            step = one / (every + PASS * shape.evaluated / (2 * shape.batch_size))
            return Speed(start, step, one - every * step, runs, shape)
        began = time.perf_counter()
        start, one = timed(4, 1)  # a step and a record
        left = budget - (time.perf_counter() - began)
        count = int(np.clip(left / max(2 * one, 1e-9), 4, 100))
        _, many = timed(2 * count, count)  # so many steps and a record
    finally:
        torch.set_num_threads(threads)
    step = max((many - one) / (count - 1), 0.2 * many / count)
    return Speed(start, step, max(one - step, 0.0), runs, shape)
