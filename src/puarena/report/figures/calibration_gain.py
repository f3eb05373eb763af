"""What calibration gains: the calibrated form minus the plain form on the same splits."""

from __future__ import annotations

from puarena.metrics import METRICS
from puarena.pu.problem import PROBLEM_COLUMNS
from puarena.report.figures import base
from puarena.report.methods import METHOD_COLUMNS

SAME_METHOD = [name for name in METHOD_COLUMNS if name not in {"algorithm", "calibrated"}]
PAIRED = [*PROBLEM_COLUMNS, *SAME_METHOD, "problem", "split"]


class CalibrationGain(base.Figure):
    """One line per method that was run in both forms."""

    name = "calibration"
    title = "What calibration gains"
    caption = (
        "The calibrated form of a method minus its plain form, on the same splits of the same "
        "problems: right of zero calibration helps. Large marks are means over problems with 95% "
        "intervals over splits, small ones are single problems. Methods are in the order of the "
        "leaderboard."
    )
    order = 15
    min_methods = 2

    def draw(self, data: base.FigureData, metric: str, criterion: str) -> base.AnyChart:
        """Draw a mark with an interval per method, and small ones for its problems."""
        import altair as alt

        record = METRICS[metric]
        selection = data.of(criterion)
        if selection["one_sample"].any():
            selection = selection[selection["one_sample"]]
        rows = base.add_values(selection, metric).dropna(subset=["value"])
        calibrated = rows[rows["calibrated"]][[*PAIRED, "method", "value"]]
        pairs = rows[~rows["calibrated"]].merge(calibrated, on=PAIRED, suffixes=("", "_calibrated"))
        if pairs.empty:
            raise base.TooFewError("needs a method in its plain and in its calibrated form")
        pairs = pairs.assign(value=record.sign * (pairs["value_calibrated"] - pairs["value"]))
        single = pairs.groupby(["method", "problem"], sort=False)["value"].mean().reset_index()
        places = {name: i for i, name in enumerate(data.rank_methods(metric, criterion))}
        frame = base.add_intervals(pairs, ["method", "method_calibrated"])
        place = frame["method_calibrated"].map(places).fillna(len(places))
        frame = frame.assign(place=place).sort_values("place")
        domain = alt.Scale(domain=list(frame["method"]))
        y = alt.Y("method:N", sort=None, scale=domain, title=None, axis=alt.Axis(grid=True))
        title = f"{record.inline} gained{', points' if record.percent else ''}"
        x = alt.X("value:Q", title=title, axis=alt.Axis(tickCount=8))
        value = base.make_tooltip("value")
        tips = base.make_tooltips("method:N", value, "interval:N", "problems:Q", "n:Q")
        zero = alt.Chart(frame.iloc[:1]).mark_rule(color=base.GRAY).encode(x=alt.datum(0))
        small = alt.Chart(single).mark_point(filled=True, size=22, color=base.GRAY, opacity=0.8)
        small = small.encode(x, y, tooltip=base.make_tooltips("method:N", "problem:N", value))
        low, high = alt.X("low:Q", title=title), alt.X2("high:Q")
        chart = alt.Chart(frame)
        lines = chart.mark_rule(color=base.GREEN, size=1.5).encode(low, y, x2=high)
        dots = chart.mark_point(filled=True, size=70, color=base.GREEN, opacity=1)
        dots = dots.encode(x, y, tooltip=tips)
        return alt.layer(zero, small, lines, dots).properties(width=460, height=alt.Step(20))
