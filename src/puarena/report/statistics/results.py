"""What the statistics give: plain values, each with its n, and a sentence where results are too few for a number."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from puarena.metrics import CRITERIA, METRICS

ALPHA = 0.05
DRAWS = 10_000  # bootstrap samples
OVER = {"problems": "problems", "splits": "splits of problems"}


@dataclass(frozen=True)
class Interval:
    """A number about one algorithm and its bootstrap interval (NaN where results are too few)."""

    algorithm: str
    value: float
    low: float
    high: float
    n: int


@dataclass(frozen=True)
class Intervals:
    """Mean ranks, or mean differences from the ``reference`` (of metrics in percent: in points)."""

    items: tuple[Interval, ...]
    n: int
    level: float = 1 - ALPHA
    reference: str = ""
    note: str = ""


@dataclass(frozen=True)
class Friedman:
    """Do any of ``k`` algorithms differ over ``n`` blocks? ``chi2`` and ``f`` (Iman and Davenport) allow for ties."""

    k: int
    n: int
    chi2: float = math.nan
    p: float = math.nan
    f: float = math.nan
    f_p: float = math.nan
    chi2_without_ties: float = math.nan  # the textbook formula, which takes no account of ties
    note: str = ""


@dataclass(frozen=True)
class Nemenyi:
    """Mean ranks closer than ``critical_difference`` do not differ; ``groups`` are the largest sets of such ranks."""

    k: int
    n: int
    alpha: float = ALPHA
    q: float = math.nan
    critical_difference: float = math.nan
    groups: tuple[tuple[str, ...], ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Pair:
    """Wilcoxon's signed-rank test of two algorithms; ``difference`` is the mean of ``a`` minus that of ``b``."""

    a: str
    b: str
    n: int
    difference: float
    statistic: float
    p: float
    p_holm: float


@dataclass(frozen=True)
class Wilcoxon:
    """The tests of all pairs (or of all pairs with a reference), corrected together after Holm."""

    n: int
    pairs: tuple[Pair, ...] = ()
    alpha: float = ALPHA
    note: str = ""

    @property
    def significant(self) -> tuple[Pair, ...]:
        """The pairs that differ at ``alpha`` after the correction."""
        return tuple(pair for pair in self.pairs if pair.p_holm < self.alpha)


@dataclass(frozen=True)
class Statistics:
    """Everything about one metric of the models that one criterion chose."""

    metric: str
    criterion: str
    over: str
    algorithms: tuple[str, ...]
    blocks: tuple[str, ...]
    ranks: Intervals
    friedman: Friedman
    nemenyi: Nemenyi
    wilcoxon: Wilcoxon
    differences: Intervals
    notes: tuple[str, ...]

    @property
    def n(self) -> int:
        """The number of blocks."""
        return len(self.blocks)

    @property
    def title(self) -> str:
        """What it is about, in a few words."""
        return f"{METRICS[self.metric].title}, models chosen by {CRITERIA[self.criterion].title}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; what is not a number is None."""
        values: dict[str, Any] = _plain(asdict(self)) | {"n": self.n}
        return values


def _plain(value: Any) -> Any:
    """Without NaN and infinity, which JSON does not have."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
