"""Mean ranks, and bars that join methods closer than the Nemenyi critical difference."""

from __future__ import annotations

from puarena.metrics import METRICS
from puarena.report.figures import base


class Ranks(base.Figure):
    """Ranks over problems or, if these are too few for the test, over all splits."""

    name = "ranks"
    title = "Ranks and critical difference"
    caption = (
        "Methods are ranked on each problem, and the ranks averaged; lines are 95% intervals from "
        "drawing these again. A vertical bar joins methods with mean ranks closer than the Nemenyi "
        "critical difference: for these the results do not show which is better. Reference "
        "baselines do not compete. Splits of one problem share data, so if ranks are over splits "
        "the bars are too short."
    )
    order = 20
    min_methods = 3

    def draw(self, data: base.FigureData, metric: str, criterion: str) -> base.AnyChart:
        """Draw a dot per method, best on top, and the bars to the right."""
        import altair as alt
        import pandas

        from puarena.report.statistics import ranking
        from puarena.report.statistics.bootstrap import ALPHA

        higher = METRICS[metric].higher
        competing = base.keep_comparable(base.keep_competing(data.of(criterion)))
        over_splits = competing["problem"].nunique() < ranking.MIN_BLOCKS
        block = ["problem", "split"] if over_splits else ["problem"]
        long = base.average_problems(competing, metric, [*block, "method"])
        values = long.pivot(index=block, columns="method", values="value").dropna()
        (test,) = ranking.compute_critical_difference(values, higher=higher).to_dict("records")
        if test["note"]:
            raise base.TooFewError(test["note"])
        frame = ranking.average_ranks(values, higher=higher)
        frame = frame.rename(columns={"algorithm": "method", "value": "rank"})
        frame = frame[["method", "rank", "low", "high"]]
        order, k = list(frame["method"]), len(frame)
        groups = ranking.group_ranks(values, test["value"], higher)
        bars = pandas.DataFrame(
            [(group[0], group[-1], k * (1.06 + 0.035 * i)) for i, group in enumerate(groups)],
            columns=["from", "to", "at"],
        )
        about = [
            f"{k} methods, n = {test['n']} {'splits of problems' if over_splits else 'problems'}",
            f"critical difference {test['value']:.2f} at {ALPHA:g}",
        ]
        domain = alt.Scale(domain=order)
        y = alt.Y("method:N", sort=None, scale=domain, title=None, axis=alt.Axis(grid=True))
        scale = alt.Scale(domain=[1, max([k, *bars["at"]]) + 0.03 * k], nice=False)
        axis = alt.Axis(values=list(range(1, k + 1, max(1, k // 8))), format="d")
        x = alt.X("rank:Q", title="mean rank, 1 is best", scale=scale, axis=axis)
        rank = alt.Tooltip("rank:Q", format=".2f", title="mean rank")
        tips = [alt.Tooltip("method:N"), rank, *map(base.make_tooltip, ("low", "high"))]
        dots = alt.Chart(frame).mark_point(filled=True, size=70, color=base.GREEN, opacity=1)
        dots = dots.encode(x, y, tooltip=tips)
        low, high = alt.X("low:Q", scale=scale, axis=axis), alt.X2("high:Q")
        stems = alt.Chart(frame).mark_rule(color=base.GREEN).encode(low, y, x2=high)
        joined = alt.Chart(bars).mark_rule(size=4, color=base.AMBER, strokeCap="round")
        first, last = alt.Y("from:N", sort=None, scale=domain), alt.Y2("to:N")
        tips = base.make_tooltips("from:N", "to:N")
        joined = joined.encode(alt.X("at:Q"), first, y2=last, tooltip=tips)
        title = alt.Title(about, fontWeight="normal", fontSize=11, anchor="start")
        chart = alt.layer(stems, joined, dots)
        return chart.properties(width=460, height=alt.Step(16), title=title)
