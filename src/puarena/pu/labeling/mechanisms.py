"""The labeling mechanisms of the package: labeling completely at random, and biased labels.

A biased mechanism gives every candidate a weight, and a constant is solved for, so that the
chances sum to the number of labels (``solve_link`` and ``solve_weights``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from puarena.datasets.base import Flags
from puarena.errors import UserError, suggest
from puarena.pu.labeling.base import (
    Candidates,
    Chances,
    Mechanism,
    logit,
    solve_link,
    solve_weights,
    standardize,
)
from puarena.utils.counts import allocate


@dataclass(frozen=True)
class Scar(Mechanism):
    """Selected completely at random: a fixed number of labels per class.

    The shuffle decides which examples get them.
    """

    name = "scar"
    meaning = "every positive is labeled with the same probability"

    def propensity(self, candidates: Candidates) -> Chances:
        """Return the label frequency of every candidate's class."""
        size = np.array([len(part) for part in candidates.parts])
        return np.repeat(candidates.counts / np.maximum(size, 1), size)

    def label(self, candidates: Candidates, chances: Chances, rng: np.random.Generator) -> Flags:
        """Return the first candidates of every class."""
        shares = zip(candidates.parts, candidates.counts, strict=True)
        return np.concatenate([np.arange(len(part)) < count for part, count in shares])


@dataclass(frozen=True)
class ByBoundary(Mechanism):
    """Doubtful positives are labeled more often: LBE's second strategy (Gong et al., TPAMI 2022).

    ``min(1, a (1.5 + delta - p)^power)`` with the posterior ``p``.
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


@dataclass(frozen=True)
class ByClass(Mechanism):
    """Subpopulations are labeled at different rates, as PULSNAR and others study.

    ``min(1, a 2^(strength k))`` with the rank ``k`` of the original class.
    """

    name = "class"
    meaning = "each original class that is positive is labeled more often than the one before it"

    strength: float = 1.0

    def propensity(self, candidates: Candidates) -> Chances:
        """Return the chances by the class of every candidate."""
        rank = np.unique(candidates.classes, return_inverse=True)[1].astype(np.float64)
        standardize(rank, "the original class (its rank)")  # raises an error for a single class
        return solve_weights(self.strength * rank * np.log(2.0), candidates.labels, self.text)


PRINCIPAL_COMPONENT = "pc1"
NO_RANGE = "none"


@dataclass(frozen=True)
class ByFeature(Mechanism):
    """Labels depend on a feature: SCAR_test's S1 (Teisseyre et al.), SAR-PU (Bekker et al., 2019).

    ``sigmoid(strength u + a)`` with a standardized column ``u`` of the candidates.

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


FORMS = ("logit", "cauchy", "weight")


@dataclass(frozen=True)
class ByPosterior(Mechanism):
    """Clear positives are labeled more often: the propensity rises with the posterior.

    JERM's S2 to S4 (Teisseyre et al.), LBE's first strategy (Gong et al., TPAMI 2022), and PUSB's
    (Kato et al., ICLR 2019).

    A function of the posterior ``p`` or its logit ``t``, with ``a`` solved for.

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


KINDS = ("bold", "red")


@dataclass(frozen=True)
class ByProperty(Mechanism):
    """The examples of every class with the most of a property are labeled, and no others.

    VAE-PU's selection (Na et al., CIKM 2020).

    A class gets labels in proportion to its candidates. ``bold``: the sum of all pixels; ``red``:
    the sum of ``((R - G) + (R - B)) / 2``. No weighting can repair this bias, since all other
    examples have no chance at all.
    """

    name = "property"
    meaning = "only the positives that look a certain way are labeled, and all others never"
    aliases: ClassVar[Mapping[str, Mapping[str, Any]]] = {"vae-pu": {}}

    kind: str = "bold"

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            message = f"kind of labeling property is '{self.kind}'{suggest(self.kind, KINDS)}"
            raise UserError(message, "unknown-name")

    def propensity(self, candidates: Candidates) -> Chances:
        """Return 1 for the labeled candidates and 0 for the others."""
        if candidates.pixels is None:
            name = candidates.dataset.name
            message = f"labeling property needs images, and '{name}' has none"
            raise UserError(message, "not-supported")
        values = self.amount(candidates.pixels)
        chances = np.zeros(len(values))
        labels = np.unique(candidates.classes)
        groups = [np.flatnonzero(candidates.classes == label) for label in labels]
        shares = allocate(candidates.labels, np.array([len(group) for group in groups]))
        for group, share in zip(groups, shares, strict=True):
            # Of equal values the earlier example comes first.
            order = np.lexsort((candidates.index[group], -values[group]))
            chances[group[order[:share]]] = 1.0
        return chances

    def amount(self, images: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Return how much of the property every image has."""
        pixels = images.astype(np.float64)
        if self.kind == "bold":
            return np.asarray(pixels.reshape(len(pixels), -1).sum(1))
        if pixels.ndim != 4 or pixels.shape[1] != 3:
            message = "labeling property(kind=red) needs images with 3 colors, and these have 1"
            raise UserError(message, "not-supported")
        red, green, blue = pixels.swapaxes(0, 1).reshape(3, len(pixels), -1).sum(-1)
        return np.asarray(red - (green + blue) / 2)
