"""Mean test value against the seconds of one training run."""

from __future__ import annotations

import math

from puarena.metrics import METRICS
from puarena.report.figures import base


class TrainingTime(base.Figure):
    """Methods that none beats in both, and the reference baselines, have their names."""

    name = "time"
    title = "Accuracy against training time"
    words = (
        "The mean over the problems against the time of one training run. No method below and to the right of the "
        "dashed line is both faster and better than those on it. Runs are trained side by side and share the time. "
        "Vertical lines are 95% intervals over the splits; the reference baselines are not on the dashed line."
    )
    order = 40

    def draw(self, evidence: base.Evidence, metric: str, criterion: str) -> base.AnyChart:
        """A dot per method, and the line of those that are fastest for what they reach."""
        import altair as alt

        selection, sign = evidence.selection, METRICS[metric].sign
        chosen = base.comparable(selection[selection["criterion"] == criterion])
        value = base.with_intervals(
            base.split_values(chosen, metric), ["method", "baseline", "supervised"]
        )
        seconds = evidence.seconds[evidence.seconds["problem"].isin(chosen["problem"])]
        frame = value.merge(
            seconds.groupby("method")["seconds"].mean().reset_index(), on="method"
        ).dropna(subset=["seconds"])
        frame = frame[frame["seconds"] > 0].sort_values("seconds", kind="stable")
        if len(frame) < 2:
            raise base.TooFewError("needs two methods with a recorded training time")
        competing = frame[~frame["supervised"] & ~frame["baseline"]]
        best = competing.assign(good=sign * competing["value"]).sort_values(
            ["seconds", "good"], ascending=[True, False]
        )
        front = best[best["good"] > best["good"].cummax().shift(fill_value=-math.inf)]
        tips = base.tooltips(
            "method:N", base.tooltip("value"), "interval:N", alt.Tooltip("seconds:Q", format=".3g")
        )
        low, high = frame["seconds"].min(), frame["seconds"].max()
        scale = alt.Scale(
            type="log" if high > 20 * low else "linear", domain=[0.9 * low, 1.2 * high], nice=False
        )
        axis = alt.Axis(tickCount=6, format="~r")
        x = alt.X("seconds:Q", title="seconds of one training run", scale=scale, axis=axis)
        y = alt.Y(
            "value:Q",
            title=base.axis_title(metric),
            scale=alt.Scale(zero=False, padding=20, reverse=sign < 0),
        )
        dots = (
            alt.Chart(frame)
            .mark_point(filled=True, size=80, color=base.VIOLET, opacity=0.8)
            .encode(x, y, tooltip=tips)
        )
        low = alt.Y("low:Q", title=base.axis_title(metric))
        bars = (
            alt.Chart(frame)
            .mark_rule(color=base.VIOLET, opacity=0.45)
            .encode(x, low, y2=alt.Y2("high:Q"))
        )
        line = (
            alt.Chart(front)
            .mark_line(interpolate="step-after", color=base.GREEN, strokeDash=[4, 3])
            .encode(x, y)
        )
        named = frame[frame["method"].isin(front["method"]) | frame["baseline"]]
        text = (
            alt.Chart(named)
            .mark_text(align="left", dx=8, dy=-8, fontSize=11)
            .encode(x, y, text=alt.Text("method:N"))
        )
        return alt.layer(line, bars, dots, text).properties(width=460, height=340)
