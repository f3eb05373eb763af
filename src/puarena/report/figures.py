"""The figures of a results folder: which there are, and saving them as SVG, PDF or PNG.

Each is a function from a frame of numbers to an altair chart (``charts.py``); too few results leave a figure out, with
the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from puarena.errors import UserError, unknown
from puarena.report.charts import (
    TooFewError,
    curve_rows,
    label_shift,
    learning_curves,
    overall,
    ranks,
    regret,
    theme,
    training_time,
)
from puarena.report.evidence import Evidence, evidence
from puarena.report.select import METRICS, names

if TYPE_CHECKING:
    from puarena.report.charts import AnyChart
    from puarena.report.select import Source

FORMATS = ("svg", "pdf", "png")
WORDS = {
    "overall": "Overall performance",
    "ranks": "Ranks and critical difference",
    "regret": "Selection regret",
    "time": "Accuracy against training time",
    "label-shift": "The internal label shift",
    "learning-curves": "Learning curves",
}


@dataclass(frozen=True)
class Figure:
    """A named chart, or the reason why there is none."""

    name: str
    metric: str
    criterion: str
    chart: AnyChart | None
    reason: str = ""

    @property
    def stem(self) -> str:
        """Its file name without the ending."""
        return "-".join(part for part in (self.name, self.metric, self.criterion) if part)


def figures(
    source: Source | Evidence,
    metrics: Iterable[str] | None = None,
    criteria: Iterable[str] | None = None,
    without: Sequence[str] = (),
) -> Iterator[Figure]:
    """Every figure for every metric and criterion it depends on; one that cannot be drawn comes with its reason."""
    chosen = names("metric", metrics, METRICS, ("accuracy", "auc", "f1"))
    found = source if isinstance(source, Evidence) else evidence(source, criteria)
    by = list(dict.fromkeys(found.selection["criterion"]))
    one = found.selection
    draw: dict[str, Any] = {
        "overall": lambda m, c: overall(one, chosen),
        "ranks": lambda m, c: ranks(one, m, c),
        "regret": lambda m, c: regret(one, found.best, m),
        "time": lambda m, c: training_time(one, found.seconds, m, c),
        "label-shift": lambda m, c: label_shift(one, m, c),
        "learning-curves": lambda m, c: learning_curves(curve_rows(found, m), m),
    }
    for name in WORDS:
        if name not in without:
            for metric in [""] if name == "overall" else chosen:
                for criterion in [""] if name in {"overall", "regret", "learning-curves"} else by:
                    yield _figure(name, metric, criterion, draw[name])


def _figure(name: str, metric: str, criterion: str, draw: Any) -> Figure:
    try:
        return Figure(name, metric, criterion, draw(metric, criterion))
    except TooFewError as missing:
        return Figure(name, metric, criterion, None, str(missing))


def save(chart: AnyChart, path: str | Path) -> None:
    """Write a chart as SVG, PDF or PNG, by the ending of the path; no browser and no network is needed."""
    import vl_convert

    path = Path(path)
    kind = path.suffix.removeprefix(".").lower()
    if kind not in FORMATS:
        raise unknown("format", kind, FORMATS)
    spec = chart.to_dict() | {"config": theme() | {"background": "white", "padding": 12}}
    made: str | bytes
    if kind == "svg":
        made = vl_convert.vegalite_to_svg(spec)
    elif kind == "pdf":
        made = vl_convert.vegalite_to_pdf(spec)
    else:
        made = vl_convert.vegalite_to_png(spec, scale=2)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(made.encode() if isinstance(made, str) else made)
    except OSError as error:
        raise UserError(f"cannot write '{path}' ({(error.strerror or str(error)).lower()})") from error


def write_figures(
    source: Source,
    folder: str | Path,
    formats: Sequence[str] = ("svg",),
    metrics: Iterable[str] | None = None,
    criteria: Iterable[str] | None = None,
) -> tuple[list[Path], dict[str, str]]:
    """Save every figure; returns the files, and the reason for each figure that was left out."""
    for kind in formats:
        if kind not in FORMATS:
            raise unknown("format", kind, FORMATS)
    files: list[Path] = []
    missing: dict[str, str] = {}
    for figure in figures(source, metrics, criteria):
        if figure.chart is None:
            missing[figure.name] = figure.reason
            continue
        for kind in formats:
            files.append(Path(folder) / f"{figure.stem}.{kind}")
            save(figure.chart, files[-1])
    return files, missing
