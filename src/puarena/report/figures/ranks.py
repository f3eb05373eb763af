"""Mean ranks, and bars that join methods closer than the Nemenyi critical difference."""

from __future__ import annotations

from puarena.metrics import METRICS
from puarena.report.figures import base


class Ranks(base.Figure):
    """Ranked over problems, or, where these are too few for the test, over the splits of all problems."""

    name = "ranks"
    title = "Ranks and critical difference"
    words = (
        "Methods are ranked on each problem, and the ranks averaged; lines are 95% intervals from drawing these again. "
        "A vertical bar joins methods whose mean ranks are closer than the Nemenyi critical difference: for these the "
        "results do not show which is better. Reference baselines do not compete. Splits of one problem share "
        "data, so where ranks are over splits the bars are too short."
    )
    order = 20

    def draw(self, evidence: base.Evidence, metric: str, criterion: str) -> base.AnyChart:
        """A dot per method, best on top, and the bars beside."""
        import altair as alt
        import pandas

        from puarena.report.statistics import LEAST_BLOCKS, mean_ranks, nemenyi

        selection, higher = evidence.selection, METRICS[metric].higher
        apart = selection["baseline"] | selection["supervised"]
        competing = base.comparable(selection[(selection["criterion"] == criterion) & ~apart])
        few = competing["problem"].nunique() < LEAST_BLOCKS
        block = ["problem", "split"] if few else ["problem"]
        long = base.means(competing, metric, [*block, "method"])
        values = long.pivot(index=block, columns="method", values="value").dropna()
        test = nemenyi(values, higher=higher)
        if test.note:
            raise base.TooFewError(test.note)
        items = mean_ranks(values, higher=higher).items
        frame = pandas.DataFrame([(i.algorithm, i.value, i.low, i.high) for i in items])
        frame.columns = ["method", "rank", "low", "high"]
        order, k = list(frame["method"]), len(frame)
        bars = pandas.DataFrame(
            [
                {"from": g[0], "to": g[-1], "at": k * (1.06 + 0.035 * i)}
                for i, g in enumerate(test.groups)
            ],
            columns=["from", "to", "at"],
        )
        about = [
            f"{k} methods, n = {test.n} {'splits of problems' if few else 'problems'}",
            f"critical difference {test.critical_difference:.2f} at {test.alpha:g}",
        ]
        ordered = alt.Scale(domain=order)
        y = alt.Y("method:N", sort=None, scale=ordered, title=None, axis=alt.Axis(grid=True))
        scale = alt.Scale(domain=[1, max([k, *bars["at"]]) + 0.03 * k], nice=False)
        axis = alt.Axis(values=list(range(1, k + 1, max(1, k // 8))), format="d")
        x = alt.X("rank:Q", title="mean rank, 1 is best", scale=scale, axis=axis)
        tips = [
            alt.Tooltip("method:N"),
            alt.Tooltip("rank:Q", format=".2f", title="mean rank"),
            base.tooltip("low"),
            base.tooltip("high"),
        ]
        dots = (
            alt.Chart(frame)
            .mark_point(filled=True, size=70, color=base.GREEN, opacity=1)
            .encode(x, y, tooltip=tips)
        )
        stems = alt.Chart(frame).mark_rule(color=base.GREEN)
        stems = stems.encode(alt.X("low:Q", scale=scale, axis=axis), y, x2=alt.X2("high:Q"))
        joined = alt.Chart(bars).mark_rule(size=4, color=base.AMBER, strokeCap="round")
        joined = joined.encode(
            alt.X("at:Q"),
            alt.Y("from:N", sort=None, scale=ordered),
            y2=alt.Y2("to:N"),
            tooltip=base.tooltips("from:N", "to:N"),
        )
        chart = alt.layer(stems, joined, dots).properties(width=460, height=alt.Step(16))
        return chart.properties(
            title=alt.Title(about, fontWeight="normal", fontSize=11, anchor="start")
        )
