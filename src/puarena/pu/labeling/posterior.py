"""Clear positives are labeled more often: the propensity rises with the posterior.

JERM's S2 to S4 (Teisseyre et al.), LBE's first strategy (Gong et al., TPAMI 2022), PUSB's (Kato et al., ICLR 2019).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from puarena.errors import UserError, suggest
from puarena.pu.labeling.base import Candidates, Chances, Mechanism
from puarena.pu.labeling.solving import linked, standardized, weighted
from puarena.pu.posterior import logit

FORMS = ("logit", "cauchy", "weight")


@dataclass(frozen=True)
class ByPosterior(Mechanism):
    """``t`` the logit of the posterior p, F the sigmoid, ``a`` such that the number of labels is right.

    ``logit``: ``F(strength t + a)^power``; ``cauchy``: ``1/2 + arctan(strength t + a)/pi``, which excludes hardly any;
    ``weight``: ``min(1, a p^power)``.
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
        if self.form not in FORMS:
            raise UserError(
                f"form of labeling posterior is '{self.form}'{suggest(self.form, FORMS)}"
            )
        if self.form == "weight" and self.strength not in (0, 1):
            raise UserError(
                f"labeling posterior in the form weight has a power and no strength {self.strength:g}"
            )
        if self.form == "cauchy" and self.power not in (0, 1):
            raise UserError(
                f"labeling posterior in the form cauchy has a strength and no power {self.power:g}"
            )
        if self.power < 0:
            raise UserError(f"power of labeling posterior is {self.power:g}; it cannot be below 0")

    def propensity(self, candidates: Candidates) -> Chances:
        """Return the chances by the posterior of every candidate."""
        from scipy.special import log_expit

        p = candidates.posterior
        standardized(p, "the posterior")
        if self.form == "weight":
            return weighted(self.power * np.log(p), candidates.labels, self.text)
        u = self.strength * logit(p)
        if self.form == "cauchy":
            return linked(lambda a: 0.5 + np.arctan(u + a) / np.pi, len(p), candidates.labels)
        return linked(lambda a: np.exp(self.power * log_expit(u + a)), len(p), candidates.labels)


MECHANISM = ByPosterior
