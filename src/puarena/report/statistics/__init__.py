"""Which differences between algorithms are more than chance: ranks, tests and intervals, with n."""

from puarena.report.statistics.summary import (
    Scores,
    Standings,
    Statistics,
    collect_scores,
    compute_standings,
    describe_naive,
    describe_winner,
    summarize,
)

__all__ = [
    "Scores",
    "Standings",
    "Statistics",
    "collect_scores",
    "compute_standings",
    "describe_naive",
    "describe_winner",
    "summarize",
]
