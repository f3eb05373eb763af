"""One HTML page about a fitted classifier, which works offline: what it is, and how good it is."""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import sklearn
from sklearn.utils.validation import check_is_fitted

from puarena import __version__
from puarena.estimators.cuts import BUDGET, COST, CUTS, MODEL, PA, PRIOR, HeldOutRows, read_costs
from puarena.estimators.evaluation import Estimate, Evaluation, evaluate
from puarena.estimators.importance import MAX_JUDGED_COLUMNS, Importance, compute_importances
from puarena.estimators.model_selection import PU_CRITERIA
from puarena.estimators.prior_knowledge import INTERVAL, QUANTILES
from puarena.pu import labeling
from puarena.utils.files import write_file

if TYPE_CHECKING:
    from altair import Chart, LayerChart

Floats = npt.NDArray[np.float64]

TEMPLATES = Path(__file__).parent / "templates"
MAX_LISTED_COLUMNS = 100
MAX_SHOWN_IMPORTANCES = 30
CALIBRATION_BINS = 10
TOP_SHARES = (0.01, 0.05, 0.1, 0.2)  # of the rows, whose lift is in a table
WIDTH, HEIGHT = 300, 190  # of a chart: it fits a telephone
HISTOGRAM_BINS = 25
DRAWS = 2000

CUT_MEANINGS = {
    MODEL: "probability one half",
    PA: "best proxy accuracy",
    "f1": "best expected F1",
    PRIOR: "as many as the prior says",
    COST: "equal expected costs",
    BUDGET: "as many as can be checked",
}
METRIC_MEANINGS = {
    "precision": "share of the rows predicted positive that are",
    "recall": "share of the positives that are predicted positive",
    "f1": "harmonic mean of the two",
    "accuracy": "share of right predictions",
    "auc": "how often a positive ranks above a negative",
    "lift": "times as many positives as in rows drawn at random",
    "prior": "share of positives",
}


def write_fit_page(model: Any, path: str | Path, title: str = "") -> Path:
    """Write a page about a fitted classifier.

    Parameters
    ----------
    model : PUClassifier or PUNetClassifier
        Fitted.
    path : str or Path
        The file; it is replaced if it exists.
    title : str, optional
        The title of the page; default: the name of the class.

    Returns
    -------
    Path
        The file.
    """
    from puarena.report.page.page import TEMPLATES as REPORT_TEMPLATES
    from puarena.report.page.page import load_template

    check_is_fitted(model)
    held = model.held_out_
    found = evaluate(model)
    importances = compute_importances(model)
    cuts = list_cuts(model)
    text = load_template(TEMPLATES, "fit.html.j2").render(
        title=title or f"{type(model).__name__}: a fit",
        css=(REPORT_TEMPLATES / "page.css").read_text(encoding="utf-8"),
        model=model,
        held=held,
        facts=_list_facts(model),
        verdict=_describe_verdict(model, found, cuts),
        notes=getattr(model, "notes_", []),
        columns=_list_columns(model),
        readings=[] if model.encoder_ is None else model.encoder_.describe(),
        estimates=_list_estimates(model, found),
        basis=found.describe().splitlines()[-1],
        cuts=cuts,
        members=[_list_member(line) for line in model.report_],
        criteria=[PU_CRITERIA[name].title for name in _list_criteria(model)],
        importances=importances[:MAX_SHOWN_IMPORTANCES],
        judged=len(importances),
        max_judged=MAX_JUDGED_COLUMNS,
        many_models=all(len(part.models) > 1 for part in model.model_.parts),
        charts=_draw_charts(model, held, importances[:MAX_SHOWN_IMPORTANCES]),
        prior=_describe_prior(model),
        card=_list_card(model),
        written=datetime.now(UTC).date().isoformat(),
        version=__version__,
    )
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, text)
    return path


# -- text ------------------------------------------------------------------------------------------


def _list_estimates(model: Any, found: Evaluation) -> list[tuple[str, Estimate, str]]:
    """Return titles, estimates and meanings of all scores."""
    lines = []
    for name, meaning in METRIC_MEANINGS.items():
        if name != "lift":
            lines.append((name, getattr(found, name), meaning))
            continue
        for top in TOP_SHARES:
            lines.append((f"lift, highest {top:.0%}", evaluate(model, top=top).lift, meaning))
            meaning = ""
    return lines


@dataclass(frozen=True)
class CutLine:
    """What a cut does to the rows of the table that a model was fitted to."""

    name: str
    chosen: bool
    meaning: str
    positive_u: int  # unlabeled rows predicted positive
    evaluation: Evaluation
    false: float  # of all rows, expected to be predicted positive by mistake
    missed: float  # positives expected to be predicted negative
    cost: float | None  # of these mistakes, if costs are known


def list_cuts(model: Any) -> list[CutLine]:
    """Return what each cut does that the model has the numbers for."""
    held: HeldOutRows = model.held_out_
    rows = held.unlabeled / (1 - held.rate) if held.one_sample else held.unlabeled
    weights = None
    if model.costs is not None:
        level = read_costs(model.costs)  # of a false positive, in units of both costs
        weights = _read_weights(model.costs, level)
    lines = []
    for name in CUTS:
        if (name == COST and model.costs is None) or (name == BUDGET and model.budget is None):
            continue
        other = copy.copy(model)
        other.shift_ = held.find_cut(name, model.costs, model.budget)
        found = evaluate(other)
        above = float((held.decision[~held.labeled] >= other.shift_).mean())
        share = _count_predicted(held, other.shift_)
        false = rows * share * (1 - found.precision.value)
        missed = rows * found.prior.value * (1 - found.recall.value)
        cost = None if weights is None else weights[0] * false + weights[1] * missed
        lines.append(
            CutLine(
                name,
                name == model.threshold,
                CUT_MEANINGS[name],
                round(above * held.unlabeled),
                found,
                false,
                missed,
                cost,
            )
        )
    return lines


def _read_weights(costs: Any, level: float) -> tuple[float, float]:
    """Return the extra costs of a false positive and of a false negative."""
    matrix = np.asarray(costs, float)
    wrong = matrix[0] if matrix.shape == (2,) else matrix[0, 1] - matrix[0, 0]
    return float(wrong), float(wrong) * (1 - level) / level


def _count_predicted(held: HeldOutRows, cut: float) -> float:
    """Return the share of a marginal sample that is predicted positive."""
    return float(np.average(held.decision >= cut, weights=held.weight))


def _describe_verdict(model: Any, found: Evaluation, cuts: Sequence[CutLine]) -> str:
    low, high = model.prior_interval_
    one_sample = model.held_out_.one_sample
    where = "the rows" if one_sample else "the unlabeled rows"
    share = _format_share(low) if low == high else f"{_format_share(low)} to {_format_share(high)}"
    chosen = next(line for line in cuts if line.chosen)
    text = f"{share} of {where} are positive. {chosen.positive_u:,} unlabeled rows are predicted "
    if not chosen.positive_u:
        return f"{text}positive at this cut."
    precision = found.precision
    return (
        f"{text}positive; of all rows predicted so, {_format_share(precision.low)} to "
        f"{_format_share(precision.high)} are positive."
    )


def _format_share(value: float) -> str:
    return f"{100 * value:.2g}%" if value < 0.1 else f"{100 * value:.0f}%"


def _list_facts(model: Any) -> list[tuple[str, str]]:
    held = model.held_out_
    labeled = round(held.unlabeled * held.rate / (1 - held.rate))
    return [
        (f"{labeled:,}", "labeled rows"),
        (f"{held.unlabeled:,}", "unlabeled rows"),
        (f"{model.n_features_in_:,}", "columns"),
        (labeling.get_setting(model.setting).title, "setting"),
        (model.algorithm_, "learner"),
        (model.threshold, "cut"),
    ]


def _list_columns(model: Any) -> list[str]:
    names = [str(name) for name in getattr(model, "feature_names_in_", ())]
    if len(names) > MAX_LISTED_COLUMNS:
        more = len(names) - MAX_LISTED_COLUMNS
        names = [*names[:MAX_LISTED_COLUMNS], f"and {more:,} more"]
    return names


def _describe_prior(model: Any) -> dict[str, Any]:
    """Return the text about the prior."""
    low, high = model.prior_interval_
    rate, one_sample = model.held_out_.rate, model.held_out_.one_sample
    return {
        "known": low == high,
        "low": _format_share(low),
        "high": _format_share(high),
        "value": f"{model.prior_:.3g}",
        "frequency": (_format_share(rate / high), _format_share(min(rate / low, 1.0)))
        if one_sample
        else None,
        "given": model.prior if isinstance(model.prior, str) else repr(model.prior),
    }


def _list_criteria(model: Any) -> list[str]:
    return [name for name, c in PU_CRITERIA.items() if c.default and name in model.report_[-1]]


def _list_member(line: dict[str, Any]) -> dict[str, Any]:
    names = [name for name, c in PU_CRITERIA.items() if c.default]
    return {
        "name": line["learner"],
        "chosen": line["chosen"],
        "why": line["why"],
        "seconds": line.get("seconds"),
        "criteria": [f"{line[name]:.4f}" for name in names if name in line],
    }


def _list_card(model: Any) -> list[tuple[str, str]]:
    """Return heads and texts of the model card."""
    negative, positive = (str(value) for value in model.classes_)
    defaults = type(model)().get_params(deep=False)
    params = model.get_params(deep=False)
    given = [
        f"{name}={params[name]!r}" for name in params if repr(params[name]) != repr(defaults[name])
    ]
    kind = labeling.get_setting(model.setting)
    return [
        (
            "Model",
            f"{type(model).__name__}({', '.join(given)}), of puarena {__version__}, "
            f"scikit-learn {sklearn.__version__}",
        ),
        ("Predicts", f"{positive} (positive) or {negative} (negative), and the probability"),
        ("Data", f"{kind.title}: {kind.meaning}"),
        (
            "Meant for",
            "rows that come from where the rows of the fit came from, with the same share of "
            "positives; for rows with another share, predict_proba(X, prior=…)",
        ),
        (
            "Rests on",
            "labels that are given at random among the positives, and on the share of positives "
            "above. No true negative was seen: all scores on this page are estimates",
        ),
        (
            "Not meant for",
            "decisions about people without a check by a person; kinds of positives that are never "
            "labeled, which no model can find",
        ),
        ("Content", "names of columns and numbers about all rows, but no row of the table"),
    ]


# -- charts ----------------------------------------------------------------------------------------


def _draw_charts(
    model: Any, held: HeldOutRows, importances: Sequence[Importance]
) -> dict[str, str]:
    """Return the charts by name as SVG."""
    low, high = model.prior_interval_
    charts: dict[str, Chart | LayerChart] = {
        "scores": _draw_scores(held),
        "calibration": _draw_calibration(model, held),
        "gains": _draw_gains(model, held),
    }
    if low < high:
        charts["prior"] = _draw_prior(model)
        if model.model_.posterior is not None:
            charts["sensitivity"] = _draw_sensitivity(model)
    if importances:
        charts["importances"] = _draw_importances(importances)
    return {name: _make_svg(name, chart) for name, chart in charts.items()}


def _make_svg(name: str, chart: Any) -> str:
    """Return a chart as SVG that scales with the page; its text follows light and dark."""
    import vl_convert

    from puarena.report.figures.base import make_theme

    config = make_theme(ink="currentColor")
    svg: str = vl_convert.vegalite_to_svg(chart.configure(**config).to_json())
    # Identifiers of parts are the same in every chart.
    svg = re.sub(r'\b(id="|url\(#|href="#)', rf"\g<1>{name}-", svg)
    return svg.replace('class="marks"', 'class="vega" role="img"', 1)


def _make_frame(**columns: Any) -> Any:
    import pandas as pd

    return pd.DataFrame(columns)


def _draw_prior(model: Any) -> Any:
    """Draw the distribution of the prior."""
    import altair as alt

    from puarena.report.figures.base import GREEN

    # The last percent on either side would squeeze the rest.
    levels = 0.01 + 0.98 * (np.arange(DRAWS) + 0.5) / DRAWS
    draws = np.interp(levels, QUANTILES, model.prior_quantiles_)
    count, edges = np.histogram(draws, HISTOGRAM_BINS)
    frame = _make_frame(low=edges[:-1], high=edges[1:], count=count / DRAWS)
    bars = (
        alt.Chart(frame)
        .mark_rect(color=GREEN, opacity=0.55)
        .encode(
            alt.X(
                "low:Q",
                title="share of positives",
                axis=alt.Axis(tickCount=6),
                scale=alt.Scale(zero=False),
            ),
            alt.Y("count:Q", title=None, axis=None),
            x2="high:Q",
            y2=alt.datum(0),
        )
    )
    ends = alt.Chart(_make_frame(at=list(model.prior_interval_))).mark_rule(color=GREEN, size=2)
    point = alt.Chart(_make_frame(at=[model.prior_])).mark_rule(
        color=GREEN, size=2, strokeDash=[4, 3]
    )
    layers = [bars, ends.encode(x="at:Q"), point.encode(x="at:Q")]
    return alt.layer(*layers).properties(width=WIDTH, height=HEIGHT)


def _draw_sensitivity(model: Any) -> Any:
    """Draw precision, recall and the share predicted positive over the interval of the prior."""
    import altair as alt

    from puarena.report.figures.base import AMBER, GRAY, GREEN, VIOLET, make_color

    lines = sorted(model.sensitivity(), key=lambda line: line["prior"])
    shown = {"precision": "precision", "recall": "recall", "positive": "share predicted positive"}
    frame = _make_frame(
        prior=[line["prior"] for name in shown for line in lines],
        value=[line[name] for name in shown for line in lines],
        what=[title for title in shown.values() for _ in lines],
    )
    palette = dict(zip(shown.values(), (GREEN, AMBER, VIOLET), strict=True))
    scale = alt.Scale(zero=False, nice=False)
    x = alt.X("prior:Q", title="if the share of positives were", scale=scale)
    y = alt.Y("value:Q", title=None, scale=alt.Scale(domain=[0, 1]))
    chart = alt.Chart(frame).mark_line(point=True)
    chart = chart.encode(x, y, make_color(shown.values(), "what", palette))
    rule = alt.Chart(_make_frame(at=[model.prior_])).mark_rule(color=GRAY, strokeDash=[4, 3])
    return alt.layer(rule.encode(x="at:Q"), chart).properties(width=WIDTH, height=HEIGHT)


def _draw_scores(held: HeldOutRows) -> Any:
    """Draw the probabilities of labeled and of unlabeled rows."""
    import altair as alt

    from puarena.report.figures.base import AMBER, GREEN, make_color

    edges = np.linspace(0, 1, HISTOGRAM_BINS + 1)
    parts = {"labeled": held.labeled, "unlabeled": ~held.labeled}
    shares = {
        name: np.histogram(held.probability[rows], edges)[0] / rows.sum()
        for name, rows in parts.items()
    }
    frame = _make_frame(
        low=np.tile(edges[:-1], 2),
        high=np.tile(edges[1:], 2),
        share=np.concatenate(list(shares.values())),
        rows=np.repeat(list(shares), HISTOGRAM_BINS),
    )
    palette = {"labeled": GREEN, "unlabeled": AMBER}
    return (
        alt.Chart(frame)
        .mark_rect(opacity=0.5)
        .encode(
            alt.X("low:Q", title="probability of being positive", axis=alt.Axis(tickCount=5)),
            alt.Y("share:Q", title="share of the rows", stack=None, axis=alt.Axis(format="%")),
            make_color(parts, "rows", palette),
            x2="high:Q",
            y2=alt.datum(0),
        )
        .properties(width=WIDTH, height=HEIGHT)
    )


@dataclass(frozen=True)
class CalibrationBin:
    """Held-out rows of similar probability, and the share of positives that labels tell."""

    predicted: float
    share: float
    low: float
    high: float


def bin_calibration(model: Any, seed: int = 0) -> list[CalibrationBin]:
    """Compare probabilities with the share of positives that the labels tell, by bins.

    A bin that has a share ``a`` of the labeled rows and ``b`` of a marginal sample has a share
    ``prior a / b`` of positives, if labels are given at random.
    """
    held: HeldOutRows = model.held_out_
    rng = np.random.default_rng(seed)
    order = np.argsort(held.probability, kind="stable")
    weight = held.weight[order]
    place = np.minimum(
        (CALIBRATION_BINS * (np.cumsum(weight) - weight / 2) / weight.sum()).astype(int),
        CALIBRATION_BINS - 1,
    )
    priors = np.interp(rng.random(DRAWS), QUANTILES, model.prior_quantiles_)
    n_p, n = int(held.labeled.sum()), len(order)
    bins = []
    for k in range(CALIBRATION_BINS):
        rows = order[place == k]
        if not len(rows):
            continue
        count = float(held.labeled[rows].sum())
        part = float(weight[place == k].sum() / weight.sum())
        share_p = rng.beta(count + 0.5, n_p - count + 0.5, DRAWS)
        share_m = rng.beta(part * n + 0.5, (1 - part) * n + 0.5, DRAWS)
        low, high = np.percentile(np.clip(priors * share_p / share_m, 0, 1), INTERVAL)
        mean = np.average(held.probability[rows], weights=weight[place == k])
        share = min(model.prior_ * count / n_p / part, 1.0)
        bins.append(CalibrationBin(float(mean), share, float(low), float(high)))
    return bins


def _draw_calibration(model: Any, held: HeldOutRows) -> Any:
    """Draw the share of positives that labels tell against the probability."""
    import altair as alt

    from puarena.report.figures.base import GRAY, GREEN

    bins = bin_calibration(model)
    frame = _make_frame(
        predicted=[each.predicted for each in bins],
        share=[each.share for each in bins],
        low=[each.low for each in bins],
        high=[each.high for each in bins],
    )
    unit = alt.Scale(domain=[0, 1])
    ticks = alt.Axis(tickCount=5)
    x = alt.X("predicted:Q", title="probability, mean of a bin", scale=unit, axis=ticks)
    y = alt.Y("share:Q", title="positives among them, by labels", scale=unit)
    even = alt.Chart(_make_frame(predicted=[0, 1], share=[0, 1])).mark_line(
        color=GRAY, strokeDash=[4, 3], size=1.5
    )
    bars = alt.Chart(frame).mark_rule(color=GREEN, size=1.5)
    bars = bars.encode(x, alt.Y("low:Q", scale=unit), y2="high:Q")
    dots = alt.Chart(frame).mark_point(color=GREEN, filled=True, size=45, opacity=1).encode(x, y)
    layers = [even.encode(x, y), bars, dots]
    return alt.layer(*layers).properties(width=WIDTH, height=HEIGHT)


def list_gains(held: HeldOutRows) -> tuple[Floats, Floats]:
    """Return the share of rows above every cut, and the share of the positives among them."""
    order = np.argsort(-held.decision, kind="stable")
    weight = held.weight[order]
    above = np.cumsum(weight) / weight.sum()
    found = np.cumsum(held.labeled[order]) / held.labeled.sum()
    is_last = np.append(np.diff(held.decision[order]) < 0, True)
    return np.append(0.0, above[is_last]), np.append(0.0, found[is_last])


def _draw_gains(model: Any, held: HeldOutRows) -> Any:
    """Draw how many positives are found by looking at the highest rows."""
    import altair as alt

    from puarena.report.figures.base import AMBER, GRAY, GREEN, make_color

    above, found = list_gains(held)
    even = np.linspace(0, 1, 101)
    reached = np.interp(even, above, found)
    best = np.minimum(even / model.prior_, 1.0)
    names = ("this model", "no model is better", "no model")
    frame = _make_frame(
        above=np.tile(even, 3),
        found=np.concatenate([reached, best, even]),
        by=np.repeat(names, len(even)),
    )
    palette = dict(zip(names, (GREEN, AMBER, GRAY), strict=True))
    share = alt.Axis(format="%", tickCount=5)
    cut = _count_predicted(held, model.shift_)
    rule = alt.Chart(_make_frame(at=[cut])).mark_rule(color=GRAY, strokeDash=[4, 3])
    lines = (
        alt.Chart(frame)
        .mark_line(size=2)
        .encode(
            alt.X("above:Q", title="rows looked at, the highest first", axis=share),
            alt.Y("found:Q", title="positives found", axis=share),
            make_color(names, "by", palette),
        )
    )
    return alt.layer(rule.encode(x="at:Q"), lines).properties(width=WIDTH, height=HEIGHT)


def _draw_importances(importances: Sequence[Importance]) -> Any:
    """Draw the loss of PA by column."""
    import altair as alt

    from puarena.report.figures.base import GREEN

    frame = _make_frame(
        column=[each.column for each in importances],
        loss=[each.loss for each in importances],
        low=[each.loss - 2 * each.deviation for each in importances],
        high=[each.loss + 2 * each.deviation for each in importances],
    )
    axis = alt.Axis(labelLimit=120)
    y = alt.Y("column:N", sort=list(frame["column"]), title=None, axis=axis)
    x = alt.X("loss:Q", title="PA lost if shuffled", axis=alt.Axis(tickCount=5))
    bars = alt.Chart(frame).mark_bar(color=GREEN, opacity=0.6).encode(x, y)
    rules = alt.Chart(frame).mark_rule(color=GREEN).encode(alt.X("low:Q"), y, x2="high:Q")
    return alt.layer(bars, rules).properties(width=WIDTH - 90, height=alt.Step(18))
