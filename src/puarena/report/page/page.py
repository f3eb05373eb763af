"""One self-contained HTML page: leaderboard, methods, figures, tables, failures and the spec.

The page's script gets its data as small JSON: numbers, curves, figures and facts of methods.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from itertools import pairwise, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from puarena import __version__
from puarena.metrics import CRITERIA, METRICS, list_cautions
from puarena.pu import labeling
from puarena.pu.labeling import OBSERVED, SCAR, describe_mechanism
from puarena.pu.problem import PROBLEM_COLUMNS, Problem
from puarena.report.bias import correlate_orders, read_observed
from puarena.report.completeness import describe_missing_runs, describe_untrained_runs
from puarena.report.figures import FigureData, draw_figure, find_figures, read_figure_data
from puarena.report.figures.base import list_runs, make_theme
from puarena.report.figures.learning_curves import draw_curves, make_curve_title
from puarena.report.methods import read_problems
from puarena.report.render import format_place, format_places
from puarena.report.select import aggregate, select
from puarena.report.sources import GROUP, CurveTable, Source, as_list, open_curves
from puarena.report.statistics import (
    Standings,
    collect_scores,
    compute_standings,
    describe_naive,
    describe_winner,
)
from puarena.report.statistics.bootstrap import BOOTSTRAP_DRAWS, average_splits
from puarena.report.statistics.ranking import compute_ranks
from puarena.report.tables import ERROR_KINDS, ErrorKind, ResultTable, build_tables, format_number
from puarena.results import OK, Results
from puarena.results.published import card_file, read_card
from puarena.utils.files import parse_json, write_file
from puarena.utils.plain import to_plain

if TYPE_CHECKING:
    from pandas import DataFrame

MAX_DIVERGED = 500  # diverged runs that are listed
TEMPLATES = Path(__file__).parent / "templates"


def write_page(
    source: Source,
    path: str | Path,
    metrics: Iterable[str] | None = None,
    criteria: Iterable[str] | None = None,
    error: ErrorKind = "stderr",
    algorithms: Sequence[str] | None = None,
    selection: DataFrame | None = None,
    home: str = "",
) -> None:
    """Write the page; it needs no network, and names from users show as text.

    ``selection``: the result of ``select`` for these criteria, if it is known already. ``home``:
    the address of a page that lists several of these, which the page links to.
    """
    curves = open_curves(source)
    metrics = None if metrics is None else as_list(metrics)
    by = curves.criteria(criteria)
    every = curves.metrics(metrics, every=True)
    selection = select(curves, by) if selection is None else selection
    numbers = aggregate(selection, every)
    notes = [*curves.notes, *(curves.absent() if criteria is None else [])]
    options = (by, error, algorithms, notes, curves.methods)
    tables = build_tables(numbers, curves.metrics(metrics), *options)
    data: dict[str, Any] = {}
    if tables:
        full = build_tables(numbers, every, *options)
        data = collect_page_data(curves, full, selection, metrics, algorithms)
    # The page shows the verdict on all problems before its script runs.
    views = [item for view in data.get("views", {}).values() for item in view.values()]
    verdict = views[0]["verdict"] if views else ""
    observed = read_observed(curves)
    text = load_template(TEMPLATES, "page.html.j2").render(
        home=home,
        tables=tables,
        methods=data.get("methods", []),
        verdict=verdict,
        naive=views[0]["naive"] if views else "",
        error=ERROR_KINDS[error],
        metrics=METRICS,
        criteria={name: CRITERIA[name] for name in by},
        settings=labeling.list_settings(),
        max_diverged=MAX_DIVERGED,
        data=embed_json(data),
        vega=_bundle_vega() if tables else "",
        css=(TEMPLATES / "page.css").read_text(encoding="utf-8"),
        js=(TEMPLATES / "page.js").read_text(encoding="utf-8"),
        mechanisms=_describe_mechanisms(curves),
        observed=observed,
        correlation=correlate_orders(curves, curves) if observed else None,
        cautions=list_cautions(by),
        written=datetime.now(UTC).date().isoformat(),
        **_describe_results(curves),
        **_count_runs(curves),
    )
    write_file(path, text)


def _describe_results(curves: CurveTable) -> dict[str, Any]:
    """Return the title, the spec and the origin of the results; empty for a relation or frame."""
    store = curves.store
    if store is None:
        facts: dict[str, Any] = dict.fromkeys(
            ("description", "spec", "spec_hash", "date", "commit", "machine"), ""
        )
        return facts | {
            "title": "puarena: results",
            "first_lines": [],
            "file": "puarena.json",
            "versions": {"puarena": __version__},
            "summary": False,
            "sources": [],
        }
    spec = store.info.spec
    name = str(spec.get("name") or "")
    file = re.sub(r"[^\w.-]+", "-", name).strip("-.") or "puarena"
    return {
        "title": spec.get("title") or f"{name or 'puarena'}: results",
        "description": spec.get("description", ""),
        "first_lines": [
            *store.info.notes,
            *describe_missing_runs(curves),
            *describe_untrained_runs(curves),
        ],
        "spec": json.dumps(spec, indent=2, ensure_ascii=False),
        "spec_hash": store.spec_hash,
        "file": f"{file}.json",
        "versions": store.info.versions,
        "summary": store.is_summarized,
        "sources": store.info.sources,
        **_describe_origin(store),
    }


def _describe_origin(store: Results) -> dict[str, str]:
    """Return the date of the results, the commit of the program and the machine, if known."""
    card = read_card(store.path) if card_file(store.path).is_file() else None
    date = (card.published if card else "") or store.info.date
    if not date and store.path.is_dir():
        times = [file.stat().st_mtime for file in store.path.glob("shards/*.parquet")]
        if times:
            date = datetime.fromtimestamp(max(times), UTC).date().isoformat()
    origin = {"date": date}
    for name in ("commit", "machine"):
        origin[name] = getattr(card, name, "") or getattr(store.info, name)
    return origin


def _describe_mechanisms(curves: CurveTable) -> list[dict[str, str]]:
    """Return the mechanisms that are not SCAR, and how strong they came out."""
    known = "val_label_strength" in curves.columns
    strength = "avg(val_label_strength)" if known else "NULL"
    rows = curves.rows(
        f"SELECT labeling, dataset, {strength} FROM curves "
        f"WHERE labeling NOT IN ('{SCAR}', '{OBSERVED}') "
        "GROUP BY ALL ORDER BY ALL"
    )
    shifts: dict[str, list[str]] = {}
    meanings: dict[str, str] = {}
    for text, dataset, value in rows:
        mechanism = describe_mechanism(text)
        meanings[mechanism.name] = mechanism.meaning
        parts = shifts.setdefault(mechanism.name, [])
        if value is not None:
            parts.append(f"{value:+.2f} by {mechanism.short} on {dataset}")
    before = (
        "How far the labeled lie towards the clear positives, in standard deviations of all "
        "positives: "
    )
    mechanisms = []
    for name, parts in shifts.items():
        shift = f"{before}{', '.join(parts)}." if parts else ""
        mechanisms.append({"name": name, "meaning": meanings[name], "shift": shift})
    return mechanisms


def _count_runs(curves: CurveTable) -> dict[str, Any]:
    """Return the numbers of runs and records, the versions that made them, and the failures."""
    store = curves.store
    ((runs, records),) = curves.rows("SELECT count(DISTINCT run), count(*) FROM curves")
    if store and store.info.summary:
        records = store.info.summary.records
    keys = ", ".join(f'"{name}"' for name in (*PROBLEM_COLUMNS, "algorithm", "split"))
    ((configs,),) = curves.rows(
        f"SELECT max(n) FROM (SELECT count(DISTINCT config) AS n FROM curves GROUP BY {keys})"
    )
    diverged = curves.frame(
        f"SELECT {keys}, config, run, min(status) AS reason FROM curves WHERE status <> '{OK}' "
        f"GROUP BY {keys}, config, run ORDER BY {keys}, config, run"
    )
    labels = [problem.label() for problem in read_problems(diverged)]
    failures = store.failures() if store else []
    return {
        "runs": runs,
        "records": records,
        "configs": configs or 0,
        "makers": curves.rows("SELECT DISTINCT device, version, torch FROM curves ORDER BY ALL"),
        "diverged": diverged.assign(problem=labels).to_dict("records"),
        "failures": failures,
        "lost": sum(len(failure.runs) for failure in failures),
    }


@lru_cache(maxsize=1)
def _bundle_vega() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script that cannot end its element."""
    import vl_convert

    text: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return re.sub(r"<(?=/script|!--)", r"\\x3c", text, flags=re.IGNORECASE)


def load_template(folder: Path, name: str) -> Any:
    """Return a template of a folder that escapes all text."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)


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
