"""The metric against the positive rate per setting, plain and calibrated, a panel per method."""

from __future__ import annotations

from puarena.pu import labeling
from puarena.report.figures import base

PALETTE = ("#d1602b", "#0b8f74", "#6f63d9", "#c04a80", "#d98a00", "#4a7fc0")


class LabelShift(base.Figure):
    """Methods that have results in more than one setting."""

    name = "label-shift"
    title = "The internal label shift"
    caption = (
        "More labeled positives leave fewer in the unlabeled set of the one-sample setting (OS). "
        "Methods made for two-sample data (TS) suffer from that; calibration repairs it. Bars are "
        "standard errors over splits."
    )
    order = 50
    varies = ("setting", "rate")

    def draw(self, data: base.FigureData, metric: str, criterion: str) -> base.AnyChart:
        """Draw a line per setting and form, with bars of the standard error over splits."""
        import altair as alt

        frame = base.add_values(data.of(criterion), metric)
        form = frame["calibrated"].map({True: " calibrated", False: ""})
        frame = frame.assign(
            panel=frame["base"],
            series=frame["setting_short"] + form,
            percent=100 * frame["rate"],
            of=frame["dataset"] + ", case " + frame["case"].astype(str),
        )
        both = frame.groupby("panel")["setting"].nunique()
        frame = frame[frame["panel"].isin(both[both > 1].index)]
        if frame.empty or frame["rate"].nunique() < 2:
            raise base.TooFewError(
                "needs a method with one-sample and two-sample results at two positive rates, as "
                "the suite label-shift has"
            )
        places = frame["of"].nunique()
        if places > 1:
            frame = frame.assign(panel=frame["panel"] + ": " + frame["of"])
        rows = base.add_errors(frame, ["panel", "series", "percent"])
        title = "labeled positives, % of the training data"
        x = alt.X("percent:Q", title=title, scale=alt.Scale(nice=False, padding=8))
        shorts = [setting.short for setting in labeling.list_settings()]
        series = [f"{short}{form}" for short in shorts for form in ("", " calibrated")]
        palette = dict(zip(series, PALETTE, strict=False))
        colors = base.make_color(rows["series"], "series", palette)
        layered = base.draw_lines(rows, x, metric, "series", colors)
        columns = min(4, places) if places > 1 else 3
        panels = layered.facet(alt.Facet("panel:N", title=None), columns=columns)
        return panels.resolve_axis(x="independent", y="independent")
