"""A problem: a dataset, which classes are positive, and how labels are given. Also the arithmetic of its sizes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from puarena.errors import UserError, unknown

SETTINGS = ("os", "ts")
VALIDATION = 0.1  # fraction of P and of U held out to choose a model


@dataclass(frozen=True)
class Problem:
    """One PU problem. ``prior=None`` means the dataset's default."""

    dataset: str
    case: int = 1
    setting: Literal["os", "ts"] = "os"
    rate: float = 0.3  # labeled positives / all training examples
    prior: float | None = None

    def __post_init__(self) -> None:
        if self.setting not in SETTINGS:
            raise unknown("setting", str(self.setting), SETTINGS)
        if isinstance(self.case, bool) or not isinstance(self.case, int) or self.case < 1:
            raise UserError(f"the case must be a whole number from 1, but {self.case!r} was given")
        object.__setattr__(self, "rate", _inside_unit("positive rate", self.rate))
        if self.prior is not None:
            object.__setattr__(self, "prior", _inside_unit("class prior", self.prior))


@dataclass(frozen=True)
class Sizes:
    """How many examples a draw has."""

    n_p: int
    n_u: int

    @property
    def n(self) -> int:
        """Labeled and unlabeled examples together."""
        return self.n_p + self.n_u

    @property
    def val_p(self) -> int:
        """Labeled positives held out."""
        return truncated(VALIDATION * self.n_p)

    @property
    def val_u(self) -> int:
        """Unlabeled examples held out."""
        return truncated(VALIDATION * self.n_u)

    @property
    def train_p(self) -> int:
        """Labeled positives to train on."""
        return self.n_p - self.val_p

    @property
    def train_u(self) -> int:
        """Unlabeled examples to train on."""
        return self.n_u - self.val_u


def sizes(size: int, rate: float, prior: float = 0.5, base: float = 0.5) -> Sizes:
    """Sizes of a draw from a sample of ``size`` whose positive fraction is ``base``, thinned to ``prior``.

    The total is the largest for which neither side needs more than it has in the base sample.
    """
    n = truncated(size * min(base / prior, (1 - base) / (1 - prior)))
    n_p = rounded(rate * n)
    return Sizes(n_p, n - n_p)


def label_frequency(pi: float, rate: float) -> float:
    """Return c, the probability that a positive is labeled in the one-sample setting."""
    return rate / pi


def shifted_prior(pi: float, c: float) -> float:
    """Return the class prior inside the unlabeled set of the one-sample setting."""
    return (1 - c) * pi / (1 - c * pi)


def rounded(value: float) -> int:
    """Round half up, immune to the last bits of a float product."""
    return math.floor(value + 0.5 + 1e-9)


def truncated(value: float) -> int:
    """Integer part, immune to the last bits of a float product."""
    return math.floor(value + 1e-9)


def _inside_unit(what: str, value: object) -> float:
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = math.nan
    if not 0 < number < 1 or isinstance(value, bool):
        raise UserError(f"the {what} must lie strictly between 0 and 1, but {value!r} was given")
    return number
