"""Random data in the shape of real data, to measure time on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from puarena.datasets import Views
from puarena.pu import HiddenLabels, PUData, labeling
from puarena.training.config import Row

ALGORITHM = "nnpu"  # whose step has cost 1


@dataclass(frozen=True)
class Shape:
    """What decides the time of a step and of a record."""

    features: tuple[int, ...]  # of one example as networks see it
    n_p: int
    n_u: int
    test: int
    batch_size: int
    network: str
    precision: str = "float32"
    views: Views = field(default_factory=Views)
    stored: tuple[int, ...] | None = None  # of one stored example, where that is another

    @property
    def key(self) -> tuple[Any, ...]:
        """What is probed apart: the other sizes only change how long a record takes."""
        return self.features, self.batch_size, self.network, self.precision, self.views

    @property
    def image(self) -> bool:
        """Are these images?"""
        return len(self.features) > 1

    @property
    def epoch(self) -> int:
        """Steps in which the larger of P and U is seen once."""
        return max(1, -(-max(self.n_p, self.n_u) // self.batch_size))

    @property
    def evaluated(self) -> int:
        """Examples that pass through the network for a record."""
        return self.n_p // 10 + self.n_u // 10 + self.test


def pixels(n: int, shape: tuple[int, ...]) -> np.ndarray:
    """Random images."""
    return np.random.default_rng(0).integers(0, 256, (n, *shape), dtype=np.uint8)


def synthetic(shape: Shape, runs: int) -> tuple[np.ndarray, list[Row]]:
    """Random features and rows whose index sets have the sizes of the real ones."""
    rng = np.random.default_rng(0)
    val_p, val_u = shape.n_p // 10, shape.n_u // 10
    total = shape.n_p + shape.n_u + shape.test
    if shape.image:
        features = pixels(total, shape.stored or shape.features)
    else:
        features = rng.standard_normal((total, *shape.features), dtype=np.float32)
    rows = []
    for seed in range(runs):
        parts = np.split(
            rng.permutation(total), np.cumsum([val_p, shape.n_p - val_p, val_u, shape.n_u - val_u])
        )
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
        rows.append(Row(ALGORITHM, pu, HiddenLabels(*labels), seed))
    return features, rows
