"""Labels depend on something other than the class: SCAR_test's S1 (Teisseyre et al.), SAR-PU (Bekker et al., 2019)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from puarena.errors import UserError
from puarena.pu.labeling.base import Candidates, Chances, Mechanism
from puarena.pu.labeling.solving import linked, standardized, weighted

COMPONENT = "pc1"
NO_RANGE = "none"


@dataclass(frozen=True)
class ByFeature(Mechanism):
    """``F(strength u + a)``, u a column or the first principal component of the candidates, standardized over them.

    With ``range`` ``low:high``: ``min(1, a w)``, w the geometric mean of the columns scaled to low … high; of all
    columns that vary, or of the one named.
    """

    name = "feature"
    meaning = "positives are labeled more often where a feature that need not matter for the class is large"
    aliases: ClassVar[Mapping[str, Mapping[str, Any]]] = {"sar-pu": {"range": "0.2:0.8"}}

    feature: str = COMPONENT
    strength: float = 1.0
    range: str = NO_RANGE

    def __post_init__(self) -> None:
        if self.feature != COMPONENT and not self.feature.isdecimal():
            raise UserError(
                f"feature of labeling feature is '{self.feature}'; choose {COMPONENT} or a column's number from 0"
            )
        if self.range != NO_RANGE:
            self._limits()

    def propensity(self, candidates: Candidates) -> Chances:
        """Return the chances by the features of every candidate."""
        from scipy.special import expit

        if self.range != NO_RANGE:
            return weighted(self._logarithms(candidates.table), candidates.labels, self.text)
        u = self.strength * standardized(self._values(candidates.table), f"feature {self.feature}")
        return linked(lambda a: expit(u + a), len(u), candidates.labels)

    def _values(self, table: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        if self.feature == COMPONENT:
            centerd = table - table.mean(0)
            loading = np.linalg.eigh(centerd.T @ centerd)[1][:, -1]
            return centerd @ (loading * np.sign(loading[np.argmax(np.abs(loading))]))
        if int(self.feature) >= table.shape[1]:
            raise UserError(
                f"labeling by feature {self.feature}: there are {table.shape[1]} columns, counted from 0"
            )
        return table[:, int(self.feature)]

    def _logarithms(self, table: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        low, high = self._limits()
        columns = table if self.feature == COMPONENT else self._values(table)[:, None]
        least, most = columns.min(0), columns.max(0)
        varies = most > least
        if not varies.any():
            standardized(columns[:, 0], f"feature {self.feature}")  # says so
        share = (columns[:, varies] - least[varies]) / (most - least)[varies]
        with np.errstate(divide="ignore"):  # log 0: no chance at all
            return np.asarray(np.log(low + share * (high - low)).mean(1))

    def _limits(self) -> tuple[float, float]:
        try:
            low, high = (float(word) for word in self.range.split(":"))
        except ValueError:
            low = high = -1.0
        if not (0 <= low <= 1 and 0 <= high <= 1 and low != high):
            raise UserError(
                f"range of labeling feature is '{self.range}'; write two numbers from 0 to 1, as 0.2:0.8"
            )
        return low, high


MECHANISM = ByFeature
