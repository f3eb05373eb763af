"""Who beats whom: every two methods by the problems that one, the other or neither wins."""

from __future__ import annotations

from puarena.metrics import METRICS
from puarena.report.figures import base


class Wins(base.Figure):
    """A square per pair; it does not change with who else is in the table."""

    name = "wins"
    title = "Who beats whom"
    words = (
        "Each square is the method of the row against the method of the column: the number of problems on which the "
        "row has the better mean. Green: the row wins more; amber: the column does; pale: even. Point at a square for "
        "ties, losses and the mean difference. A pair is the same whoever else is in the table."
    )
    order = 25

    def draw(self, evidence: base.Evidence, metric: str, criterion: str) -> base.AnyChart:
        """A matrix in the order of the leaderboard."""
        import altair as alt
        import pandas

        from puarena.report.statistics import scores_of
        from puarena.report.statistics.pairs import tallies

        selection = evidence.selection[evidence.selection["criterion"] == criterion]
        apart = selection["baseline"] | selection["supervised"]
        order = [
            name
            for name in base.board_order(evidence, metric, criterion)
            if name in set(selection[~apart]["method"])
        ]
        if len(order) < 2:
            raise base.TooFewError("needs two competing methods with results on the same problems")
        chosen = base.comparable(selection[~apart])
        rows = []
        splits = scores_of(chosen, metric, criterion).splits[order]
        for i, j, gaps, (won, tied, lost) in tallies(splits, METRICS[metric].higher):
            gap = float(gaps.mean())
            rows.append((order[i], order[j], won, tied, lost, round(gap, 2)))
            rows.append((order[j], order[i], lost, tied, won, round(-gap, 2)))
        frame = pandas.DataFrame(rows, columns=list("abwtld"))
        axis = alt.Axis(labelAngle=-90, orient="top", domain=False, ticks=False)
        x = alt.X("b:N", sort=None, scale=alt.Scale(domain=order), title=None, axis=axis)
        y = alt.Y(
            "a:N",
            sort=None,
            scale=alt.Scale(domain=order),
            title=None,
            axis=alt.Axis(domain=False, ticks=False),
        )
        scale = alt.Scale(domain=[0, 0.5, 1], range=[base.AMBER, "#80808022", base.GREEN])
        share = alt.Color("share:Q", scale=scale, legend=None)
        words = {
            "a": "method",
            "b": "against",
            "w": "won",
            "t": "tied",
            "l": "lost",
            "d": "mean difference",
        }
        tips = [
            alt.Tooltip(f"{key}:{'N' if key in 'ab' else 'Q'}", title=title)
            for key, title in words.items()
        ]
        chart = alt.Chart(frame).transform_calculate(
            share="(datum.w + datum.t / 2) / (datum.w + datum.t + datum.l)"
        )
        squares = chart.mark_rect(opacity=0.75).encode(x, y, share, tooltip=tips)
        text = chart.mark_text(fontSize=9).encode(x, y, text=alt.Text("w:Q"))
        return alt.layer(squares, text).properties(width=20 * len(order), height=alt.Step(17))
