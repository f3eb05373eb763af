"""What a figure is, how the figures are found, and what their charts share.

Altair is imported only when a chart is drawn.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from puarena.errors import UserError
from puarena.metrics import CRITERIA, METRICS
from puarena.report.evidence import Evidence
from puarena.report.methods import Method, in_order
from puarena.report.problems import read_all

if TYPE_CHECKING:
    from altair import Chart, FacetChart, LayerChart
    from pandas import DataFrame

AnyChart: TypeAlias = "Chart | LayerChart | FacetChart"
GREEN, AMBER, VIOLET, GRAY = "#0b8f74", "#d98a00", "#6f63d9", "#80808090"
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross")


class TooFewError(UserError):
    """The results do not carry this figure; the message says what is missing."""


class Figure:
    """A figure: its words, and how it is drawn. Subclass it in a file of this folder."""

    name: ClassVar[str]  # of its files and on the page
    title: ClassVar[str]
    words: ClassVar[str]  # what it shows, for somebody who sees it for the first time
    order: ClassVar[int] = 100  # smaller comes earlier
    per_metric: ClassVar[bool] = True  # is there one for every test metric?
    per_criterion: ClassVar[bool] = True  # and one for every criterion?
    on_page: ClassVar[bool] = True

    def draw(self, evidence: Evidence, metric: str, criterion: str) -> AnyChart:
        """The chart; ``TooFewError`` where there are too few results for it."""
        raise NotImplementedError


@lru_cache(maxsize=1)
def figures() -> tuple[Figure, ...]:
    """Every figure there is: those that the files of this folder define."""
    package = importlib.import_module(__package__)
    names = [file.name for file in pkgutil.iter_modules(package.__path__)]
    modules = [importlib.import_module(f"{__package__}.{name}") for name in names]
    classes = [
        cls
        for module in modules
        for cls in vars(module).values()
        if isinstance(cls, type)
        and issubclass(cls, Figure)
        and cls.__module__ == module.__name__
        and cls is not Figure
    ]
    return tuple(sorted((cls() for cls in classes), key=lambda figure: (figure.order, figure.name)))


# numbers


def comparable(frame: DataFrame) -> DataFrame:
    """One-sample problems where there are any, and only methods that have all of them: means that can be compared."""
    if frame["one_sample"].any():
        frame = frame[frame["one_sample"]]
    counts = frame.groupby("method")["problem"].nunique()
    return frame[frame["method"].isin(counts[counts == frame["problem"].nunique()].index)]


def means(selection: DataFrame, metric: str, by: Sequence[str]) -> DataFrame:
    """Means over splits of each problem, as shown, as ``value``."""
    record = METRICS[metric]
    frame = selection.assign(value=record.factor * selection[record.column])
    return frame.groupby(list(by), sort=False, dropna=True)["value"].mean().dropna().reset_index()


def with_intervals(frame: DataFrame, by: Sequence[str]) -> DataFrame:
    """Means over problems of ``value`` (a row per split), and ``low`` and ``high``: 95% intervals over the splits.

    Student's, from the variance inside the problems; of no length, and said so, where a problem has a single split.
    """
    from scipy.stats import t

    keys = list(by)
    cells = (
        frame.dropna(subset=["value"])
        .groupby([*keys, "problem"], sort=False)["value"]
        .agg(["mean", "var", "count"])
    )
    cells = cells.assign(part=cells["var"] / cells["count"]).reset_index()
    groups = cells.groupby(keys, sort=False)
    table = groups.agg(
        value=("mean", "mean"), problems=("problem", "nunique"), n=("count", "sum")
    ).reset_index()
    parts = groups["part"].apply(lambda values: values.sum(skipna=False)).to_numpy()
    half = (
        t.ppf(0.975, (table["n"] - table["problems"]).clip(lower=1))
        * parts**0.5
        / table["problems"]
    )
    low, high = (table["value"] - half).round(4), (table["value"] + half).round(4)
    words = [
        f"{a:.4g} to {b:.4g}" if a == a else "not known: a single split"
        for a, b in zip(low, high, strict=True)
    ]
    return table.assign(
        low=low.fillna(table["value"]), high=high.fillna(table["value"]), interval=words
    )


def board_order(evidence: Evidence, metric: str, criterion: str) -> list[str]:
    """Methods as the leaderboard lists them: by the mean over problems, the best first, ties as in the tables."""
    selection = evidence.selection
    frame = comparable(selection[selection["criterion"] == criterion])
    values = means(frame, metric, ["method", "problem"]).groupby("method")["value"].mean().round(9)
    listed = {
        method.label: i
        for i, method in enumerate(in_order(dict.fromkeys(read_all(Method, selection))))
    }
    return sorted(
        values.index, key=lambda name: (-METRICS[metric].sign * values[name], listed[name])
    )


def split_values(selection: DataFrame, metric: str) -> DataFrame:
    """The rows of a selection with the metric, as shown, as ``value``."""
    record = METRICS[metric]
    return selection.assign(value=record.factor * selection[record.column].astype(float))


def with_titles(frame: DataFrame) -> DataFrame:
    """Criteria by the names a reader sees."""
    return frame.assign(
        criterion=frame["criterion"].map({c.name: c.title for c in CRITERIA.values()})
    )


# words and encodings


def axis_title(metric: str) -> str:
    """A test metric and its unit beside an axis."""
    record = METRICS[metric]
    return record.inline + (", %" if record.percent else "")


def tooltip(field: str) -> Any:
    """A number in a tooltip."""
    import altair as alt

    return alt.Tooltip(f"{field}:Q", format=".4~r")


def tooltips(*fields: Any) -> list[Any]:
    """What a tooltip lists; fields by their shorthand, or as they are (Altair is slow to make channels of texts)."""
    import altair as alt

    return [alt.Tooltip(field) if isinstance(field, str) else field for field in fields]


def color(present: Iterable[str], field: str, palette: Mapping[str, str] | None = None) -> Any:
    """Colors of what is present, with a legend above; those of the criteria unless others are given."""
    import altair as alt

    shown = set(present)
    palette = {c.title: c.color for c in CRITERIA.values()} if palette is None else palette
    colors = {name: value for name, value in palette.items() if name in shown}
    scale = alt.Scale(domain=list(colors), range=list(colors.values()))
    return alt.Color(
        f"{field}:N", title=None, scale=scale, legend=alt.Legend(orient="top", symbolOpacity=1)
    )


def criterion_color(present: Iterable[str]) -> tuple[Any, Any]:
    """Color and shape of criteria, which share one legend."""
    import altair as alt

    colors = color(present, "criterion")
    names = list(colors["scale"]["domain"])
    shapes = alt.Scale(domain=names, range=[SHAPES[i % len(SHAPES)] for i in range(len(names))])
    return colors, alt.Shape("criterion:N", title=None, scale=shapes, legend=colors["legend"])


def dumbbell(
    frame: DataFrame, x: Any, order: list[str], facet: Any, columns: int, count: str
) -> AnyChart:
    """A dot and an interval per criterion, one line of them per method, in panels that have axes of their own."""
    import altair as alt

    y = alt.Y("method:N", sort=order, title=None, axis=alt.Axis(grid=True))
    pick = alt.selection_point(fields=["criterion"], bind="legend")
    colors, shapes = criterion_color(frame["criterion"])
    fade = alt.condition(pick, alt.value(1), alt.value(0.12))
    side = alt.YOffset("criterion:N", sort=list(colors["scale"]["domain"]))
    tips = tooltips("method:N", "criterion:N", tooltip("value"), "interval:N", count)
    lines = (
        alt.Chart()
        .mark_rule(size=1.2)
        .encode(
            alt.X("low:Q", title=x["title"]), y, colors, side, x2=alt.X2("high:Q"), opacity=fade
        )
    )
    dots = alt.Chart().mark_point(filled=True, size=36, opacity=1)
    dots = dots.encode(x, y, colors, shapes, side, opacity=fade, tooltip=tips).add_params(pick)
    layered = alt.layer(lines, dots, data=frame).properties(
        width=230, height=alt.Step(7, **{"for": "offset"})
    )
    return layered.facet(facet, columns=columns).resolve_scale(x="independent")


def theme(ink: str = "#1d2327", grid: str = "#8080802e") -> dict[str, Any]:
    """Vega-Lite configuration of every figure; on the page ``ink`` is ``currentColor`` and follows light and dark."""
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
