"""The figures, one class per file: a new file here is a new figure of the page and of the files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from puarena.errors import unknown_name
from puarena.report.figures.base import (
    AnyChart,
    Figure,
    FigureData,
    TooFewError,
    make_theme,
    read_figure_data,
)
from puarena.report.sources import Source
from puarena.utils.discovery import discover
from puarena.utils.files import cannot_write, write_file

__all__ = [
    "Drawing",
    "Figure",
    "FigureData",
    "TooFewError",
    "draw_figure",
    "find_figures",
    "read_figure_data",
    "save_chart",
    "save_figures",
]

FORMATS = ("svg", "pdf", "png")


@lru_cache(maxsize=1)
def find_figures() -> tuple[Figure, ...]:
    """Return the figures that the files of this folder define."""
    figures = [cls() for cls in discover(__name__, Figure)]
    return tuple(sorted(figures, key=lambda figure: (figure.order, figure.name)))


@dataclass(frozen=True)
class Drawing:
    """The chart of a figure, or why there is none.

    ``metric`` and ``criterion`` are empty if the figure does not depend on them.
    """

    figure: Figure
    metric: str
    criterion: str
    chart: AnyChart | None
    reason: str = ""

    @property
    def stem(self) -> str:
        """The file name without the suffix."""
        return "-".join(part for part in (self.figure.name, self.metric, self.criterion) if part)


def draw_figure(figure: Figure, data: FigureData) -> Iterator[Drawing]:
    """Draw a figure for every metric and criterion that it depends on."""
    missing = _find_missing(figure, data)
    for metric in data.metrics if figure.per_metric else [""]:
        for criterion in data.criteria if figure.per_criterion else [""]:
            if missing:
                yield Drawing(figure, metric, criterion, None, missing)
                continue
            try:
                yield Drawing(figure, metric, criterion, figure.draw(data, metric, criterion))
            except TooFewError as error:
                yield Drawing(figure, metric, criterion, None, str(error))


def _find_missing(figure: Figure, data: FigureData) -> str:
    """Return what the results lack for a figure, by its class attributes."""
    if data.selection["method"].nunique() < figure.min_methods:
        return f"needs {figure.min_methods} methods"
    constant = [name for name in figure.varies if data.selection[name].nunique() < 2]
    return f"needs results with two values of {' and '.join(constant)}" if constant else ""


def save_chart(chart: AnyChart, path: str | Path) -> None:
    """Write a chart as SVG, PDF or PNG, by the suffix; this needs no browser and no network."""
    import vl_convert

    path = Path(path)
    kind = path.suffix.removeprefix(".").lower()
    if kind not in FORMATS:
        raise unknown_name("format", kind, FORMATS)
    spec = chart.to_dict() | {"config": make_theme() | {"background": "white", "padding": 12}}
    content: str | bytes
    if kind == "svg":
        content = vl_convert.vegalite_to_svg(spec)
    elif kind == "pdf":
        content = vl_convert.vegalite_to_pdf(spec)
    else:
        content = vl_convert.vegalite_to_png(spec, scale=2)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(path, error) from error
    write_file(path, content)


def save_figures(
    source: Source,
    folder: str | Path,
    formats: Sequence[str] = ("svg",),
    metrics: Iterable[str] | None = None,
    criteria: Iterable[str] | None = None,
    only: Sequence[str] | None = None,
) -> tuple[list[Path], dict[str, str]]:
    """Save every figure, or ``only`` those of these names.

    Return the files, and the reason for each figure that is left out.
    """
    figures = {figure.name: figure for figure in find_figures()}
    for name in only or ():
        if name not in figures:
            raise unknown_name("figure", name, figures)
    for kind in formats:
        if kind not in FORMATS:
            raise unknown_name("format", kind, FORMATS)
    files: list[Path] = []
    missing: dict[str, str] = {}
    data = read_figure_data(source, metrics, criteria)
    for figure in [figures[name] for name in only or figures]:
        for drawing in draw_figure(figure, data):
            if drawing.chart is None:
                missing[figure.name] = drawing.reason
                continue
            for kind in formats:
                files.append(Path(folder) / f"{drawing.stem}.{kind}")
                save_chart(drawing.chart, files[-1])
    return files, missing
