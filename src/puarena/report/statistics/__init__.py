"""Which differences between algorithms are more than chance: ranks, tests and intervals, each with its n."""

from puarena.report.statistics.pairs import differences, holm, wilcoxon
from puarena.report.statistics.ranking import LEAST_BLOCKS, friedman, mean_ranks, nemenyi, ranks
from puarena.report.statistics.scores import scores, statistics
from puarena.report.statistics.text import sentences, show_statistics

__all__ = [
    "LEAST_BLOCKS", "differences", "friedman", "holm", "mean_ranks", "nemenyi", "ranks", "scores", "sentences",
    "show_statistics", "statistics", "wilcoxon",
]  # fmt: skip
