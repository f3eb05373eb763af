"""The data of the page's script as small JSON: numbers, curves, figures and facts of methods."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any

from puarena.metrics import CRITERIA, METRICS
from puarena.pu import labeling
from puarena.pu.problem import PROBLEM_COLUMNS, Problem
from puarena.report.figures import FigureData, draw_figure, find_figures, read_figure_data
from puarena.report.figures.base import list_runs, make_theme
from puarena.report.figures.learning_curves import draw_curves, make_curve_title
from puarena.report.methods import read_problems
from puarena.report.render import format_place, format_places
from puarena.report.sources import GROUP, CurveTable
from puarena.report.statistics import (
    Standings,
    collect_scores,
    compute_standings,
    describe_naive,
    describe_winner,
)
from puarena.report.statistics.bootstrap import BOOTSTRAP_DRAWS, average_splits
from puarena.report.statistics.ranking import compute_ranks
from puarena.report.tables import ResultTable, format_number
from puarena.utils.files import parse_json
from puarena.utils.plain import to_plain

if TYPE_CHECKING:
    from pandas import DataFrame

MAX_CURVE_VALUES = 120_000  # in all learning curves of a page: about half a megabyte
MIN_CURVE_POINTS, MAX_CURVE_POINTS = 8, 50
MAX_VIEWS = 40  # choices of problems with standings; those of fewer filters come first
VIEW_DRAWS = (
    2_000  # bootstrap draws for some of the problems; all of them have as many as ``stats``
)
RUN = (*GROUP, "split", "config")
# Attributes of records that the script uses.
METRIC_FACTS = ("name", "title", "inline", "higher", "percent", "factor", "decimals")
CRITERION_FACTS = ("name", "title", "long", "meaning", "higher")
PROBLEM_FACTS = (*PROBLEM_COLUMNS, "title", "short")
METHOD_FACTS = ("algorithm", "label", "kind", "supervised", "calibrated")


@dataclass(frozen=True)
class PageIndex:
    """The number of every method, problem, metric and criterion in the page's script."""

    methods: dict[str, int]  # by label
    problems: dict[str, int]  # by label
    metrics: list[str]
    criteria: list[str]

    @property
    def columns(self) -> list[str]:
        """The columns of the metrics."""
        return [METRICS[name].column for name in self.metrics]


def collect_page_data(
    curves: CurveTable,
    tables: Sequence[ResultTable],
    selection: DataFrame,
    metrics: Iterable[str] | None,
    algorithms: Sequence[str] | None,
) -> dict[str, Any]:
    """Return everything that the page's script shows as plain data.

    ``tables`` have every metric that can be chosen; figures have ``metrics``.
    """
    shown = [metric for metric, _ in tables[0].group_columns()]
    criteria = list(dict.fromkeys(selection["criterion"]))
    # Methods are in the order of the longest table, problems in the order of the tables.
    longest = sorted(tables, key=lambda table: -len(table.rows))
    methods = dict.fromkeys(row.method for table in longest for row in table.rows)
    groups = len(selection[[*GROUP, "split"]].drop_duplicates()) * len(criteria)
    points = MAX_CURVE_VALUES // (max(1, groups) * len(shown))
    points = max(MIN_CURVE_POINTS, min(MAX_CURVE_POINTS, points))
    data = read_figure_data(curves, metrics, criteria, algorithms, points, selection)
    labels = dict(zip(read_problems(data.selection), data.selection["problem"], strict=True))
    index = PageIndex(
        {method.label: i for i, method in enumerate(methods)},
        {labels[table.problem]: i for i, table in enumerate(tables)},
        shown,
        criteria,
    )
    codes = labeling.list_settings()
    return {
        "metrics": [
            _take(METRICS[name], METRIC_FACTS) | {"axis": make_curve_title(name)} for name in shown
        ],
        "criteria": [_take(CRITERIA[name], CRITERION_FACTS) for name in criteria],
        "settings": {each.code: f"{each.title} ({each.short})" for each in codes},
        "usual": {"labeling": labeling.SCAR},
        "problems": [_take(table.problem, PROBLEM_FACTS) for table in tables],
        "methods": [_take(method, METHOD_FACTS) for method in methods],
        "cells": _collect_cells(tables, index),
        **_collect_views(data.selection, [table.problem for table in tables], index),
        **_collect_picks(curves, data, index),
        **_collect_curves(data, index),
        "about": {
            method.algorithm: curves.methods[method.algorithm].to_json()
            for method in methods
            if method.algorithm in curves.methods
        },
        "figures": _collect_figures(data),
        "drawn": list(data.metrics),
        "curve": _pack_chart(draw_curves("curves", shown[0], criteria, columns=2)),
        "theme": make_theme("currentColor"),
    }


def embed_json(data: Any) -> str:
    """Return JSON for a script element: no character in it can end the element."""
    plain = to_plain(data, digits=6)
    text = json.dumps(plain, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


# facts


def _take(record: object, names: Iterable[str]) -> dict[str, Any]:
    """Return these attributes of a record."""
    return {name: getattr(record, name) for name in names}


# numbers


def _collect_cells(tables: Sequence[ResultTable], index: PageIndex) -> list[list[list[list[Any]]]]:
    """Return mean, text, n and chance level by metric, criterion, method and problem; 0 if none."""
    empty = [[0] * len(tables) for _ in index.methods]
    cells: Any = [[[list(row) for row in empty] for _ in index.criteria] for _ in index.metrics]
    for at, table in enumerate(tables):
        for row in table.rows:
            method = index.methods[row.method.label]
            for column, cell in zip(table.columns, row.cells, strict=True):
                if not cell.n:
                    continue
                metric = index.metrics.index(column.metric)
                criterion = index.criteria.index(column.criterion)
                content = [cell.mean, cell.text(), cell.n, int(cell.chance)]
                cells[metric][criterion][method][at] = content
    return cells


def list_views(problems: Sequence[Problem]) -> list[tuple[int, ...]]:
    """Return the sets of problems that filters can choose, those of fewer filters first."""
    options = []
    for name in PROBLEM_COLUMNS:
        values = list(dict.fromkeys(str(getattr(problem, name)) for problem in problems))
        options.append([None, *(values if len(values) > 1 else [])])
    filters = sorted(product(*options), key=lambda chosen: len(chosen) - chosen.count(None))
    views: dict[tuple[int, ...], None] = {}
    for chosen in filters:
        given = [
            (name, value)
            for name, value in zip(PROBLEM_COLUMNS, chosen, strict=True)
            if value is not None
        ]
        fits = tuple(
            i
            for i, problem in enumerate(problems)
            if all(str(getattr(problem, name)) == value for name, value in given)
        )
        views.setdefault(fits)
    return [view for view in views if view][:MAX_VIEWS]


def _collect_views(
    frame: DataFrame, problems: Sequence[Problem], index: PageIndex
) -> dict[str, Any]:
    """Return the standings by problems (``0,1``), metric and criterion, as in ``puarena stats``."""
    labels = list(index.problems)
    notes: dict[str, int] = {}  # by number: most views share one
    numbers = []
    for metric, criterion in product(index.metrics, index.criteria):
        numbers.append((metric, criterion, collect_scores(frame, metric, criterion)))
    views: dict[str, Any] = {}
    for view in list_views(problems):
        wanted = [labels[i] for i in view]
        count = BOOTSTRAP_DRAWS if len(view) == len(problems) else VIEW_DRAWS
        content = views[",".join(map(str, view))] = {}
        for metric, criterion, scores in numbers:
            chosen = scores.splits.index.get_level_values(0).isin(wanted)
            splits = scores.splits[chosen].dropna(axis=1, how="all")
            higher = METRICS[metric].higher
            standings = compute_standings(splits, scores.datasets, higher, count=count)
            content[f"{metric}.{criterion}"] = {
                "verdict": describe_winner(standings, metric),
                "naive": describe_naive(scores, metric, wanted),
                "unit": standings.unit,
                "best": next((index.methods[name] for name in standings.table.index), -1),
                "rows": _list_rows(standings, splits, scores.means.reindex(wanted), index, metric),
                "note": notes.setdefault(standings.note, len(notes)),
            }
    return {"views": views, "notes": list(notes)}


def _list_rows(
    standings: Standings,
    splits: DataFrame,
    means: DataFrame,
    index: PageIndex,
    metric: str,
) -> dict[int, list[Any]]:
    """Return, by method, the mean and its text; for those with a place also the standing."""
    record = METRICS[metric]
    digits = record.decimals + 1  # enough to draw with; texts have the exact numbers
    rows: dict[int, list[Any]] = {}
    for name, mean in zip(means.columns, means.to_numpy().mean(0).tolist(), strict=True):
        if not math.isnan(mean):  # it has a result on every problem
            text = format_number(mean, record.decimals)
            rows[index.methods[str(name)]] = [round(mean, digits), text]
    table = standings.table
    if table.empty:
        return rows
    ranks = compute_ranks(average_splits(splits)[table.index].to_numpy(), record.higher).mean(0)
    places = list(table["place"])
    for name, row, rank in zip(table.index, table.to_dict("records"), ranks, strict=True):
        rows[index.methods[str(name)]] += [
            f"{rank:.1f}",
            format_place(row["place"], places),
            format_places(row["place_low"], row["place_high"]),
            int(row["tied"]),
            round(row["low"], digits),
            round(row["high"], digits),
        ]
    return rows


# selected checkpoints and learning curves


def _collect_picks(curves: CurveTable, data: FigureData, index: PageIndex) -> dict[str, Any]:
    """Return the selected checkpoints, and their hyperparameters as texts."""
    chosen = data.selection.dropna(subset=["step", "config"])
    hypers = _describe_hyperparameters(curves, chosen)
    texts = {text: i for i, text in enumerate(dict.fromkeys(hypers.values()))}
    picks = []
    for row in chosen.to_dict("records"):
        text = texts.get(hypers.get(str(row["run"]), ""), -1)
        picks.append(
            [
                index.methods[row["method"]],
                index.problems[row["problem"]],
                int(row["split"]),
                index.criteria.index(row["criterion"]),
                int(row["config"]),
                int(row["step"]),
                round(float(row["value"]), 4),
                text,
                [_round_as_printed(row[name]) for name in index.columns],
            ]
        )
    return {"picks": picks, "hypers": list(texts)}


def _collect_curves(data: FigureData, index: PageIndex) -> dict[str, Any]:
    """Return the learning curves by method, problem, split and configuration, and their steps."""
    even = data.curves[data.curves["even"]]
    numbers = [even[column].to_numpy(float) for column in index.columns]
    all_steps = even["step"].to_numpy(int)
    # The rows of a run follow each other.
    first = even.groupby(list(RUN), dropna=False, sort=False).cumcount().to_numpy() == 0
    heads = even[first].to_dict("records")
    ends = pairwise([*first.nonzero()[0], len(even)])
    curves: dict[str, list[Any]] = {}
    steps: dict[tuple[int, ...], int] = {}
    for head, (start, stop) in zip(heads, ends, strict=True):
        grid = steps.setdefault(tuple(all_steps[start:stop].tolist()), len(steps))
        where = (
            index.methods[head["method"]],
            index.problems[head["problem"]],
            int(head["split"]),
            int(head["config"]),
        )
        values = [_round_all(column[start:stop]) for column in numbers]
        curves[".".join(map(str, where))] = [grid, *values]
    return {"curves": curves, "steps": [list(key) for key in steps]}


def _round_as_printed(value: float) -> int | None:
    """Return a fraction as ten-thousandths, rounded as percentages are printed."""
    return None if math.isnan(value) else round(100 * float(format_number(100 * value)))


def _round_all(values: Iterable[float]) -> list[int | None]:
    """Return fractions as ten-thousandths."""
    return [None if math.isnan(value) else round(1e4 * value) for value in values]


def _describe_hyperparameters(curves: CurveTable, chosen: DataFrame) -> dict[str, str]:
    """Return learning rate, batch size and hyperparameters as text, by run."""
    known = [name for name in ("lr", "batch_size", "hyper") if name in curves.columns]
    if not known or chosen.empty:
        return {}
    columns = ", ".join(f"any_value({name}) AS {name}" for name in known)
    rows = curves.frame(
        f"SELECT run, {columns} FROM curves WHERE run IN ({list_runs(chosen)}) GROUP BY run"
    )
    return {str(row["run"]): _describe_config(row) for row in rows.to_dict("records")}


def _describe_config(row: Mapping[Any, Any]) -> str:
    parts = [f"learning rate {row['lr']:.3g}"] if "lr" in row else []
    if "batch_size" in row:
        parts.append(f"batch {row['batch_size']}")
    try:
        values = dict(parse_json(row.get("hyper") or "{}"))
    except (ValueError, TypeError):
        values = {}
    for name, value in values.items():
        parts.append(f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}")
    return ", ".join(parts)


# figures


def _collect_figures(data: FigureData) -> list[dict[str, Any]]:
    """Return a chart per metric and criterion of every figure, or the reason why there is none."""
    from altair.utils.schemapi import debug_mode

    figures = []
    # Validation takes seconds; tests validate the charts.
    with debug_mode(False):
        for figure in find_figures():
            if not figure.on_page:
                continue
            charts, reason = {}, ""
            for drawing in draw_figure(figure, data):
                if drawing.chart is None:
                    reason = reason or drawing.reason
                else:
                    key = f"{drawing.metric}.{drawing.criterion}"
                    charts[key] = _pack_chart(drawing.chart)
            facts = _take(figure, ("name", "title", "caption"))
            figures.append(facts | {"charts": charts, "reason": reason})
    return figures


def _pack_chart(chart: Any) -> dict[str, Any]:
    """Return a chart's Vega-Lite without the configuration; datasets are names, then rows."""
    spec: dict[str, Any] = chart.to_dict(validate=False)
    packed = {}
    for name, rows in spec.pop("datasets", {}).items():
        heads = list(rows[0]) if rows else []
        packed[name] = [heads, *([row[key] for key in heads] for row in rows)] if rows else []
    kept = {key: value for key, value in spec.items() if key not in {"$schema", "config"}}
    return kept | {"packed": packed}
