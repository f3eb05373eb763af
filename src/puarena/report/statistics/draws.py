"""What is drawn again for an interval: datasets, or, where these are too few, the splits of every problem.

The cases and rates of one dataset share its examples: they are not independent, so a dataset is drawn with all its
problems or not at all. Scores are frames with a line per problem and split and a column per algorithm.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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


def draws(splits: DataFrame, datasets: Mapping[str, str], seed: int = 0, count: int = DRAWS) -> Draws:
    """Draw datasets if there are enough of them, else the splits inside each problem (always the same draws)."""
    import numpy as np

    random = np.random.default_rng(seed)
    means = problem_means(splits)
    owners = [datasets[str(name)] for name in means.index]
    names = list(dict.fromkeys(owners))
    if len(names) >= LEAST_DATASETS:
        drawn = random.multinomial(len(names), np.full(len(names), 1 / len(names)), size=count)
        weights = drawn[:, [names.index(owner) for owner in owners]].astype(float)
        words = f"Intervals come from drawing the {len(names)} datasets again; cases of one dataset stay together."
        return Draws("datasets", len(names), means.to_numpy(), weights / weights.sum(1, keepdims=True), words)
    few = f"{len(names)} dataset{' is' if len(names) == 1 else 's are'} too few to draw again ({LEAST_DATASETS} needed)"
    whole = splits.dropna()
    sizes = [len(part) for _, part in whole.groupby(level=0, sort=False)]
    if len(sizes) < len(means) or not sizes or min(sizes) < LEAST_SPLITS:
        fewest = min(sizes) if len(sizes) == len(means) and sizes else 0
        return Draws("", 0, words=f"{few}, and so are {fewest} splits ({LEAST_SPLITS} needed): no intervals.")
    parts = [random.multinomial(size, np.full(size, 1 / size), size=count) / (size * len(sizes)) for size in sizes]
    narrow = f" With {min(sizes)} splits they are too narrow." if min(sizes) < FEW_SPLITS else ""
    words = f"{few}, so intervals come from drawing each problem's splits again: they speak of these problems only."
    lines = np.concatenate([part.to_numpy() for _, part in whole.groupby(level=0, sort=False)])
    return Draws("splits", len(whole), lines, np.concatenate(parts, axis=1), words + narrow)
