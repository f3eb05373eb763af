"""What each criterion loses against the best checkpoint, and against an oracle's choice."""

from __future__ import annotations

from puarena.metrics import CRITERIA, METRICS
from puarena.report.figures import base
from puarena.report.sources import GROUP


class Regret(base.Figure):
    """One panel for the best checkpoint, one for each oracle among the criteria."""

    name = "regret"
    title = "Selection regret"
    caption = (
        "What choosing without labels costs: the test value of the best checkpoint of all, and of "
        "the one that the true validation labels (OA) would choose, minus that of the chosen one. "
        "Zero is perfect choice; lines are 95% intervals over the splits. Methods are in the order "
        "of the leaderboard."
    )
    order = 30
    per_criterion = False

    def draw(self, data: base.FigureData, metric: str, criterion: str) -> base.AnyChart:
        """Draw a mark per criterion and method, in the order of the leaderboard."""
        import altair as alt
        import pandas

        record, keys = METRICS[metric], [*GROUP, "split"]
        selection = base.keep_comparable(data.selection).dropna(subset=[record.column])
        # The panels, the criterion that each is against, and the values of its choice.
        others = {"against the best checkpoint": ("", data.best)} if len(data.best) else {}
        for oracle in CRITERIA.values():
            chosen = selection[selection["criterion"] == oracle.name]
            if oracle.oracle and len(chosen):
                others[f"against {oracle.title}"] = oracle.name, chosen
        if not others:
            raise base.TooFewError("needs all records, or an oracle such as OA among the criteria")
        parts = []
        for panel, (name, other) in others.items():
            rest = selection[selection["criterion"] != name]
            columns = [*keys, record.column]
            joined = rest.merge(other[columns], on=keys, suffixes=("", "_other"))
            lost = record.sign * (joined[f"{record.column}_other"] - joined[record.column])
            parts.append(joined.assign(against=panel, value=record.factor * lost))
        frame = base.add_intervals(pandas.concat(parts), ["against", "method", "criterion"])
        if frame.empty:
            raise base.TooFewError("needs at least one method for which something was selected")
        order = data.rank_methods(metric, data.criteria[0])
        x = alt.X("value:Q", title=f"{record.inline} lost{', points' if record.percent else ''}")
        facet = alt.Facet("against:N", title=None, sort=list(others))
        rows = base.use_titles(frame)
        return base.draw_dumbbells(rows, x, order, facet, len(others), "n:Q")
