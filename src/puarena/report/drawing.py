"""Drawing the figures of a results folder, and saving them as SVG, PDF or PNG."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from puarena.errors import unknown_name
from puarena.report.evidence import Evidence, evidence
from puarena.report.figures import Figure, TooFewError, figures
from puarena.report.figures.base import AnyChart, theme
from puarena.report.sources import Source
from puarena.utils.files import cannot_write, write_file

FORMATS = ("svg", "pdf", "png")


@dataclass(frozen=True)
class Drawing:
    """A figure's chart for one metric and criterion (empty where it does not depend on them), or why there is none."""

    figure: Figure
    metric: str
    criterion: str
    chart: AnyChart | None
    reason: str = ""

    @property
    def stem(self) -> str:
        """Its file name without the ending."""
        return "-".join(part for part in (self.figure.name, self.metric, self.criterion) if part)


def draw(figure: Figure, evidence: Evidence) -> Iterator[Drawing]:
    """A figure for every metric and criterion it depends on; what cannot be drawn comes with its reason."""
    for metric in evidence.metrics if figure.per_metric else [""]:
        for criterion in evidence.criteria if figure.per_criterion else [""]:
            try:
                yield Drawing(figure, metric, criterion, figure.draw(evidence, metric, criterion))
            except TooFewError as missing:
                yield Drawing(figure, metric, criterion, None, str(missing))


def save(chart: AnyChart, path: str | Path) -> None:
    """Write a chart as SVG, PDF or PNG, by the ending of the path; no browser and no network is needed."""
    import vl_convert

    path = Path(path)
    kind = path.suffix.removeprefix(".").lower()
    if kind not in FORMATS:
        raise unknown_name("format", kind, FORMATS)
    spec = chart.to_dict() | {"config": theme() | {"background": "white", "padding": 12}}
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
            raise unknown_name("format", kind, FORMATS)
    files: list[Path] = []
    missing: dict[str, str] = {}
    facts = evidence(source, metrics, criteria)
    for drawing in (drawing for figure in figures() for drawing in draw(figure, facts)):
        if drawing.chart is None:
            missing[drawing.figure.name] = drawing.reason
            continue
        for kind in formats:
            files.append(Path(folder) / f"{drawing.stem}.{kind}")
            save(drawing.chart, files[-1])
    return files, missing
