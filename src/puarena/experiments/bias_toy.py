"""What criteria lose where labels are biased, on Gaussians of which everything is known.

One dimension: two Gaussians at -1 and 1; a criterion chooses a threshold. Two dimensions: the class lies along the
first, the second is independent of it; a criterion chooses a direction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from puarena import metrics
from puarena.datasets import Dataset
from puarena.pu import labeling
from puarena.pu.labeling import Candidates

FREQUENCY = 0.4  # share of the positives that are labeled
PRIORS = (0.5, 0.3)
WAYS = ("scar", "pusb", "sar-pu", "lbe-a", "pusb-linear", "lbe-b", "pubench-lbe-b")
TURNING = (
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
class Sample:
    """Points, true labels, which positives are labeled, and with what chance."""

    x: Floats
    y: npt.NDArray[np.bool_]
    labeled: npt.NDArray[np.bool_]
    chances: Floats  # of the labeled


def draw(way: str, points: int, prior: float, dimensions: int, seed: int = 0) -> Sample:
    """Draw a sample and label a share of its positives by a mechanism."""
    rng = np.random.default_rng(seed)
    y = np.arange(points) < round(prior * points)
    x = rng.normal(size=(points, dimensions))
    x[:, 0] += np.where(y, 1, -1)
    dataset = Dataset(
        "toy",
        x.astype(np.float32),
        y.astype(np.int64),
        ("no", "yes"),
        {1: (1,)},
        points,
        test_fraction=0.5,
    )
    positives = np.flatnonzero(y)
    counts = np.array([0, round(FREQUENCY * len(positives))])
    candidates = Candidates(
        dataset, np.arange(points), np.array([False, True]), [positives[:0], positives], counts
    )
    mechanism = labeling.get_mechanism(way)
    chances = mechanism.propensity(candidates)
    selected = mechanism.label(candidates, chances, rng)
    labeled = np.zeros(points, bool)
    labeled[positives[selected]] = True
    return Sample(x, y, labeled, chances[selected])


def thresholds(
    points: int = 400_000, priors: tuple[float, ...] = PRIORS, ways: tuple[str, ...] = WAYS
) -> list[dict[str, Any]]:
    """Return by mechanism and prior the accuracy of the threshold that PA and PA-IPW choose, and the best there is."""
    rows = []
    for way in ways:
        for prior in priors:
            sample = draw(way, points, prior, 1)
            x, weight = sample.x[:, 0], 1 / sample.chances
            above = np.array([(x >= t).mean() for t in THRESHOLDS])
            right = np.array([((x >= t) == sample.y).mean() for t in THRESHOLDS])
            chosen = {}
            for name, w in (("pa", np.ones_like(weight)), ("pa-ipw", weight)):
                tpr = np.array([w[x[sample.labeled] >= t].sum() for t in THRESHOLDS]) / w.sum()
                chosen[name] = float(right[np.argmax(2 * prior * tpr + 1 - above)])
            effective = float(weight.sum() ** 2 / (weight**2).sum() / len(weight))
            rows.append(
                {
                    "labeling": way,
                    "prior": prior,
                    "best": float(right.max()),
                    **chosen,
                    "effective": effective,
                }
            )
    return rows


def directions(points: int = 40_000, ways: tuple[str, ...] = TURNING) -> list[dict[str, Any]]:
    """Return by mechanism the angle of the direction that PAUC chooses, and its AUC, at the second prior."""
    import torch

    rows = []
    for way in ways:
        sample = draw(way, points, PRIORS[1], 2)
        radians = np.deg2rad(ANGLES)
        score = torch.from_numpy(np.stack([np.cos(radians), np.sin(radians)], 1) @ sample.x.T)
        labeled, y = torch.from_numpy(sample.labeled), torch.from_numpy(sample.y)
        value = torch.stack([metrics.proxy_auc(s[labeled], s[~labeled]) for s in score])
        best = int(value.argmax())
        rows.append(
            {"labeling": way, "angle": int(ANGLES[best]), "auc": float(metrics.auc(score[best], y))}
        )
    return rows
