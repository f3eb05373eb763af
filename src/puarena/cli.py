"""The command line: thin, every command is one call into the rooms, and nothing heavy is imported before it is needed.

What a user can put right ends as ``error: <one sentence>`` on stderr with exit code 2. Exit code 1: some fleets
failed; 130: interrupted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from typer.core import TyperGroup

from puarena import __version__
from puarena.errors import UserError, unknown

if TYPE_CHECKING:
    from puarena.bench.execute import Outcome
    from puarena.bench.spec import Spec

T = TypeVar("T")


class _Commands(TyperGroup):
    """Turns a UserError of any command into one sentence and exit code 2."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except UserError as error:
            typer.echo(f"error: {error}", err=True)
            raise typer.Exit(2) from None


app = typer.Typer(
    cls=_Commands,
    help="An honest arena for positive-unlabeled learning.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def main() -> None:
    """Entry point of the ``puarena`` command."""
    app(prog_name="puarena")


# options that several commands share

Source = Annotated[str, typer.Argument(metavar="SUITE|FILE", help="a suite (see 'list suites') or a YAML spec file")]
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="a results folder")]
Out = Annotated[Path, typer.Option(metavar="DIR", help="results folder; run again with the same one to go on")]
Device = Annotated[str, typer.Option(metavar="auto|cpu|cuda", help="where to train")]
Workers = Annotated[
    int | None,
    typer.Option(metavar="N", help="fleets trained side by side: processes on a CPU, streams on a GPU"),
]
Capture = Annotated[str, typer.Option(metavar="auto|off", help="on a GPU: replay captured steps")]
Data = Annotated[Path | None, typer.Option(metavar="DIR", help="folder that already has the datasets' files")]
AsJson = Annotated[bool, typer.Option("--json", help="print JSON")]
Plugins = Annotated[
    list[Path] | None, typer.Option("--plugin", metavar="FILE", help="a Python file with algorithms of your own")
]
Algorithms = Annotated[str | None, typer.Option(metavar="A,B", help="only these algorithms")]
Datasets = Annotated[str | None, typer.Option(metavar="A,B", help="these datasets (names or YAML files)")]
Cases = Annotated[str | None, typer.Option(metavar="1,2", help="these positive-class cases")]
Settings = Annotated[str | None, typer.Option(metavar="os,ts", help="one-sample, two-sample")]
Rates = Annotated[str | None, typer.Option(metavar="0.3,...", help="these positive rates")]
Priors = Annotated[str | None, typer.Option(metavar="0.5,...", help="these class priors")]
Splits = Annotated[int | None, typer.Option(metavar="N", help="data draws per problem")]
Configs = Annotated[int | None, typer.Option(metavar="N", help="configurations; the first is the default")]
Steps = Annotated[int | None, typer.Option(metavar="N", help="training steps")]
Profile = Annotated[
    str | None, typer.Option(metavar="definition|released", help="the definitions' choices, or the published code's")
]
Seed = Annotated[int | None, typer.Option(metavar="N", help="changes every random choice of training")]


def _many(text: str | None, name: str, read: Callable[[str], T]) -> list[T] | None:
    """The values of a comma-separated option."""
    if text is None:
        return None
    try:
        values = [read(part.strip()) for part in text.split(",") if part.strip()]
    except ValueError:
        raise UserError(f"--{name} takes numbers separated by commas, and '{text}' was given") from None
    if not values:
        raise UserError(f"--{name} needs at least one value")
    return values


def _spec(source: str, plugins: Iterable[Path] | None, lists: dict[str, str | None], numbers: dict[str, Any]) -> Spec:
    """The spec a command names, with its filters applied."""
    from puarena.bench.spec import Spec

    readers: dict[str, Callable[[str], Any]] = {"cases": int, "rates": float, "priors": float}
    values: dict[str, Any] = {name: _many(text, name, readers.get(name, str)) for name, text in lists.items()}
    spec = Spec.load(source)
    return spec.override(plugins=[str(path) for path in plugins or ()], **values, **numbers)


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="print the version")] = False) -> None:
    if version:
        typer.echo(f"puarena {__version__}")
        raise typer.Exit


@app.command()
def demo(out: Out = Path("puarena-demo"), device: Device = "auto", workers: Workers = None) -> None:
    """Run every algorithm on handwritten digits: a table in a minute or two, without network access."""
    from puarena import report

    how = {"device": device, "workers": workers}
    outcome = _execute(_spec("demo", None, {}, {}), out, how, f"'puarena demo --out {out}'")
    report.to_terminal(report.table(out))
    page = out / "page.html"
    report.write_page(out, page)
    typer.echo(
        f"\nThe same as a page: {page}\n"
        "Next: 'puarena list suites' shows the real experiments, 'puarena plan tabular' how long one takes here,\n"
        "'puarena list algorithms' what the rows are."
    )
    raise typer.Exit(1 if outcome.failures else 0)


@app.command("list")
def list_(
    what: Annotated[str, typer.Argument(metavar="algorithms|datasets|criteria|suites")], as_json: AsJson = False
) -> None:
    """List what there is."""
    from puarena.bench import listing

    if what not in listing.KINDS:
        raise unknown("list", what, listing.KINDS)
    if as_json:
        typer.echo(json.dumps(listing.KINDS[what](), indent=2))
    else:
        listing.show(what)


@app.command()
def explain(
    name: Annotated[str, typer.Argument(metavar="NAME", help="an algorithm; see 'list algorithms'")],
    plugin: Plugins = None,
) -> None:
    """Print an algorithm's objective, hyperparameters and differences from the published code."""
    from puarena import algorithms
    from puarena.algorithms.describe import explain as text

    for path in plugin or ():
        algorithms.load_plugin(path)
    typer.echo(text(name))


@app.command()
def check(
    target: Annotated[
        str, typer.Argument(metavar="FILE|NAME", help="a Python file with algorithms, or a registered name")
    ],
    device: Device = "cpu",
) -> None:
    """Check that an algorithm keeps the contract every algorithm of the benchmark keeps."""
    from puarena import algorithms, contract
    from puarena.bench.execute import choose_device

    names = algorithms.load_plugin(target) if target.endswith(".py") else [algorithms.get(target).name]
    broken = 0
    for name, promise, problem in contract.check_all(names, choose_device(device)):
        broken += problem is not None
        typer.echo(f"{name}: {'ok    ' if problem is None else 'BROKEN'} {promise}{f': {problem}' if problem else ''}")
    if broken:
        raise UserError(f"{broken} promise(s) of the contract do not hold; see the lines marked BROKEN")


@app.command()
def plan(
    source: Source,
    algorithms: Algorithms = None,
    datasets: Datasets = None,
    cases: Cases = None,
    settings: Settings = None,
    rates: Rates = None,
    priors: Priors = None,
    splits: Splits = None,
    configs: Configs = None,
    steps: Steps = None,
    seed: Seed = None,
    profile: Profile = None,
    plugin: Plugins = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Count runs and fleets, and measure how long they would take on this machine."""
    from puarena.bench.estimate import summarise
    from puarena.bench.plan import make_plan
    from puarena.bench.progress import spoken

    lists = _lists(algorithms, datasets, cases, settings, rates, priors)
    numbers = {"splits": splits, "configs": configs, "steps": steps, "seed": seed, "profile": profile}
    made = make_plan(_spec(source, plugin, lists, numbers))
    summary = summarise(made, device)
    _notes(made.notes)
    if as_json:
        typer.echo(json.dumps(summary))
        return
    typer.echo(
        f"{made.spec.name}: {summary['runs']:,} runs in {summary['fleets']:,} fleets, {summary['steps']:,} steps; "
        f"about {spoken(summary['seconds'])} on this machine"
    )


@app.command()
def run(
    source: Source,
    out: Out,
    algorithms: Algorithms = None,
    datasets: Datasets = None,
    cases: Cases = None,
    settings: Settings = None,
    rates: Rates = None,
    priors: Priors = None,
    splits: Splits = None,
    configs: Configs = None,
    steps: Steps = None,
    seed: Seed = None,
    profile: Profile = None,
    plugin: Plugins = None,
    device: Device = "auto",
    data: Data = None,
    workers: Workers = None,
    capture: Capture = "auto",
) -> None:
    """Run what is missing of an experiment, and nothing else."""
    if capture not in ("auto", "off"):
        raise UserError(f"--capture is '{capture}'; choose one of: auto, off")
    lists = _lists(algorithms, datasets, cases, settings, rates, priors)
    numbers = {"splits": splits, "configs": configs, "steps": steps, "seed": seed, "profile": profile}
    spec = _spec(source, plugin, lists, numbers)
    how = {"device": device, "data": data, "workers": workers, "capture": capture == "auto"}
    outcome = _execute(spec, out, how, "the same command")
    typer.echo(f"results in {out}; next: puarena report {out}")
    raise typer.Exit(1 if outcome.failures else 0)


@app.command()
def status(folder: Folder, as_json: AsJson = False) -> None:
    """Say how many runs of a results folder are done, failed and missing."""
    from puarena.bench.plan import make_plan
    from puarena.bench.spec import Spec
    from puarena.bench.store import Store

    store = Store.open(folder)
    counts = store.status(make_plan(Spec.load(store.spec)).run_ids)
    if as_json:
        typer.echo(json.dumps(counts))
        return
    typer.echo("  ".join(f"{name} {count}" for name, count in counts.items()))
    for reason in dict.fromkeys(store.failed().values()):
        typer.echo(f"failed: {reason}")


@app.command()
def report(
    folder: Folder,
    markdown: Annotated[Path | None, typer.Option(metavar="F", help="write a Markdown table")] = None,
    latex: Annotated[Path | None, typer.Option(metavar="F", help="write a LaTeX table")] = None,
    csv: Annotated[Path | None, typer.Option(metavar="F", help="write a CSV table")] = None,
    html: Annotated[Path | None, typer.Option(metavar="F", help="write the page")] = None,
    metric: Annotated[str | None, typer.Option(metavar="M,N", help="test metrics to show")] = None,
    criterion: Annotated[str | None, typer.Option(metavar="C,D", help="criteria that choose the models")] = None,
    error: Annotated[str, typer.Option(metavar="std|stderr", help="what stands after the ±")] = "stderr",
) -> None:
    """Choose models by the stored curves and print the table."""
    from puarena import report as reports

    metrics, criteria = _many(metric, "metric", str), _many(criterion, "criterion", str)
    spread: Any = error  # checked where the table is made
    table = reports.table(folder, metrics=metrics, criteria=criteria, error=spread)
    reports.to_terminal(table)
    for path, render in ((markdown, reports.to_markdown), (latex, reports.to_latex), (csv, reports.to_csv)):
        if path is not None:
            render(table, path)
    if html is not None:
        reports.write_page(folder, html, metrics=metrics, criteria=criteria, error=spread)
    for path in (markdown, latex, csv, html):
        if path is not None:
            typer.echo(f"wrote {path}", err=True)


def _lists(*texts: str | None) -> dict[str, str | None]:
    return dict(zip(("algorithms", "datasets", "cases", "settings", "rates", "priors"), texts, strict=True))


def _notes(notes: Iterable[str]) -> None:
    for note in notes:
        typer.echo(f"note: {note}", err=True)


def _execute(spec: Spec, out: Path, how: dict[str, Any], again: str) -> Outcome:
    """Run a spec with live progress and say what failed; an interrupt ends the command."""
    from puarena.bench.execute import run as execute
    from puarena.bench.progress import for_terminal

    try:
        outcome = execute(spec, out, progress=for_terminal(), **how)
    except KeyboardInterrupt:
        typer.echo(f"interrupted; every finished fleet is kept in {out}: run {again} to go on", err=True)
        raise typer.Exit(130) from None
    _notes(outcome.notes)
    if outcome.found:
        _notes([f"{outcome.found} of {outcome.planned} runs were there already"])
    for failure in outcome.failures:
        typer.echo(f"failed: {failure.label}, {failure.runs} runs: {failure.reason}", err=True)
    if outcome.failures:
        typer.echo(f"run {again} to try the failed fleets again", err=True)
    return outcome


# datasets

data_app = typer.Typer(help="List, download and check datasets.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(data_app, name="data")
Names = Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="datasets; all if none is named")]


@data_app.command("list")
def data_list(names: Names = None, data: Data = None) -> None:
    """List the datasets and which of their files are here."""
    from puarena import data as room

    for name in names or room.names():
        info, files = room.info(name), room.verify(name, data)
        here = sum(file.path is not None for file in files)
        typer.echo(f"{name:<12}{f'{here} of {len(files)} files here' if files else 'embedded':<22}{info.title}")


@data_app.command("fetch")
def data_fetch(names: Names = None, data: Data = None) -> None:
    """Download what is missing, checked before it is kept."""
    from puarena import data as room

    for name in names or room.names():
        paths = room.fetch(name, data)
        typer.echo(f"{name}: {', '.join(str(path) for path in paths) or 'embedded, nothing to download'}")


@data_app.command("verify")
def data_verify(names: Names = None, data: Data = None) -> None:
    """Check the files that are here against their checksums."""
    from puarena import data as room

    bad: list[str] = []
    for name in names or room.names():
        for file in room.verify(name, data):
            typer.echo(f"{name:<12}{file.status:<20}{file.path or file.file}")
            if file.status == "wrong checksum" or (names and file.status == "missing"):
                bad.append(f"'{file.path or file.file}' of {name}: {file.status}")
    if bad:
        raise UserError(f"{len(bad)} file(s) are not as published: {'; '.join(bad)}")
