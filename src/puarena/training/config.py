"""What a fleet is made of: its runs and what they share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from puarena import paper
from puarena.datasets import View
from puarena.pu import HiddenLabels, PUData


@dataclass(frozen=True)
class Row:
    """One run: an algorithm's registered name, its data, its seed and its hyperparameters."""

    algorithm: str
    data: PUData
    hidden: HiddenLabels
    seed: int
    lr: float = 1e-3
    momentum: float = 0.9
    hyper: dict[str, Any] = field(default_factory=dict)
    calibration: str = paper.CALIBRATION  # how a "-c" form is calibrated; ignored by plain forms


@dataclass(frozen=True)
class FleetConfig:
    """What all rows of a fleet share."""

    batch_size: int = 128
    steps: int = paper.STEPS
    # Of a first stage, in addition to ``steps``, for algorithms that have one.
    warmup: int = paper.WARMUP_STEPS
    record_every: int = paper.RECORD_STEPS
    network: str | Callable[[int], Any] = (
        "mlp"  # a name of ``networks``, or a function that builds a torch module
    )
    device: str = "cpu"
    dtype: str = "float32"
    capture: bool = True  # on CUDA: replay captured steps
    precision: str = (
        "float32"  # of the network's activations: "float32" or "bf16", where it has a choice
    )
    weak: View | None = None  # view of the training inputs; None leaves them as they are
    strong: View | None = (
        None  # strong view, for algorithms that ask for one; None is the weak view itself
    )
    evaluation: View | None = (
        None  # view of validation, test and full passes; None leaves inputs as they are
    )
    # The same SGD for all, or "authors": what a class declares (``authors_optimizer``)
    optimizer: str = "protocol"
    keep: str | None = None  # a criterion: ``Fleet.best`` keeps every row's best checkpoint by it


def shape_of(row: Row) -> tuple[int, ...]:
    """Return what must agree for two rows to travel together."""
    d = row.data
    return (len(d.p_train), len(d.u_train), len(d.p_val), len(d.u_val), len(d.test))
