"""What was measured, for the pages: the published results of ``results/``, in tables."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache

from puarena.metrics import CRITERIA, METRICS
from puarena.report.render import Grid, arrange_algorithms
from puarena.report.select import add_labels, select
from puarena.report.sources import CurveTable, open_curves
from puarena.report.statistics import (
    Standings,
    collect_scores,
    compute_standings,
    describe_winner,
)
from puarena.report.tables import ResultColumn, ResultRow, ResultTable, table
from puarena.results import Summary
from puarena.results.published import COMMUNITY, PREFIX, list_summaries, read_card
from puarena.results.records import Card

SHOWN = (("accuracy", "pa"), ("accuracy", "pauc"), ("accuracy", "oa"), ("auc", "pa"), ("f1", "pa"))


@dataclass(frozen=True, eq=False)
class Published:
    """One set of published results: its name, and the card of what made it."""

    name: str
    card: Card
    curves: CurveTable

    @property
    def source(self) -> str:
        """What stands for it wherever results are read."""
        return PREFIX + self.name

    @property
    def made_by(self) -> str:
        """The command and the circumstances, as a sentence of Markdown."""
        card = self.card
        command = card.command.replace("RESULTS", "results")
        version = f"puarena {card.version}, torch {card.torch.partition('+')[0]}"
        machine = card.machine or card.device
        return f"Made by `{command}` with {version} on {machine}, {card.published}."

    @cached_property
    def criteria(self) -> dict[str, str]:
        """The criteria of its profile by the plain name that they stand for."""
        return {CRITERIA[name].replaces or name: name for name in self.curves.criteria()}

    @cached_property
    def tables(self) -> list[ResultTable]:
        """Its tables, one per problem."""
        return table(self.curves)

    @lru_cache(maxsize=4)  # noqa: B019 (these objects live as long as the build)
    def standings(self, metric: str = "accuracy", criterion: str = "pa") -> Standings:
        """Who won, by the mean over problems, and how sure that is."""
        by = self.criteria[criterion]
        scores = collect_scores(add_labels(select(self.curves, by)), metric, by)
        return compute_standings(scores.splits, scores.datasets, METRICS[metric].higher)

    def verdict(self, metric: str = "accuracy", criterion: str = "pa") -> str:
        """Who won, in a sentence, and how far that goes."""
        found = self.standings(metric, criterion)
        return " ".join(dict.fromkeys([describe_winner(found, metric), found.note]))

    def place_of(self, name: str) -> str:
        """The place of a method by its mean accuracy, models chosen by PA."""
        grid = arrange_standings(self.standings())
        for algorithm, place, interval, *_ in grid.rows:
            if algorithm == name:
                return f"{place} (95%: {interval}) of {len(grid.rows)}"
        return ""

    def rows_of(self, base: str) -> list[tuple[ResultTable, ResultRow, tuple[str, ...]]]:
        """The rows of a method and its forms: the table, the row, and the numbers of ``SHOWN``."""
        columns = [ResultColumn(metric, self.criteria[criterion]) for metric, criterion in SHOWN]
        return [
            (part, row, tuple(row.cells[part.columns.index(column)].text() for column in columns))
            for part in self.tables
            for row in part.rows
            if row.method.base == base
        ]


@lru_cache(maxsize=1)
def published() -> tuple[Published, ...]:
    """Everything that is published under its newest name, the definitions first."""
    own = {
        name: file
        for name, file in list_summaries().items()
        if "/" not in name and not name.startswith(COMMUNITY)
    }
    found = [
        Published(name, read_card(file), open_curves(Summary(file))) for name, file in own.items()
    ]
    return tuple(sorted(found, key=lambda each: (each.card.profile != "definition", each.name)))


def problem_words(part: ResultTable) -> str:
    """Return a problem for the first column of a table."""
    problem = part.problem
    prior = "" if problem.prior == 0.5 else f", π = {problem.prior:g}"
    bias = "" if problem.labeling == "scar" else f", {problem.labeling}"
    where = f"{problem.dataset} {problem.case}, {problem.short}"
    return f"{where}, {100 * problem.rate:g}%{prior}{bias}"


def arrange_standings(found: Standings, metric: str = "accuracy") -> Grid:
    """Return a row per method: place and interval, mean, distance from the best and interval."""
    names = ("place", "mean", "difference-from-best")
    return arrange_algorithms(found.to_rows(), METRICS[metric], names)


def standings_table(found: Standings, metric: str = "accuracy", first: int | None = None) -> str:
    """Return places as Markdown."""
    grid = arrange_standings(found, metric)
    text = Grid(["method", *grid.heads[1:]], grid.rows[:first]).to_markdown()
    return re.sub(r"^\| ([\w@-]+)(?= \| \d)", r"| `\1`", text, flags=re.M)
