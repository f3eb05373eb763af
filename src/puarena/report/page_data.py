"""What the page's script works with: the numbers, the curves, the figures and the methods in words, as small JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from puarena.errors import UserError
from puarena.metrics import CRITERIA, METRICS
from puarena.pu import labeling
from puarena.report.drawing import draw
from puarena.report.evidence import Evidence, evidence, run_list
from puarena.report.figures import figures
from puarena.report.figures.base import theme
from puarena.report.figures.learning_curves import curve_axis, curve_chart
from puarena.report.methods import Method
from puarena.report.page_standings import views
from puarena.report.problems import PROBLEM, Problem, read, read_all, settings
from puarena.report.sources import GROUP, Curves
from puarena.report.table import Table
from puarena.report.table import shown as printed
from puarena.utils.files import parse_json

if TYPE_CHECKING:
    from pandas import DataFrame

CURVE_VALUES = 120_000  # numbers in all learning curves of a page together: about half a megabyte
KEYS = (*GROUP, "split", "config")


@dataclass(frozen=True)
class Places:
    """Methods, problems, metrics and criteria by number, as the page's script knows them."""

    methods: dict[Method, int]
    problems: dict[Problem, int]
    metrics: list[str]
    criteria: list[str]

    def of(self, frame: DataFrame) -> Iterator[tuple[int, int]]:
        """Which method and which problem each row is about."""
        for method, problem in zip(read_all(Method, frame), read_all(Problem, frame), strict=True):
            yield self.methods[method], self.problems[problem]

    @property
    def columns(self) -> list[str]:
        """The metrics in the store."""
        return [METRICS[name].column for name in self.metrics]


def gather(
    curves: Curves,
    tables: Sequence[Table],
    selection: DataFrame,
    metrics: Iterable[str] | None,
    algorithms: Sequence[str] | None,
) -> dict[str, Any]:
    """Everything of the page that its script shows, as plain data; ``tables`` have every metric that is shown."""
    shown = [metric for metric, _ in tables[0].metrics()]
    by = list(dict.fromkeys(selection["criterion"]))
    longest = sorted(tables, key=lambda table: -len(table.rows))
    rows = [read(Method, vars(row)) for table in longest for row in table.rows]
    places = Places(
        {method: i for i, method in enumerate(dict.fromkeys(rows))},
        {read(Problem, vars(table)): i for i, table in enumerate(tables)},
        shown,
        by,
    )
    groups = max(1, len(selection[[*GROUP, "split"]].drop_duplicates()) * len(by))
    points = max(8, min(50, CURVE_VALUES // (groups * len(shown))))
    facts = evidence(curves, metrics, by, algorithms, points, selection)
    return {
        "metrics": [_metric(name) for name in shown],
        "criteria": [_criterion(name) for name in by],
        "settings": {
            code: f"{setting.title} ({setting.short})" for code, setting in settings().items()
        },
        "usual": {"labeling": labeling.SCAR},
        "problems": [_facts(problem) for problem in places.problems],
        "methods": [_method(method) for method in places.methods],
        "cells": _cells(tables, places),
        **views(facts.selection, list(places.problems), _labels(places), shown, by),
        **_picks(curves, facts, places),
        "about": {
            name: _about(name)
            for name in dict.fromkeys(method.algorithm for method in places.methods)
        },
        "figures": _figures(facts),
        "drawn": list(facts.metrics),
        "curve": _small(curve_chart("curves", shown[0], by, columns=2)),
        "theme": theme("currentColor"),
    }


def embed(data: Any) -> str:
    """JSON that may stand inside a script element: no character in it can end the element or start a comment."""
    text = json.dumps(_plain(data), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _plain(value: Any) -> Any:
    """The same with what is not a number as null, floats short, and numpy's numbers as Python's."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float):
        return (
            None
            if not math.isfinite(value)
            else int(value)
            if value.is_integer()
            else float(f"{value:.6g}")
        )
    return value


def _metric(name: str) -> dict[str, Any]:
    record = METRICS[name]
    about = {
        key: getattr(record, key) for key in ("inline", "higher", "percent", "factor", "decimals")
    }
    return about | {"id": name, "word": record.title, "axis": curve_axis(name)}


def _criterion(name: str) -> dict[str, Any]:
    record = CRITERIA[name]
    return {
        "id": name,
        "word": record.title,
        "long": record.long or record.meaning,
        "higher": record.higher,
    }


def _facts(problem: Problem) -> dict[str, Any]:
    return {name: getattr(problem, name) for name in PROBLEM} | {
        "title": problem.title,
        "short": problem.short,
    }


def _method(method: Method) -> dict[str, Any]:
    shown = {name: getattr(method, name) for name in ("label", "kind", "supervised", "calibrated")}
    return shown | {"name": method.algorithm}


def _labels(places: Places) -> dict[str, int]:
    return {method.label: i for method, i in places.methods.items()}


def _cells(tables: Sequence[Table], places: Places) -> list[list[list[list[Any]]]]:
    """Mean, text, n and chance level or not, by metric, criterion, method and problem; 0 where there is nothing."""
    nothing = [[0] * len(places.problems) for _ in places.methods]
    cells: Any = [[[list(row) for row in nothing] for _ in places.criteria] for _ in places.metrics]
    for at, table in enumerate(tables):
        for row in table.rows:
            method = places.methods[read(Method, vars(row))]
            for column, cell in zip(table.columns, row.cells, strict=True):
                if cell.n:
                    metric, criterion = (
                        places.metrics.index(column.metric),
                        places.criteria.index(column.criterion),
                    )
                    cells[metric][criterion][method][at] = [
                        cell.mean,
                        cell.text(),
                        cell.n,
                        int(cell.chance),
                    ]
    return cells


def _as_printed(values: Iterable[float]) -> list[int | None]:
    """Fractions as ten-thousandths, rounded as percentages are printed everywhere."""
    return [
        None if math.isnan(value) else round(100 * float(printed(100 * value))) for value in values
    ]


def _whole(values: Iterable[float]) -> list[int | None]:
    """Fractions as ten-thousandths."""
    return [None if math.isnan(value) else round(1e4 * value) for value in values]


def _picks(stored: Curves, facts: Evidence, places: Places) -> dict[str, Any]:
    """What was selected, with which hyperparameters, and the learning curves of it."""
    chosen = facts.selection.dropna(subset=["step", "config"])
    settings = _hyperparameters(stored, chosen)
    texts = {text: i for i, text in enumerate(dict.fromkeys(settings.values()))}
    picks = []
    for (method, at), row in zip(places.of(chosen), chosen.to_dict("records"), strict=True):
        criterion = places.criteria.index(row["criterion"])
        where = [method, at, int(row["split"]), criterion, int(row["config"]), int(row["step"])]
        text = texts.get(settings.get(str(row["run"]), ""), -1)
        picks.append(
            [
                *where,
                round(float(row["value"]), 4),
                text,
                _as_printed(row[name] for name in places.columns),
            ]
        )
    curves: dict[str, list[Any]] = {}
    steps: dict[tuple[int, ...], int] = {}
    even = facts.curves[facts.curves["even"]]
    first = (
        even.groupby(list(KEYS), dropna=False, sort=False).cumcount().to_numpy() == 0
    )  # of every run, rows in a row
    numbers = [even[column].to_numpy(float) for column in places.columns]
    at_step, heads = even["step"].to_numpy(int), even[first]
    starts = [*first.nonzero()[0], len(even)]
    owners = zip(places.of(heads), heads["split"], heads["config"], pairwise(starts), strict=True)
    for (method, at), split, config, (start, stop) in owners:
        grid = steps.setdefault(tuple(at_step[start:stop].tolist()), len(steps))
        values = [_whole(column[start:stop]) for column in numbers]
        curves[f"{method}.{at}.{int(split)}.{int(config)}"] = [grid, *values]
    return {
        "picks": picks,
        "hypers": list(texts),
        "curves": curves,
        "steps": [list(key) for key in steps],
    }


def _hyperparameters(curves: Curves, chosen: DataFrame) -> dict[str, str]:
    """Learning rate, batch size and hyperparameters in words, by run."""
    known = [name for name in ("lr", "batch_size", "hyper") if name in curves.columns]
    if not known or chosen.empty:
        return {}
    firsts = ", ".join(f"any_value({name}) AS {name}" for name in known)
    query = f"SELECT run, {firsts} FROM curves WHERE run IN ({run_list(chosen)}) GROUP BY run"
    words = {}
    for row in curves.frame(query).to_dict("records"):
        parts = [f"learning rate {row['lr']:.3g}"] if "lr" in known else []
        parts += [f"batch {row['batch_size']}"] if "batch_size" in known else []
        try:
            values = parse_json(row.get("hyper") or "{}")
        except ValueError:
            values = {}
        parts += [
            f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in dict(values).items()
        ]
        words[str(row["run"])] = ", ".join(parts)
    return words


def _about(name: str) -> dict[str, Any] | None:
    """A method in words; nothing for one that is not registered here, such as a user's plugin."""
    from puarena import catalog

    try:
        return catalog.get(name).to_json()
    except UserError:
        return None


def _small(chart: Any) -> dict[str, Any]:
    """A chart's Vega-Lite without what the page gives to all; its data ``packed``, as names and then rows."""
    spec: dict[str, Any] = chart.to_dict(validate=False)
    packed = {
        name: [list(rows[0]), *([row[key] for key in rows[0]] for row in rows)] if rows else []
        for name, rows in spec.pop("datasets", {}).items()
    }
    return {key: value for key, value in spec.items() if key not in {"$schema", "config"}} | {
        "packed": packed
    }


def _figures(facts: Evidence) -> list[dict[str, Any]]:
    """The figures of the page: a chart per metric and criterion, or the reason why there is none."""
    from altair.utils.schemapi import debug_mode

    listed = []
    with debug_mode(False):  # the charts are checked in the tests; here that would take seconds
        for figure in figures():
            if figure.on_page:
                drawings = list(draw(figure, facts))
                charts = {
                    f"{d.metric}.{d.criterion}": _small(d.chart)
                    for d in drawings
                    if d.chart is not None
                }
                reason = next((d.reason for d in drawings if d.chart is None), "")
                about = {"id": figure.name, "title": figure.title, "words": figure.words}
                listed.append(about | {"charts": charts, "reason": reason})
    return listed
