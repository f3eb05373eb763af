"""Commands that plan and run experiments: demo, plan, run, status."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from puarena.cli import options as opt
from puarena.cli.options import many
from puarena.errors import UserError

if TYPE_CHECKING:
    from puarena.bench.run import Outcome
    from puarena.bench.spec import Spec

LISTS = ("algorithms", "datasets", "cases", "settings", "rates", "priors", "prior")  # options with commas
NUMBERS: dict[str, Callable[[str], Any]] = {"cases": int, "rates": float, "priors": float}


@dataclass
class Experiment:
    """The argument and the options that say what to run: the same for every command that takes an experiment."""

    source: opt.Source
    algorithms: opt.Algorithms = None
    datasets: opt.Datasets = None
    cases: opt.Cases = None
    settings: opt.Settings = None
    rates: opt.Rates = None
    priors: opt.Priors = None
    splits: opt.Splits = None
    configs: opt.Configs = None
    steps: opt.Steps = None
    seed: opt.Seed = None
    profile: opt.Profile = None
    network: opt.Network = None
    precision: opt.Precision = None
    prior: opt.PriorSource = None
    plugin: opt.Plugins = None

    def spec(self) -> Spec:
        """The spec that is named, with the options applied."""
        from puarena.bench import suites
        from puarena.bench.values import TRUE_PRIOR

        changes = asdict(self)
        for name in LISTS:
            changes[name] = many(changes[name], name, NUMBERS.get(name, str))
        source, plugins, priors = (changes.pop(name) for name in ("source", "plugin", "prior"))
        if priors is not None:  # an estimated prior is run next to the true one
            changes["prior_source"] = tuple(dict.fromkeys((TRUE_PRIOR, *priors)))
        return suites.load(source).override(plugins=[str(path) for path in plugins or ()], **changes)


def on_experiment(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of an experiment in the place of its first parameter, which is that experiment.

    They stand after what the command itself requires and before its own options.
    """
    source, *filters = inspect.signature(Experiment, eval_str=True).parameters.values()
    _, *own = inspect.signature(command, eval_str=True).parameters.values()
    required = [parameter for parameter in own if parameter.default is inspect.Parameter.empty]
    optional = [parameter for parameter in own if parameter not in required]

    @wraps(command)
    def with_options(**values: Any) -> None:
        chosen = {option.name: values.pop(option.name) for option in (source, *filters)}
        command(Experiment(**chosen), **values)

    signature = inspect.Signature([source, *required, *filters, *optional])
    with_options.__signature__ = signature  # type: ignore[attr-defined]
    with_options.__annotations__ = {name: parameter.annotation for name, parameter in signature.parameters.items()}
    return with_options


def demo(out: opt.Out = Path("puarena-demo"), device: opt.Device = "auto", workers: opt.Workers = None) -> None:
    """Run every algorithm on handwritten digits: a table in a minute or two, without network access."""
    from puarena import report

    how = {"device": device, "workers": workers}
    outcome = run_spec(Experiment("demo").spec(), out, how, f"'puarena demo --out {out}'")
    report.to_terminal(report.table(out))
    page = out / "page.html"
    report.write_page(out, page)
    typer.echo(
        f"\nThe same as a page: {page}\n"
        "Next: 'puarena list suites' shows the real experiments, 'puarena plan tabular' how long one takes here,\n"
        "'puarena list algorithms' what the rows are."
    )
    raise typer.Exit(exit_code(outcome, out))


@on_experiment
def plan(experiment: Experiment, device: opt.Device = "auto", as_json: opt.AsJson = False) -> None:
    """Count runs and fleets, and measure how long they would take on this machine."""
    from puarena.bench.duration import summarise
    from puarena.bench.plan import make_plan
    from puarena.bench.progress import in_words
    from puarena.bench.sources import DataSource

    plan = make_plan(experiment.spec())
    DataSource(plan).check_present()
    summary = summarise(plan, device)
    say_notes(plan.notes)
    if as_json:
        typer.echo(json.dumps(summary))
        return
    typer.echo(
        f"{plan.spec.name}: {summary['runs']:,} runs in {summary['fleets']:,} fleets, {summary['steps']:,} steps; "
        f"about {in_words(summary['seconds'])} on this machine"
    )


@on_experiment
def run(
    experiment: Experiment,
    out: opt.Out,
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
    how = {"device": device, "data": data, "workers": workers, "fleet_size": fleet_size, "capture": capture == "auto"}
    outcome = run_spec(experiment.spec(), out, {**how, "checkpoint_every": checkpoint_every}, "the same command")
    typer.echo(
        f"results in {out}; next: puarena report {out}" + "".join(f" --plugin {p}" for p in experiment.plugin or ())
    )
    raise typer.Exit(exit_code(outcome, out))


def status(
    folder: opt.Folder,
    watch: Annotated[bool, typer.Option("--watch", help="keep showing it until nothing is missing")] = False,
    as_json: opt.AsJson = False,
) -> None:
    """Say how many runs of a results folder are done, diverged, running, failed and missing."""
    from puarena.bench import status as standing
    from puarena.store import open_store

    store = open_store(folder)
    if as_json:
        typer.echo(json.dumps(standing.standing(store).counts))
    elif watch:
        standing.watch(store)
    else:
        standing.show(store)


def say_notes(notes: Iterable[str]) -> None:
    for note in notes:
        typer.echo(f"note: {note}", err=True)


def run_spec(spec: Spec, out: Path, how: dict[str, Any], again: str) -> Outcome:
    """Run a spec with live progress and say what failed; an interrupt ends the command."""
    from puarena.bench import run as bench

    try:
        outcome = bench.run(spec, out, **how)
    except KeyboardInterrupt:
        typer.echo(f"interrupted; finished fleets and last states are kept in {out}: run {again} to go on", err=True)
        raise typer.Exit(130) from None
    say_notes(outcome.notes)
    if outcome.stored:
        say_notes([f"{outcome.stored} of {outcome.planned} runs were there already"])
    for failure in outcome.failures:
        typer.echo(f"failed: {failure.label}, {failure.runs} runs: {failure.reason}", err=True)
    if outcome.failures:
        typer.echo(f"run {again} to try the failed fleets again", err=True)
    return outcome


def exit_code(outcome: Outcome, out: Path) -> int:
    """1 if fleets failed, 3 if every run diverged; how many did is said."""
    from puarena.store import open_store

    store = open_store(out)
    outcomes = store.outcomes()
    diverged = len(store.diverged(outcomes))
    if diverged:
        typer.echo(f"{diverged:,} of {len(outcomes):,} runs diverged: 'puarena report {out}' says which", err=True)
    return 1 if outcome.failures else 3 if diverged and diverged == len(outcomes) else 0


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    for command in (demo, plan, run, status):
        app.command()(command)
