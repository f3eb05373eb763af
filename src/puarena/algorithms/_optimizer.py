"""The optimizer a method's authors used, declared in its class.

The protocol trains every algorithm with the same SGD; ``run --optimizer authors`` uses this one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import cos, pi

TITLES = {"sgd": "SGD", "adam": "Adam", "adamw": "AdamW"}


@dataclass(frozen=True)
class Optimizer:
    """An optimizer with its values.

    Attributes:
        kind: "sgd", "adam" or "adamw".
        spares_biases: weight decay acts on weights only.
        schedule: "constant", "cosine" (from 1 to ``final``, half a wave), "slow-cosine"
            (``cos(7/16 pi t)``) or "halving" (at the shares ``halve_at`` of the phase). Schedules
            run over the steps of a phase.
        part: where the schedule begins and ends in this phase, if it runs over several phases.
        source: where the values are documented.
    """

    kind: str
    lr: float
    betas: tuple[float, float] = (0.9, 0.999)
    momentum: float = 0.9
    nesterov: bool = False
    weight_decay: float = 0.0
    spares_biases: bool = False
    amsgrad: bool = False
    schedule: str = "constant"
    final: float = 0.0
    halve_at: tuple[float, ...] = ()
    part: tuple[float, float] = (0.0, 1.0)
    source: str = ""

    def factor(self, share: float) -> float:
        """Return the factor of the learning rate after a ``share`` of the phase."""
        share = self.part[0] + (self.part[1] - self.part[0]) * share
        if self.schedule == "cosine":
            return self.final + (1 - self.final) * (1 + cos(pi * share)) / 2
        if self.schedule == "slow-cosine":
            return cos(7 / 16 * pi * share)
        return 0.5 ** sum(share >= at for at in self.halve_at)

    def __str__(self) -> str:
        facts = [f"{TITLES[self.kind]} {self.lr:g}"]
        if self.kind == "sgd":
            facts.append(f"momentum {self.momentum:g}")
        if self.nesterov:
            facts.append("Nesterov")
        if self.kind != "sgd":
            facts.append(f"betas {self.betas[0]:g} and {self.betas[1]:g}")
        if self.weight_decay > 0:
            facts.append(f"weight decay {self.weight_decay:g}")
        if self.amsgrad:
            facts.append("amsgrad")
        if self.schedule != "constant":
            facts.append(f"schedule {self.schedule}")
        return ", ".join(facts)


# A mapping is by the name of a phase or of a network.
Declared = Optimizer | Mapping[str, Optimizer] | None


def find_optimizer(declared: Declared, network: str, phase: str) -> Optimizer | None:
    """Return the declared optimizer of a network in a phase, or None."""
    if isinstance(declared, Mapping):
        return declared.get(network) or declared.get(phase)
    return declared


def format_optimizer(declared: Declared) -> str:
    """Return a declaration as text, with its source; empty if there is none."""
    if not declared:
        return ""
    if isinstance(declared, Optimizer):
        return f"{declared} ({declared.source})" if declared.source else str(declared)
    text = "; ".join(f"{name}: {part}" for name, part in declared.items())
    sources = dict.fromkeys(part.source for part in declared.values() if part.source)
    return f"{text} ({'; '.join(sources)})" if sources else text
