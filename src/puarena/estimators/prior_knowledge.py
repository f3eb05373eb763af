"""What a user says about the class prior: a number, a range, a label frequency, or a method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from puarena.errors import UserError, unknown_name
from puarena.priors import DEFAULT, METHODS, method_named
from puarena.priors.estimate import ALL_METHODS, check_bounds
from puarena.pu.labeling import Setting

QUANTILES = np.linspace(0.0, 1.0, 101)  # of the distribution that a fitted model keeps
INTERVAL = [2.5, 97.5]  # in percent


@dataclass(frozen=True)
class PriorKnowledge:
    """The range in which the prior lies, and the method that estimates it there."""

    method: str
    low: float
    high: float

    @property
    def is_exact(self) -> bool:
        """Whether the prior needs no estimate."""
        return self.low == self.high


def read_prior(
    prior: Any, label_frequency: Any, setting: Setting, rate: float, negatives: float = 0.0
) -> PriorKnowledge:
    """Read the parameters ``prior`` and ``label_frequency`` of a classifier.

    ``rate`` is the share of labeled rows, ``negatives`` that of known negatives, which bound the
    prior of one sample from above.
    """
    # In one sample, known negatives bound the prior from above.
    low, high = 0.0, 1 - negatives if setting.one_sample else 1.0
    method = DEFAULT
    if isinstance(prior, str):
        method = _read_method(prior)
    elif isinstance(prior, Real):
        check_bounds((float(prior), float(prior)), setting, rate, f"prior={float(prior):g}")
        low = high = float(prior)
    else:
        low, high = _intersect((low, high), check_bounds(prior, setting, rate, f"prior={prior!r}"))
    if label_frequency is not None:
        if not setting.one_sample:
            raise UserError(
                "label_frequency is the share of the positives of one sample that are labeled; "
                "with setting='two-sample' give prior=…, of the unlabeled rows",
                "conflict",
            )
        low, high = _intersect((low, high), _read_frequency(label_frequency, setting, rate))
    lowest = setting.lowest_prior(rate)
    return PriorKnowledge(method, max(low, lowest), max(high, lowest))


def _read_method(text: str) -> str:
    method = method_named(text) if text else ""
    if method in (*METHODS, ALL_METHODS):
        return method
    if text.startswith("estimate:"):
        raise unknown_name("method", method, [*METHODS, ALL_METHODS])
    raise UserError(
        f"prior={text!r} is neither a number, nor a range (low, high), nor 'estimate', nor "
        "'estimate:<method>'",
        "invalid-value",
    )


def _read_frequency(given: Any, setting: Setting, rate: float) -> tuple[float, float]:
    """Return the range of priors for a label frequency or a range of it."""
    ends = (given, given) if isinstance(given, Real) else given
    try:
        low, high = (float(end) for end in ends)
    except (TypeError, ValueError):
        low, high = np.nan, np.nan
    if not 0 < low <= high <= 1:
        raise UserError(
            f"label_frequency={given!r} is neither a number above 0 and at most 1 nor a range",
            "invalid-value",
        )
    bounds = (rate / high, min(rate / low, 1.0))
    return check_bounds(bounds, setting, rate, f"label_frequency={given!r}")


def _intersect(first: tuple[float, float], second: tuple[float, float]) -> tuple[float, float]:
    low, high = max(first[0], second[0]), min(first[1], second[1])
    if low > high:
        raise UserError(
            f"nothing is between {low:.3g} and {high:.3g}: prior, label_frequency and the share of "
            "known negatives contradict each other",
            "conflict",
        )
    return low, high


def describe_interval(interval: Sequence[float], value: float) -> str:
    """Return an interval as text; of a prior that is known, the value."""
    low, high = interval
    digits = 3 if low >= 0.01 else 4
    if low == high:
        return f"{value:.{digits}f}"
    return f"{low:.{digits}f} to {high:.{digits}f} ({value:.{digits}f} where one number is needed)"


def make_quantiles(value: float, interval: Sequence[float]) -> npt.NDArray[np.float64]:
    """Return the quantiles of a distribution of which only a value and an interval are known.

    On either side of the value it is like half of a normal distribution.
    """
    from scipy.stats import norm

    z = norm.ppf(np.clip(QUANTILES, 1e-3, 1 - 1e-3)) / norm.ppf(INTERVAL[1] / 100)
    low, high = interval
    spread = np.where(z < 0, value - low, high - value)
    return np.clip(value + z * spread, 0.0, 1.0)
