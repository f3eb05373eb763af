"""Measure what criteria lose where labels are biased, on Gaussians of which everything is known.

    python benchmarks/bias_toy.py
    python benchmarks/bias_toy.py --points 20000

In one dimension there are two Gaussians at -1 and 1, and a criterion chooses a threshold. In two
dimensions the class depends on the first feature only, and a criterion chooses a direction.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from puarena import metrics
from puarena.datasets import Dataset
from puarena.pu import labeling
from puarena.pu.labeling import Candidates

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


if __name__ == "__main__":
    main()
