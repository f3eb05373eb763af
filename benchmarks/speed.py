"""Measure run-steps per second of fleets, records included, and compare them with a plain loop.

    python benchmarks/speed.py
    python benchmarks/speed.py --algorithms nnpu,vpu --features 16,256 --runs 1,30 --out speed.json
    python benchmarks/speed.py --network resnet32 --runs 8 --precision bf16

Machines are shared and noisy, so only ratios within one call mean something: what is compared is
measured in turn, round by round, and the median of the rounds is taken. On a CPU it is per second
of processor time of one core. The plain loop is benchmarks/baseline.py, or another file that
defines ``steps_per_second`` like it.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import numpy as np
import torch

import puarena
from puarena import catalog, datasets, networks, training
from puarena.errors import UserError, unknown_name
from puarena.experiments.duration import Shape, make_synthetic
from puarena.experiments.machine import choose_device

BASELINE = Path(__file__).with_name("baseline.py")
SHAPES = {  # Letter and USPS; other widths have the sizes of the first
    16: Shape((16,), 3900, 9100, 2000, 64, "mlp"),
    256: Shape((256,), 1200, 2800, 2000, 64, "mlp"),
}
FEATURES = [16, 64, 256, 784]
ROUNDS = 3
CAPTURES = {"auto": (True,), "off": (False,), "both": (True, False)}
# Steps between two records, and the sizes of CIFAR-10. A CPU evaluates a tenth of the images and
# does fewer steps; otherwise it would take an hour.
CIFAR10 = {
    "cpu": (2, Shape((3, 32, 32), 600, 1400, 1000, 64, "resnet32")),
    "cuda": (100, Shape((3, 32, 32), 6000, 14000, 10000, 64, "resnet32")),
}
PROTOCOL_STEPS, PROTOCOL_RECORDS = 20_000, 200

Rate = Callable[..., float]


@dataclass(frozen=True)
class Measurement:
    """The speed of one algorithm in one kind of fleet."""

    algorithm: str
    features: int
    batch_size: int
    device: str
    runs: int  # 0: the baseline, one run at a time
    capture: bool
    run_steps_per_second: float
    step_microseconds: float  # of the whole fleet


@dataclass(frozen=True)
class ImageMeasurement:
    """The time that images of 32x32 pixels take, in milliseconds of one run of a fleet."""

    network: str
    precision: str
    batch_size: int
    device: str
    runs: int
    step: float  # including the weak view
    view: float  # the weak view alone
    record: float  # validation and test: 12,000 images
    gigabytes: float  # reserved on the GPU
    plain: float | None = None  # a step of the plain loop, on a CPU

    @property
    def run_seconds(self) -> float:
        """Return the seconds of one run of the protocol."""
        return (PROTOCOL_STEPS * self.step + PROTOCOL_RECORDS * self.record) / 1000


def measure(
    names: Sequence[str],
    features: Sequence[int],
    runs: Sequence[int],
    batch_size: int = 64,
    device: str = "cpu",
    captures: Sequence[bool] = (True,),
    seconds: float = 1.0,
    baseline: Rate | None = None,
) -> Iterator[Measurement]:
    """Measure every algorithm with every number of features and runs, for ``seconds`` each."""
    torch.set_num_threads(1)
    for name in names:
        for width in features:
            known = SHAPES.get(width, SHAPES[16])
            shape = Shape((width,), known.n_p, known.n_u, known.test, batch_size, known.network)
            x, rows = make_synthetic(shape, max(runs))
            kinds = [(count, capture) for count in runs for capture in captures]
            rates: dict[tuple[int, bool], list[float]] = {kind: [] for kind in kinds}
            if baseline is not None:
                rates[0, False] = []
            for _ in range(ROUNDS):
                for kind, values in rates.items():
                    count, capture = kind
                    if count:
                        config = training.FleetConfig(
                            batch_size=batch_size,
                            warmup=0,
                            record_every=100,
                            device=device,
                            capture=capture,
                        )
                        rate = measure_fleet(name, x, rows[:count], config, seconds / ROUNDS)
                    else:
                        row, data = rows[0], torch.as_tensor(x)
                        rate = baseline(  # type: ignore[misc]
                            name, data, row.data, row.hidden, batch_size, seconds / ROUNDS
                        )
                    values.append(rate)
            for (count, capture), values in rates.items():
                rate = median(values)
                where = device if count else "cpu"
                microseconds = 1e6 * max(count, 1) / rate
                yield Measurement(
                    name, width, batch_size, where, count, capture, rate, microseconds
                )


def measure_fleet(
    name: str,
    x: np.ndarray,
    rows: Sequence[training.Row],
    config: training.FleetConfig,
    seconds: float,
) -> float:
    """Return the run-steps per second of a fleet in its last phase, from its first record on."""
    fleet = training.Fleet([rename(row, name) for row in rows], config, x)
    shorten_phases(fleet)
    started = first = 0.0
    last = 0
    with training.use_own_stream(fleet.device):
        for step, _ in fleet.segments():
            now = read_clock(config.device)
            if not started:
                started, first = now, step
            elif now - started >= seconds:
                last = step
                break
    return (last - first) * len(rows) / (now - started)


def shorten_phases(fleet: training.Fleet) -> None:
    """Leave one step to every phase before the last, which is the one that the plain loop trains.

    Phases in addition to the protocol's steps are left out by the config.
    """
    *earlier, last = fleet.algorithm.phases
    brief = [
        phase if phase.extra else replace(phase, epochs=None, share=1 / fleet.config.steps)
        for phase in earlier
    ]
    vars(fleet.algorithm)["phases"] = (*brief, last)


def measure_images(
    network: str,
    runs: int,
    batch_size: int = 64,
    precision: str = "float32",
    device: str = "cpu",
    sizes: tuple[int, Shape] | None = None,
    baseline: Rate | None = None,
) -> ImageMeasurement:
    """Measure nnPU on synthetic images, with and without its view.

    ``sizes`` are the steps between two records, and the shape of the data. ``baseline`` returns
    the seconds per step of a plain ResNet-32.
    """
    steps, shape = sizes or CIFAR10[device]
    x, rows = make_synthetic(shape, runs)
    views = datasets.info("cifar10").views_of("")
    segment, record, gigabytes = {}, {}, 0.0
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
        fleet = training.Fleet([rename(row, "nnpu") for row in rows], config, x)
        with training.use_own_stream(fleet.device):
            times = [read_clock(device) for _ in fleet.segments()]
            evaluations = []
            for _ in range(3):
                started = read_clock(device)
                fleet.evaluate()
                evaluations.append(read_clock(device) - started)
        segment[weak] = median(b - a for a, b in pairwise(times[1:]))
        record[weak] = median(evaluations)
        if device == "cuda":
            gigabytes = torch.cuda.max_memory_reserved() / 2**30
        del fleet
    plain, step = ((segment[weak] - record[weak]) / steps for weak in segment)
    scale = 1000 / runs
    view = scale * max(step - plain, 0.0)
    whole = scale * record[views.weak] * CIFAR10["cuda"][1].evaluated / shape.evaluated
    plain_step = None
    if baseline is not None:
        plain_step = 1000 * baseline(torch.as_tensor(x), batch_size, ROUNDS * steps)
    return ImageMeasurement(
        network,
        precision,
        batch_size,
        device,
        runs,
        scale * step,
        view,
        whole,
        gigabytes,
        plain_step,
    )


def read_clock(device: str) -> float:
    """Return the time when the device has done what it was given; of a CPU, processor time."""
    if device == "cuda":
        torch.cuda.synchronize()
        return time.perf_counter()
    return time.process_time()


def rename(row: training.Row, name: str) -> training.Row:
    """Return a row for another algorithm."""
    return training.Row(name, row.data, row.hidden, row.seed)


def load_baseline(file: Path, function: str = "steps_per_second") -> Rate:
    """Return a function of a Python file."""
    spec = importlib.util.spec_from_file_location("baseline", file)
    if not file.is_file() or spec is None or spec.loader is None:
        raise UserError(f"'{file}' is not a Python file", "missing-file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not hasattr(module, function):
        message = f"'{file}' does not define {function} as {BASELINE.name} does"
        raise UserError(message, "wrong-format")
    rate: Rate = getattr(module, function)
    return rate


def compute_ratios(measurements: Sequence[Measurement]) -> dict[str, float]:
    """Return by how much the largest fleet is faster: geometric means over the algorithms."""
    largest = max(m.runs for m in measurements)
    rate = {}
    for m in measurements:
        rate[m.algorithm, m.features, m.runs, m.capture] = m.run_steps_per_second
    others = {
        "fleet of one": (1, True),
        "baseline": (0, False),
        "uncaptured": (largest, False),
    }
    ratios = {}
    for label, other in others.items():
        pairs = []
        for (name, width, runs, capture), ours in rate.items():
            theirs = rate.get((name, width, *other))
            if (runs, capture) == (largest, True) and theirs and other != (largest, True):
                pairs.append(ours / theirs)
        if pairs:
            ratios[label] = geometric_mean(pairs)
    return ratios


def describe_machine() -> dict[str, Any]:
    """Return what the figures were measured on and with."""
    root = Path(puarena.__file__).parent
    source = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        source.update(path.read_bytes())
    return {
        "platform": platform.platform(),
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "puarena": puarena.__version__,
        "source": source.hexdigest()[:16],
    }


def list_algorithms() -> list[str]:
    """Return the built-in algorithms that synthetic data can train.

    A calibrated form costs what its plain form costs, and true propensities are not there.
    """
    entries = {name: catalog.get(name) for name in catalog.names("puarena")}
    return [
        name
        for name, entry in entries.items()
        if not (entry.calibrated or entry.cls.knows_propensity)
    ]


def print_measurements(measurements: Sequence[Measurement]) -> None:
    """Print a line for every measurement, and the ratios."""
    print(
        f"{'algorithm':<14}{'features':>9}{'runs':>6}{'':>12}{'run-steps/s':>13}{'us a step':>11}"
    )
    for m in measurements:
        kind = m.device if m.capture else "uncaptured"
        if m.runs == 0:
            kind = "baseline"
        print(
            f"{m.algorithm:<14}{m.features:>9}{m.runs or 1:>6}{kind:>12}"
            f"{m.run_steps_per_second:>13,.0f}{m.step_microseconds:>11,.0f}"
        )
    for features in dict.fromkeys(m.features for m in measurements):
        of_width = [m for m in measurements if m.features == features]
        for label, ratio in compute_ratios(of_width).items():
            print(f"{features} features, largest fleet against {label}: {ratio:.1f} times")


def print_images(measurements: Sequence[ImageMeasurement]) -> None:
    """Print a line for every measurement."""
    heads = f"{'ms a step':>11}{'weak view':>11}{'ms a record':>13}{'s a run':>9}{'GiB':>6}"
    print(f"{'network':<10}{'runs':>5}{heads}")
    for m in measurements:
        print(
            f"{m.network:<10}{m.runs:>5}{m.step:>11.3f}{m.view / m.step:>11.1%}{m.record:>13.1f}"
            f"{m.run_seconds:>9.1f}{m.gigabytes:>6.1f}"
        )
        if m.plain is not None:
            ratio = m.plain / (m.step - m.view)
            print(f"the plain loop, without a view: {m.plain:.0f} ms a step, {ratio:.2f} times")
    print(
        f"milliseconds of one run of the fleet; a run has {PROTOCOL_STEPS:,} steps and "
        f"{PROTOCOL_RECORDS} records of 12,000 images"
    )


def split_integers(text: str) -> list[int]:
    """Return numbers of 1 or more that are separated by commas."""
    values = [int(part) for part in text.split(",")]
    if min(values) < 1:
        raise ValueError("give numbers of 1 or more")
    return values


def main(words: Sequence[str] | None = None) -> None:
    """Read the command line, measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--algorithms", help="names with commas between them")
    parser.add_argument("--features", type=split_integers, default=FEATURES)
    parser.add_argument("--runs", type=split_integers, default=[1, 10, 30], help="in a fleet")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--capture", choices=CAPTURES, default="auto", help="on a GPU")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each figure")
    parser.add_argument("--against", type=Path, default=BASELINE, help="the plain loop")
    parser.add_argument("--network", help="measure nnPU with a network for images instead")
    parser.add_argument("--precision", default="float32", help="of a network for images")
    parser.add_argument("--out", type=Path, help="also write the figures as JSON")
    given = parser.parse_args(words)
    try:
        device = choose_device(given.device)
        if given.network is not None:
            choices = [name for name in networks.names() if networks.get(name).images]
            if given.network not in choices:
                raise unknown_name("network for images", given.network, choices)
            options = given.batch_size, given.precision, device
            plain = None
            if device == "cpu" and given.network == "resnet32":
                plain = load_baseline(given.against, "seconds_per_image_step")
            print_images(
                [
                    measure_images(given.network, runs, *options, baseline=plain)
                    for runs in given.runs
                ]
            )
            return
        names = given.algorithms.split(",") if given.algorithms else list_algorithms()
        for name in names:
            catalog.get(name)
        measurements = []
        for found in measure(
            names,
            given.features,
            given.runs,
            given.batch_size,
            device,
            CAPTURES[given.capture] if device == "cuda" else (True,),
            given.seconds,
            load_baseline(given.against),
        ):
            measurements.append(found)
            print(f"{found.algorithm}, {found.runs} runs: measured", file=sys.stderr, flush=True)
    except UserError as error:
        parser.error(str(error))
    print_measurements(measurements)
    if given.out is not None:
        content = {
            "machine": describe_machine(),
            "ratios": {
                width: compute_ratios([m for m in measurements if m.features == width])
                for width in dict.fromkeys(m.features for m in measurements)
            },
            "measured": [asdict(m) for m in measurements],
        }
        given.out.write_text(json.dumps(content, indent=2))


if __name__ == "__main__":
    main()
