"""What a method's authors trained it with, declared in its class; the protocol trains everything with the same SGD."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import cos, pi


@dataclass(frozen=True)
class Optimizer:
    """An optimizer with its values; schedules run over the steps of a phase, however many those are here.

    One that runs over several phases says with ``part`` from where to where it goes in this one.
    ``schedule``: "constant", "cosine" (``1`` to ``final``, half a wave), "slow-cosine" (``cos(7/16 pi t)``) or
    "halving" (at the shares ``halve_at`` of the phase).
    """

    kind: str  # "sgd", "adam" or "adamw"
    lr: float
    betas: tuple[float, float] = (0.9, 0.999)
    momentum: float = 0.9
    nesterov: bool = False
    weight_decay: float = 0.0
    spares_biases: bool = False  # weight decay acts on weights only
    amsgrad: bool = False
    schedule: str = "constant"
    final: float = 0.0
    halve_at: tuple[float, ...] = ()
    part: tuple[float, float] = (0.0, 1.0)
    source: str = ""  # where the values stand

    def factor(self, share: float) -> float:
        """Return what the learning rate is multiplied by when a ``share`` of the phase is done."""
        share = self.part[0] + (self.part[1] - self.part[0]) * share
        if self.schedule == "cosine":
            return self.final + (1 - self.final) * (1 + cos(pi * share)) / 2
        if self.schedule == "slow-cosine":
            return cos(7 / 16 * pi * share)
        return 0.5 ** sum(share >= at for at in self.halve_at)

    def __str__(self) -> str:
        name = {"sgd": "SGD", "adam": "Adam", "adamw": "AdamW"}[self.kind]
        facts = {
            f"momentum {self.momentum:g}": self.kind == "sgd",
            "Nesterov": self.nesterov,
            f"betas {self.betas[0]:g} and {self.betas[1]:g}": self.kind != "sgd",
            f"weight decay {self.weight_decay:g}": self.weight_decay > 0,
            "amsgrad": self.amsgrad,
            f"schedule {self.schedule}": self.schedule != "constant",
        }
        return ", ".join([f"{name} {self.lr:g}", *(fact for fact, holds in facts.items() if holds)])


Declared = (
    Optimizer | Mapping[str, Optimizer] | None
)  # a mapping is by the name of a phase or of a network


def of(declared: Declared, network: str, phase: str) -> Optimizer | None:
    """Return what trains a network in a phase, where that is declared."""
    if isinstance(declared, Mapping):
        return declared.get(network) or declared.get(phase)
    return declared


def in_words(declared: Declared) -> str:
    """Return a declaration as a reader sees it, with its source; empty where there is none."""
    parts = declared if isinstance(declared, Mapping) else {"": declared} if declared else {}
    words = "; ".join(f"{name}: {part}" if name else str(part) for name, part in parts.items())
    sources = dict.fromkeys(part.source for part in parts.values() if part.source)
    return words + (f" ({'; '.join(sources)})" if sources else "")
