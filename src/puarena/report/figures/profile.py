"""Performance profiles: the share of results above every value."""

from __future__ import annotations

from puarena.report.figures import base

MAX_PROFILES = 8  # more lines cannot be told apart
COLORS = ("#0b8f74", "#d1602b", "#6f63d9", "#d98a00", "#c04a80", "#4a7fc0", "#7a8a1f", "#80808090")


class PerformanceProfile(base.Figure):
    """The first methods of the leaderboard."""

    name = "profile"
    title = "Performance profiles"
    caption = (
        "The share of all results (every split of every problem) above each value, for the first "
        f"{MAX_PROFILES} methods of the leaderboard that compete: a higher line is better; if "
        "lines cross neither method is better throughout. The band is a 95% interval from "
        "drawing the splits of each problem again."
    )
    order = 45
    min_methods = 2

    def draw(self, data: base.FigureData, metric: str, criterion: str) -> base.AnyChart:
        """Draw a line and a band per method."""
        import altair as alt

        from puarena.report.statistics.bootstrap import compute_profiles
        from puarena.report.statistics.summary import collect_scores

        competing = base.keep_comparable(base.keep_competing(data.of(criterion)))
        splits = collect_scores(competing, metric, criterion).splits.dropna()
        order = [name for name in data.rank_methods(metric, criterion) if name in splits.columns]
        order = order[:MAX_PROFILES]
        if len(order) < 2 or len(splits) < 2:
            raise base.TooFewError("needs two competing methods with results on two splits")
        rows = compute_profiles(splits[order])
        # Every other point is enough to see.
        rows = rows[rows.groupby("algorithm").cumcount() % 2 == 0]
        rows = rows.assign(
            low=rows["low"].fillna(rows["share"]), high=rows["high"].fillna(rows["share"])
        ).rename(columns={"algorithm": "method"})
        pick = alt.selection_point(fields=["method"], bind="legend")
        scale = alt.Scale(zero=False, nice=False)
        x = alt.X("at:Q", title=base.make_axis_title(metric), scale=scale)
        title, percent = "share of results above", alt.Axis(format="%")
        y = alt.Y("share:Q", title=title, axis=percent, scale=alt.Scale(domain=[0, 1]))
        palette = alt.Scale(domain=order, range=list(COLORS[: len(order)]))
        legend = alt.Legend(orient="top", columns=4, symbolOpacity=1)
        colors = alt.Color("method:N", title=None, scale=palette, legend=legend)
        chart = alt.Chart(rows)
        low, high = alt.Y("low:Q", title=title), alt.Y2("high:Q")
        fade = alt.condition(pick, alt.value(0.1), alt.value(0.0))
        band = chart.mark_area(interpolate="step-after")
        band = band.encode(x, low, colors, y2=high, opacity=fade)
        share = alt.Tooltip("share:Q", format=".0%")
        tips = base.make_tooltips("method:N", base.make_tooltip("at"), share)
        fade = alt.condition(pick, alt.value(1), alt.value(0.1))
        line = chart.mark_line(interpolate="step-after")
        line = line.encode(x, y, colors, opacity=fade, tooltip=tips).add_params(pick)
        return alt.layer(band, line).properties(width=460, height=260)
