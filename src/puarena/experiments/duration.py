"""How long a plan takes: its work, and the speed of this machine, measured for a moment.

On a CPU, processor time is measured: what other programs do meanwhile is not part of the estimate.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import log, prod
from pathlib import Path
from typing import Any, NamedTuple

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
PROBE_RECORDS = {"cpu": 4, "cuda": 8}  # at most
PROBE_WARMUP = {"cpu": 1, "cuda": 4}  # records before the first that counts: captures are slow
PROBE_STEPS = {"cpu": 20, "cuda": 100}  # from record to record, for tables
PROBE_IMAGE_STEPS = {"cpu": 1, "cuda": 10}
PROBE_RUNS = {"cpu": 12, "cuda": 256}  # at most, for tables
MEASURE_SECONDS = 15.0  # that all probes may take together
STORE_SECONDS = 0.05  # to store a fleet
MODEL_ERROR = 0.2  # of an estimate, beside what differs from measurement to measurement


class Speed(NamedTuple):
    """How much work a fleet does in a second: at least, as a rule, at most."""

    slow: float
    usual: float
    fast: float


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
    def probed(self) -> tuple[Any, tuple[int, ...], int]:
        """What the speed depends on: the network and its inputs, features, the batch of a table."""
        network = self.network, self.precision, self.views
        return network, self.features, 0 if self.image else self.batch_size

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

    The fits of classics and guests are counted, but their time is not known before they are made.
    What ``run`` refuses before it trains is refused here with the same message.
    """
    device = choose_device(device)
    check_problems(plan, folder)
    fleets = group(plan.runs, device=device)
    chosen = executors.ExecutorOptions.of(**options)
    executor = executors.choose(device, fleets, engine, chosen)
    each = estimate_fleets(plan, fleets, device)
    low, usual, high = (executor.estimate(fleets, seconds) for seconds in zip(*each, strict=True))
    return {
        "runs": len(plan.runs),
        "fleets": len(fleets),
        "steps": sum(fleet.steps for fleet in fleets),
        "fits_not_measured": sum(catalog.get(run.algorithm).is_classic for run in plan.runs),
        "seconds": round(usual, 1),
        "seconds_low": round(low * (1 - MODEL_ERROR), 1),
        "seconds_high": round(high * (1 + MODEL_ERROR), 1),
        "device": device,
    }


def estimate_fleets(
    plan: Plan, fleets: Sequence[FleetSpec], device: str
) -> list[tuple[float, float, float]]:
    """Return the seconds that each fleet takes alone: at the highest speed, the usual, the lowest.

    That is its work at the speed of its network, measured for each batch size of a table: of many
    features, what a step costs whatever its batch size is several times FIXED_BATCH.
    """
    shapes = [shape_of(plan, fleet) for fleet in fleets]
    work = [_work_of(fleet, shape) for fleet, shape in zip(fleets, shapes, strict=True)]
    speeds = measure_speeds(shapes, [len(fleet.runs) for fleet in fleets], work, device)
    return [
        (
            STORE_SECONDS + amount / speed.fast,
            STORE_SECONDS + amount / speed.usual,
            STORE_SECONDS + amount / speed.slow,
        )
        for amount, speed in zip(work, speeds, strict=True)
    ]


def _work_of(fleet: FleetSpec, shape: Shape) -> float:
    """Return what a fleet costs, in evaluations of an example."""
    steps = fleet.first.all_steps
    records = -(-steps // fleet.first.record_every)
    entry = catalog.get(fleet.first.algorithm)
    step = entry.cost * work_of_step(shape)
    if entry.passes_every_epoch:
        step += (shape.n_p + shape.n_u) / shape.epoch
    return len(fleet.runs) * (steps * step + records * shape.evaluated)


def measure_speeds(
    shapes: Sequence[Shape], runs: Sequence[int], work: Sequence[float], device: str
) -> list[Speed]:
    """Return the speed of each fleet; what there is no time to measure is taken from the nearest.

    Every network is measured, then every number of features, then every batch size; each time what
    has most work comes first.
    """
    heavy: dict[Any, float] = {}
    first: dict[Any, int] = {}
    for place, (shape, amount) in enumerate(zip(shapes, work, strict=True)):
        key = shape.probed
        first.setdefault(key, place)
        heavy[key] = heavy.get(key, 0.0) + amount * prod(shape.features)
    waiting = sorted(heavy, key=lambda key: -heavy[key])
    speeds: dict[Any, Speed] = {}
    end = time.monotonic() + MEASURE_SECONDS
    while waiting:
        networks_known = {key[0] for key in speeds}
        features_known = {key[:2] for key in speeds}
        key = min(waiting, key=lambda key: (key[0] in networks_known, key[:2] in features_known))
        waiting.remove(key)
        left = end - time.monotonic()
        if left > 0 or key[0] not in networks_known:
            place = first[key]
            seconds = max(left, 0.0) / (1 + len(waiting))
            speeds[key] = measure_speed(shapes[place], runs[place], device, seconds)
    return [_find_nearest(shape.probed, speeds) for shape in shapes]


def _find_nearest(key: Any, speeds: dict[Any, Speed]) -> Speed:
    """Return the speed of this network, at the nearest number of features and batch size."""

    def distance(other: Any) -> tuple[float, float]:
        (_, features, batch_size), (_, others, size) = key, other
        return abs(log(prod(features) / prod(others))), abs(batch_size - size)

    near = min((other for other in speeds if other[0] == key[0]), key=distance)
    return Speed(*(speed * prod(near[1]) / prod(key[1]) for speed in speeds[near]))


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


def measure_speed(shape: Shape, runs: int, device: str, seconds: float = MEASURE_SECONDS) -> Speed:
    """Return how much work a fleet of this shape does in a second, on synthetic data.

    It ends after about so many seconds, or with its first measurement if that takes longer.
    """
    end = time.monotonic() + seconds
    shape, runs = shrink(shape, runs, device)
    features, rows = make_synthetic(shape, runs)
    evaluation = None if shape.stored is None else make_pixels(len(features), shape.features)
    steps = (PROBE_IMAGE_STEPS if shape.image else PROBE_STEPS)[device]
    config = engine.FleetConfig(
        batch_size=shape.batch_size,
        steps=PROBE_RECORDS[device] * steps,
        record_every=steps,
        network=shape.network,
        device=device,
        precision=shape.precision,
        **vars(shape.views),
    )
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as a worker process has it
    times: list[float] = []
    try:
        fleet = engine.Fleet(rows, config, features, evaluation)
        with engine.use_own_stream(fleet.device):
            for _ in fleet.segments():
                times.append(read_clock(device))
                if len(times) > PROBE_WARMUP[device] and time.monotonic() > end:
                    break
    finally:
        torch.set_num_threads(threads)
    work = runs * (steps * work_of_step(shape) + shape.evaluated)
    took = np.diff(times[PROBE_WARMUP[device] - 1 :])
    return Speed(*(work / float(each) for each in (took.max(), np.median(took), took.min())))


def read_clock(device: str) -> float:
    """Return the seconds of this thread's processor time; of a GPU, when it has done all work."""
    if device == "cpu":
        return time.thread_time()
    torch.cuda.synchronize()
    return time.perf_counter()


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
