"""How long a plan takes: measured on this machine with a few real training steps of every shape."""

from __future__ import annotations

import heapq
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from puarena import algorithms, data, fleet
from puarena.bench.execute import choose_device
from puarena.bench.plan import MAX_RUNS, FleetSpec, Plan, group, run_steps
from puarena.bench.workers import choose_workers
from puarena.data import HiddenLabels, PUData

BUDGET = 2.5  # seconds for all probes together
PROBED = {"cpu": 12, "cuda": 256}  # runs in a probe, at most; more cost in proportion on a CPU
PROBE = "nnpu"  # whose step has cost 1
WRITING = 0.05  # seconds to store one fleet
STARTING = 4.0  # seconds until a worker process trains
OVERLAP = 2.0  # what several fleets in flight on a GPU gain over one after the other


@dataclass(frozen=True)
class Shape:
    """What decides the time of a step and of a record."""

    features: tuple[int, ...]
    n_p: int
    n_u: int
    test: int
    batch_size: int
    network: str

    @property
    def key(self) -> tuple[Any, ...]:
        """What is probed apart: the other sizes only change how long a record takes, and little."""
        return self.features, self.batch_size, self.network


@dataclass(frozen=True)
class Speed:
    """Seconds per fleet, and per step and record of ``runs`` runs."""

    start: float
    step: float
    record: float
    runs: int


def summarise(plan: Plan, device: str = "auto") -> dict[str, Any]:
    """Counts and seconds of a plan: runs, fleets, steps (of all runs together, warm-up included), seconds."""
    device = choose_device(device)
    fleets = group(plan.runs, MAX_RUNS[device])
    return {
        "runs": len(plan.runs),
        "fleets": len(fleets),
        "steps": sum(stack.steps for stack in fleets),
        "seconds": round(estimate(plan, fleets, device), 1),
    }


def estimate(plan: Plan, fleets: list[FleetSpec], device: str) -> float:
    """Seconds to train, evaluate and store these fleets here, from a probe of every input size and batch size."""
    shapes: dict[tuple[Any, ...], Shape] = {}
    sizes: dict[tuple[Any, ...], int] = {}
    for stack in fleets:
        shape = shape_of(plan, stack)
        shapes.setdefault(shape.key, shape)
        sizes[shape.key] = max(sizes.get(shape.key, 0), len(stack.runs))
    speeds = {
        key: probe(shape, min(sizes[key], PROBED[device]), device, BUDGET / len(shapes))
        for key, shape in shapes.items()
    }
    each = sorted((_seconds(stack, speeds[shape_of(plan, stack).key]) for stack in fleets), reverse=True)
    if device == "cuda":
        return sum(each) / (OVERLAP if len(fleets) > 1 else 1)
    at_once = choose_workers(None, fleets, device)
    ends = [STARTING if at_once > 1 else 0.0] * at_once  # each worker takes the longest fleet that waits
    for seconds in each:
        heapq.heapreplace(ends, ends[0] + seconds)
    return max(ends)


def _seconds(stack: FleetSpec, speed: Speed) -> float:
    """One fleet's time; a stack of another size than the probed one is taken to cost in proportion."""
    steps = run_steps(stack.first)
    records = -(-steps // stack.first.record_every)
    cost = algorithms.get(stack.first.algorithm).cls.cost
    part = len(stack.runs) / speed.runs
    return WRITING + speed.start + part * (steps * speed.step * cost + records * speed.record)


def shape_of(plan: Plan, stack: FleetSpec) -> Shape:
    """Sizes of a fleet's data, from what is known of the dataset without reading it."""
    first = stack.first
    info = data.info(plan.sources[first.problem.dataset])
    n = data.sizes(info.size, first.problem.rate, first.problem.prior or info.default_prior, info.default_prior)
    test = round(info.examples * (info.test_fraction or 0.2))
    return Shape(tuple(info.shape), n.n_p, n.n_u, test, first.batch_size, first.network)


def probe(shape: Shape, runs: int, device: str, budget: float) -> Speed:
    """Train made-up data of this shape for a moment."""
    features, rows = made_up(shape, runs)

    def timed(steps: int, every: int) -> tuple[float, float]:
        """Seconds to set up, and from record to record."""
        config = fleet.FleetConfig(
            batch_size=shape.batch_size, steps=steps, record_every=every, network=shape.network, device=device
        )
        began = time.perf_counter()
        seconds = fleet.train(rows, config, features).seconds
        return max(time.perf_counter() - began - float(seconds[-1]), 0.0), float(np.median(np.diff(seconds)))

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as a worker process has it
    began = time.perf_counter()
    start, one = timed(4, 1)  # a step and a record
    left = budget - (time.perf_counter() - began)
    count = int(np.clip(left / max(2 * one, 1e-9), 4, 100))
    _, many = timed(2 * count, count)  # so many steps and a record
    torch.set_num_threads(threads)
    step = max((many - one) / (count - 1), 0.2 * many / count)
    return Speed(start, step, max(one - step, 0.0), runs)


def made_up(shape: Shape, runs: int) -> tuple[np.ndarray, list[fleet.Row]]:
    """Random features and rows whose index sets have the sizes of the real ones."""
    rng = np.random.default_rng(0)
    val_p, val_u = shape.n_p // 10, shape.n_u // 10
    total = shape.n_p + shape.n_u + shape.test
    features = rng.standard_normal((total, *shape.features), dtype=np.float32)
    rows = []
    for seed in range(runs):
        parts = np.split(rng.permutation(total), np.cumsum([val_p, shape.n_p - val_p, val_u, shape.n_u - val_u]))
        p_val, p_train, u_val, u_train, test = parts
        rate = shape.n_p / (shape.n_p + shape.n_u)
        pu = PUData(p_train, u_train, p_val, u_val, test, 0.5, rate, 0.5, "os")
        labels = [rng.random(len(part)) < 0.5 for part in (u_train, u_val, test)]
        rows.append(fleet.Row(PROBE, pu, HiddenLabels(*labels), seed))
    return features, rows
