"""What calibration gains: the calibrated form minus the plain one on the same splits."""

from __future__ import annotations

from puarena.metrics import METRICS
from puarena.report.figures import base
from puarena.report.methods import METHOD
from puarena.report.problems import PROBLEM

PAIRED = [
    *PROBLEM,
    *(name for name in METHOD if name not in {"algorithm", "calibrated"}),
    "problem",
    "split",
]


class CalibrationGain(base.Figure):
    """One line per method that was run in both forms."""

    name = "calibration"
    title = "What calibration gains"
    words = (
        "The calibrated form of a method minus its plain form, on the same splits of the same problems: right of zero "
        "calibration helps. Large marks are means over problems with 95% intervals over splits, small ones are single "
        "problems. Methods stand in the order of the leaderboard."
    )
    order = 15

    def draw(self, evidence: base.Evidence, metric: str, criterion: str) -> base.AnyChart:
        """A mark with an interval per method, and small ones for its problems."""
        import altair as alt

        record = METRICS[metric]
        selection = evidence.selection[evidence.selection["criterion"] == criterion]
        if selection["one_sample"].any():
            selection = selection[selection["one_sample"]]
        rows = base.split_values(selection, metric).dropna(subset=["value"])
        pairs = rows[~rows["calibrated"]].merge(
            rows[rows["calibrated"]][[*PAIRED, "method", "value"]],
            on=PAIRED,
            suffixes=("", "_calibrated"),
        )
        if pairs.empty:
            raise base.TooFewError(
                "needs a method that was run in its plain and in its calibrated form"
            )
        pairs = pairs.assign(value=record.sign * (pairs["value_calibrated"] - pairs["value"]))
        frame = base.with_intervals(pairs, ["method", "method_calibrated"])
        single = pairs.groupby(["method", "problem"], sort=False)["value"].mean().reset_index()
        places = {name: i for i, name in enumerate(base.board_order(evidence, metric, criterion))}
        frame = frame.assign(
            place=frame["method_calibrated"].map(places).fillna(len(places))
        ).sort_values("place")
        y = alt.Y(
            "method:N",
            sort=None,
            scale=alt.Scale(domain=list(frame["method"])),
            title=None,
            axis=alt.Axis(grid=True),
        )
        title = f"{record.inline} gained{', points' if record.percent else ''}"
        x = alt.X("value:Q", title=title, axis=alt.Axis(tickCount=8))
        tips = base.tooltips("method:N", base.tooltip("value"), "interval:N", "problems:Q", "n:Q")
        zero = alt.Chart(frame.iloc[:1]).mark_rule(color=base.GRAY).encode(x=alt.datum(0))
        small = alt.Chart(single).mark_point(filled=True, size=22, color=base.GRAY, opacity=0.8)
        small = small.encode(
            x, y, tooltip=base.tooltips("method:N", "problem:N", base.tooltip("value"))
        )
        lines = (
            alt.Chart(frame)
            .mark_rule(color=base.GREEN, size=1.5)
            .encode(alt.X("low:Q", title=title), y, x2=alt.X2("high:Q"))
        )
        dots = (
            alt.Chart(frame)
            .mark_point(filled=True, size=70, color=base.GREEN, opacity=1)
            .encode(x, y, tooltip=tips)
        )
        return alt.layer(zero, small, lines, dots).properties(width=460, height=alt.Step(20))
