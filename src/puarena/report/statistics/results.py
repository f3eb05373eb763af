"""What the statistics give: plain values, each with its n, and a sentence where results are too few for a number."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
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
class Standing:
    """The place of one algorithm by its mean over ``n`` problems, and its paired difference from the best."""

    algorithm: str
    mean: float
    rank: float
    rank_low: float
    rank_high: float
    difference: float
    low: float
    high: float
    tied: bool  # the interval of the difference from the best has zero in it
    n: int


@dataclass(frozen=True)
class Standings:
    """All places, the best first; ``left_out`` have no result on some of the ``n`` problems."""

    items: tuple[Standing, ...]
    n: int
    datasets: int
    splits: tuple[int, int]  # of a problem: the fewest and the most
    unit: str = ""  # what was drawn again: "datasets", "splits", or nothing
    left_out: tuple[str, ...] = ()
    note: str = ""

    @property
    def tied(self) -> tuple[str, ...]:
        """The best, and everyone who cannot be told apart from it."""
        return tuple(item.algorithm for item in self.items if item.tied)


@dataclass(frozen=True)
class Profile:
    """The share of ``n`` results strictly above the points ``at``, per algorithm, and its band."""

    n: int
    at: tuple[float, ...] = ()
    share: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    low: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    high: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True)
class Posterior:
    """How likely an algorithm is worse than the reference, practically the same, or better."""

    algorithm: str
    n: int
    worse: float
    same: float
    better: float


@dataclass(frozen=True)
class Posteriors:
    """The Bayesian signed-rank test against a reference; differences within ``rope`` are practically none."""

    reference: str
    unit: str  # what a difference is of: a dataset, or a split
    rope: float
    n: int
    items: tuple[Posterior, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Duel:
    """Two algorithms over ``n`` problems, whoever else is in the table; ``p`` is Wilcoxon's, not corrected.

    ``improvement``: the chance that a split of ``a`` is better than a split of ``b`` of the same problem.
    """

    a: str
    b: str
    n: int
    wins: int
    ties: int
    losses: int
    difference: float
    p: float
    improvement: float


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
    standings: Standings
    elo: Intervals
    gap_closed: Intervals
    improvability: Intervals
    iqm: Intervals
    profile: Profile
    duels: tuple[Duel, ...]
    signed_rank: Posteriors
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
