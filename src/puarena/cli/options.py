"""Options and small helpers that several commands share."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from puarena.errors import UserError
from puarena.metrics import CRITERIA, METRICS

T = TypeVar("T")

Source = Annotated[str, typer.Argument(metavar="SUITE|FILE", help="a suite (see 'list suites') or a YAML spec file")]
Folder = Annotated[
    Path, typer.Argument(metavar="DIR", help="a results folder, a summary made by 'export', or published:NAME")
]
With = Annotated[
    list[str] | None,
    typer.Option("--with", metavar="DIR|published:NAME", help="also show these results, such as published:tabular"),
]
Out = Annotated[Path, typer.Option(metavar="DIR", help="results folder; run again with the same one to go on")]
Device = Annotated[str, typer.Option(metavar="auto|cpu|cuda", help="where to train")]
Workers = Annotated[
    int | None,
    typer.Option(metavar="N", help="fleets trained side by side: processes on a CPU, streams on a GPU"),
]
FleetSize = Annotated[int | None, typer.Option(metavar="N", min=1, help="runs in one fleet, at most")]
CheckpointEvery = Annotated[
    float,
    typer.Option(metavar="SECONDS", min=0, help="how often a fleet keeps its state, to go on after an interruption"),
]
Capture = Annotated[str, typer.Option(metavar="auto|off", help="on a GPU: replay captured steps")]
Threads = Annotated[int | None, typer.Option(metavar="N", help="threads of a process that trains on a CPU (default 1)")]
Engine = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="who trains: inline, processes, streams, gpus, ray, slurm (default: what pays)"),
]
GPUs = Annotated[
    str | None, typer.Option("--gpus", metavar="all|0,1", help="GPUs of this machine to use, a process each")
]
GPUCount = Annotated[str | None, typer.Option("--gpus", metavar="N", help="as if there were so many GPUs")]
Address = Annotated[str | None, typer.Option(metavar="A", help="of a Ray cluster (default: one on this machine)")]
GPUsPerFleet = Annotated[float | None, typer.Option(metavar="F", min=0, help="share of a GPU for a fleet")]
CPUsPerFleet = Annotated[float | None, typer.Option(metavar="N", min=0, help="cores for a fleet")]
SlurmPartition = Annotated[str | None, typer.Option(metavar="P", help="partition of SLURM jobs")]
SlurmTime = Annotated[str | None, typer.Option(metavar="4h", help="time limit of SLURM jobs, which then go on anew")]
SlurmExtra = Annotated[
    list[str] | None, typer.Option("--slurm", metavar="KEY=VALUE", help="any other parameter, such as account=me")
]
RetryFailed = Annotated[bool, typer.Option("--retry-failed", help="also run again what failed before")]
For = Annotated[str | None, typer.Option("--for", metavar="2h", help="stop in good order after this time")]
FleetTimeout = Annotated[str | None, typer.Option(metavar="30m", help="give up a fleet that takes longer")]
Data = Annotated[Path | None, typer.Option(metavar="DIR", help="folder that already has the datasets' files")]
AsJson = Annotated[bool, typer.Option("--json", help="print JSON")]
Plugins = Annotated[
    list[Path] | None, typer.Option("--plugin", metavar="FILE", help="a Python file with algorithms of your own")
]
Algorithms = Annotated[str | None, typer.Option(metavar="A,B", help="only these algorithms")]
Datasets = Annotated[str | None, typer.Option(metavar="A,B", help="these datasets (names or YAML files)")]
ShownDatasets = Annotated[str | None, typer.Option("--datasets", metavar="A,B", help="only these datasets")]
Cases = Annotated[str | None, typer.Option(metavar="1,2", help="these positive-class cases")]
Settings = Annotated[str | None, typer.Option(metavar="S,T", help="how labels are given: one-sample, two-sample")]
Rates = Annotated[str | None, typer.Option(metavar="0.3,...", help="these positive rates")]
Priors = Annotated[str | None, typer.Option(metavar="0.5,...", help="these class priors")]
Labelling = Annotated[
    str | None, typer.Option(metavar="M,N", help="who among the positives is labeled (see 'bias list')")
]
PriorSource = Annotated[
    str | None,
    typer.Option("--prior", metavar="true|estimate:bbe", help="also run everything with an estimated class prior"),
]
Splits = Annotated[int | None, typer.Option(metavar="N", help="data draws per problem")]
Configs = Annotated[int | None, typer.Option(metavar="N", help="configurations; the first is the default")]
Steps = Annotated[int | None, typer.Option(metavar="N", help="training steps")]
Profile = Annotated[
    str | None, typer.Option(metavar="definition|released", help="the definitions' choices, or the published code's")
]
Network = Annotated[
    str | None, typer.Option(metavar="NAME", help="network (see list networks); some are only for images")
]
Precision = Annotated[
    str | None,
    typer.Option(metavar="float32|bf16", help="what activations are computed in, if the network has a choice"),
]
Optimiser = Annotated[
    str | None, typer.Option(metavar="protocol|authors", help="the protocol's SGD, or what a method's authors used")
]
Metrics = Annotated[str | None, typer.Option("--metric", metavar="M,N", help=f"test metrics: {', '.join(METRICS)}")]
Criteria = Annotated[
    str | None,
    typer.Option("--criterion", metavar="C,D", help=f"criteria that choose the models: {', '.join(CRITERIA)}"),
]
Seed = Annotated[int | None, typer.Option(metavar="N", help="changes every random choice of training")]


def many(text: str | None, name: str, read: Callable[[str], T]) -> list[T] | None:
    """The values of a comma-separated option; commas inside brackets do not separate."""
    if text is None:
        return None
    try:
        values = [read(part.strip()) for part in re.split(r",(?![^(]*\))", text) if part.strip()]
    except ValueError:
        raise UserError(f"--{name} takes numbers separated by commas, and '{text}' was given") from None
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
