"""Performance profiles: the share of results above every value."""

from __future__ import annotations

from typing import Any

from puarena.metrics import METRICS
from puarena.report.figures import base

OUTLIERS = 0.03  # share of the results of the first methods beyond the axis
POINTS = 61
MAX_PROFILES = 8  # more colors cannot be told apart
COLORS = ("#0b8f74", "#d1602b", "#6f63d9", "#d98a00", "#c04a80", "#4a7fc0", "#7a8a1f", "#8a6d5a")


class PerformanceProfile(base.Figure):
    """The first methods of the leaderboard."""

    name = "profile"
    title = "Performance profiles"
    caption = (
        "The share of all results (every split of every problem) above each value, for the methods "
        "that compete: a higher line is better; if lines cross neither method is better "
        f"throughout. The first {MAX_PROFILES} of the leaderboard have colors, and the others are "
        "gray. The first has a thick line and a band, its 95% interval from drawing the splits of "
        "each problem again. Select a name to see it alone."
    )
    order = 45
    min_methods = 2

    def draw(self, data: base.FigureData, metric: str, criterion: str) -> base.AnyChart:
        """Draw a line and a band per method."""
        import altair as alt
        import numpy as np

        from puarena.report.statistics.bootstrap import compute_profiles
        from puarena.report.statistics.summary import collect_scores

        competing = base.keep_comparable(base.keep_competing(data.of(criterion)))
        splits = collect_scores(competing, metric, criterion).splits.dropna()
        order = [name for name in data.rank_methods(metric, criterion) if name in splits.columns]
        if len(order) < 2 or len(splits) < 2:
            raise base.TooFewError("needs two competing methods with results on two splits")
        shown, leader = order[:MAX_PROFILES], order[0]
        first = splits[shown].to_numpy()
        # A single bad result of one method would leave no room for the others.
        low, high = np.quantile(first, OUTLIERS), first.max()
        at = np.linspace(low, high, POINTS)
        if METRICS[metric].sign < 0:
            at = np.linspace(first.min(), np.quantile(first, 1 - OUTLIERS), POINTS)
        rows = compute_profiles(splits[order], at=at)
        rows = rows.assign(
            low=rows["low"].fillna(rows["share"]), high=rows["high"].fillna(rows["share"])
        ).rename(columns={"algorithm": "method"})
        pick = alt.selection_point(fields=["method"], bind="legend")
        scale = alt.Scale(zero=False, nice=False)
        x = alt.X("at:Q", title=base.make_axis_title(metric), scale=scale)
        title, percent = "share of results above", alt.Axis(format="%")
        y = alt.Y("share:Q", title=title, axis=percent, scale=alt.Scale(domain=[0, 1]))
        palette = alt.Scale(domain=shown, range=list(COLORS[: len(shown)]))
        legend = alt.Legend(orient="top", columns=4, symbolOpacity=1)
        colors = alt.Color("method:N", title=None, scale=palette, legend=legend)
        share = alt.Tooltip("share:Q", format=".0%")
        tips = base.make_tooltips("method:N", base.make_tooltip("at"), share)
        step: Any = {"interpolate": "step-after", "clip": True}
        others = alt.Chart(rows[~rows["method"].isin(shown)])
        others = others.mark_line(color=base.GRAY, strokeWidth=0.7, **step)
        others = others.encode(x, y, alt.Detail("method:N"), tooltip=tips)
        of_leader = alt.Chart(rows[rows["method"] == leader])
        low, high = alt.Y("low:Q", title=title), alt.Y2("high:Q")
        band = of_leader.mark_area(opacity=0.12, **step).encode(x, low, colors, y2=high)
        fade = alt.condition(pick, alt.value(1), alt.value(0.1))
        # The leader is drawn last, above the others.
        chart = alt.Chart(rows[rows["method"].isin(shown[1:])])
        lines = [
            chart.mark_line(strokeWidth=1.5, **step),
            of_leader.mark_line(strokeWidth=3, **step),
        ]
        lines = [each.encode(x, y, colors, opacity=fade, tooltip=tips) for each in lines]
        lines[0] = lines[0].add_params(pick)
        # A layer without rows would make the browser warn.
        layers = [others] if len(order) > len(shown) else []
        return alt.layer(*layers, band, *lines).properties(width=460, height=300)
