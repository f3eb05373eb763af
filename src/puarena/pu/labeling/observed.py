"""Observed: the labels that the data came with; nothing is drawn."""

from __future__ import annotations

from dataclasses import dataclass

from puarena.errors import UserError
from puarena.pu.labeling.base import Candidates, Chances, Mechanism


@dataclass(frozen=True)
class Observed(Mechanism):
    """Labels that the world gave, by a rule that nobody knows."""

    name = "observed"
    meaning = "the labels that the data came with, given by a rule that nobody knows"

    def propensity(self, candidates: Candidates) -> Chances:
        """Refuse a dataset whose labels have to be simulated."""
        raise UserError(
            f"'{candidates.dataset.name}' has no observed labels; choose a mechanism such as scar, "
            "or a dataset whose labels were observed, such as nhanes-diabetes",
            "conflict",
        )


MECHANISM = Observed
