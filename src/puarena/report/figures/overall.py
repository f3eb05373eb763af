"""Mean over problems per method, one panel per metric, one color per criterion."""

from __future__ import annotations

from puarena.metrics import METRICS
from puarena.report.figures import base


class Overall(base.Figure):
    """All metrics and criteria at a glance."""

    name = "overall"
    title = "Overall performance"
    caption = (
        "The mean over the problems, one panel per metric and one mark per criterion: the farther "
        "apart the marks of a method, the more its result depends on how the model was chosen. "
        "Lines are 95% intervals over the splits of these problems. Methods are in the order of "
        "the leaderboard by the first metric and criterion."
    )
    order = 10
    per_metric = per_criterion = False
    min_methods = 2

    def draw(self, data: base.FigureData, metric: str, criterion: str) -> base.AnyChart:
        """Draw one panel per metric; methods are in the order of the leaderboard."""
        import altair as alt
        import pandas

        comparable = base.keep_comparable(data.selection)
        if comparable["method"].nunique() < 2:
            raise base.TooFewError("needs two methods with results on the same problems")
        records = [METRICS[name] for name in data.metrics]
        # The direction is above the panel if less is better.
        panels = [r.title + ("" if r.higher else " (lower is better)") for r in records]
        parts = []
        for record, panel in zip(records, panels, strict=True):
            parts.append(base.add_values(comparable, record.name).assign(metric=panel))
        frame = base.add_intervals(pandas.concat(parts), ["metric", "method", "criterion"])
        if frame["method"].nunique() < 2:
            raise base.TooFewError("needs two methods for which something was selected")
        order = data.rank_methods(data.metrics[0], data.criteria[0])
        percent = all(record.percent for record in records)
        title = f"mean over problems{', %' if percent else ''}"
        x = alt.X("value:Q", title=title, scale=alt.Scale(zero=False, nice=True))
        facet = alt.Facet("metric:N", title=None, sort=panels)
        rows = base.use_titles(frame)
        return base.draw_dumbbells(rows, x, order, facet, len(panels), "problems:Q")
