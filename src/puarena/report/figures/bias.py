"""The metric against the strength of the bias of the labels, for every criterion's choice, one panel per mechanism."""

from __future__ import annotations

from puarena.metrics import METRICS
from puarena.pu import labeling
from puarena.report.figures import base


class Bias(base.Figure):
    """Mechanisms that have results at two strengths; labels at random are strength 0 of each."""

    name = "bias"
    title = "When labels are not given at random"
    words = (
        "The mean over all methods but the reference baselines, of the models that each criterion chooses, against how strongly "
        "labeling prefers some positives (0: all alike). Where PA's line falls below the oracle's, it chooses "
        "badly because it takes the labeled positives for typical ones; PA-IPW, which knows every positive's chance of "
        "a label, shows what that costs."
    )
    order = 60
    per_criterion = False

    def draw(self, evidence: base.Evidence, metric: str, criterion: str) -> base.AnyChart:
        """A line per criterion, with bars of the standard error over problems and splits."""
        import altair as alt
        import pandas

        record = METRICS[metric]
        frame = evidence.selection
        frame = frame[~(frame["baseline"] | frame["supervised"])]
        known = {text: labeling.describe_mechanism(text) for text in frame["labeling"].unique()}
        ways = {text: mechanism.strength for text, mechanism in known.items()}
        names = {text: mechanism.name for text, mechanism in known.items()}
        frame = frame.assign(
            value=record.factor * frame[record.column],
            strength=frame["labeling"].map(ways),
            panel=frame["labeling"].map(names),
        ).dropna(subset=["value", "strength"])
        biased, random = frame[frame["strength"] != 0], frame[frame["strength"] == 0]
        panels = [(name, part) for name, part in biased.groupby("panel")]
        joined = [
            pandas.concat(
                [part, random[random["dataset"].isin(part["dataset"])].assign(panel=name)]
            )
            for name, part in panels
        ]
        shown = [part for part in joined if part["strength"].nunique() > 1]
        if not shown:
            raise base.TooFewError(
                "needs a way of labeling at two strengths, as the suites bias-demo and bias-tabular have"
            )
        keys = ["panel", "strength", "criterion"]
        grouped = (
            pandas.concat(shown).groupby(keys)["value"].agg(["mean", "std", "count"]).reset_index()
        )
        grouped = base.with_titles(grouped)
        grouped["error"] = (grouped["std"] / grouped["count"] ** 0.5).fillna(0)
        grouped = grouped.assign(
            low=grouped["mean"] - grouped["error"], high=grouped["mean"] + grouped["error"]
        )
        x = alt.X("strength:Q", title="strength of the bias (its parameter)")
        title = base.axis_title(metric)
        y = alt.Y("mean:Q", title=title, scale=alt.Scale(zero=False))
        colors = base.color(grouped["criterion"], "criterion")
        pick = alt.selection_point(fields=["criterion"], bind="legend")
        fade = alt.condition(pick, alt.value(1), alt.value(0.12))
        tips = base.tooltips(
            "criterion:N", "strength:Q", base.tooltip("mean"), base.tooltip("error"), "count:Q"
        )
        line = alt.Chart().mark_line(point=True).encode(x, y, colors, opacity=fade, tooltip=tips)
        bars = (
            alt.Chart()
            .mark_rule()
            .encode(x, alt.Y("low:Q", title=title), colors, y2=alt.Y2("high:Q"), opacity=fade)
        )
        layered = alt.layer(line.add_params(pick), bars, data=grouped).properties(
            width=230, height=170
        )
        return layered.facet(alt.Facet("panel:N", title=None), columns=2).resolve_scale(
            x="independent"
        )
