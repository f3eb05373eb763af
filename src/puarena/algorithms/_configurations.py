"""The protocol's search over hyperparameters.

Configuration 0 is the default; the others are drawn by the rule of the published code. A draw
depends on the configuration, the split and the name of the hyperparameter only, never on the
algorithm or the dataset: configuration 3 has the same learning rate everywhere.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from puarena.algorithms._base import Hyper

DEFAULT_LR = 1e-3
MOMENTUM = 0.9
LR_EXPONENTS = (-4.5, -2.5)


class BatchSizes(Protocol):
    """What a network declares about the batch sizes of the search."""

    @property
    def default_batch(self) -> int:
        """The batch size of configuration 0, as in the paper's table."""

    @property
    def batch_exponents(self) -> tuple[int, int]:
        """The range of the exponent of 2, which is drawn and cut to an integer."""


@dataclass(frozen=True)
class Configuration:
    """The optimizer's values and an algorithm's hyperparameters in one configuration."""

    lr: float
    batch_size: int
    momentum: float
    hyper: dict[str, Any]


def hash_seed(*parts: object) -> int:
    """Return the published code's seed: the md5 of the printed tuple, modulo 2^31."""
    return int(hashlib.md5(str(parts).encode(), usedforsecurity=False).hexdigest(), 16) % 2**31


def draw_configuration(
    config: int,
    split: int,
    network: BatchSizes,
    hypers: Mapping[str, Hyper] | None = None,
    default_batch: int | None = None,
) -> Configuration:
    """Return configuration number ``config`` of a split.

    Args:
        config: the number of the configuration.
        split: the number of the split.
        network: declares the batch sizes.
        hypers: the declared hyperparameters of an algorithm. One without a search distribution
            keeps its default.
        default_batch: the batch size of configuration 0 if it is not the network's.
    """
    hypers = hypers or {}
    if config == 0:
        batch_size = network.default_batch if default_batch is None else default_batch
        defaults = {name: hyper.default for name, hyper in hypers.items()}
        return Configuration(DEFAULT_LR, batch_size, MOMENTUM, defaults)
    seed = hash_seed(config, split)

    def make_generator(name: str) -> np.random.RandomState:
        return np.random.RandomState(hash_seed(seed, name))

    drawn = {}
    for name, hyper in hypers.items():
        drawn[name] = hyper.search.sample(make_generator(name)) if hyper.search else hyper.default
    return Configuration(
        lr=float(10 ** make_generator("lr").uniform(*LR_EXPONENTS)),
        batch_size=2 ** int(make_generator("batch_size").uniform(*network.batch_exponents)),
        momentum=MOMENTUM,
        hyper=drawn,
    )
