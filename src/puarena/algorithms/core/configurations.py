"""The protocol's search: configuration 0 is the default, the others are drawn by the released registry's rule.

A draw depends on the configuration, the trial and the name of the hyperparameter only, never on the algorithm or the
dataset: configuration 3 has the same learning rate everywhere.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

DEFAULT_LR = 1e-3
MOMENTUM = 0.9
LR_EXPONENTS = (-4.5, -2.5)


class BatchSizes(Protocol):
    """What a network declares about the batch sizes it is searched with."""

    @property
    def default_batch(self) -> int:
        """Of configuration 0, as the paper's table says."""

    @property
    def batch_exponents(self) -> tuple[int, int]:
        """Between these a power of two is drawn and cut to an integer."""


@dataclass(frozen=True)
class Configuration:
    """What one configuration of the search sets: the optimizer's values and the algorithm's own."""

    lr: float
    batch_size: int
    momentum: float
    hyper: dict[str, Any]


def seed_hash(*parts: object) -> int:
    """The released registry's seed: md5 of the printed tuple, modulo 2^31."""
    return int(hashlib.md5(str(parts).encode(), usedforsecurity=False).hexdigest(), 16) % 2**31


def draw(
    config: int,
    trial: int,
    network: BatchSizes,
    hypers: Mapping[str, Any] | None = None,
    default_batch: int | None = None,
) -> Configuration:
    """Return configuration number ``config`` of ``trial`` with the batch sizes of a ``network``.

    ``hypers`` are an algorithm's declared hyperparameters (``Hyper``); without a search distribution they keep their
    default. ``default_batch`` is the batch size of configuration 0 where it is not the paper's.
    """
    hypers = hypers or {}
    if config == 0:
        batch = network.default_batch if default_batch is None else default_batch
        return Configuration(
            DEFAULT_LR, batch, MOMENTUM, {name: hyper.default for name, hyper in hypers.items()}
        )
    seed = seed_hash(config, trial)

    def generator(name: str) -> np.random.RandomState:
        return np.random.RandomState(seed_hash(seed, name))

    return Configuration(
        lr=float(10 ** generator("lr").uniform(*LR_EXPONENTS)),
        batch_size=2 ** int(generator("batch_size").uniform(*network.batch_exponents)),
        momentum=MOMENTUM,
        hyper={
            name: h.search.sample(generator(name)) if h.search else h.default
            for name, h in hypers.items()
        },
    )
