"""Mean over problems per method, one panel per metric, one color per criterion."""

from __future__ import annotations

from puarena.metrics import METRICS
from puarena.report.figures import base


class Overall(base.Figure):
    """All metrics and criteria at a glance."""

    name = "overall"
    title = "Overall performance"
    words = (
        "The mean over the problems, one panel per metric and one dot per criterion. The longer the line between the "
        "dots of a method, the more its result depends on how the model was chosen."
    )
    order = 10
    per_metric = per_criterion = False

    def draw(self, evidence: base.Evidence, metric: str, criterion: str) -> base.AnyChart:
        """One panel per metric of the evidence; methods in order of the first."""
        import altair as alt
        import pandas

        frame = base.comparable(evidence.selection)
        by = ["method", "problem", "criterion"]
        frame = pandas.concat([base.means(frame, name, by).assign(metric=_panel(name)) for name in evidence.metrics])
        if frame["method"].nunique() < 2:
            raise base.TooFewError("needs two methods with results on the same problems")
        by = ["metric", "method", "criterion"]
        numbers = {"value": ("value", "mean"), "problems": ("problem", "nunique")}
        frame = base.with_titles(frame.groupby(by, sort=False).agg(**numbers).reset_index())
        first = METRICS[evidence.metrics[0]]
        values = frame[frame["metric"] == _panel(first.name)].groupby("method")["value"].mean()
        order = list(values.sort_values(ascending=not first.higher).index)
        percent = all(METRICS[name].percent for name in evidence.metrics)
        x = alt.X(
            "value:Q", title=f"mean over problems{', %' if percent else ''}", scale=alt.Scale(zero=False, nice=True)
        )
        panels = [_panel(name) for name in evidence.metrics]
        chart = base.dumbbell(
            frame, x, order, alt.Facet("metric:N", title=None, sort=panels), len(panels), "problems:Q"
        )
        return chart if percent else chart.resolve_scale(x="independent")


def _panel(metric: str) -> str:
    """A metric above its panel, with the direction where less is better."""
    record = METRICS[metric]
    return record.title + ("" if record.higher else " (lower is better)")
