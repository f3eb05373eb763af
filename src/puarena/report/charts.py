"""The charts: each a function from a frame of numbers to an altair chart, or ``TooFewError`` with the reason.

The frames are those of ``evidence.py``. Altair is imported only when a chart is made.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from puarena.data import labelling
from puarena.errors import UserError
from puarena.report.evidence import Evidence
from puarena.report.select import GROUP, METRICS
from puarena.report.table import CRITERION_WORDS, METRIC_WORDS, NAIVE, ORACLE, base

if TYPE_CHECKING:
    from altair import Chart, FacetChart, LayerChart
    from pandas import DataFrame

    AnyChart = Chart | LayerChart | FacetChart

SERIES = {"OS": "#d1602b", "OS calibrated": "#0b8f74", "TS": "#6f63d9"}
COLORS = {"PA": "#0b8f74", "PAUC": "#d98a00", "OA": "#6f63d9", "PA released": "#c04a80"}
GREY = "#80808090"


class TooFewError(UserError):
    """The results do not carry this figure; the message says what is missing."""


def _even(frame: DataFrame) -> DataFrame:
    """One-sample problems where there are any, and only methods that have all of them: means that can be compared."""
    one_sample = frame["setting"].map(lambda code: labelling.get(code).one_sample)
    if one_sample.any():
        frame = frame[one_sample]
    counts = frame.groupby("method")["problem"].nunique()
    return frame[frame["method"].isin(counts[counts == frame["problem"].nunique()].index)]


def _means(selection: DataFrame, metric: str, by: Sequence[str]) -> DataFrame:
    """Means over splits of each problem, in percent, as ``value``."""
    frame = selection.assign(value=100 * selection[METRICS[metric]])
    return frame.groupby(list(by), sort=False, dropna=True)["value"].mean().dropna().reset_index()


# the figures


def overall(selection: DataFrame, metrics: Sequence[str] = ("accuracy", "auc", "f1")) -> AnyChart:
    """Mean over problems per method, one panel per metric, one color per criterion."""
    import altair as alt
    import pandas

    even = _even(selection)
    parts = [_means(even, m, ["method", "problem", "criterion"]).assign(metric=METRIC_WORDS[m]) for m in metrics]
    frame = pandas.concat(parts)
    if frame["method"].nunique() < 2:
        raise TooFewError("needs two methods with results on the same problems")
    by = ["metric", "method", "criterion"]
    frame = frame.groupby(by, sort=False).agg(value=("value", "mean"), problems=("problem", "nunique")).reset_index()
    frame = _criteria(frame)
    first = frame[frame["metric"] == METRIC_WORDS[metrics[0]]].groupby("method")["value"].mean()
    order = list(first.sort_values(ascending=False).index)
    x = alt.X("value:Q", title="mean over problems, %", scale=alt.Scale(zero=False, nice=True))
    titles = [METRIC_WORDS[m] for m in metrics]
    return _dumbbell(frame, x, order, alt.Facet("metric:N", title=None, sort=titles), len(titles), "problems:Q")


def regret(selection: DataFrame, best: DataFrame, metric: str = "accuracy") -> AnyChart:
    """What each criterion loses against the best checkpoint there was, and against choosing by OA."""
    import altair as alt
    import pandas

    column, keys = METRICS[metric], [*GROUP, "split"]
    even = _even(selection).dropna(subset=[column])
    against = {"against the best checkpoint": best[[*keys, column]]} if len(best) else {}
    oa = even[even["criterion"] == "oa"]
    if len(oa):
        against["against OA"] = oa[[*keys, column]]
    parts = []
    for words, other in against.items():
        joined = even.merge(other, on=keys, suffixes=("", "_other"))
        joined["value"] = 100 * (joined[f"{column}_other"] - joined[column])
        parts.append(joined.assign(against=words))
    if not parts:
        raise TooFewError("needs all records, or OA among the criteria")
    frame = pandas.concat(parts)
    frame = frame[~((frame["against"] == "against OA") & (frame["criterion"] == "oa"))]
    frame = frame.groupby(["against", "method", "criterion"], sort=False).agg(
        value=("value", "mean"), problems=("problem", "nunique"), n=("value", "count")
    )
    frame = _criteria(frame.reset_index())
    if frame.empty:
        raise TooFewError("needs at least one method for which something was selected")
    order = list(frame.groupby("method")["value"].max().sort_values().index)
    x = alt.X("value:Q", title=f"{METRIC_WORDS[metric].lower()} lost, points")
    return _dumbbell(frame, x, order, alt.Facet("against:N", title=None, sort=list(against)), len(against), "n:Q")


def _dumbbell(frame: DataFrame, x: Any, order: list[str], facet: Any, columns: int, count: str) -> AnyChart:
    """Dots per criterion on one line per method, in panels."""
    import altair as alt

    y = alt.Y("method:N", sort=order, title=None, axis=alt.Axis(grid=True))
    pick = alt.selection_point(fields=["criterion"], bind="legend")
    line = alt.Chart().mark_rule(color=GREY).encode(alt.X("min(value):Q", title=x["title"]), y, x2="max(value):Q")
    dots = (
        alt.Chart()
        .mark_point(filled=True, size=55, opacity=1)
        .encode(
            x,
            y,
            _color(frame["criterion"], "criterion"),
            alt.Shape("criterion:N", legend=None),
            opacity=alt.condition(pick, alt.value(1), alt.value(0.12)),
            tooltip=["method:N", "criterion:N", alt.Tooltip("value:Q", format=".2f"), count],
        )
        .add_params(pick)
    )
    layered = alt.layer(line, dots, data=frame).properties(width=230, height=alt.Step(16))
    return layered.facet(facet, columns=columns)


def ranks(selection: DataFrame, metric: str = "accuracy", criterion: str = "pa") -> AnyChart:
    """Mean ranks, and bars that join methods closer than the Nemenyi critical difference.

    Ranked over problems, or, where these are too few for the test, over the splits of all problems.
    """
    import altair as alt
    import pandas

    from puarena.report.statistics import LEAST_BLOCKS, nemenyi
    from puarena.report.statistics import ranks as rank

    even = _even(selection[(selection["criterion"] == criterion) & (selection["algorithm"] != ORACLE)])
    few = even["problem"].nunique() < LEAST_BLOCKS
    block = ["problem", "split"] if few else ["problem"]
    values = _means(even, metric, [*block, "method"]).pivot(index=block, columns="method", values="value").dropna()
    test = nemenyi(values)
    if test.note:
        raise TooFewError(test.note)
    frame = rank(values).mean().rename("rank").rename_axis("method").reset_index().assign(one=1)
    frame = frame.sort_values("rank", kind="stable", ignore_index=True)
    order, k = list(frame["method"]), len(frame)
    bars = pandas.DataFrame(
        [{"from": g[0], "to": g[-1], "at": k * (1.06 + 0.035 * i)} for i, g in enumerate(test.groups)],
        columns=["from", "to", "at"],
    )
    over = "splits of problems" if few else "problems"
    words = [
        f"{k} methods, n = {test.n} {over}",
        f"critical difference {test.critical_difference:.2f} at {test.alpha:g}",
    ]
    ordered = alt.Scale(domain=order)
    y = alt.Y("method:N", sort=None, scale=ordered, title=None, axis=alt.Axis(grid=True))
    scale = alt.Scale(domain=[1, max([k, *bars["at"]]) + 0.03 * k], nice=False)
    axis = alt.Axis(values=list(range(1, k + 1, max(1, k // 8))), format="d")
    x = alt.X("rank:Q", title="mean rank, 1 is best", scale=scale, axis=axis)
    tips = ["method:N", alt.Tooltip("rank:Q", format=".2f", title="mean rank")]
    dots = alt.Chart(frame).mark_point(filled=True, size=70, color=COLORS["PA"], opacity=1).encode(x, y, tooltip=tips)
    stems = alt.Chart(frame).mark_rule(color=GREY).encode(alt.X("one:Q", scale=scale, axis=axis), y, x2="rank:Q")
    joined = alt.Chart(bars).mark_rule(size=4, color=COLORS["PAUC"], strokeCap="round")
    joined = joined.encode(
        alt.X("at:Q"), alt.Y("from:N", sort=None, scale=ordered), y2="to:N", tooltip=["from:N", "to:N"]
    )
    chart = alt.layer(stems, joined, dots).properties(width=460, height=alt.Step(16))
    return chart.properties(title=alt.Title(words, fontWeight="normal", fontSize=11, anchor="start"))


def training_time(
    selection: DataFrame, seconds: DataFrame, metric: str = "accuracy", criterion: str = "pa"
) -> AnyChart:
    """Mean test value against the seconds of one training run; methods that none beats in both have their names."""
    import altair as alt

    even = _even(selection[selection["criterion"] == criterion])
    value = _means(even, metric, ["method", "problem"])
    frame = value.merge(seconds[["method", "problem", "seconds"]], on=["method", "problem"]).dropna()
    frame = frame.groupby("method")[["value", "seconds"]].mean().reset_index().sort_values("seconds", kind="stable")
    frame = frame[frame["seconds"] > 0]
    if len(frame) < 2:
        raise TooFewError("needs two methods with a recorded training time")
    best = frame[frame["method"] != ORACLE].sort_values(["seconds", "value"], ascending=[True, False])
    front = best[best["value"] > best["value"].cummax().shift(fill_value=-math.inf)]
    tips = ["method:N", alt.Tooltip("value:Q", format=".2f"), alt.Tooltip("seconds:Q", format=".3g")]
    low, high = frame["seconds"].min(), frame["seconds"].max()
    scale = alt.Scale(type="log" if high > 20 * low else "linear", domain=[0.9 * low, 1.2 * high], nice=False)
    x = alt.X("seconds:Q", title="seconds of one training run", scale=scale, axis=alt.Axis(tickCount=6, format="~g"))
    y = alt.Y("value:Q", title=f"{METRIC_WORDS[metric].lower()}, %", scale=alt.Scale(zero=False, padding=20))
    dots = alt.Chart(frame).mark_point(filled=True, size=80, color=COLORS["OA"], opacity=0.8).encode(x, y, tooltip=tips)
    line = alt.Chart(front).mark_line(interpolate="step-after", color=COLORS["PA"], strokeDash=[4, 3]).encode(x, y)
    named = frame[frame["method"].isin([*front["method"], ORACLE, NAIVE])]
    text = alt.Chart(named).mark_text(align="left", dx=8, dy=-8, fontSize=11).encode(x, y, text="method:N")
    return alt.layer(line, dots, text).properties(width=460, height=340)


def label_shift(selection: DataFrame, metric: str = "accuracy", criterion: str = "pa") -> AnyChart:
    """The metric against the amount of positive data in OS, OS calibrated and TS, one panel per method."""
    import altair as alt

    frame = selection[(selection["criterion"] == criterion)].copy()
    frame["panel"] = [base(name) for name in frame["algorithm"]]
    calibrated = [base(name) != name.partition("@")[0] for name in frame["algorithm"]]
    words = frame["setting"].map(lambda code: labelling.get(code).short)
    frame["series"] = words.where([not yes for yes in calibrated], words + " calibrated")
    both = frame.groupby("panel")["setting"].nunique()
    frame = frame[frame["panel"].isin(both[both > 1].index)]
    if frame.empty or frame["rate"].nunique() < 2:
        raise TooFewError(
            "needs a method with one-sample and two-sample results at two positive rates, as the suite label-shift has"
        )
    frame["value"], frame["percent"] = 100 * frame[METRICS[metric]], 100 * frame["rate"]
    frame["of"] = [f"{d}, case {c}" for d, c in zip(frame["dataset"], frame["case"], strict=True)]
    places = frame["of"].nunique()
    frame["panel"] = frame["panel"] + (": " + frame["of"] if places > 1 else "")
    grouped = frame.groupby(["panel", "series", "percent"])["value"].agg(["mean", "std", "count"]).reset_index()
    grouped["error"] = (grouped["std"] / grouped["count"] ** 0.5).fillna(0)  # no bar for a single split
    grouped = grouped.assign(low=grouped["mean"] - grouped["error"], high=grouped["mean"] + grouped["error"])
    pick = alt.selection_point(fields=["series"], bind="legend")
    x = alt.X("percent:Q", title="labeled positives, % of the training data", scale=alt.Scale(nice=False, padding=8))
    title = f"{METRIC_WORDS[metric].lower()}, %"
    color = _color(grouped["series"], "series", SERIES)
    fade = alt.condition(pick, alt.value(1), alt.value(0.12))
    tips = [
        "series:N",
        "percent:Q",
        alt.Tooltip("mean:Q", format=".2f"),
        alt.Tooltip("error:Q", format=".2f"),
        "count:Q",
    ]
    scale = alt.Scale(zero=False)
    line = (
        alt.Chart()
        .mark_line(point=True)
        .encode(x, alt.Y("mean:Q", title=title, scale=scale), color, opacity=fade, tooltip=tips)
    )
    bars = alt.Chart().mark_rule().encode(x, alt.Y("low:Q", title=title), color, y2="high:Q", opacity=fade)
    layered = alt.layer(line.add_params(pick), bars, data=grouped).properties(width=230, height=170)
    return layered.facet(alt.Facet("panel:N", title=None), columns=min(4, places) if places > 1 else 3)


def learning_curves(
    frame: Any, metric: str = "accuracy", columns: int = 3, criteria: Iterable[str] | None = None
) -> AnyChart:
    """Test values by step of the selected configurations, and where each criterion stopped, one panel per ``panel``.

    The frame has ``panel, split, config, step, value, criterion``: rows without a criterion make the curves, rows with
    one the marks. It may be the name of data that is given later; then ``criteria`` says which there will be.
    """
    import altair as alt

    x = alt.X("step:Q", title="training step", axis=alt.Axis(tickCount=4, format="~s"))
    y = alt.Y("value:Q", title=f"test {METRIC_WORDS[metric].lower()}, %", scale=alt.Scale(zero=False))
    pick = alt.selection_point(fields=["criterion"], bind="legend")
    line = alt.Chart().mark_line(color=GREY, strokeWidth=1.2).transform_filter("!datum.criterion")
    line = line.encode(x, y, detail=["split:N", "config:N"])
    dots = alt.Chart().mark_point(filled=True, size=70, opacity=1).transform_filter("datum.criterion")
    dots = dots.encode(
        x,
        y,
        _color(
            frame["criterion"].dropna() if criteria is None else [CRITERION_WORDS[c] for c in criteria], "criterion"
        ),
        alt.Shape("criterion:N", legend=None),
        opacity=alt.condition(pick, alt.value(1), alt.value(0.08)),
        tooltip=["criterion:N", "split:N", "config:N", "step:Q", alt.Tooltip("value:Q", format=".2f")],
    )
    data = alt.NamedData(frame) if isinstance(frame, str) else frame
    layered = alt.layer(line, dots.add_params(pick), data=data).properties(width=230, height=150)
    return layered.facet(alt.Facet("panel:N", title=None), columns=columns)


def curve_rows(found: Evidence, metric: str) -> DataFrame:
    """The rows ``learning_curves`` draws for the first split of the first problem, one panel per method."""
    import pandas

    column = METRICS[metric]
    first = found.selection.dropna(subset=["step"])
    if first.empty or found.curves.empty:
        raise TooFewError("needs at least one method for which something was selected")
    problem, split = first["problem"].iloc[0], first["split"].min()
    parts = [
        part[(part["problem"] == problem) & (part["split"] == split)].assign(
            panel=lambda p: p["method"], value=lambda p: 100 * p[column]
        )
        for part in (found.curves.assign(criterion=None), _criteria(first))
    ]
    keep = ["panel", "split", "config", "step", "value", "criterion"]
    return pandas.concat([part[keep].astype({"criterion": object}) for part in parts])


def _criteria(frame: DataFrame) -> DataFrame:
    """Criteria by the names a reader sees."""
    return frame.assign(criterion=frame["criterion"].map(CRITERION_WORDS))


def _color(present: Iterable[str], field: str, palette: dict[str, str] | None = None) -> Any:
    import altair as alt

    there = set(present)
    shown = {name: color for name, color in (palette or COLORS).items() if name in there}
    scale = alt.Scale(domain=list(shown), range=list(shown.values()))
    return alt.Color(f"{field}:N", title=None, scale=scale, legend=alt.Legend(orient="top", symbolOpacity=1))


def theme(ink: str = "#1d2327", grid: str = "#8080802e") -> dict[str, Any]:
    """Vega-Lite configuration of every figure; on the page ``ink`` is ``currentColor`` and follows light and dark."""
    font = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
    text = {"labelColor": ink, "titleColor": ink, "labelFontSize": 11, "titleFontSize": 11, "titleFontWeight": "normal"}
    lines = {"gridColor": grid, "domain": False, "tickColor": grid, "labelLimit": 140}
    return {
        "font": font,
        "background": "transparent",
        "view": {"stroke": None},
        "axis": text | lines,
        "header": text | {"labelFontSize": 12, "labelFontWeight": "bold", "labelLimit": 240},
        "legend": text | {"labelFontSize": 12},
        "title": {"color": ink, "subtitleColor": ink},
        "text": {"color": ink, "fill": ink},
    }
