"""Mean test value against the seconds of one training run."""

from __future__ import annotations

import math

from puarena.metrics import METRICS
from puarena.report.figures import base


class TrainingTime(base.Figure):
    """The fastest methods for what they reach, and the reference baselines, have their names."""

    name = "time"
    title = "Accuracy against training time"
    caption = (
        "The mean over the problems against the time of one training run. No method below and to "
        "the right of the dashed line is both faster and better than those on it. Runs are trained "
        "together and share the time. Vertical lines are 95% intervals over the splits; the "
        "reference baselines are not on the dashed line."
    )
    order = 40
    min_methods = 2

    def draw(self, data: base.FigureData, metric: str, criterion: str) -> base.AnyChart:
        """Draw a dot per method, and the line of those that are fastest for what they reach."""
        import altair as alt

        sign, title = METRICS[metric].sign, base.make_axis_title(metric)
        chosen = base.keep_comparable(data.of(criterion))
        values = base.add_values(chosen, metric)
        values = base.add_intervals(values, ["method", "baseline", "supervised"])
        seconds = data.seconds[data.seconds["problem"].isin(chosen["problem"])]
        seconds = seconds.groupby("method")["seconds"].mean().reset_index()
        frame = values.merge(seconds, on="method").dropna(subset=["seconds"])
        frame = frame[frame["seconds"] > 0].sort_values("seconds", kind="stable")
        if len(frame) < 2:
            raise base.TooFewError("needs two methods with a recorded training time")
        best = base.keep_competing(frame)
        best = best.assign(good=sign * best["value"])
        best = best.sort_values(["seconds", "good"], ascending=[True, False])
        front = best[best["good"] > best["good"].cummax().shift(fill_value=-math.inf)]
        fastest, slowest = frame["seconds"].min(), frame["seconds"].max()
        scale = alt.Scale(
            type="log" if slowest > 20 * fastest else "linear",
            domain=[0.9 * fastest, 1.2 * slowest],
            nice=False,
        )
        axis = alt.Axis(tickCount=6, format="~r")
        x = alt.X("seconds:Q", title="seconds of one training run", scale=scale, axis=axis)
        scale = alt.Scale(zero=False, padding=20, reverse=sign < 0)
        y = alt.Y("value:Q", title=title, scale=scale)
        chart = alt.Chart(frame)
        spent = alt.Tooltip("seconds:Q", format=".3g")
        tips = base.make_tooltips("method:N", base.make_tooltip("value"), "interval:N", spent)
        dots = chart.mark_point(filled=True, size=80, color=base.VIOLET, opacity=0.8)
        dots = dots.encode(x, y, tooltip=tips)
        low, high = alt.Y("low:Q", title=title), alt.Y2("high:Q")
        bars = chart.mark_rule(color=base.VIOLET, opacity=0.45).encode(x, low, y2=high)
        line = alt.Chart(front).mark_line(
            interpolate="step-after", color=base.GREEN, strokeDash=[4, 3]
        )
        named = frame[frame["method"].isin(front["method"]) | frame["baseline"]]
        text = alt.Chart(named).mark_text(align="left", dx=8, dy=-8, fontSize=11)
        text = text.encode(x, y, text=alt.Text("method:N"))
        layers = alt.layer(line.encode(x, y), bars, dots, text)
        return layers.properties(width=460, height=340)
