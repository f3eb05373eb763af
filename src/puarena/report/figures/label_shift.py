"""The metric against the amount of positive data in each setting, plain and calibrated, one panel per method."""

from __future__ import annotations

from puarena.metrics import METRICS
from puarena.report.figures import base
from puarena.report.problems import settings

PALETTE = ("#d1602b", "#0b8f74", "#6f63d9", "#c04a80", "#d98a00", "#4a7fc0")


class LabelShift(base.Figure):
    """Methods that have results in more than one setting."""

    name = "label-shift"
    title = "The internal label shift"
    words = (
        "More labeled positives leave fewer in the unlabeled set of the one-sample setting (OS). Methods made for "
        "two-sample data (TS) suffer from that; calibration repairs it. Bars are standard errors over splits."
    )
    order = 50

    def draw(self, evidence: base.Evidence, metric: str, criterion: str) -> base.AnyChart:
        """A line per setting and form, with bars of the standard error over splits."""
        import altair as alt

        record = METRICS[metric]
        frame = evidence.selection[evidence.selection["criterion"] == criterion].copy()
        frame["panel"] = frame["base"]
        frame["series"] = frame["setting_short"].where(
            ~frame["calibrated"], frame["setting_short"] + " calibrated"
        )
        both = frame.groupby("panel")["setting"].nunique()
        frame = frame[frame["panel"].isin(both[both > 1].index)]
        if frame.empty or frame["rate"].nunique() < 2:
            raise base.TooFewError(
                "needs a method with one-sample and two-sample results at two positive rates, as the suite label-shift "
                "has"
            )
        frame["value"], frame["percent"] = record.factor * frame[record.column], 100 * frame["rate"]
        frame["of"] = [
            f"{d}, case {c}" for d, c in zip(frame["dataset"], frame["case"], strict=True)
        ]
        places = frame["of"].nunique()
        frame["panel"] = frame["panel"] + (": " + frame["of"] if places > 1 else "")
        grouped = (
            frame.groupby(["panel", "series", "percent"])["value"]
            .agg(["mean", "std", "count"])
            .reset_index()
        )
        grouped["error"] = (grouped["std"] / grouped["count"] ** 0.5).fillna(
            0
        )  # no bar for a single split
        grouped = grouped.assign(
            low=grouped["mean"] - grouped["error"], high=grouped["mean"] + grouped["error"]
        )
        pick = alt.selection_point(fields=["series"], bind="legend")
        x = alt.X(
            "percent:Q",
            title="labeled positives, % of the training data",
            scale=alt.Scale(nice=False, padding=8),
        )
        title = base.axis_title(metric)
        series = [
            f"{setting.short}{form}"
            for setting in settings().values()
            for form in ("", " calibrated")
        ]
        colors = base.color(grouped["series"], "series", dict(zip(series, PALETTE, strict=False)))
        fade = alt.condition(pick, alt.value(1), alt.value(0.12))
        tips = base.tooltips(
            "series:N", "percent:Q", base.tooltip("mean"), base.tooltip("error"), "count:Q"
        )
        y = alt.Y("mean:Q", title=title, scale=alt.Scale(zero=False))
        line = alt.Chart().mark_line(point=True).encode(x, y, colors, opacity=fade, tooltip=tips)
        bars = (
            alt.Chart()
            .mark_rule()
            .encode(x, alt.Y("low:Q", title=title), colors, y2=alt.Y2("high:Q"), opacity=fade)
        )
        layered = alt.layer(line.add_params(pick), bars, data=grouped).properties(
            width=230, height=170
        )
        return layered.facet(
            alt.Facet("panel:N", title=None), columns=min(4, places) if places > 1 else 3
        ).resolve_axis(x="independent", y="independent")
