"""How often each method beats each other: problems won, tied and lost."""

from __future__ import annotations

from puarena.metrics import METRICS
from puarena.report.figures import base


class Wins(base.Figure):
    """A square per pair; it does not change with the other methods of the table."""

    name = "wins"
    title = "Who beats whom"
    caption = (
        "Each square is the method of the row against the method of the column: the number of "
        "problems on which the row has the better mean. Green: the row wins more; amber: the "
        "column does; pale: even. Point at a square for ties, losses and the mean difference. A "
        "pair does not depend on the other methods of the table."
    )
    order = 25
    min_methods = 2

    def draw(self, data: base.FigureData, metric: str, criterion: str) -> base.AnyChart:
        """Draw a matrix in the order of the leaderboard."""
        import altair as alt
        import pandas

        from puarena.report.statistics.ranking import count_wins
        from puarena.report.statistics.summary import collect_scores

        competing = base.keep_competing(data.of(criterion))
        names = set(competing["method"])
        order = [name for name in data.rank_methods(metric, criterion) if name in names]
        if len(order) < 2:
            raise base.TooFewError("needs two competing methods with results on the same problems")
        scores = collect_scores(base.keep_comparable(competing), metric, criterion)
        rows = []
        for i, j, gaps, tally in count_wins(scores.splits[order], METRICS[metric].higher):
            won, tied, lost = tally
            gap = float(gaps.mean())
            rows.append((order[i], order[j], won, tied, lost, round(gap, 2)))
            rows.append((order[j], order[i], lost, tied, won, round(-gap, 2)))
        titles = {
            "a": "method",
            "b": "against",
            "w": "won",
            "t": "tied",
            "l": "lost",
            "d": "mean difference",
        }
        frame = pandas.DataFrame(rows, columns=list(titles))
        domain = alt.Scale(domain=order)
        top = alt.Axis(labelAngle=-90, orient="top", domain=False, ticks=False)
        left = alt.Axis(domain=False, ticks=False)
        x = alt.X("b:N", sort=None, scale=domain, title=None, axis=top)
        y = alt.Y("a:N", sort=None, scale=domain, title=None, axis=left)
        scale = alt.Scale(domain=[0, 0.5, 1], range=[base.AMBER, "#80808022", base.GREEN])
        share = alt.Color("share:Q", scale=scale, legend=None)
        tips = []
        for key, title in titles.items():
            tips.append(alt.Tooltip(f"{key}:{'N' if key in 'ab' else 'Q'}", title=title))
        chart = alt.Chart(frame).transform_calculate(
            share="(datum.w + datum.t / 2) / (datum.w + datum.t + datum.l)"
        )
        squares = chart.mark_rect(opacity=0.75).encode(x, y, share, tooltip=tips)
        text = chart.mark_text(fontSize=9).encode(x, y, text=alt.Text("w:Q"))
        return alt.layer(squares, text).properties(width=20 * len(order), height=alt.Step(17))
