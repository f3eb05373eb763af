"""Options and small helpers that several commands share."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

from puarena.errors import UserError
from puarena.experiments.executors.base import How
from puarena.metrics import CRITERIA, METRICS

T = TypeVar("T")
OWN_FILES = (
    "spec.json",
    "planned.parquet",
    "shards",
    "failures",
    "progress",
    "claims",
)  # of a results folder


def check_folder(out: Path) -> None:
    """Refuse, before hours are spent, a folder that cannot be made or written."""
    place = next(folder for folder in (out, *out.absolute().parents) if folder.exists())
    if not place.is_dir():
        raise UserError(f"--out is '{out}', and '{place}' is a file; give a folder")
    if not os.access(place, os.W_OK | os.X_OK):
        raise UserError(
            f"--out is '{out}', and nothing can be written in '{place}'; give another folder"
        )


def check_files(*files: Path | None, source: Path | None = None) -> None:
    """Refuse, before anything is computed, outputs that cannot be written or would replace each other or results."""
    seen: set[Path] = set()
    for file in filter(None, files):
        place = file.resolve()
        if place in seen:
            raise UserError(f"two outputs would go into '{file}'; give each a file of its own")
        seen.add(place)
        if file.is_dir():
            raise UserError(f"'{file}' is a folder; give the name of a file to write")
        above = next(folder for folder in place.parents if folder.exists())
        if not above.is_dir():
            raise UserError(f"'{file}' cannot be written: '{above}' is a file and no folder")
        own = source is not None and (
            place == source.resolve() or _part_of_results(place, source.resolve())
        )
        if own:
            raise UserError(
                f"'{file}' belongs to the results themselves and would be lost; give another file"
            )


def _part_of_results(file: Path, folder: Path) -> bool:
    """Is this one of the files that a results folder consists of?"""
    if not (folder / "spec.json").is_file() or folder not in file.parents:
        return False
    return file.relative_to(folder).parts[0] in OWN_FILES


Source = Annotated[
    str,
    typer.Argument(metavar="SUITE|FILE", help="a suite (see 'list suites') or a YAML spec file"),
]
Folder = Annotated[
    Path,
    typer.Argument(
        metavar="DIR", help="a results folder, a summary written by 'export', or published:NAME"
    ),
]
With = Annotated[
    list[str] | None,
    typer.Option(
        "--with",
        metavar="DIR|published:NAME",
        help="also show these results, such as published:tabular",
    ),
]
Out = Annotated[
    Path,
    typer.Option(metavar="DIR", help="results folder; run again with the same one to continue"),
]
Device = Annotated[str, typer.Option(metavar="auto|cpu|cuda", help="where to train")]
Workers = Annotated[
    int | None,
    typer.Option(
        metavar="N", help="fleets trained side by side: processes on a CPU, streams on a GPU"
    ),
]
FleetSize = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="runs in one fleet, at most")
]
CheckpointEvery = Annotated[
    float,
    typer.Option(
        metavar="SECONDS",
        min=0,
        help="how often a fleet saves its state, to continue after an interruption",
    ),
]
Capture = Annotated[str, typer.Option(metavar="auto|off", help="on a GPU: replay captured steps")]
Engine = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="who trains (see 'list engines'; default: what pays on this machine)"
    ),
]
GPUCount = Annotated[
    str | None, typer.Option("--gpus", metavar="N", help="as if there were so many GPUs")
]
GPUsPerFleet = Annotated[
    float | None, typer.Option(metavar="F", min=0, help="share of a GPU for a fleet")
]
RetryFailed = Annotated[
    bool, typer.Option("--retry-failed", help="also try again what failed before")
]
For = Annotated[
    str | None,
    typer.Option(
        "--for", "--seconds", metavar="2h", help="stop after this time, with everything saved"
    ),
]
Data = Annotated[
    Path | None, typer.Option(metavar="DIR", help="folder that already has the datasets' files")
]
AsJson = Annotated[bool, typer.Option("--json", help="print JSON")]
Plugins = Annotated[
    list[Path] | None,
    typer.Option(
        "--plugin", "--plugins", metavar="FILE", help="a Python file with algorithms of your own"
    ),
]
Algorithms = Annotated[str | None, typer.Option(metavar="A,B", help="only these algorithms")]
Datasets = Annotated[
    str | None, typer.Option(metavar="A,B", help="these datasets (names or YAML files)")
]
ShownDatasets = Annotated[
    str | None, typer.Option("--datasets", metavar="A,B", help="only these datasets")
]
Cases = Annotated[str | None, typer.Option(metavar="1,2", help="these positive-class cases")]
Settings = Annotated[
    str | None, typer.Option(metavar="S,T", help="how labels are given: one-sample, two-sample")
]
Rates = Annotated[str | None, typer.Option(metavar="0.3,...", help="these positive rates")]
Priors = Annotated[str | None, typer.Option(metavar="0.5,...", help="these class priors")]
Labeling = Annotated[
    str | None,
    typer.Option(metavar="M,N", help="who among the positives is labeled (see 'bias list')"),
]
PriorSource = Annotated[
    str | None,
    typer.Option(
        "--prior",
        "--prior-source",
        metavar="true|estimate[:METHOD]",
        help="also run everything with an estimated class prior",
    ),
]
Splits = Annotated[int | None, typer.Option(metavar="N", help="data draws per problem")]
Configs = Annotated[
    int | None, typer.Option(metavar="N", help="configurations; the first is the default")
]
Steps = Annotated[int | None, typer.Option(metavar="N", help="training steps")]
Profile = Annotated[
    str | None,
    typer.Option(
        metavar="definition|released", help="the definitions' choices, or the published code's"
    ),
]
Network = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="network (see list networks); some are only for images"),
]
Precision = Annotated[
    str | None,
    typer.Option(
        metavar="float32|bf16", help="what activations are computed in, if the network has a choice"
    ),
]
Optimizer = Annotated[
    str | None,
    typer.Option(
        metavar="protocol|authors", help="the protocol's SGD, or what a method's authors used"
    ),
]
Metrics = Annotated[
    str | None,
    typer.Option(
        "--metric", "--metrics", metavar="M,N", help=f"test metrics: {', '.join(METRICS)}"
    ),
]
Criteria = Annotated[
    str | None,
    typer.Option(
        "--criterion",
        "--criteria",
        metavar="C,D",
        help=f"criteria that choose the models: {', '.join(CRITERIA)}",
    ),
]
Seed = Annotated[
    int | None, typer.Option(metavar="N", help="changes every random choice of training")
]


def many(text: str | None, name: str, read: Callable[[str], T]) -> list[T] | None:
    """The values of a comma-separated option; commas inside brackets do not separate."""
    if text is None:
        return None
    try:
        values = [read(part.strip()) for part in re.split(r",(?![^(]*\))", text) if part.strip()]
    except ValueError:
        raise UserError(
            f"--{name} takes numbers separated by commas, and '{text}' was given"
        ) from None
    if not values:
        raise UserError(f"--{name} needs at least one value")
    return values


UNITS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}


def seconds(text: str | None, name: str) -> float | None:
    """A time such as ``90``, ``90s``, ``30m``, ``2h`` or ``1.5d`` in seconds."""
    if text is None:
        return None
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", text.lower())
    if match is None or match[2] not in UNITS or float(match[1]) == 0:
        raise UserError(f"--{name} takes a time such as 90s, 30m or 2h, and '{text}' was given")
    return float(match[1]) * UNITS[match[2]]


def engine_options() -> list[inspect.Parameter]:
    """What executors may be told, as parameters of a command."""
    kinds = get_type_hints(How)
    parameters = []
    for name, facts in How.options().items():
        kind = (
            str | None
            if facts["time"]
            else list[str] | None
            if kinds[name] == tuple[str, ...] | None
            else kinds[name]
        )
        option = typer.Option(None, f"--{name.replace('_', '-')}", **facts["shown"])
        parameters.append(
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=option, annotation=kind)
        )
    return parameters


def engine_values(given: dict[str, Any]) -> dict[str, Any]:
    """The same as executors take it: times in seconds, lists as tuples."""
    times = {
        name: seconds(given[name], name.replace("_", "-"))
        for name, f in How.options().items()
        if f["time"]
    }
    return (
        given
        | times
        | {name: tuple(value) for name, value in given.items() if isinstance(value, list)}
    )
