"""What a figure is, the data that figures are drawn from, and what their charts share.

Altair is imported only when a chart is drawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from puarena.errors import UserError
from puarena.metrics import CRITERIA, METRICS
from puarena.report.methods import in_order, read_methods
from puarena.report.select import add_labels, keep_algorithms, select
from puarena.report.sources import GROUP, CurveTable, Source, open_curves
from puarena.results.parquet import quote_text

if TYPE_CHECKING:
    from altair import Chart, FacetChart, LayerChart
    from pandas import DataFrame

AnyChart: TypeAlias = "Chart | LayerChart | FacetChart"
GREEN, AMBER, VIOLET, GRAY = "#0b8f74", "#d98a00", "#6f63d9", "#80808090"
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross")


class TooFewError(UserError):
    """There are too few results for this figure; the message says what is missing."""

    code = "missing-data"


class Figure:
    """A figure. Subclass it in a file of this folder."""

    name: ClassVar[str]  # of its files and on the page
    title: ClassVar[str]
    caption: ClassVar[str]  # for somebody who sees the figure for the first time
    order: ClassVar[int] = 100  # smaller comes earlier
    per_metric: ClassVar[bool] = True  # one chart per test metric?
    per_criterion: ClassVar[bool] = True  # one chart per criterion?
    on_page: ClassVar[bool] = True
    min_methods: ClassVar[int] = 1  # without so many methods it is not drawn
    varies: ClassVar[
        tuple[str, ...]
    ] = ()  # columns that need two values, otherwise it is not drawn

    def draw(self, data: FigureData, metric: str, criterion: str) -> AnyChart:
        """Return the chart, or raise ``TooFewError`` if there are too few results for it."""
        raise NotImplementedError


# data


@dataclass(frozen=True)
class FigureData:
    """What figures are drawn from, read from the stored curves in a few queries.

    Every frame has the columns of the problem and of the method, and those of ``add_labels``.
    """

    metrics: tuple[str, ...]  # that are drawn
    criteria: tuple[str, ...]
    selection: DataFrame  # as ``select`` gives it
    best: DataFrame  # the best test values of selectable records, per problem, method and split
    seconds: DataFrame  # of one training run, per problem and method
    curves: DataFrame  # test metrics by step of the selected runs; ``even``: evenly spaced records
    summarized: bool = False  # whether the curves have only chosen and last records

    @cached_property
    def table_order(self) -> dict[str, int]:
        """The place of every method in the tables."""
        methods = in_order(dict.fromkeys(read_methods(self.selection)))
        return {method.label: i for i, method in enumerate(methods)}

    def of(self, criterion: str) -> DataFrame:
        """Return the selection by one criterion."""
        return self.selection[self.selection["criterion"] == criterion]

    def rank_methods(self, metric: str, criterion: str) -> list[str]:
        """Return methods as the leaderboard lists them: by the mean over problems, best first."""
        values = average_problems(
            keep_comparable(self.of(criterion)), metric, ["method", "problem"]
        )
        means = values.groupby("method")["value"].mean().round(9)
        sign = METRICS[metric].sign
        return sorted(means.index, key=lambda name: (-sign * means[name], self.table_order[name]))


def read_figure_data(
    source: Source,
    metrics: Iterable[str] | None = None,
    criteria: Iterable[str] | None = None,
    algorithms: Sequence[str] | None = None,
    points: int = 60,
    selection: DataFrame | None = None,
) -> FigureData:
    """Read what figures need.

    ``points``: about how many records of a learning curve are kept. ``selection``: the result of
    ``select`` for these criteria, if it is known already.
    """
    curves = open_curves(source)
    drawn, by = curves.metrics(metrics), curves.criteria(criteria)
    chosen = select(curves, by) if selection is None else selection
    chosen = add_labels(keep_algorithms(chosen, algorithms))
    records = [METRICS[name] for name in curves.metrics(every=True)]
    keys = ", ".join(f'"{key}"' for key in GROUP)
    best = ", ".join(
        f"{'max' if m.higher else 'min'}({m.column}) "
        f"FILTER (WHERE selectable AND NOT isnan({m.column})) AS {m.column}"
        for m in records
    )
    # A summary has few records of a run, and the best may not be among them.
    summarized = curves.store is not None and curves.store.is_summarized
    where = "WHERE false" if summarized else ""
    highest = curves.frame(f"SELECT {keys}, split, {best} FROM curves {where} GROUP BY ALL")
    thinned = _thin_curves(curves, chosen, [m.column for m in records], points)
    best_of, thin = (add_labels(frame, chosen) for frame in (highest, thinned))
    seconds = read_seconds(curves, chosen)
    return FigureData(tuple(drawn), tuple(by), chosen, best_of, seconds, thin, summarized)


def read_seconds(curves: CurveTable, like: DataFrame) -> DataFrame:
    """Return the mean seconds of a training run per problem and method, with labels."""
    keys = ", ".join(f'"{key}"' for key in GROUP)
    spent = "max(seconds)" if "seconds" in curves.columns else "CAST(NULL AS DOUBLE)"
    times = f"SELECT {keys}, split, config, {spent} AS seconds FROM curves GROUP BY ALL"
    frame = curves.frame(f"SELECT {keys}, avg(seconds) AS seconds FROM ({times}) GROUP BY ALL")
    return add_labels(frame, like)


def _thin_curves(
    curves: CurveTable, chosen: DataFrame, columns: list[str], points: int
) -> DataFrame:
    """Return the learning curves of selected runs: evenly spaced records and the selected ones."""
    import pandas

    keys = [*GROUP, "split", "config"]
    picked = chosen.dropna(subset=["config", "step"]).astype({"config": int, "step": int})
    own = picked[[*keys, "step", *columns]].assign(even=False)
    if picked.empty:
        return own
    names = ", ".join(f'"{key}"' for key in keys)
    query = f"""
        SELECT * EXCLUDE (place, places) FROM (
            SELECT {names}, step, {", ".join(columns)},
                   row_number() OVER (PARTITION BY {names} ORDER BY step) AS place,
                   count(*) OVER (PARTITION BY {names}) AS places
            FROM curves WHERE run IN ({list_runs(picked)}))
        WHERE place % greatest(1, places // {points}) = 0 OR place = places OR place = 1
    """
    even = curves.frame(query).merge(picked[keys].drop_duplicates(), on=keys).assign(even=True)
    both = pandas.concat([even, own]).drop_duplicates([*keys, "step"])
    return both.sort_values([*keys, "step"], ignore_index=True)


def list_runs(chosen: DataFrame) -> str:
    """Return SQL for the runs of a selection."""
    return ", ".join(quote_text(run) for run in sorted(set(chosen["run"])))


# numbers


def keep_competing(selection: DataFrame) -> DataFrame:
    """Return the rows of methods that are no reference baselines."""
    return selection[~(selection["baseline"] | selection["supervised"])]


def keep_comparable(selection: DataFrame) -> DataFrame:
    """Return the one-sample problems, if any, of methods that have results on all of them."""
    if selection["one_sample"].any():
        selection = selection[selection["one_sample"]]
    counts = selection.groupby("method")["problem"].nunique()
    complete = counts[counts == selection["problem"].nunique()].index
    return selection[selection["method"].isin(complete)]


def average_problems(selection: DataFrame, metric: str, by: Sequence[str]) -> DataFrame:
    """Return means over splits of each problem, as shown, as ``value``."""
    groups = add_values(selection, metric).groupby(list(by), sort=False, dropna=True)
    return groups["value"].mean().dropna().reset_index()


def add_values(selection: DataFrame, metric: str) -> DataFrame:
    """Return the selection with the metric, as shown, as ``value``."""
    record = METRICS[metric]
    return selection.assign(value=record.factor * selection[record.column].astype(float))


def add_intervals(frame: DataFrame, by: Sequence[str]) -> DataFrame:
    """Return means over problems of ``value`` with ``low`` and ``high``: 95% over the splits.

    Student's interval, from the variance inside the problems. It has no length, and ``interval``
    says so, if a problem has a single split.
    """
    from scipy.stats import t

    keys = list(by)
    rows = frame.dropna(subset=["value"])
    cells = rows.groupby([*keys, "problem"], sort=False)["value"].agg(["mean", "var", "count"])
    cells = cells.assign(part=cells["var"] / cells["count"]).reset_index()
    groups = cells.groupby(keys, sort=False)
    table = groups.agg(
        value=("mean", "mean"), problems=("problem", "nunique"), n=("count", "sum")
    ).reset_index()
    parts = groups["part"].apply(lambda values: values.sum(skipna=False)).to_numpy()
    quantile = t.ppf(0.975, (table["n"] - table["problems"]).clip(lower=1))
    half = quantile * parts**0.5 / table["problems"]
    low, high = (table["value"] - half).round(4), (table["value"] + half).round(4)
    texts = []
    for a, b in zip(low, high, strict=True):
        texts.append(f"{a:.4g} to {b:.4g}" if a == a else "not known: a single split")
    value = table["value"]
    return table.assign(low=low.fillna(value), high=high.fillna(value), interval=texts)


def add_errors(frame: DataFrame, by: Sequence[str]) -> DataFrame:
    """Return means of ``value`` with ``low`` and ``high``: one standard error (0 for one value)."""
    table = frame.groupby(list(by))["value"].agg(["mean", "std", "count"]).reset_index()
    error = (table["std"] / table["count"] ** 0.5).fillna(0)
    return table.assign(error=error, low=table["mean"] - error, high=table["mean"] + error)


def use_titles(frame: DataFrame) -> DataFrame:
    """Return the frame with criteria by their titles."""
    titles = {record.name: record.title for record in CRITERIA.values()}
    return frame.assign(criterion=frame["criterion"].map(titles))


# encodings and parts of charts


def make_axis_title(metric: str) -> str:
    """Return a test metric and its unit."""
    record = METRICS[metric]
    return record.inline + (", %" if record.percent else "")


def make_tooltip(field: str) -> Any:
    """Return a number of a tooltip."""
    import altair as alt

    return alt.Tooltip(f"{field}:Q", format=".4~r")


def make_tooltips(*fields: Any) -> list[Any]:
    """Return a tooltip's list; Altair is slow to make channels of shorthands by itself."""
    import altair as alt

    return [alt.Tooltip(field) if isinstance(field, str) else field for field in fields]


def make_color(present: Iterable[str], field: str, palette: Mapping[str, str] | None = None) -> Any:
    """Return the colors of what is present, with a legend above (default: those of criteria)."""
    import altair as alt

    shown = set(present)
    if palette is None:
        palette = {record.title: record.color for record in CRITERIA.values()}
    colors = {name: value for name, value in palette.items() if name in shown}
    scale = alt.Scale(domain=list(colors), range=list(colors.values()))
    legend = alt.Legend(orient="top", symbolOpacity=1)
    return alt.Color(f"{field}:N", title=None, scale=scale, legend=legend)


def make_criterion_color(present: Iterable[str]) -> tuple[Any, Any]:
    """Return color and shape of criteria, which share one legend."""
    import altair as alt

    colors = make_color(present, "criterion")
    names = list(colors["scale"]["domain"])
    shapes = alt.Scale(domain=names, range=[SHAPES[i % len(SHAPES)] for i in range(len(names))])
    return colors, alt.Shape("criterion:N", title=None, scale=shapes, legend=colors["legend"])


def make_fade(field: str) -> tuple[Any, Any]:
    """Return a selection by the legend, and the opacity that fades what is not selected."""
    import altair as alt

    pick = alt.selection_point(fields=[field], bind="legend")
    return pick, alt.condition(pick, alt.value(1), alt.value(0.12))


def draw_dumbbells(
    frame: DataFrame, x: Any, order: list[str], facet: Any, columns: int, count: str
) -> AnyChart:
    """Return a dot and an interval per criterion, one line per method, in panels with own axes."""
    import altair as alt

    y = alt.Y("method:N", sort=order, title=None, axis=alt.Axis(grid=True))
    pick, fade = make_fade("criterion")
    colors, shapes = make_criterion_color(frame["criterion"])
    side = alt.YOffset("criterion:N", sort=list(colors["scale"]["domain"]))
    tips = make_tooltips("method:N", "criterion:N", make_tooltip("value"), "interval:N", count)
    lines = alt.Chart().mark_rule(size=1.2)
    low, high = alt.X("low:Q", title=x["title"]), alt.X2("high:Q")
    lines = lines.encode(low, y, colors, side, x2=high, opacity=fade)
    dots = alt.Chart().mark_point(filled=True, size=36, opacity=1)
    dots = dots.encode(x, y, colors, shapes, side, opacity=fade, tooltip=tips).add_params(pick)
    # The names of the methods need a line each, however few the criteria are.
    height = alt.Step(max(7, 14 / frame["criterion"].nunique()), **{"for": "offset"})
    layered = alt.layer(lines, dots, data=frame).properties(width=230, height=height)
    return layered.facet(facet, columns=columns).resolve_scale(x="independent")


def draw_lines(frame: DataFrame, x: Any, metric: str, series: str, colors: Any) -> Any:
    """Return a line per ``series`` of ``mean`` with bars from ``low`` to ``high``, for panels."""
    import altair as alt

    title = make_axis_title(metric)
    pick, fade = make_fade(series)
    mean, error = make_tooltip("mean"), make_tooltip("error")
    tips = make_tooltips(f"{series}:N", f"{x['shorthand']}", mean, error, "count:Q")
    y = alt.Y("mean:Q", title=title, scale=alt.Scale(zero=False))
    line = alt.Chart().mark_line(point=True).encode(x, y, colors, opacity=fade, tooltip=tips)
    low, high = alt.Y("low:Q", title=title), alt.Y2("high:Q")
    bars = alt.Chart().mark_rule().encode(x, low, colors, y2=high, opacity=fade)
    return alt.layer(line.add_params(pick), bars, data=frame).properties(width=230, height=170)


def make_theme(ink: str = "#1d2327", grid: str = "#8080802e") -> dict[str, Any]:
    """Return the Vega-Lite configuration of every figure.

    On the page ``ink`` is ``currentColor``, which follows light and dark.
    """
    font = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
    text = {
        "labelColor": ink,
        "titleColor": ink,
        "labelFontSize": 11,
        "titleFontSize": 11,
        "titleFontWeight": "normal",
    }
    lines = {"gridColor": grid, "domain": False, "tickColor": grid, "labelLimit": 140}
    return {
        "font": font,
        "background": "transparent",
        "view": {"stroke": None},
        "axis": text | lines,
        "header": text | {"labelFontSize": 12, "labelFontWeight": "bold", "labelLimit": 240},
        "legend": text | {"labelFontSize": 12},
        "title": {"color": ink, "subtitleColor": ink},
        "text": {"color": ink, "fill": ink},
    }
