"""How fast is it here? Run-steps per second of fleets, records included, side by side in one run.

Machines are shared and noisy: only the ratios of one run mean something, so what is compared is measured in turn,
round by round, and the median of the rounds is taken.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import numpy as np
import torch

import puarena
from puarena import catalog, datasets, training
from puarena.errors import UserError
from puarena.training.synthetic import Shape, synthetic

SHAPES = {
    16: Shape((16,), 3900, 9100, 2000, 64, "mlp"),
    256: Shape((256,), 1200, 2800, 2000, 64, "mlp"),
}
ROUNDS = 3


@dataclass(frozen=True)
class Measured:
    """One way of training one algorithm."""

    algorithm: str
    features: int
    batch_size: int
    device: str
    runs: int  # 0: the baseline, one run at a time
    capture: bool
    run_steps_per_second: float
    step_microseconds: float  # of the whole stack


def measure(
    names: list[str],
    features: list[int],
    runs: list[int],
    batch_size: int = 64,
    device: str = "cpu",
    captures: tuple[bool, ...] = (True,),
    seconds: float = 1.0,
    against: str | Path | None = None,
    threads: int = 1,
    say: Callable[[str], None] = lambda text: None,
) -> list[Measured]:
    """Measure every algorithm with every number of features and runs, ``seconds`` each in three rounds.

    ``against`` is a Python file with ``steps_per_second(name, features, data, hidden, batch_size, seconds)``.
    """
    baseline = _baseline(against) if against is not None else None
    torch.set_num_threads(threads)
    measurements = []
    for name in names:
        for width in features:
            ways = [
                (count, capture)
                for count in runs
                for capture in (captures if device == "cuda" else (True,))
            ]
            rates: dict[tuple[int, bool], list[float]] = {way: [] for way in ways}
            if baseline is not None:
                rates[0, False] = []
            x, rows = synthetic(_shape(width, batch_size), max(runs))
            for _ in range(ROUNDS):
                for way in ways:
                    rates[way].append(
                        _fleet_rate(
                            name, x, rows[: way[0]], batch_size, device, way[1], seconds / ROUNDS
                        )
                    )
                if baseline is not None:
                    row = rows[0]
                    rates[0, False].append(
                        baseline(
                            name,
                            torch.as_tensor(x),
                            row.data,
                            row.hidden,
                            batch_size,
                            seconds / ROUNDS,
                        )
                    )
            for (count, capture), values in rates.items():
                rate = median(values)
                where = device if count else "cpu"
                measurements.append(
                    Measured(
                        name,
                        width,
                        batch_size,
                        where,
                        count,
                        capture,
                        rate,
                        1e6 * max(count, 1) / rate,
                    )
                )
            say(f"{name}, {width} features: done")
    return measurements


def _shape(width: int, batch_size: int) -> Shape:
    known = SHAPES.get(width, SHAPES[16])
    return Shape((width,), known.n_p, known.n_u, known.test, batch_size, known.network)


def _fleet_rate(
    name: str,
    x: np.ndarray,
    rows: list[training.Row],
    batch_size: int,
    device: str,
    capture: bool,
    seconds: float,
) -> float:
    """Run-steps per second of one stack, after the first record (where captured steps are prepared)."""
    config = training.FleetConfig(
        batch_size=batch_size, warmup=0, record_every=100, device=device, capture=capture
    )
    stack = training.Fleet([_renamed(row, name) for row in rows], config, x)
    began = first = 0.0
    done = 0
    with training.use_own_stream(stack.device):
        for step, _ in stack.segments():
            if device == "cuda":
                torch.cuda.synchronize()
            now = time.perf_counter()
            if not began:
                began, first = now, step
            elif now - began >= seconds:
                done = step
                break
    return (done - first) * len(rows) / (now - began)


@dataclass(frozen=True)
class ImageSpeed:
    """How long images of 32x32 pixels take, in milliseconds of one run of a stack."""

    network: str
    precision: str
    batch_size: int
    device: str
    runs: int
    step: float  # weak view included
    view: float  # of that, the weak view
    record: float  # validation and test: 12,000 images
    gigabytes: float  # reserved on the GPU

    @property
    def run_seconds(self) -> float:
        """One run of the protocol, amortized: 20,000 steps and 200 records."""
        return (20_000 * self.step + 200 * self.record) / 1000


CIFAR10 = {  # a CPU evaluates a tenth, and does fewer steps from record to record: it would take an hour
    "cpu": (2, Shape((3, 32, 32), 600, 1400, 1000, 64, "resnet32")),
    "cuda": (100, Shape((3, 32, 32), 6000, 14000, 10000, 64, "resnet32")),
}


def measure_images(
    network: str,
    runs: int,
    batch_size: int = 64,
    precision: str = "float32",
    device: str = "cpu",
    sizes: tuple[int, Shape] | None = None,
) -> ImageSpeed:
    """Measure nnPU on made-up images, with and without its view; ``sizes``: steps from record to record, and data."""
    steps, shape = sizes or CIFAR10[device]
    x, rows = synthetic(shape, runs)
    segment, record, gigabytes = {}, {}, 0.0
    views = datasets.info("cifar10").views_of("")
    for weak in (None, views.weak):
        if device == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        config = training.FleetConfig(
            batch_size,
            5 * steps,
            0,
            steps,
            network,
            device,
            precision=precision,
            weak=weak,
            evaluation=views.evaluation,
        )
        stack = training.Fleet([_renamed(row, "nnpu") for row in rows], config, x)
        with training.use_own_stream(stack.device):
            marks, evaluations = [], []
            for _ in stack.segments():
                marks.append(_now(device))
            for _ in range(3):
                began = _now(device)
                stack.evaluate()
                evaluations.append(_now(device) - began)
        segment[weak], record[weak] = (
            median(b - a for a, b in pairwise(marks[1:])),
            median(evaluations),
        )
        if device == "cuda":
            gigabytes = torch.cuda.max_memory_reserved() / 2**30
        del stack
    plain, step = ((segment[weak] - record[weak]) / steps for weak in segment)
    scale = 1000 / runs
    view = scale * max(step - plain, 0.0)
    ends = scale * record[views.weak] * CIFAR10["cuda"][1].evaluated / shape.evaluated
    return ImageSpeed(
        network, precision, batch_size, device, runs, scale * step, view, ends, gigabytes
    )


def _now(device: str) -> float:
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def _renamed(row: training.Row, name: str) -> training.Row:
    return training.Row(name, row.data, row.hidden, row.seed)


def _baseline(path: str | Path) -> Callable[..., float]:
    file = Path(path)
    spec = importlib.util.spec_from_file_location("puarena_baseline", file)
    if not file.is_file() or spec is None or spec.loader is None:
        raise UserError(
            f"'{path}' is not a Python file; give one that defines steps_per_second(...)"
        )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function: Callable[..., float] | None = getattr(module, "steps_per_second", None)
    if function is None:
        raise UserError(
            f"'{path}' defines no steps_per_second(name, features, data, hidden, batch_size, seconds)"
        )
    return function


def summary(measurements: list[Measured]) -> dict[str, float]:
    """Geometric means over algorithms of the largest stack's rate against a stack of one and against the baseline."""
    largest = max(m.runs for m in measurements)
    rate = {
        (m.algorithm, m.features, m.runs, m.capture): m.run_steps_per_second for m in measurements
    }
    best = [(m.algorithm, m.features) for m in measurements if m.runs == largest and m.capture]
    ratios = {}
    for label, other in (
        ("fleet of one", (1, True)),
        ("baseline", (0, False)),
        ("uncaptured", (largest, False)),
    ):
        keys = [((a, w, largest, True), (a, w) + other) for a, w in best]  # noqa: RUF005
        pairs = [rate[ours] / rate[theirs] for ours, theirs in keys if theirs in rate]
        if pairs and other != (largest, True):
            ratios[label] = geometric_mean(pairs)
    return ratios


def machine() -> dict[str, Any]:
    """What the figures were measured on and with."""
    root = Path(puarena.__file__).parent
    source = hashlib.sha256(
        b"".join(path.read_bytes() for path in sorted(root.rglob("*.py")))
    ).hexdigest()[:16]
    return {
        "platform": platform.platform(),
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "puarena": puarena.__version__,
        "source": source,
    }


def to_json(measurements: list[Measured]) -> str:
    """The measurements with machine, versions and source hash."""
    return json.dumps(
        {
            "machine": machine(),
            "ratios": summary(measurements),
            "measured": [asdict(m) for m in measurements],
        },
        indent=2,
    )


def default_algorithms() -> list[str]:
    """Every built-in algorithm that made-up data can train; a calibrated form costs what its plain form costs."""
    entries = {name: catalog.get(name) for name in catalog.names("puarena")}
    return [
        name
        for name, entry in entries.items()
        if not (entry.calibrated or entry.cls.knows_propensity)
    ]
