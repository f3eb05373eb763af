"""The metric against the strength of biased labels, per criterion, one panel per mechanism."""

from __future__ import annotations

from puarena.pu import labeling
from puarena.report.figures import base


class Bias(base.Figure):
    """Mechanisms with results at two strengths; SCAR labels are strength 0 of each."""

    name = "bias"
    title = "When labels are not given at random"
    caption = (
        "The mean over all methods but the reference baselines, of the models that each "
        "criterion chooses, against how strongly labeling prefers some positives (0: all alike). "
        "If PA's line falls below the oracle's, it chooses badly because it takes the labeled "
        "positives for typical ones; PA-IPW, which knows every positive's chance of a label, "
        "shows what that costs."
    )
    order = 60
    per_criterion = False
    varies = ("labeling",)

    def draw(self, data: base.FigureData, metric: str, criterion: str) -> base.AnyChart:
        """Draw a line per criterion, with bars of the standard error over problems and splits."""
        import altair as alt
        import pandas

        frame = base.add_values(base.keep_competing(data.selection), metric)
        known = {text: labeling.describe_mechanism(text) for text in frame["labeling"].unique()}
        frame = frame.assign(
            strength=[known[text].strength for text in frame["labeling"]],
            panel=[known[text].name for text in frame["labeling"]],
        ).dropna(subset=["value", "strength"])
        scar = frame[frame["strength"] == 0]
        parts = []
        for name, part in frame[frame["strength"] != 0].groupby("panel"):
            same = scar[scar["dataset"].isin(part["dataset"])].assign(panel=name)
            both = pandas.concat([part, same])
            if both["strength"].nunique() > 1:
                parts.append(both)
        if not parts:
            raise base.TooFewError(
                "needs a mechanism at two strengths, as the suites bias-demo and bias-tabular have"
            )
        rows = base.add_errors(pandas.concat(parts), ["panel", "strength", "criterion"])
        rows = base.use_titles(rows)
        x = alt.X("strength:Q", title="strength of the bias (its parameter)")
        colors = base.make_color(rows["criterion"], "criterion")
        layered = base.draw_lines(rows, x, metric, "criterion", colors)
        panels = layered.facet(alt.Facet("panel:N", title=None), columns=2)
        return panels.resolve_scale(x="independent")
