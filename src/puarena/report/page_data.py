"""What the page's script works with: the numbers, the curves, the figures and the methods in words, as small JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from puarena.errors import UserError
from puarena.report.charts import learning_curves, theme
from puarena.report.evidence import Evidence, evidence
from puarena.report.figures import WORDS, Figure, figures
from puarena.report.select import GROUP, METRICS, PROBLEM, aggregate, load, names
from puarena.report.table import CRITERION_WORDS, METRIC_WORDS, NAIVE, ORACLE, ErrorKind, Row, Table
from puarena.store import ask

if TYPE_CHECKING:
    from pandas import DataFrame

    from puarena.report.select import Source

CURVE_VALUES = 200_000  # numbers in all learning curves of a page together: about a megabyte
LONG = {
    "pa": "proxy accuracy",
    "pauc": "proxy AUC",
    "oa": "oracle accuracy",
    "pa-released": "proxy accuracy as the published code computes it",
}
FIGURES = {
    "overall": "The mean over the problems, one panel per metric and one dot per criterion. The longer the line "
    "between the dots of a method, the more its result depends on how the model was chosen.",
    "ranks": "Methods are ranked on each problem, and the ranks averaged. A vertical bar joins methods whose mean "
    "ranks are closer than the Nemenyi critical difference: for these the results do not show which is better. "
    f"{ORACLE} does not compete. Splits of one problem share data, so where ranks are over splits the bars are too "
    "short.",
    "regret": "What choosing without labels costs: the test value of the best checkpoint of all, and of the one that "
    "the true validation labels (OA) would choose, minus that of the chosen one. Zero is perfect choice.",
    "time": "The mean over the problems against the time of one training run. No method below and to the right of the "
    "dashed line is both faster and better than those on it. Runs are trained side by side and share the time.",
    "label-shift": "More labeled positives leave fewer in the unlabeled set of the one-sample setting (OS). Methods "
    "made for two-sample data (TS) suffer from that; calibration repairs it.",
}


def gather(
    source: Source,
    tables: Sequence[Table],
    selection: DataFrame,
    metrics: Iterable[str] | None,
    error: ErrorKind,
    algorithms: Sequence[str] | None,
) -> dict[str, Any]:
    """Everything of the page that its script shows, as plain data."""
    shown = names("metric", metrics, METRICS, METRICS)
    drawn = names("metric", metrics, METRICS, ("accuracy", "auc", "f1"))
    by = list(dict.fromkeys(selection["criterion"]))
    longest = sorted(tables, key=lambda table: -len(table.rows))
    rows = list({(row.algorithm, row.profile): row for table in longest for row in table.rows}.values())
    groups = max(1, len(selection[["algorithm", *PROBLEM, "split"]].drop_duplicates()) * len(by))
    points = max(8, min(50, CURVE_VALUES // (groups * len(shown))))
    found = evidence(source, by, algorithms, points, selection)
    place = {(row.algorithm, row.profile): i for i, row in enumerate(rows)}
    problem = {_problem(table): i for i, table in enumerate(tables)}
    return {
        "metrics": [{"id": name, "word": METRIC_WORDS[name]} for name in shown],
        "criteria": [{"id": name, "word": CRITERION_WORDS[name], "long": LONG[name]} for name in by],
        "problems": [_told(table) for table in tables],
        "methods": [_method(row) for row in rows],
        "cells": _cells(found.selection, shown, by, error, place, problem),
        **_picks(source, found, shown, by, place, problem),
        "about": {name: _about(name) for name in dict.fromkeys(row.algorithm for row in rows)},
        "figures": _figures(found, drawn),
        "drawn": drawn,
        "curve": _small(learning_curves("curves", "accuracy", columns=2, criteria=by)),
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
        return None if not math.isfinite(value) else int(value) if value.is_integer() else float(f"{value:.6g}")
    return value


def _problem(table: Table) -> tuple[str, ...]:
    return tuple(map(str, (table.dataset, table.case, table.setting, table.rate, table.prior)))


def _keys(frame: DataFrame, place: dict[Any, int], problem: dict[tuple[str, ...], int]) -> list[tuple[int, int]]:
    """Which method and which problem each row is about, by number."""
    methods = zip(frame["algorithm"].astype(str), frame["profile"].astype(str), strict=True)
    kinds = (str, int, str, float, float)
    columns = [[str(kind(value)) for value in frame[name]] for name, kind in zip(PROBLEM, kinds, strict=True)]
    return [(place[m], problem[p]) for m, p in zip(methods, zip(*columns, strict=True), strict=True)]


def _told(table: Table) -> dict[str, Any]:
    values = {name: getattr(table, name) for name in PROBLEM}
    return values | {"title": table.title}


def _method(row: Row) -> dict[str, Any]:
    kind = "frame" if row.algorithm in (ORACLE, NAIVE) else "calibrated" if row.calibrated else ""
    return {"name": row.algorithm, "label": row.label, "kind": kind, "oracle": row.algorithm == ORACLE}


def _cells(
    selection: DataFrame, shown: list[str], by: list[str], error: ErrorKind, place: Any, problem: Any
) -> list[list[list[list[Any]]]]:
    """Mean, error and n by metric, criterion, method and problem; 0 where there is nothing."""
    cells: Any = [[[[0] * len(problem) for _ in place] for _ in by] for _ in shown]
    if selection.empty:
        return cells
    numbers = aggregate(selection.drop(columns=["method", "problem"]), shown)
    kind = "stderr" if error == "stderr" else "std_sample"
    for (method, at), row in zip(_keys(numbers, place, problem), numbers.to_dict("records"), strict=True):
        if row["n"]:
            values = [round(float(row["mean"]), 4), round(float(row[kind]), 4), int(row["n"])]
            cells[shown.index(row["metric"])][by.index(row["criterion"])][method][at] = values
    return cells


def _whole(values: Iterable[float]) -> list[int | None]:
    """Fractions as ten-thousandths."""
    return [None if math.isnan(value) else round(1e4 * value) for value in values]


def _picks(source: Source, found: Evidence, shown: list[str], by: list[str], place: Any, problem: Any) -> Any:
    """What was selected, with which hyperparameters, and the learning curves of it."""
    columns = [METRICS[name] for name in shown]
    chosen = found.selection.dropna(subset=["step", "config"])
    settings = _settings(source, chosen)
    texts = {text: i for i, text in enumerate(dict.fromkeys(settings.values()))}
    picks = []
    for (method, at), row in zip(_keys(chosen, place, problem), chosen.to_dict("records"), strict=True):
        key = (*(str(row[name]) for name in (*GROUP, "split")), str(int(row["config"])))
        where = [method, at, int(row["split"]), by.index(row["criterion"]), int(row["config"]), int(row["step"])]
        told = texts[settings[key]] if key in settings else -1
        picks.append([*where, round(float(row["value"]), 4), told, _whole(row[name] for name in columns)])
    even = found.curves[found.curves["even"]]
    curves: dict[str, list[Any]] = {}
    steps: dict[tuple[int, ...], int] = {}
    keys = [*GROUP, "split", "config"]
    for _, part in even.groupby(keys, dropna=False, sort=False):
        ((method, at),) = _keys(part.iloc[:1], place, problem)
        name = f"{method}.{at}.{int(part['split'].iloc[0])}.{int(part['config'].iloc[0])}"
        grid = steps.setdefault(tuple(map(int, part["step"])), len(steps))
        curves[name] = [grid, *(_whole(part[column]) for column in columns)]
    return {"picks": picks, "settings": list(texts), "curves": curves, "steps": [list(key) for key in steps]}


def _settings(source: Source, chosen: DataFrame) -> dict[tuple[str, ...], str]:
    """Learning rate, batch size and hyperparameters in words, by problem, method, split and configuration."""
    curves = load(source)
    told = [name for name in ("lr", "batch_size", "hyper") if name in curves.columns]
    if not told or chosen.empty:
        return {}
    runs = ", ".join("'" + str(run).replace("'", "''") + "'" for run in sorted(set(chosen["run"])))
    keys = (*GROUP, "split", "config")
    listed = ", ".join(f'"{key}"' for key in keys)
    firsts = ", ".join(f"any_value({name}) AS {name}" for name in told)
    frame = ask(curves, f"SELECT {listed}, {firsts} FROM curves WHERE run IN ({runs}) GROUP BY ALL").df()
    found = {}
    for row in frame.to_dict("records"):
        parts = []
        if "lr" in told:
            parts.append(f"learning rate {row['lr']:.3g}")
        if "batch_size" in told:
            parts.append(f"batch {row['batch_size']}")
        try:
            values = json.loads(row.get("hyper") or "{}")
        except ValueError:
            values = {}
        parts += [f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in dict(values).items()]
        found[tuple(str(row[key]) for key in keys)] = ", ".join(parts)
    return found


def _about(name: str) -> dict[str, Any] | None:
    """A method in words; nothing for one that is not registered here, such as a user's plugin."""
    from puarena.algorithms.core.describe import describe
    from puarena.catalogue import get

    try:
        entry = get(name)
    except UserError:
        return None
    return describe(entry)


def _small(chart: Any) -> dict[str, Any]:
    """A chart's Vega-Lite without what the page gives to all."""
    spec: dict[str, Any] = chart.to_dict(validate=False)
    return {key: value for key, value in spec.items() if key not in {"$schema", "config"}}


def _figures(found: Evidence, drawn: list[str]) -> list[dict[str, Any]]:
    """The figures by name: a chart per metric and criterion, or the reason why there is none."""
    from altair.utils.schemapi import debug_mode

    listed: dict[str, list[Figure]] = {name: [] for name in FIGURES}
    with debug_mode(False):  # the charts are checked in the tests; here that would take seconds
        for figure in figures(found, drawn, without=("learning-curves",)):
            listed[figure.name].append(figure)
    return [
        {
            "id": name,
            "title": WORDS[name],
            "words": FIGURES[name],
            "charts": {f"{f.metric}.{f.criterion}": _small(f.chart) for f in items if f.chart is not None},
            "reason": next((f.reason for f in items if f.chart is None), ""),
        }
        for name, items in listed.items()
        if items
    ]
