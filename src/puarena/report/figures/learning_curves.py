"""Test values by step of the selected configurations, and the step each criterion chose."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from puarena.metrics import CRITERIA
from puarena.report.figures import base

if TYPE_CHECKING:
    from pandas import DataFrame


class LearningCurves(base.Figure):
    """The first split of the first problem, a panel per method; the page shows every method."""

    name = "learning-curves"
    title = "Learning curves"
    caption = (
        "Test values by training step of the configurations that were selected, on the first split "
        "of the first problem. A mark is the checkpoint that a criterion chose; the test set chose "
        "nothing."
    )
    order = 60
    per_criterion = False
    on_page = False

    def draw(self, data: base.FigureData, metric: str, criterion: str) -> base.AnyChart:
        """Draw one panel per method."""
        return draw_curves(list_curve_rows(data, metric), metric, data.criteria)


def draw_curves(
    rows: DataFrame | str, metric: str, criteria: Iterable[str], columns: int = 3
) -> base.AnyChart:
    """Return curves and marks, one panel per ``panel``.

    The data have ``panel, split, config, step, value, criterion``: rows without a criterion make
    the curves, rows with one the marks. A text is the name of data that are given later.
    """
    import altair as alt

    x = alt.X("step:Q", title="training step", axis=alt.Axis(tickCount=4, format="~s"))
    y = alt.Y("value:Q", title=make_curve_title(metric), scale=alt.Scale(zero=False))
    pick = alt.selection_point(fields=["criterion"], bind="legend")
    line = alt.Chart().mark_line(color=base.GRAY, strokeWidth=1.2)
    line = line.transform_filter("!datum.criterion")
    line = line.encode(x, y, detail=["split:N", "config:N"])
    dots = alt.Chart().mark_point(filled=True, size=70, opacity=1)
    dots = dots.transform_filter("datum.criterion").encode(
        x,
        y,
        *base.make_criterion_color([CRITERIA[name].title for name in criteria]),
        opacity=alt.condition(pick, alt.value(1), alt.value(0.08)),
        tooltip=base.make_tooltips(
            "criterion:N", "split:N", "config:N", "step:Q", base.make_tooltip("value")
        ),
    )
    source: Any = alt.NamedData(rows) if isinstance(rows, str) else rows
    layered = alt.layer(line, dots.add_params(pick), data=source).properties(width=230, height=150)
    panels = layered.facet(alt.Facet("panel:N", title=None), columns=columns)
    return panels.resolve_scale(y="independent").resolve_axis(x="independent")


def make_curve_title(metric: str) -> str:
    """Return the title of the vertical axis."""
    return f"test {base.make_axis_title(metric)}"


def list_curve_rows(data: base.FigureData, metric: str) -> DataFrame:
    """Return the rows of ``draw_curves`` for the first split of the first problem."""
    import pandas

    chosen = data.selection.dropna(subset=["step"])
    if chosen.empty or data.curves.empty:
        raise base.TooFewError("needs at least one method for which something was selected")
    if data.summarized:
        raise base.TooFewError("needs all records; a summary has only those that were chosen")
    problem, split = chosen["problem"].iloc[0], chosen["split"].min()
    columns = ["panel", "split", "config", "step", "value", "criterion"]
    parts = []
    for frame in (data.curves.assign(criterion=None), base.use_titles(chosen)):
        part = frame[(frame["problem"] == problem) & (frame["split"] == split)]
        part = base.add_values(part, metric).assign(panel=part["method"])
        parts.append(part[columns].astype({"criterion": object}))
    return pandas.concat(parts)
