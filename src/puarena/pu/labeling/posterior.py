"""Clear positives are labeled more often: the propensity rises with the posterior.

JERM's S2 to S4 (Teisseyre et al.), LBE's first strategy (Gong et al., TPAMI 2022), and PUSB's (Kato
et al., ICLR 2019).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from puarena.errors import UserError, suggest
from puarena.pu.labeling.base import Candidates, Chances, Mechanism, logit
from puarena.pu.labeling.solving import solve_link, solve_weights, standardize

FORMS = ("logit", "cauchy", "weight")


@dataclass(frozen=True)
class ByPosterior(Mechanism):
    """A function of the posterior ``p`` or its logit ``t``, with ``a`` solved for.

    ``logit``: ``sigmoid(strength t + a)^power``; ``cauchy``: ``1/2 + arctan(strength t + a)/pi``,
    which excludes hardly any example; ``weight``: ``min(1, a p^power)``.
    """

    name = "posterior"
    meaning = "clear positives are labeled more often than doubtful ones"
    aliases: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "jerm-s2": {},
        "jerm-s3": {"form": "cauchy"},
        "jerm-s4": {"power": 10.0},
        "lbe-a": {"form": "weight", "power": 10.0},
        "pusb": {"form": "weight"},
        "pusb-linear": {"form": "weight", "power": 20.0},
    }

    strength: float = 1.0
    power: float = 1.0
    form: str = "logit"

    def __post_init__(self) -> None:
        what = "labeling posterior"
        if self.form not in FORMS:
            message = f"form of {what} is '{self.form}'{suggest(self.form, FORMS)}"
            raise UserError(message, "unknown-name")
        if self.form == "weight" and self.strength not in (0, 1):
            message = f"{what} in the form weight has a power and no strength {self.strength:g}"
            raise UserError(message, "conflict")
        if self.form == "cauchy" and self.power not in (0, 1):
            message = f"{what} in the form cauchy has a strength and no power {self.power:g}"
            raise UserError(message, "conflict")
        if self.power < 0:
            message = f"power of {what} is {self.power:g}; it must not be negative"
            raise UserError(message, "invalid-value")

    def propensity(self, candidates: Candidates) -> Chances:
        """Return the chances by the posterior of every candidate."""
        from scipy.special import log_expit

        p = candidates.posterior
        standardize(p, "the posterior")  # raises an error for a constant
        if self.form == "weight":
            return solve_weights(self.power * np.log(p), candidates.labels, self.text)
        u = self.strength * logit(p)
        if self.form == "cauchy":
            return solve_link(lambda a: 0.5 + np.arctan(u + a) / np.pi, len(p), candidates.labels)
        return solve_link(
            lambda a: np.exp(self.power * log_expit(u + a)), len(p), candidates.labels
        )


MECHANISM = ByPosterior
