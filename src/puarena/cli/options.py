"""Arguments and options that several commands share, each written once."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from puarena.errors import UserError
from puarena.metrics import CRITERIA, METRICS

if TYPE_CHECKING:
    from puarena.experiments.spec import Spec

Item = TypeVar("Item")
UNIT_SECONDS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
SWITCHES = {"true": True, "on": True, "false": False, "off": False}
DURATIONS = ("checkpoint_every", "fleet_timeout", "slurm_time")  # parameters in seconds
RESULTS_FILES = ("spec.json", "planned.parquet", "shards", "failures", "progress", "claims")
REPEATED = ("slurm",)  # parameters with several values


def split_at_commas(text: str) -> list[str]:
    """Split text at the commas outside of brackets and quotes."""
    parts, depth, quote = [""], 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'" and depth:
            quote = letter
        else:
            depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth <= 0 and not quote:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _parse_list(read: Callable[[str], Item]) -> Callable[[str], list[Item]]:
    """Return a parser of values that are separated by commas outside of parentheses."""

    def parse(text: str) -> list[Item]:
        parts = [part.strip() for part in split_at_commas(text)]
        try:
            values = [read(part) for part in parts if part]
        except ValueError:
            raise typer.BadParameter(f"'{text}' is not a list of numbers such as 1,2") from None
        if not values:
            raise typer.BadParameter("give at least one value")
        return values

    return parse


parse_names = _parse_list(str)
parse_integers = _parse_list(int)
parse_numbers = _parse_list(float)


def complete_names(list_names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Return the shell completion of names, the last of them if there are several with commas."""

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        return [f"{before}{comma}{name}" for name in list_names() if name.startswith(last)]

    return complete


def list_suites() -> list[str]:
    """Return the names of suites."""
    from puarena.experiments import suites

    return suites.names()


def list_algorithms() -> list[str]:
    """Return the names of algorithms; this imports torch, which takes a second."""
    from puarena import catalog

    return catalog.names()


def list_datasets() -> list[str]:
    """Return the names of datasets."""
    from puarena import datasets

    return datasets.names()


def read_seconds(text: str) -> float:
    """Return a duration such as ``90``, ``90s``, ``30m``, ``2h`` or ``1.5d`` in seconds."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", text.lower())
    if match is None or match[2] not in UNIT_SECONDS:
        raise ValueError(f"'{text}' is not a duration such as 90s, 30m or 2h")
    return float(match[1]) * UNIT_SECONDS[match[2]]


def parse_seconds(text: str) -> float:
    """Parse a duration."""
    try:
        seconds = read_seconds(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if seconds == 0:
        raise typer.BadParameter("give more than 0 seconds")
    return seconds


def parse_folder(text: str | Path) -> Path:
    """Return the path of a folder to write; an empty one would be the current folder."""
    path = _parse_output(text)
    place = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
    if not place.is_dir():
        raise typer.BadParameter(f"'{place}' is a file; give a folder")
    if not os.access(place, os.W_OK | os.X_OK):
        raise typer.BadParameter(f"nothing can be written in '{place}'")
    return path


def parse_file(text: str | Path) -> Path:
    """Return the path of a file to write."""
    path = _parse_output(text)
    if path.is_dir():
        raise typer.BadParameter(f"'{path}' is a folder; give a file")
    parse_folder(path.parent)
    return path


def _parse_output(text: str | Path) -> Path:
    if not str(text):
        raise typer.BadParameter("it is empty (is a variable of the shell not set?)")
    return Path(text)


def read_parameters(texts: Sequence[str] | None) -> dict[str, Any]:
    """Return the parameters that ``--set NAME=VALUE`` gives, each time."""
    parameters: dict[str, Any] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or not value:
            raise UserError(f"--set takes NAME=VALUE; '{text}' was given", "invalid-value")
        if name in REPEATED:
            parameters[name] = (*parameters.get(name, ()), value)
        elif name in parameters:
            raise UserError(f"--set gives '{name}' twice", "conflict")
        else:
            parameters[name] = _read_value(name, value)
    return parameters


def _read_value(name: str, text: str) -> Any:
    """Return a duration in seconds, true or false, a number, or the text itself."""
    if name in DURATIONS:
        try:
            return read_seconds(text)
        except ValueError as error:
            raise UserError(f"--set {name}: {error}", "invalid-value") from None
    if text.lower() in SWITCHES:
        return SWITCHES[text.lower()]
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return text


def read_spec(source: str, options: Mapping[str, Any], changes: Mapping[str, Any]) -> Spec:
    """Return a spec with the options of :data:`SPEC_OPTIONS` applied, and further fields."""
    from puarena.experiments import suites
    from puarena.experiments.spec import TRUE_PRIOR

    fields = dict(options)
    plugins = [str(path) for path in fields.pop("plugin") or ()]
    if (priors := fields.pop("prior")) is not None:
        # An estimated prior is run next to the true one.
        fields["prior_source"] = tuple(dict.fromkeys((TRUE_PRIOR, *priors)))
    return suites.load(source).override(plugins=plugins, **fields, **changes)


def add_spec_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of :data:`SPEC_OPTIONS`, which its ``**`` parameter takes."""
    own = list(inspect.signature(command, eval_str=True).parameters.values())
    named = [each for each in own if each.kind is not each.VAR_KEYWORD]
    taken = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
        for name, kind in SPEC_OPTIONS.items()
    ]
    required = [each for each in named if each.default is each.empty]
    optional = [each for each in named if each.default is not each.empty]
    parameters = [each.replace(kind=each.KEYWORD_ONLY) for each in (*required, *taken, *optional)]
    # Typer reads both, and calls a command by keywords only.
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    return command


def check_outputs(outputs: Sequence[Path | None], inputs: Sequence[object]) -> None:
    """Refuse an output that would replace an input, or a file of a results folder."""
    sources = {Path(str(each)).resolve() for each in inputs if each is not None}
    stored = {source / name for source in sources for name in RESULTS_FILES}
    for output in outputs:
        if output is None:
            continue
        place = output.resolve()
        if place in sources | stored or place.parent in stored:
            message = f"the output '{output}' would replace an input; give another file"
            raise UserError(message, "conflict")


def load_plugins(files: Sequence[Path] | None) -> None:
    """Register the algorithms and networks of a user's files."""
    from puarena import plugins

    for file in files or ():
        plugins.load(file)


# -- what is run ---------------------------------------------------------------------------------

Source = Annotated[
    str,
    typer.Argument(
        metavar="SUITE|FILE",
        help="a suite (see 'list suites') or a YAML spec file",
        autocompletion=complete_names(list_suites),
    ),
]
Algorithms = Annotated[
    Sequence[str] | None,
    typer.Option(
        metavar="A,B",
        parser=parse_names,
        help="only these algorithms",
        autocompletion=complete_names(list_algorithms),
    ),
]
Datasets = Annotated[
    Sequence[str] | None,
    typer.Option(
        metavar="A,B",
        parser=parse_names,
        help="these datasets (names or YAML files)",
        autocompletion=complete_names(list_datasets),
    ),
]
Cases = Annotated[
    Sequence[int] | None,
    typer.Option(metavar="1,2", parser=parse_integers, help="these positive-class cases"),
]
Settings = Annotated[
    Sequence[str] | None,
    typer.Option(
        metavar="S,T", parser=parse_names, help="where the data come from: one-sample, two-sample"
    ),
]
Rates = Annotated[
    Sequence[float] | None,
    typer.Option(metavar="0.3,...", parser=parse_numbers, help="these positive rates"),
]
Priors = Annotated[
    Sequence[float] | None,
    typer.Option(metavar="0.5,...", parser=parse_numbers, help="these class priors"),
]
Labeling = Annotated[
    Sequence[str] | None,
    typer.Option(
        metavar="M,N",
        parser=parse_names,
        help="which positives are labeled (see 'list mechanisms')",
    ),
]
PriorSource = Annotated[
    Sequence[str] | None,
    typer.Option(
        "--prior",
        "--prior-source",
        metavar="true|estimate[:METHOD]|given:P",
        parser=parse_names,
        help="also run everything with an estimated class prior",
    ),
]
Splits = Annotated[int | None, typer.Option(metavar="N", help="draws of the data per problem")]
Configs = Annotated[
    int | None, typer.Option(metavar="N", help="configurations; the first is the default")
]
Steps = Annotated[int | None, typer.Option(metavar="N", help="training steps")]
Profile = Annotated[
    str | None,
    typer.Option(
        metavar="definition|released", help="the papers' definitions, or the published code"
    ),
]
Network = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="network (see 'list networks'); some are for images only"),
]
Precision = Annotated[
    str | None,
    typer.Option(metavar="float32|bf16", help="precision of activations of residual networks"),
]
Optimizer = Annotated[
    str | None,
    typer.Option(
        metavar="protocol|authors", help="the protocol's SGD, or what a method's authors used"
    ),
]
Plugins = Annotated[
    list[Path] | None,
    typer.Option(
        "--plugin", "--plugins", metavar="FILE", help="a Python file with your own algorithms"
    ),
]

SPEC_OPTIONS = {  # what changes the spec of 'plan' and 'run'; most are fields
    "algorithms": Algorithms,
    "datasets": Datasets,
    "cases": Cases,
    "settings": Settings,
    "rates": Rates,
    "priors": Priors,
    "labeling": Labeling,
    "splits": Splits,
    "configs": Configs,
    "steps": Steps,
    "profile": Profile,
    "network": Network,
    "precision": Precision,
    "optimizer": Optimizer,
    "prior": PriorSource,
    "plugin": Plugins,
}

# -- how it is run -------------------------------------------------------------------------------

Out = Annotated[
    Path,
    typer.Option(
        metavar="DIR",
        parser=parse_folder,
        help="results folder; run again with the same folder to continue",
    ),
]
Device = Annotated[str, typer.Option(metavar="auto|cpu|cuda", help="where to train")]
Data = Annotated[
    Path | None, typer.Option(metavar="DIR", help="folder that has the datasets' files")
]
Workers = Annotated[
    int | None,
    typer.Option(
        metavar="N", help="fleets trained in parallel: processes on a CPU, streams on a GPU"
    ),
]
FleetSize = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="largest number of runs in a fleet")
]
RetryFailed = Annotated[bool, typer.Option("--retry-failed", help="try failed fleets again")]
StopAfter = Annotated[
    float | None,
    typer.Option(
        "--for",
        "--seconds",
        metavar="2h",
        parser=parse_seconds,
        help="stop after this time, with everything saved",
    ),
]
Engine = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="execution backend (see 'list engines'; default: automatic)"),
]
GPUs = Annotated[
    str | None,
    typer.Option("--gpus", metavar="all|0,1", help="GPUs of this machine, one process for each"),
]
Parameters = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="any other parameter of puarena.run, such as threads=2 or seed=1; repeatable",
    ),
]

# -- results -------------------------------------------------------------------------------------

Folder = Annotated[
    Path,
    typer.Argument(
        metavar="DIR", help="a results folder, a summary written by 'export', or published:NAME"
    ),
]
Folders = Annotated[
    list[Path],
    typer.Argument(
        metavar="DIR...",
        help="results folders, exported summaries, or published:NAME; several are read as one",
    ),
]
With = Annotated[
    list[str] | None,
    typer.Option(
        "--with",
        metavar="DIR|published:NAME",
        help="also show these results, such as published:tabular (in tables: paper)",
    ),
]
ShownDatasets = Annotated[
    Sequence[str] | None,
    typer.Option("--datasets", metavar="A,B", parser=parse_names, help="only these datasets"),
]
Metrics = Annotated[
    Sequence[str] | None,
    typer.Option(
        "--metric",
        "--metrics",
        metavar="M,N",
        parser=parse_names,
        help=f"test metrics: {', '.join(METRICS)}",
    ),
]
Criteria = Annotated[
    Sequence[str] | None,
    typer.Option(
        "--criterion",
        "--criteria",
        metavar="C,D",
        parser=parse_names,
        help=f"criteria that choose the models: {', '.join(CRITERIA)}",
    ),
]
Markdown = Annotated[
    Path | None, typer.Option(metavar="F", parser=parse_file, help="write Markdown tables")
]
Csv = Annotated[Path | None, typer.Option(metavar="F", parser=parse_file, help="write a CSV table")]
