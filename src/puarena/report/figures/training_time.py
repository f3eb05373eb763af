"""Mean test value against the seconds of one training run."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from puarena.metrics import METRICS
from puarena.report.figures import base

if TYPE_CHECKING:
    import pandas

COLORS = (base.GREEN, base.VIOLET, base.GRAY)  # of the front, of other names, of the rest
MAX_NAMED = 8  # of the best methods; more names cannot be read
MIN_HEIGHT, LINE = 340, 15  # of the chart and of a name, in pixels


class TrainingTime(base.Figure):
    """Named are the best methods, the fastest for what they reach, and the reference baselines."""

    name = "time"
    title = "Quality against training time"
    caption = (
        "The mean over the problems against the time of one training run. The methods on the "
        "dashed line, in green, are Pareto-optimal: no other is both faster and better. Runs are "
        f"trained together and share the time. The best {MAX_NAMED} methods have names at the "
        "right; of the others, point at a dot. Vertical lines are 95% intervals over the splits; "
        "the reference baselines do not compete."
    )
    order = 40
    min_methods = 2

    def draw(self, data: base.FigureData, metric: str, criterion: str) -> base.AnyChart:
        """Draw a dot per method, and the line of those that are fastest for what they reach."""
        import altair as alt
        import pandas

        sign, title = METRICS[metric].sign, base.make_axis_title(metric)
        frame = add_seconds(data, metric, criterion)
        best = base.keep_competing(frame)
        best = best.assign(good=sign * best["value"])
        best = best.sort_values(["seconds", "good"], ascending=[True, False])
        front = best[best["good"] > best["good"].cummax().shift(fill_value=-math.inf)]
        named = pandas.concat([front, best.nlargest(MAX_NAMED, "good"), frame[frame["baseline"]]])
        named = named.drop_duplicates("method")
        frame = frame.assign(
            kind=[
                "front" if name in set(front["method"]) else "named" if known else "other"
                for name, known in zip(
                    frame["method"], frame["method"].isin(named["method"]), strict=True
                )
            ]
        )
        fastest, slowest = frame["seconds"].min(), frame["seconds"].max()
        is_log = bool(slowest > 20 * fastest)
        edge = slowest * (slowest / fastest) ** 0.06 if is_log else 1.04 * slowest
        scale = alt.Scale(type="log" if is_log else "linear", domain=[0.9 * fastest, edge])
        scale["nice"] = False
        axis = alt.Axis(tickCount=6, format="~r")
        x = alt.X("seconds:Q", title="seconds of one training run", scale=scale, axis=axis)
        low, high = frame["low"].min(), frame["high"].max()
        room = 0.04 * (high - low)
        domain = [low - room, high + room]
        scale = alt.Scale(domain=domain, nice=False, reverse=sign < 0)
        y = alt.Y("value:Q", title=title, scale=scale)
        height = max(MIN_HEIGHT, LINE * len(named))
        places = place_names(list(named["value"]), domain, LINE / height * (domain[1] - domain[0]))
        named = named.assign(edge=edge, place=places)
        chart = alt.Chart(frame)
        spent = alt.Tooltip("seconds:Q", format=".3g")
        tips = base.make_tooltips("method:N", base.make_tooltip("value"), "interval:N", spent)
        palette = alt.Scale(domain=["front", "named", "other"], range=[*COLORS])
        color = alt.Color("kind:N", scale=palette, legend=None)
        dots = chart.mark_point(filled=True, size=80, opacity=0.9)
        dots = dots.encode(x, y, color, tooltip=tips)
        low, high = alt.Y("low:Q", title=title), alt.Y2("high:Q")
        bars = chart.mark_rule(opacity=0.45).encode(x, low, color, y2=high)
        line = alt.Chart(front).mark_line(
            interpolate="step-after", color=base.GREEN, strokeDash=[4, 3]
        )
        names = alt.Chart(named)
        ends = {"x2": alt.X2("edge:Q"), "y2": alt.Y2("place:Q")}
        links = names.mark_rule(color=base.GRAY, strokeWidth=0.6).encode(x, y, **ends)
        text = names.mark_text(align="left", dx=4, fontSize=11)
        text = text.encode(alt.X("edge:Q"), alt.Y("place:Q"), text=alt.Text("method:N"))
        layers = alt.layer(links, line.encode(x, y), bars, dots, text)
        return layers.properties(width=460, height=height)


def add_seconds(data: base.FigureData, metric: str, criterion: str) -> pandas.DataFrame:
    """Return the mean value and seconds of every method, the fastest first."""
    chosen = base.keep_comparable(data.of(criterion))
    values = base.add_values(chosen, metric)
    values = base.add_intervals(values, ["method", "baseline", "supervised"])
    seconds = data.seconds[data.seconds["problem"].isin(chosen["problem"])]
    seconds = seconds.groupby("method")["seconds"].mean().reset_index()
    frame = values.merge(seconds, on="method").dropna(subset=["seconds"])
    frame = frame[frame["seconds"] > 0].sort_values("seconds", kind="stable")
    if len(frame) < 2:
        raise base.TooFewError("needs two methods with a recorded training time")
    return frame


def place_names(values: list[float], domain: list[float], gap: float) -> list[float]:
    """Return where names stand that belong to these values: near them, and apart by the gap."""
    order = sorted(range(len(values)), key=lambda i: -values[i])
    places = [0.0] * len(values)
    limit = domain[1]
    for i in order:
        places[i] = min(values[i], limit)
        limit = places[i] - gap
    # Those that were pushed below the axis push the ones above them back.
    limit = domain[0]
    for i in reversed(order):
        places[i] = max(places[i], limit)
        limit = places[i] + gap
    return places
