"""Which differences between algorithms are more than chance: ranks, tests and intervals, each with its n."""

from puarena.report.statistics.pairs import differences, duels, holm, wilcoxon
from puarena.report.statistics.ranking import LEAST_BLOCKS, friedman, mean_ranks, nemenyi, ranks
from puarena.report.statistics.scores import scores, scores_of, statistics
from puarena.report.statistics.standing import standings
from puarena.report.statistics.text import sentences, show_statistics, verdict

__all__ = [
    "LEAST_BLOCKS",
    "differences",
    "duels",
    "friedman",
    "holm",
    "mean_ranks",
    "nemenyi",
    "ranks",
    "scores",
    "scores_of",
    "sentences",
    "show_statistics",
    "standings",
    "statistics",
    "verdict",
    "wilcoxon",
]
