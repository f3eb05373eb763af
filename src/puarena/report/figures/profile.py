"""Performance profiles: the share of results above every value."""

from __future__ import annotations

from puarena.report.figures import base

SHOWN = 8  # methods; more lines cannot be told apart
COLORS = ("#0b8f74", "#d1602b", "#6f63d9", "#d98a00", "#c04a80", "#4a7fc0", "#7a8a1f", "#80808090")


class PerformanceProfile(base.Figure):
    """The first methods of the leaderboard."""

    name = "profile"
    title = "Performance profiles"
    words = (
        f"The share of all results (every split of every problem) above each value, for the first {SHOWN} methods of "
        "the leaderboard that compete: a higher line is better; where lines cross neither method is better throughout. "
        "The band is a 95% interval from drawing the splits of each problem again."
    )
    order = 45

    def draw(self, evidence: base.Evidence, metric: str, criterion: str) -> base.AnyChart:
        """A line and a band per method."""
        import altair as alt
        import pandas

        from puarena.report.statistics.aggregates import profiles
        from puarena.report.statistics.scores import scores_of

        selection = evidence.selection[evidence.selection["criterion"] == criterion]
        chosen = base.comparable(selection[~(selection["baseline"] | selection["supervised"])])
        splits = scores_of(chosen, metric, criterion).splits.dropna()
        order = [
            name for name in base.board_order(evidence, metric, criterion) if name in splits.columns
        ][:SHOWN]
        if len(order) < 2 or len(splits) < 2:
            raise base.TooFewError("needs two competing methods with results on two splits")
        curves = profiles(splits[order])
        rows = [
            (
                name,
                at,
                share,
                *((curves.low[name][i], curves.high[name][i]) if curves.low else (share, share)),
            )
            for name in order
            for i, (at, share) in enumerate(zip(curves.at, curves.share[name], strict=True))
            if i % 2 == 0  # every other point is enough to see
        ]
        frame = pandas.DataFrame(rows, columns=["method", "at", "share", "low", "high"])
        pick = alt.selection_point(fields=["method"], bind="legend")
        x = alt.X("at:Q", title=base.axis_title(metric), scale=alt.Scale(zero=False, nice=False))
        y = alt.Y(
            "share:Q",
            title="share of results above",
            axis=alt.Axis(format="%"),
            scale=alt.Scale(domain=[0, 1]),
        )
        scale = alt.Scale(domain=order, range=list(COLORS[: len(order)]))
        colors = alt.Color(
            "method:N",
            title=None,
            scale=scale,
            legend=alt.Legend(orient="top", columns=4, symbolOpacity=1),
        )
        chart = alt.Chart(frame)
        fade = alt.condition(pick, alt.value(0.1), alt.value(0.0))
        band = chart.mark_area(interpolate="step-after").encode(
            x, alt.Y("low:Q", title=y["title"]), colors, y2=alt.Y2("high:Q"), opacity=fade
        )
        seen = alt.condition(pick, alt.value(1), alt.value(0.1))
        line = chart.mark_line(interpolate="step-after").encode(
            x,
            y,
            colors,
            opacity=seen,
            tooltip=base.tooltips(
                "method:N", base.tooltip("at"), alt.Tooltip("share:Q", format=".0%")
            ),
        )
        return alt.layer(band, line.add_params(pick)).properties(width=460, height=260)
