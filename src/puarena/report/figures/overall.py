"""Mean over problems per method, one panel per metric, one color per criterion."""

from __future__ import annotations

from puarena.metrics import METRICS
from puarena.report.figures import base


class Overall(base.Figure):
    """All metrics and criteria at a glance."""

    name = "overall"
    title = "Overall performance"
    words = (
        "The mean over the problems, one panel per metric and one mark per criterion: the farther apart the marks of a "
        "method, the more its result depends on how the model was chosen. Lines are 95% intervals over the splits of "
        "these problems. Methods stand in the order of the leaderboard by the first metric and criterion."
    )
    order = 10
    per_metric = per_criterion = False

    def draw(self, evidence: base.Evidence, metric: str, criterion: str) -> base.AnyChart:
        """One panel per metric of the evidence; methods in the order of the leaderboard."""
        import altair as alt
        import pandas

        frame = base.comparable(evidence.selection)
        parts = [
            base.split_values(frame, name).assign(metric=_panel(name)) for name in evidence.metrics
        ]
        frame = base.with_titles(
            base.with_intervals(pandas.concat(parts), ["metric", "method", "criterion"])
        )
        if frame["method"].nunique() < 2:
            raise base.TooFewError("needs two methods with results on the same problems")
        order = base.board_order(evidence, evidence.metrics[0], evidence.criteria[0])
        percent = all(METRICS[name].percent for name in evidence.metrics)
        x = alt.X(
            "value:Q",
            title=f"mean over problems{', %' if percent else ''}",
            scale=alt.Scale(zero=False, nice=True),
        )
        panels = [_panel(name) for name in evidence.metrics]
        facet = alt.Facet("metric:N", title=None, sort=panels)
        return base.dumbbell(frame, x, order, facet, len(panels), "problems:Q")


def _panel(metric: str) -> str:
    """A metric above its panel, with the direction where less is better."""
    record = METRICS[metric]
    return record.title + ("" if record.higher else " (lower is better)")
