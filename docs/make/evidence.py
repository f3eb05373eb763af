"""What was measured, for the pages: the published results of ``results/``, in tables."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from puarena.metrics import CRITERIA, METRICS
from puarena.report.evidence import with_words
from puarena.report.select import select
from puarena.report.sources import Curves, opened
from puarena.report.statistics import standings, verdict
from puarena.report.statistics.results import Standings
from puarena.report.statistics.scores import scores_of
from puarena.report.statistics.text import place, places
from puarena.report.table import Column, Row, Table, table
from puarena.results import Summary
from puarena.results.published import COMMUNITY, PREFIX, listed, read_card

SHOWN = (("accuracy", "pa"), ("accuracy", "pauc"), ("accuracy", "oa"), ("auc", "pa"), ("f1", "pa"))


@dataclass(frozen=True, eq=False)
class Published:
    """One set of published results: its name, and the card of what made it."""

    name: str
    card: dict[str, Any]
    curves: Curves

    @property
    def source(self) -> str:
        """What stands for it wherever results are read."""
        return PREFIX + self.name

    @property
    def made_by(self) -> str:
        """The command and the circumstances, as a sentence of Markdown."""
        card = self.card
        command = card["command"].replace("RESULTS", "results")
        version = f"puarena {card['version']}, torch {card['torch'].partition('+')[0]}"
        machine = card.get("machine") or card["device"]
        return f"Made by `{command}` with {version} on {machine}, {card['published']}."

    @cached_property
    def criteria(self) -> dict[str, str]:
        """The criteria of its profile by the plain name that they stand for."""
        return {CRITERIA[name].replaces or name: name for name in self.curves.criteria()}

    @cached_property
    def tables(self) -> list[Table]:
        """Its tables, one per problem."""
        return table(self.curves)

    @lru_cache(maxsize=4)  # noqa: B019 (these objects live as long as the build)
    def standings(self, metric: str = "accuracy", criterion: str = "pa") -> Standings:
        """Who won, by the mean over problems, and how sure that is."""
        by = self.criteria[criterion]
        given = scores_of(with_words(select(self.curves, by)), metric, by)
        return standings(given.splits, given.datasets, METRICS[metric].higher)

    def verdict(self, metric: str = "accuracy", criterion: str = "pa") -> str:
        """Who won, in a sentence, and how far that goes."""
        found = self.standings(metric, criterion)
        return " ".join(dict.fromkeys([verdict(found, metric), found.note]))

    def place_of(self, name: str) -> str:
        """The place of a method by its mean accuracy, models chosen by PA."""
        items = self.standings().items
        for item in items:
            if item.algorithm == name:
                interval = places(item.rank_low, item.rank_high)
                return f"{place(item.rank, [each.rank for each in items])} (95%: {interval}) of {len(items)}"
        return ""

    def rows_of(self, base: str) -> list[tuple[Table, Row, tuple[str, ...]]]:
        """The rows of a method and its forms: on which problem, which, and the numbers of ``SHOWN``."""
        columns = [Column(metric, self.criteria[criterion]) for metric, criterion in SHOWN]
        return [
            (part, row, tuple(row.cells[part.columns.index(column)].text() for column in columns))
            for part in self.tables
            for row in part.rows
            if row.base == base
        ]


@lru_cache(maxsize=1)
def published() -> tuple[Published, ...]:
    """Everything that is published under its newest name, the definitions first."""
    own = {
        name: file
        for name, file in listed().items()
        if "/" not in name and not name.startswith(COMMUNITY)
    }
    found = [Published(name, read_card(file), opened(Summary(file))) for name, file in own.items()]
    return tuple(sorted(found, key=lambda each: (each.card["profile"] != "definition", each.name)))


def problem_words(part: Table) -> str:
    """A problem in the words of a table's first column."""
    prior = "" if part.prior == 0.5 else f", π = {part.prior:g}"
    bias = "" if part.labeling == "scar" else f", {part.labeling}"
    return f"{part.dataset} {part.case}, {part.short}, {100 * part.rate:g}%{prior}{bias}"


def standings_table(found: Standings, metric: str = "accuracy", first: int | None = None) -> str:
    """Places as Markdown: method, place with its interval, mean, distance from the best."""
    digits = METRICS[metric].decimals
    ranks = [item.rank for item in found.items]
    lines = [
        "| method | place | 95% | mean | from the best | 95% |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for at, item in enumerate(found.items[:first]):
        gap = (
            f"{item.difference:+.{digits}f} | {item.low:.{digits}f} to {item.high:.{digits}f}"
            if at
            else " | "
        )
        interval = places(item.rank_low, item.rank_high)
        lines.append(
            f"| `{item.algorithm}` | {place(item.rank, ranks)} | {interval} | {item.mean:.{digits}f} | {gap} |"
        )
    return "\n".join(lines)
