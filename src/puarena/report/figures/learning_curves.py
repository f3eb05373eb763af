"""Test values by step of the selected configurations, and where each criterion stopped."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from puarena.metrics import CRITERIA, METRICS
from puarena.report.figures import base

if TYPE_CHECKING:
    from pandas import DataFrame


class LearningCurves(base.Figure):
    """The first split of the first problem, one panel per method; on the page each method has its own."""

    name = "learning-curves"
    title = "Learning curves"
    words = (
        "Test values by training step of the configurations that were selected, on the first split of the first "
        "problem. A mark is the checkpoint that a criterion chose; the test set chose nothing."
    )
    order = 60
    per_criterion = False
    on_page = False

    def draw(self, evidence: base.Evidence, metric: str, criterion: str) -> base.AnyChart:
        """One panel per method."""
        return curve_chart(curve_rows(evidence, metric), metric, evidence.criteria)


def curve_axis(metric: str) -> str:
    """What the vertical axis says."""
    return f"test {base.axis_title(metric)}"


def curve_chart(
    data: DataFrame | str, metric: str, criteria: Iterable[str], columns: int = 3
) -> base.AnyChart:
    """Curves and marks, one panel per ``panel``.

    The data have ``panel, split, config, step, value, criterion``: rows without a criterion make the curves, rows with
    one the marks. A text is the name of data that are given later.
    """
    import altair as alt

    x = alt.X("step:Q", title="training step", axis=alt.Axis(tickCount=4, format="~s"))
    y = alt.Y("value:Q", title=curve_axis(metric), scale=alt.Scale(zero=False))
    pick = alt.selection_point(fields=["criterion"], bind="legend")
    line = (
        alt.Chart().mark_line(color=base.GRAY, strokeWidth=1.2).transform_filter("!datum.criterion")
    )
    line = line.encode(x, y, detail=["split:N", "config:N"])
    dots = (
        alt.Chart().mark_point(filled=True, size=70, opacity=1).transform_filter("datum.criterion")
    )
    dots = dots.encode(
        x,
        y,
        *base.criterion_color([CRITERIA[name].title for name in criteria]),
        opacity=alt.condition(pick, alt.value(1), alt.value(0.08)),
        tooltip=base.tooltips(
            "criterion:N", "split:N", "config:N", "step:Q", base.tooltip("value")
        ),
    )
    source: Any = alt.NamedData(data) if isinstance(data, str) else data
    layered = alt.layer(line, dots.add_params(pick), data=source).properties(width=230, height=150)
    panels = layered.facet(alt.Facet("panel:N", title=None), columns=columns)
    return panels.resolve_scale(y="independent").resolve_axis(x="independent")


def curve_rows(evidence: base.Evidence, metric: str) -> DataFrame:
    """What ``curve_chart`` draws of the first split of the first problem, one panel per method."""
    import pandas

    record = METRICS[metric]
    chosen = evidence.selection.dropna(subset=["step"])
    if chosen.empty or evidence.curves.empty:
        raise base.TooFewError("needs at least one method for which something was selected")
    problem, split = chosen["problem"].iloc[0], chosen["split"].min()
    parts = [
        part[(part["problem"] == problem) & (part["split"] == split)].assign(
            panel=lambda p: p["method"], value=lambda p: record.factor * p[record.column]
        )
        for part in (evidence.curves.assign(criterion=None), base.with_titles(chosen))
    ]
    columns = ["panel", "split", "config", "step", "value", "criterion"]
    return pandas.concat([part[columns].astype({"criterion": object}) for part in parts])
