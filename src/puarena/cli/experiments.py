"""Commands that plan and run experiments: demo, plan, run, status."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from puarena.cli import options as opt
from puarena.cli.options import many
from puarena.errors import UserError

if TYPE_CHECKING:
    from puarena.bench.execute import Outcome
    from puarena.bench.spec import Spec


def make_spec(
    source: str, plugins: Iterable[Path] | None, lists: dict[str, str | None], numbers: dict[str, Any]
) -> Spec:
    """The spec a command names, with its filters applied."""
    from puarena.bench.spec import Spec

    readers: dict[str, Callable[[str], Any]] = {"cases": int, "rates": float, "priors": float}
    values: dict[str, Any] = {name: many(text, name, readers.get(name, str)) for name, text in lists.items()}
    spec = Spec.load(source)
    return spec.override(plugins=[str(path) for path in plugins or ()], **values, **numbers)


def demo(out: opt.Out = Path("puarena-demo"), device: opt.Device = "auto", workers: opt.Workers = None) -> None:
    """Run every algorithm on handwritten digits: a table in a minute or two, without network access."""
    from puarena import report

    how = {"device": device, "workers": workers}
    outcome = execute_spec(make_spec("demo", None, {}, {}), out, how, f"'puarena demo --out {out}'")
    report.to_terminal(report.table(out))
    page = out / "page.html"
    report.write_page(out, page)
    typer.echo(
        f"\nThe same as a page: {page}\n"
        "Next: 'puarena list suites' shows the real experiments, 'puarena plan tabular' how long one takes here,\n"
        "'puarena list algorithms' what the rows are."
    )
    raise typer.Exit(1 if outcome.failures else 0)


def plan(
    source: opt.Source,
    algorithms: opt.Algorithms = None,
    datasets: opt.Datasets = None,
    cases: opt.Cases = None,
    settings: opt.Settings = None,
    rates: opt.Rates = None,
    priors: opt.Priors = None,
    splits: opt.Splits = None,
    configs: opt.Configs = None,
    steps: opt.Steps = None,
    seed: opt.Seed = None,
    profile: opt.Profile = None,
    network: opt.Network = None,
    precision: opt.Precision = None,
    prior: opt.PriorSource = None,
    plugin: opt.Plugins = None,
    device: opt.Device = "auto",
    as_json: opt.AsJson = False,
) -> None:
    """Count runs and fleets, and measure how long they would take on this machine."""
    from puarena.bench.duration import summarise
    from puarena.bench.plan import make_plan
    from puarena.bench.progress import spoken

    lists = lists_of(algorithms, datasets, cases, settings, rates, priors)
    numbers = numbers_of(splits, configs, steps, seed, profile, network, precision, prior_sources(prior))
    made = make_plan(make_spec(source, plugin, lists, numbers))
    summary = summarise(made, device)
    say_notes(made.notes)
    if as_json:
        typer.echo(json.dumps(summary))
        return
    typer.echo(
        f"{made.spec.name}: {summary['runs']:,} runs in {summary['fleets']:,} fleets, {summary['steps']:,} steps; "
        f"about {spoken(summary['seconds'])} on this machine"
    )


def run(
    source: opt.Source,
    out: opt.Out,
    algorithms: opt.Algorithms = None,
    datasets: opt.Datasets = None,
    cases: opt.Cases = None,
    settings: opt.Settings = None,
    rates: opt.Rates = None,
    priors: opt.Priors = None,
    splits: opt.Splits = None,
    configs: opt.Configs = None,
    steps: opt.Steps = None,
    seed: opt.Seed = None,
    profile: opt.Profile = None,
    network: opt.Network = None,
    precision: opt.Precision = None,
    prior: opt.PriorSource = None,
    plugin: opt.Plugins = None,
    device: opt.Device = "auto",
    data: opt.Data = None,
    workers: opt.Workers = None,
    fleet_size: opt.FleetSize = None,
    capture: opt.Capture = "auto",
    checkpoint_every: opt.CheckpointEvery = 180.0,
) -> None:
    """Run what is missing of an experiment, and nothing else."""
    if capture not in ("auto", "off"):
        raise UserError(f"--capture is '{capture}'; choose one of: auto, off")
    lists = lists_of(algorithms, datasets, cases, settings, rates, priors)
    numbers = numbers_of(splits, configs, steps, seed, profile, network, precision, prior_sources(prior))
    spec = make_spec(source, plugin, lists, numbers)
    how = {"device": device, "data": data, "workers": workers, "max_runs": fleet_size, "capture": capture == "auto"}
    outcome = execute_spec(spec, out, {**how, "checkpoint_every": checkpoint_every}, "the same command")
    typer.echo(f"results in {out}; next: puarena report {out}")
    raise typer.Exit(1 if outcome.failures else 0)


def status(
    folder: opt.Folder,
    watch: Annotated[bool, typer.Option("--watch", help="keep showing it until nothing is missing")] = False,
    as_json: opt.AsJson = False,
) -> None:
    """Say how many runs of a results folder are done, running, failed and missing."""
    from puarena.bench import status as standing
    from puarena.store import open_store

    store = open_store(folder)
    if as_json:
        typer.echo(json.dumps(standing.standing(store).counts))
    elif watch:
        standing.watch(store)
    else:
        standing.show(store)


def lists_of(*texts: str | None) -> dict[str, str | None]:
    return dict(zip(("algorithms", "datasets", "cases", "settings", "rates", "priors"), texts, strict=True))


def numbers_of(*values: Any) -> dict[str, Any]:
    names = ("splits", "configs", "steps", "seed", "profile", "network", "precision", "prior_source")
    return dict(zip(names, values, strict=True))


def prior_sources(text: str | None) -> tuple[str, ...] | None:
    """An estimated prior is run next to the true one."""
    given = many(text, "prior", str)
    return None if given is None else tuple(dict.fromkeys(("true", *given)))


def say_notes(notes: Iterable[str]) -> None:
    for note in notes:
        typer.echo(f"note: {note}", err=True)


def execute_spec(spec: Spec, out: Path, how: dict[str, Any], again: str) -> Outcome:
    """Run a spec with live progress and say what failed; an interrupt ends the command."""
    from puarena.bench.execute import run as execute
    from puarena.bench.progress import for_terminal

    try:
        outcome = execute(spec, out, progress=for_terminal(), **how)
    except KeyboardInterrupt:
        typer.echo(f"interrupted; finished fleets and last states are kept in {out}: run {again} to go on", err=True)
        raise typer.Exit(130) from None
    say_notes(outcome.notes)
    if outcome.found:
        say_notes([f"{outcome.found} of {outcome.planned} runs were there already"])
    for failure in outcome.failures:
        typer.echo(f"failed: {failure.label}, {failure.runs} runs: {failure.reason}", err=True)
    if outcome.failures:
        typer.echo(f"run {again} to try the failed fleets again", err=True)
    return outcome


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    for command in (demo, plan, run, status):
        app.command()(command)
