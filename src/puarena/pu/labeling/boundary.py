"""Doubtful positives are labeled more often: LBE's second strategy (Gong et al., TPAMI 2022)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from puarena.errors import UserError
from puarena.pu.labeling.base import Candidates, Chances, Mechanism
from puarena.pu.labeling.solving import solve_weights, standardize


@dataclass(frozen=True)
class ByBoundary(Mechanism):
    """``min(1, a (1.5 + delta - p)^power)`` with the posterior ``p``.

    The paper has ``delta`` 0, the code of PU-Bench 1.
    """

    name = "boundary"
    meaning = "positives close to the negatives are labeled more often than clear ones"
    aliases: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "lbe-b": {},
        "pubench-lbe-b": {"delta": 1.0},
    }

    measured = "power"

    delta: float = 0.0
    power: float = 10.0

    def __post_init__(self) -> None:
        if not self.delta > -0.5:
            message = f"delta of labeling boundary is {self.delta:g}; it must be above -0.5"
            raise UserError(message, "invalid-value")
        if self.power < 0:
            message = f"power of labeling boundary is {self.power:g}; it must not be negative"
            raise UserError(message, "invalid-value")

    def propensity(self, candidates: Candidates) -> Chances:
        """Return the chances by the posterior of every candidate."""
        standardize(candidates.posterior, "the posterior")  # raises an error for a constant
        log_weights = self.power * np.log(1.5 + self.delta - candidates.posterior)
        return solve_weights(log_weights, candidates.labels, self.text)


MECHANISM = ByBoundary
