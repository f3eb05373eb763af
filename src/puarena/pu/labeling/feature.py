"""Labels depend on something else than the class.

SCAR_test's S1 (Teisseyre et al.), SAR-PU (Bekker et al., 2019).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from puarena.errors import UserError
from puarena.pu.labeling.base import Candidates, Chances, Mechanism
from puarena.pu.labeling.solving import solve_link, solve_weights, standardize

PRINCIPAL_COMPONENT = "pc1"
NO_RANGE = "none"


@dataclass(frozen=True)
class ByFeature(Mechanism):
    """``sigmoid(strength u + a)`` with a standardized column ``u`` of the candidates.

    The column is the one named by ``feature``, or the first principal component. With a ``range``
    ``low:high`` the chances are ``min(1, a w)``, where ``w`` is the geometric mean of the columns
    scaled to low … high: of all columns that vary, or of the one named.
    """

    name = "feature"
    meaning = (
        "positives are labeled more often if a feature, relevant for the class or not, is large"
    )
    aliases: ClassVar[Mapping[str, Mapping[str, Any]]] = {"sar-pu": {"range": "0.2:0.8"}}

    feature: str = PRINCIPAL_COMPONENT
    strength: float = 1.0
    range: str = NO_RANGE

    def __post_init__(self) -> None:
        if self.feature != PRINCIPAL_COMPONENT and not self.feature.isdecimal():
            raise UserError(
                f"feature of labeling feature is '{self.feature}'; choose {PRINCIPAL_COMPONENT} or "
                "the number of a column, counted from 0",
                "invalid-value",
            )
        if self.range != NO_RANGE:
            self._limits()

    def propensity(self, candidates: Candidates) -> Chances:
        """Return the chances by the features of every candidate."""
        from scipy.special import expit

        if self.range != NO_RANGE:
            log_weights = self._log_weights(candidates.table)
            return solve_weights(log_weights, candidates.labels, self.text)
        values = standardize(self._values(candidates.table), f"feature {self.feature}")
        u = self.strength * values
        return solve_link(lambda a: expit(u + a), len(u), candidates.labels)

    def _values(self, table: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        if self.feature == PRINCIPAL_COMPONENT:
            centered = table - table.mean(0)
            loading = np.linalg.eigh(centered.T @ centered)[1][:, -1]
            return centered @ (loading * np.sign(loading[np.argmax(np.abs(loading))]))
        if int(self.feature) >= table.shape[1]:
            message = f"labeling by feature {self.feature}: there are {table.shape[1]} columns"
            raise UserError(message, "invalid-value")
        return table[:, int(self.feature)]

    def _log_weights(self, table: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        low, high = self._limits()
        is_all = self.feature == PRINCIPAL_COMPONENT
        columns = table if is_all else self._values(table)[:, None]
        least, most = columns.min(0), columns.max(0)
        varies = most > least
        if not varies.any():
            standardize(columns[:, 0], f"feature {self.feature}")  # raises the error
        share = (columns[:, varies] - least[varies]) / (most - least)[varies]
        # The logarithm of 0 is -inf: no chance at all.
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(low + share * (high - low)).mean(1))

    def _limits(self) -> tuple[float, float]:
        try:
            low, high = (float(part) for part in self.range.split(":"))
        except ValueError:
            low = high = -1.0
        if not (0 <= low <= 1 and 0 <= high <= 1 and low != high):
            raise UserError(
                f"range of labeling feature is '{self.range}'; write two numbers from 0 to 1, such "
                "as 0.2:0.8",
                "invalid-value",
            )
        return low, high


MECHANISM = ByFeature
