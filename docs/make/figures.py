"""The pictures of docs/pictures.md, drawn from the library itself.

    python docs/make/figures.py

writes them to docs/images, for readers of a code forge; the site is built with freshly drawn ones.
Ink is ``currentColor``: on the site it is that of the page, in a file of its own it follows the
reader's light or dark theme.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import vl_convert

from puarena.datasets import Dataset
from puarena.metrics import CRITERIA, Counts
from puarena.pu import Problem, draw_pu_data, labeling
from puarena.report.figures.base import AMBER, GRAY, GREEN, VIOLET, make_theme

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import bias_toy

IMAGES = Path(__file__).parents[1] / "images"
STYLE = "<style>svg{color:#1d2327}@media(prefers-color-scheme:dark){svg{color:#dfe3e8}}</style>"
THRESHOLDS = bias_toy.THRESHOLDS
PRIOR, RATE = 0.4, 0.2
KINDS = {"labeled positive": GREEN, "positive, not labeled": AMBER, "negative": GRAY}


def gaussians(points: int, prior: float, size: int, seed: int = 0) -> Dataset:
    """Two clouds of points in the plane: positives to the right, negatives to the left."""
    rng = np.random.default_rng(seed)
    y = np.arange(points) < round(prior * points)
    x = rng.normal(size=(points, 2)) + np.where(y, 1.3, -1.3)[:, None] * [1, 0.4]
    return Dataset(
        name="clouds",
        features=x.astype(np.float32),
        classes=y.astype(np.int64),
        class_names=("no", "yes"),
        cases={1: (1,)},
        size=size,
        test_fraction=0.2,
    )


def drawn(setting: str, rate: float = RATE, size: int = 240, points: int = 900) -> pd.DataFrame:
    """One draw of the protocol: every training point of P and U, and what nobody is told about it."""
    dataset = gaussians(points, PRIOR, size)
    pu, hidden = draw_pu_data(dataset, Problem("clouds", 1, setting, rate, PRIOR), split=0)
    labeled = np.r_[pu.p_train, pu.p_val]
    unlabeled, positive = np.r_[pu.u_train, pu.u_val], np.r_[hidden.u_train, hidden.u_val]
    kind = np.where(positive, "positive, not labeled", "negative")
    frame = pd.DataFrame(dataset.features[np.r_[labeled, unlabeled]], columns=["a", "b"])
    frame["kind"] = np.r_[np.full(len(labeled), "labeled positive"), kind]
    frame["set"] = np.r_[np.full(len(labeled), "P"), np.full(len(unlabeled), "U")]
    return frame


def _kinds() -> Any:
    scale = alt.Scale(domain=list(KINDS), range=list(KINDS.values()))
    return alt.Color(
        "kind:N", title=None, scale=scale, legend=alt.Legend(orient="top", symbolOpacity=1)
    )


def settings() -> alt.ConcatChart:
    """What a learner is given in the two settings, and what is hidden in it."""
    panels = []
    for setting in labeling.list_settings():
        frame = drawn(setting.code)
        for name, words in (("P", "P: labeled"), ("U", "U: unlabeled")):
            part = frame[frame["set"] == name]
            inside = (part["kind"] != "negative").mean()
            share = "all positive" if name == "P" else f"{inside:.0%} positive"
            title = alt.TitleParams(
                f"{setting.title}, {words}", subtitle=f"{len(part)} points, {share}"
            )
            axes = [
                alt.X("a:Q", axis=None, scale=alt.Scale(domain=[-4.6, 4.6])),
                alt.Y("b:Q", axis=None, scale=alt.Scale(domain=[-3.6, 3.9])),
            ]
            dots = alt.Chart(part).mark_circle(size=26, opacity=0.85).encode(*axes, _kinds())
            panels.append(dots.properties(width=230, height=170, title=title))
    return alt.concat(*panels, columns=2)


def label_shift() -> alt.HConcatChart:
    """How many positives are left in U as more of them are labeled."""
    rates = np.linspace(0, PRIOR, 9)[:-1]
    rows = []
    for setting in labeling.list_settings():
        for rate in rates:
            inside = setting.prior_in_u(PRIOR, rate)
            rows.append({"rate": 100 * rate, "share": 100 * inside, "setting": setting.title})
    scale = alt.Scale(domain=["one-sample", "two-sample"], range=[GREEN, VIOLET])
    lines = alt.Chart(pd.DataFrame(rows)).mark_line(point=True)
    lines = lines.encode(
        alt.X("rate:Q", title="labeled positives, % of all training points"),
        alt.Y("share:Q", title="positives inside U, %", scale=alt.Scale(domain=[0, 50])),
        alt.Color("setting:N", title=None, scale=scale, legend=alt.Legend(orient="top")),
    ).properties(width=260, height=200)
    return alt.hconcat(lines, negative_part()).resolve_scale(
        color="independent", strokeWidth="independent"
    )


def _toy(way: str = "scar", points: int = 200_000) -> bias_toy.Sample:
    return _toy_of(way, points)


@lru_cache(maxsize=8)
def _toy_of(way: str, points: int) -> bias_toy.Sample:
    return bias_toy.draw(way, points, PRIOR, 1)


def negative_part() -> alt.LayerChart:
    """What a two-sample method takes for its errors on negatives, on one-sample data, plain and
    calibrated.
    """
    sample = _toy()
    x, rate = sample.x[:, 0], sample.labeled.mean()
    p, u, negative = (
        np.array([(x[chosen] >= t).mean() for t in THRESHOLDS])
        for chosen in (sample.labeled, ~sample.labeled, ~sample.y)
    )
    curves = {
        "true": (1 - PRIOR) * negative,
        "estimated, plain": u - PRIOR * p,  # mean_U l- - prior mean_P l-, with the zero-one loss
        "estimated, calibrated": (1 - rate) * u + rate * p - PRIOR * p,
    }
    colors = {"true": GRAY, "estimated, plain": AMBER, "estimated, calibrated": GREEN}
    return _curves(curves, colors, "errors on negatives, % of all points").properties(
        width=260, height=200
    )


def _curves(
    curves: dict[str, np.ndarray],
    colors: dict[str, str],
    y: str,
    best: Callable[[Any], Any] | None = None,
) -> alt.LayerChart:
    """Lines over the threshold, the first one broad; a dot where each says that the best threshold
    is.
    """
    keep = (THRESHOLDS >= -2) & (THRESHOLDS <= 2.5)
    lines = [
        {"threshold": t, "value": 100 * v, "curve": name}
        for name, values in curves.items()
        for t, v in zip(THRESHOLDS[keep][::2], values[keep][::2], strict=True)
    ]
    scale = alt.Scale(domain=list(colors), range=list(colors.values()))
    legend = alt.Legend(orient="top", symbolOpacity=1, columns=2, labelLimit=240)
    color = alt.Color("curve:N", title=None, scale=scale, legend=legend)
    axes = [
        alt.X(
            "threshold:Q", title="decision threshold", scale=alt.Scale(domain=[-2, 2.5], nice=False)
        ),
        alt.Y("value:Q", title=y, scale=alt.Scale(zero=False)),
    ]
    widths = alt.Scale(type="ordinal", domain=list(colors), range=[6, 2, 2])
    broad = alt.StrokeWidth("curve:N", legend=None, scale=widths)
    parts = [alt.Chart(pd.DataFrame(lines)).mark_line().encode(*axes, color, broad)]
    if best is not None:
        places = {name: best(values) for name, values in curves.items()}
        dots = [
            {"threshold": THRESHOLDS[at], "value": 100 * curves[name][at], "curve": name}
            for name, at in places.items()
        ]
        parts.append(
            alt.Chart(pd.DataFrame(dots))
            .mark_point(filled=True, size=70, opacity=1)
            .encode(*axes, color)
        )
    return alt.layer(*parts).properties(width=260, height=200)


def proxy_accuracy() -> alt.HConcatChart:
    """PA of every threshold, computed without a negative, beside the accuracy, with many and with
    few labels.
    """
    panels = []
    for points, words in (
        (200_000, "200,000 validation points"),
        (1_000, "1,000 validation points"),
    ):
        sample = _toy(points=points)
        x = sample.x[:, 0]
        p, u = x[sample.labeled], x[~sample.labeled]
        counts = Counts(
            positive_p=np.array([(p >= t).sum() for t in THRESHOLDS], float),
            size_p=np.full(len(THRESHOLDS), float(len(p))),
            positive_u=np.array([(u >= t).sum() for t in THRESHOLDS], float),
            size_u=np.full(len(THRESHOLDS), float(len(u))),
            prior=np.full(len(THRESHOLDS), PRIOR),
            one_sample=np.full(len(THRESHOLDS), True),
        )
        accuracy = np.array([((x >= t) == sample.y).mean() for t in THRESHOLDS])
        pa, released = (
            np.asarray(CRITERIA[name].compute(counts)) - PRIOR for name in ("pa", "pa-released")
        )
        curves = {"accuracy": accuracy, "PA - π": pa, "the published code's PA - π": released}
        colors = {"accuracy": GRAY, "PA - π": GREEN, "the published code's PA - π": AMBER}
        chart = _curves(curves, colors, "%", best=np.argmax)
        panels.append(chart.properties(title=words))
    return alt.hconcat(*panels)


def biased_labels() -> alt.ConcatChart:
    """Which positives carry a label under four ways of labeling."""
    panels = []
    words = {
        "scar": "by chance (SCAR)",
        "lbe-a": "clear positives first",
        "lbe-b": "close to the negatives first",
        "pusb": "a little more often the clear ones",
    }
    for way, title in words.items():
        sample = _toy(way, 40_000)
        edges = np.linspace(-3, 4.5, 31)
        x, rows = sample.x[:, 0], []
        groups = {"all positives": sample.y, "labeled positives": sample.labeled}
        for name, chosen in groups.items():
            height = np.histogram(x[chosen], edges)[0] / chosen.sum()
            rows += [
                {"x": a, "x2": b, "share": 100 * h, "who": name}
                for a, b, h in zip(edges, edges[1:], height, strict=False)
            ]
        scale = alt.Scale(domain=list(groups), range=[GRAY, GREEN])
        color = alt.Color(
            "who:N", title=None, scale=scale, legend=alt.Legend(orient="top", symbolOpacity=1)
        )
        bars = alt.Chart(pd.DataFrame(rows)).mark_line(interpolate="step", strokeWidth=2)
        axis = alt.Scale(domain=[-3, 4.5], nice=False)
        x_axis = alt.X("x:Q", title="feature (negatives lie to the left)", scale=axis)
        bars = bars.encode(x_axis, alt.Y("share:Q", title="%", stack=None), color)
        panels.append(bars.properties(width=230, height=120, title=title))
    return alt.concat(*panels, columns=2)


PICTURES: dict[str, Callable[[], Any]] = {
    "one-sample-two-sample": settings,
    "internal-label-shift": label_shift,
    "biased-labels": biased_labels,
    "proxy-accuracy": proxy_accuracy,
}


@lru_cache(maxsize=len(PICTURES))
def svg(name: str) -> str:
    """A picture as SVG, its ink the color of the text around it."""
    config = make_theme("currentColor") | {"padding": 4, "aria": False}
    config["title"] |= {"fontSize": 12, "subtitleFontSize": 11, "anchor": "start"}
    text = vl_convert.vegalite_to_svg(PICTURES[name]().to_dict() | {"config": config})
    return re.sub(r"(\d+\.\d{2})\d+", r"\1", text)


def file_of(name: str) -> str:
    """A picture as a file of its own, which says what its ink is."""
    return re.sub(r"(<svg[^>]*>)", rf"\1{STYLE}", svg(name), count=1) + "\n"


if __name__ == "__main__":
    for name in sys.argv[1:] or PICTURES:
        (IMAGES / f"{name}.svg").write_text(file_of(name), encoding="utf-8")
        print(f"wrote {IMAGES / name}.svg")
