"""What is drawn again for an interval: datasets, or, where these are too few, the splits of every problem.

The cases and rates of one dataset share its examples: they are not independent, so a dataset is drawn with all its
problems or not at all. Scores are frames with a line per problem and split and a column per algorithm.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from puarena.report.statistics.results import DRAWS

if TYPE_CHECKING:
    from pandas import DataFrame

LEAST_DATASETS = 5  # to draw them again
LEAST_SPLITS = 3  # of each problem, to draw them again
FEW_SPLITS = 5  # with fewer of them in each problem intervals come out too narrow
DIGITS = 9  # results that agree in so many are tied


@dataclass(frozen=True)
class Draws:
    """Lines of scores and how much each counts in every draw; ``unit`` is empty where nothing could be drawn."""

    unit: str  # "datasets", "splits" or nothing
    n: int  # how many of the unit there are
    lines: Any = None  # [lines, algorithms]
    weights: Any = None  # [draws, lines], of sum one in each draw
    words: str = ""  # what was drawn and what follows, as a sentence

    def means(self) -> Any:
        """The mean of every algorithm in every draw, rounded so that ties are ties."""
        return (self.weights @ self.lines).round(DIGITS)

    def interval(self, values: Any, alpha: float) -> Any:
        """The percentiles of values per draw, low and high."""
        import numpy as np

        return np.quantile(values, [alpha / 2, 1 - alpha / 2], axis=0)


def problem_means(splits: DataFrame) -> DataFrame:
    """A line per problem: the mean over its splits."""
    return splits.groupby(level=0, sort=False).mean()


def draws(
    splits: DataFrame,
    datasets: Mapping[str, str],
    seed: int = 0,
    count: int = DRAWS,
    means: DataFrame | None = None,
) -> Draws:
    """Draw datasets if there are enough of them, else the splits inside each problem (always the same draws).

    ``means``: what ``problem_means`` gives, if that is known already.
    """
    import numpy as np

    means = problem_means(splits) if means is None else means
    owners = [datasets[str(name)] for name in means.index]
    names = list(dict.fromkeys(owners))
    if len(names) >= LEAST_DATASETS:
        weights = _weights((len(names),), seed, count)[:, [names.index(owner) for owner in owners]]
        words = f"Intervals come from drawing the {len(names)} datasets again; cases of one dataset stay together."
        return Draws(
            "datasets", len(names), means.to_numpy(), weights / weights.sum(1, keepdims=True), words
        )
    few = f"{len(names)} dataset{' is' if len(names) == 1 else 's are'} too few to draw again ({LEAST_DATASETS} needed)"
    values = splits.to_numpy(float)
    kept = ~np.isnan(values).any(1)
    problem = means.index.get_indexer(splits.index.get_level_values(0)[kept])
    sizes = np.bincount(problem, minlength=len(means)).tolist()
    if not sizes or min(sizes) < LEAST_SPLITS:
        fewest = min(sizes, default=0)
        return Draws(
            "", 0, words=f"{few}, and so are {fewest} splits ({LEAST_SPLITS} needed): no intervals."
        )
    narrow = f" With {min(sizes)} splits they are too narrow." if min(sizes) < FEW_SPLITS else ""
    words = f"{few}, so intervals come from drawing each problem's splits again: they speak of these problems only."
    lines = values[kept][np.argsort(problem, kind="stable")]
    weights = _weights(tuple(sizes), seed, count) / len(sizes)
    return Draws("splits", len(lines), lines, weights, words + narrow)


@lru_cache(maxsize=2)  # the page asks many times in a row for those of the same problems
def _weights(sizes: tuple[int, ...], seed: int, count: int) -> Any:
    """How much every line counts in every draw, groups of these sizes drawn each for itself; each has the sum one."""
    import numpy as np

    random = np.random.default_rng(seed)
    parts = [random.multinomial(size, np.full(size, 1 / size), size=count) / size for size in sizes]
    weights = np.concatenate(parts, axis=1)
    weights.flags.writeable = False
    return weights
