"""What each criterion loses against the best checkpoint there was, and against an oracle's choice."""

from __future__ import annotations

from puarena.metrics import CRITERIA, METRICS
from puarena.report.figures import base
from puarena.report.select import GROUP


class Regret(base.Figure):
    """One panel for the best checkpoint, one for each oracle among the criteria."""

    name = "regret"
    title = "Selection regret"
    words = (
        "What choosing without labels costs: the test value of the best checkpoint of all, and of the one that the "
        "true validation labels (OA) would choose, minus that of the chosen one. Zero is perfect choice; lines are "
        "95% intervals over the splits. Methods stand in the order of the leaderboard."
    )
    order = 30
    per_criterion = False

    def draw(self, evidence: base.Evidence, metric: str, criterion: str) -> base.AnyChart:
        """A mark per criterion on one line per method, in the order of the leaderboard."""
        import altair as alt
        import pandas

        record, keys = METRICS[metric], [*GROUP, "split"]
        selection = base.comparable(evidence.selection).dropna(subset=[record.column])
        best, parts = evidence.best, []
        others = {"against the best checkpoint": ("", best)} if len(best) else {}
        for oracle in CRITERIA.values():
            chosen = selection[selection["criterion"] == oracle.name]
            if oracle.oracle and len(chosen):
                others[f"against {oracle.title}"] = oracle.name, chosen
        for against, (name, other) in others.items():
            joined = selection[selection["criterion"] != name].merge(
                other[[*keys, record.column]], on=keys, suffixes=("", "_other")
            )
            lost = record.sign * (joined[f"{record.column}_other"] - joined[record.column])
            parts.append(joined.assign(against=against, value=record.factor * lost))
        if not parts:
            raise base.TooFewError("needs all records, or an oracle such as OA among the criteria")
        lost = pandas.concat(parts)
        frame = base.with_titles(base.with_intervals(lost, ["against", "method", "criterion"]))
        if frame.empty:
            raise base.TooFewError("needs at least one method for which something was selected")
        order = base.board_order(evidence, metric, evidence.criteria[0])
        x = alt.X("value:Q", title=f"{record.inline} lost{', points' if record.percent else ''}")
        return base.dumbbell(
            frame,
            x,
            order,
            alt.Facet("against:N", title=None, sort=list(others)),
            len(others),
            "n:Q",
        )
