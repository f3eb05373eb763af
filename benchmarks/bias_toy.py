"""Measure what criteria lose where labels are biased, on Gaussians of which everything is known.

    python benchmarks/bias_toy.py
    python benchmarks/bias_toy.py --points 20000

In one dimension there are two Gaussians at -1 and 1, and a criterion chooses a threshold. In two
dimensions the class depends on the first feature only, and a criterion chooses a direction. Last,
methods that model the chance of a label are trained where it is the same for all positives.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from puarena import metrics
from puarena.algorithms.sar_em import SarEM
from puarena.datasets import Dataset
from puarena.pu import HiddenLabels, PUData, labeling
from puarena.pu.labeling import Candidates
from puarena.training import Fleet, FleetConfig, Row

FREQUENCY = 0.4  # share of the positives that are labeled
PRIORS = (0.5, 0.3)
THRESHOLD_MECHANISMS = ("scar", "pusb", "sar-pu", "lbe-a", "pusb-linear", "lbe-b", "pubench-lbe-b")
DIRECTION_MECHANISMS = (
    "scar",
    "lbe-a",
    "lbe-b",
    "feature(feature=1)",
    "feature(feature=1,strength=3)",
    "feature(feature=1,strength=100)",
)
THRESHOLDS = np.linspace(-3, 3, 121)
ANGLES = np.arange(-90, 91)
FREQUENCIES = (0.2, 0.4)  # for the methods that learn them
AS_BATCHES = "sar-em, weighted as batches"  # the mistake that SAR-EM had
PROPENSITY_METHODS = ("sar-em", AS_BATCHES, "lbe")

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ToySample:
    """Points, true labels, which positives are labeled, and their propensities."""

    x: Floats
    y: npt.NDArray[np.bool_]
    labeled: npt.NDArray[np.bool_]
    propensity: Floats  # of the labeled


def draw(mechanism: str, points: int, prior: float, dimensions: int, seed: int = 0) -> ToySample:
    """Draw a sample and label a share of its positives by a mechanism."""
    rng = np.random.default_rng(seed)
    y = np.arange(points) < round(prior * points)
    x = rng.normal(size=(points, dimensions))
    x[:, 0] += np.where(y, 1, -1)
    dataset = Dataset(
        name="toy",
        features=x.astype(np.float32),
        classes=y.astype(np.int64),
        class_names=("no", "yes"),
        cases={1: (1,)},
        size=points,
        test_fraction=0.5,
    )
    positives = np.flatnonzero(y)
    counts = np.array([0, round(FREQUENCY * len(positives))])
    candidates = Candidates(
        dataset, np.arange(points), np.array([False, True]), [positives[:0], positives], counts
    )
    chosen = labeling.get_mechanism(mechanism)
    propensity = chosen.propensity(candidates)
    selected = chosen.label(candidates, propensity, rng)
    labeled = np.zeros(points, bool)
    labeled[positives[selected]] = True
    return ToySample(x, y, labeled, propensity[selected])


def measure_thresholds(
    points: int = 400_000,
    priors: Sequence[float] = PRIORS,
    mechanisms: Sequence[str] = THRESHOLD_MECHANISMS,
) -> list[dict[str, Any]]:
    """Return the accuracy of the thresholds that PA and PA-IPW choose, and the best there is."""
    rows = []
    for mechanism in mechanisms:
        for prior in priors:
            sample = draw(mechanism, points, prior, 1)
            x, weight = sample.x[:, 0], 1 / sample.propensity
            above = np.array([(x >= t).mean() for t in THRESHOLDS])
            right = np.array([((x >= t) == sample.y).mean() for t in THRESHOLDS])
            row = {"labeling": mechanism, "prior": prior, "best": float(right.max())}
            for name, w in (("pa", np.ones_like(weight)), ("pa-ipw", weight)):
                tpr = np.array([w[x[sample.labeled] >= t].sum() for t in THRESHOLDS]) / w.sum()
                row[name] = float(right[np.argmax(2 * prior * tpr + 1 - above)])
            row["effective"] = float(weight.sum() ** 2 / (weight**2).sum() / len(weight))
            rows.append(row)
    return rows


def measure_directions(
    points: int = 40_000, mechanisms: Sequence[str] = DIRECTION_MECHANISMS
) -> list[dict[str, Any]]:
    """Return the angle of the direction that PAUC chooses, and its AUC, at the second prior."""
    radians = np.deg2rad(ANGLES)
    directions = np.stack([np.cos(radians), np.sin(radians)], 1)
    rows = []
    for mechanism in mechanisms:
        sample = draw(mechanism, points, PRIORS[1], 2)
        scores = torch.from_numpy(directions @ sample.x.T)
        labeled, y = torch.from_numpy(sample.labeled), torch.from_numpy(sample.y)
        value = torch.stack([metrics.proxy_auc(s[labeled], s[~labeled]) for s in scores])
        best = int(value.argmax())
        auc = float(metrics.auc(scores[best], y))
        rows.append({"labeling": mechanism, "angle": int(ANGLES[best]), "auc": auc})
    return rows


def make_random_labels(
    frequency: float, points: int = 4000, tests: int = 2000, seed: int = 0
) -> tuple[npt.NDArray[np.float32], PUData, HiddenLabels]:
    """Return two Gaussians in two dimensions, half positive, with a share of labels at random."""
    rng = np.random.default_rng(seed)
    y = np.arange(points + tests) % 2 == 0
    x = rng.normal(size=(len(y), 2)) + (2 * y[:, None] - 1)
    order = rng.permutation(points)
    positives = order[y[order]]
    n_p = round(frequency * len(positives))
    p, u = positives[:n_p], rng.permutation(np.append(positives[n_p:], order[~y[order]]))
    p_val, p_train, u_val, u_train = *np.split(p, [n_p // 10]), *np.split(u, [len(u) // 10])
    kind, rate, test = labeling.get_setting("one-sample"), n_p / points, np.arange(points, len(y))
    data = PUData(p_train, u_train, p_val, u_val, test, 0.5, rate, kind.prior_in_u(0.5, rate), kind)
    return x.astype(np.float32), data, HiddenLabels(y[u_train], y[u_val], y[test])


@contextmanager
def weigh_as_batches() -> Iterator[None]:
    """Give labeled and unlabeled points the same weight in SAR-EM."""
    plain = SarEM.weigh_as_data

    def weigh(self: SarEM, on_p: Tensor, on_u: Tensor) -> Tensor:
        return (on_p.mean(-1) + on_u.mean(-1)) / 2

    SarEM.weigh_as_data = weigh  # type: ignore[method-assign]
    try:
        yield
    finally:
        SarEM.weigh_as_data = plain  # type: ignore[method-assign]


def measure_propensities(
    frequencies: Sequence[float] = FREQUENCIES,
    methods: Sequence[str] = PROPENSITY_METHODS,
    steps: int = 1000,
) -> list[dict[str, Any]]:
    """Return the mean of e over the labeled points and the test accuracy after training."""
    config = FleetConfig(batch_size=64, steps=steps, warmup=300, record_every=100)
    rows = []
    for name in methods:
        for frequency in frequencies:
            x, data, hidden = make_random_labels(frequency)
            algorithm = name.partition(",")[0]
            with weigh_as_batches() if name == AS_BATCHES else nullcontext():
                fleet = Fleet([Row(algorithm, data, hidden, seed=7, lr=1e-2)], config, x)
                accuracy = fleet.train().values["test_accuracy"][-1, 0]
            network: Any = fleet.algorithm.e
            propensity = fleet.passes.p(network).sigmoid().mean()
            rows.append(
                {
                    "method": name,
                    "frequency": frequency,
                    "propensity": float(propensity),
                    "accuracy": float(accuracy),
                }
            )
    return rows


def main(words: Sequence[str] | None = None) -> None:
    """Read the command line, measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--points", type=int, default=400_000, help="points of the sample")
    points = parser.parse_args(words).points
    print(f"accuracy of the chosen threshold; {points:,} points, {FREQUENCY:.0%} labeled")
    print(f"{'labeling':<34}{'prior':>6}{'best':>7}{'PA':>7}{'PA-IPW':>8}{'effective':>11}")
    for row in measure_thresholds(points):
        print(
            f"{row['labeling']:<34}{row['prior']:>6g}{100 * row['best']:>7.1f}"
            f"{100 * row['pa']:>7.1f}{100 * row['pa-ipw']:>8.1f}{100 * row['effective']:>10.1f}%"
        )
    print("\ndirection that PAUC chooses, with a second feature without meaning, prior 0.3")
    print(f"{'labeling':<34}{'degrees':>8}{'AUC':>7}")
    for row in measure_directions(max(1000, points // 10)):
        print(f"{row['labeling']:<34}{row['angle']:>8}{100 * row['auc']:>7.1f}")
    print("\nlearned propensity, two dimensions, prior 0.5, labels at random")
    print(f"{'method':<34}{'labeled':>8}{'mean e':>8}{'accuracy':>10}")
    for row in measure_propensities():
        print(
            f"{row['method']:<34}{row['frequency']:>8.0%}{row['propensity']:>8.2f}"
            f"{100 * row['accuracy']:>10.1f}"
        )


if __name__ == "__main__":
    main()
