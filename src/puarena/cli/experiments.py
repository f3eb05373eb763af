"""Commands that plan and run experiments: demo, plan, run, status, doctor."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from puarena.cli import options as opt
from puarena.cli.manners import answer, complain, manners, say
from puarena.cli.options import many
from puarena.errors import UserError

if TYPE_CHECKING:
    from puarena.experiments.run import Outcome
    from puarena.experiments.spec import Spec

LISTS = (
    "algorithms",
    "datasets",
    "cases",
    "settings",
    "rates",
    "priors",
    "labeling",
    "prior",
)  # options with commas
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
    labeling: opt.Labeling = None
    splits: opt.Splits = None
    configs: opt.Configs = None
    steps: opt.Steps = None
    seed: opt.Seed = None
    profile: opt.Profile = None
    network: opt.Network = None
    precision: opt.Precision = None
    optimizer: opt.Optimizer = None
    prior: opt.PriorSource = None
    plugin: opt.Plugins = None

    def spec(self) -> Spec:
        """The spec that is named, with the options applied."""
        from puarena.experiments import suites
        from puarena.experiments.spec import TRUE_PRIOR

        changes = asdict(self)
        for name in LISTS:
            changes[name] = many(changes[name], name, NUMBERS.get(name, str))
        source, plugins, priors = (changes.pop(name) for name in ("source", "plugin", "prior"))
        if priors is not None:  # an estimated prior is run next to the true one
            changes["prior_source"] = tuple(dict.fromkeys((TRUE_PRIOR, *priors)))
        return suites.load(source).override(
            plugins=[str(path) for path in plugins or ()], **changes
        )


def on_experiment(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of an experiment in the place of its first parameter, which is that experiment.

    They stand after what the command itself requires and before its own options. ``**how`` stands for all that
    executors may be told.
    """
    source, *filters = inspect.signature(Experiment, eval_str=True).parameters.values()
    _, *own = inspect.signature(command, eval_str=True).parameters.values()
    if own[-1].kind is inspect.Parameter.VAR_KEYWORD:
        own = [*own[:-1], *opt.engine_options()]
    required = [parameter for parameter in own if parameter.default is inspect.Parameter.empty]
    optional = [parameter for parameter in own if parameter not in required]

    @wraps(command)
    def with_options(**values: Any) -> None:
        chosen = {option.name: values.pop(option.name) for option in (source, *filters)}
        command(Experiment(**chosen), **values)

    signature = inspect.Signature([source, *required, *filters, *optional])
    with_options.__signature__ = signature  # type: ignore[attr-defined]
    with_options.__annotations__ = {
        name: parameter.annotation for name, parameter in signature.parameters.items()
    }
    return with_options


def demo(
    out: opt.Out = Path("puarena-demo"),
    algorithms: opt.Algorithms = None,
    steps: opt.Steps = None,
    device: opt.Device = "auto",
    workers: opt.Workers = None,
) -> None:
    """Run every algorithm on handwritten digits: a table in a minute or two, without network access."""
    from puarena import report

    how = {"device": device, "workers": workers}
    spec = Experiment("demo", algorithms=algorithms, steps=steps).spec()
    outcome = run_spec(spec, out, how, "the same command")
    report.to_terminal(report.table(out))
    page = out / "page.html"
    report.write_page(out, page)
    typer.echo(f"\nThe same as a page: {page}")
    if not manners.quiet:
        typer.echo(
            "Next: 'puarena list suites' shows the real experiments, 'puarena plan tabular' how long one takes here,\n"
            "'puarena list algorithms' what the rows are."
        )
    raise typer.Exit(exit_code(outcome, out))


@on_experiment
def plan(
    experiment: Experiment,
    device: opt.Device = "auto",
    data: opt.Data = None,
    workers: opt.Workers = None,
    engine: opt.Engine = None,
    gpus: opt.GPUCount = None,
    gpus_per_fleet: opt.GPUsPerFleet = None,
    as_json: opt.AsJson = False,
) -> None:
    """Count runs and fleets, and measure how long they would take on this machine, or on several like it."""
    from puarena.experiments.duration import summarize
    from puarena.experiments.plan import make_plan
    from puarena.experiments.progress import in_words

    if gpus is not None and not (gpus.isdecimal() and int(gpus)):
        raise UserError(f"--gpus is '{gpus}'; for a plan give how many there are, 1 or more")
    plan = make_plan(experiment.spec())
    summary = summarize(
        plan, device, data, workers, engine, gpus=gpus, gpus_per_fleet=gpus_per_fleet
    )
    say_notes(plan.notes)
    if as_json:
        answer(summary)
        return
    others = _machines(engine, gpus, summary["device"])
    where = "on this machine" if engine is None and gpus is None else f"with {others}"
    typer.echo(
        f"{plan.spec.name}: {summary['runs']:,} runs in {summary['fleets']:,} fleets, {summary['steps']:,} steps; "
        f"about {in_words(summary['seconds'])} {where}"
    )


def _machines(engine: str | None, gpus: str | None, device: str) -> str:
    """``ray on 8 GPUs like this one``; what was measured without one is no such figure."""
    like = (
        "like this one"
        if device == "cuda"
        else "if each did what one core does here, where none is to be measured"
    )
    return " on ".join(part for part in (engine, gpus and f"{gpus} GPUs {like}") if part)


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
    retry_failed: opt.RetryFailed = False,
    stop_after: opt.For = None,
    engine: opt.Engine = None,
    as_json: opt.AsJson = False,
    **how: Any,
) -> None:
    """Run what is missing of an experiment, and nothing else."""
    if capture not in ("auto", "off"):
        raise UserError(f"--capture is '{capture}'; choose one of: auto, off")
    how = opt.engine_values(how) | {
        "device": device,
        "data": data,
        "workers": workers,
        "fleet_size": fleet_size,
        "capture": capture == "auto",
        "checkpoint_every": checkpoint_every,
        "retry_failed": retry_failed,
        "seconds": opt.seconds(stop_after, "for"),
        "engine": engine,
    }
    outcome = run_spec(experiment.spec(), out, how, "the same command")
    if as_json:
        answer(outcome)
    if outcome.stopped:
        say(
            f"stopped, as {outcome.stopped}; finished fleets and last states are kept: run the same command to continue"
        )
        raise typer.Exit(3)
    plugins = "".join(f" --plugin {path}" for path in experiment.plugin or ())
    if not as_json and not manners.quiet:
        tell(f"results in {out}; next: puarena report {out}{plugins}")
    raise typer.Exit(exit_code(outcome, out))


def status(
    folder: opt.Folder,
    watch: Annotated[
        bool, typer.Option("--watch", help="keep showing it until nothing is missing")
    ] = False,
    as_json: opt.AsJson = False,
) -> None:
    """Say how many runs of a results folder are done, diverged, running, failed and missing."""
    from puarena.experiments import status as standing
    from puarena.results import open_results

    store = open_results(folder)
    if as_json:
        answer(standing.standing(store).counts)
    elif watch:
        standing.watch(store)
    else:
        standing.show(store)


def doctor(
    folder: opt.Folder,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair", help="move damaged files aside, to be computed again by the next 'run'"
        ),
    ] = False,
    as_json: opt.AsJson = False,
) -> None:
    """Check every file of a results folder: checksums, columns, and runs against the plan. Exit code 1: damage."""
    from puarena.experiments.doctor import examine

    report = examine(folder, repair)
    if as_json:
        answer(report)
    else:
        for finding in report.findings:
            typer.echo(
                f"{finding.file}: {finding.what}"
                + (f"; moved to {finding.moved}" if finding.moved else "")
            )
        typer.echo(report.line)
    raise typer.Exit(1 if any(not finding.moved for finding in report.findings) else 0)


def tell(text: str) -> None:
    """Say what comes of hours of training; that nobody reads it any more (``| head``) does not make it a failure."""
    try:
        typer.echo(text)
    except OSError:
        with suppress(OSError):
            os.dup2(
                os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
            )  # what is left of it goes nowhere


def say_notes(notes: Iterable[str]) -> None:
    for note in notes:
        say(f"note: {note}")


def run_spec(spec: Spec, out: Path, how: dict[str, Any], again: str) -> Outcome:
    """Run a spec with live progress and say what failed; an interrupt ends the command."""
    from puarena.experiments import run as bench
    from puarena.experiments.progress import for_terminal

    live = False if manners.quiet else for_terminal(thorough=manners.verbose)
    try:
        outcome = bench.run(spec, out, progress=live, **how)
    except KeyboardInterrupt as interrupt:
        why = f" by {interrupt.args[0]}" if interrupt.args else ""
        complain(
            f"interrupted{why}; finished fleets and last states are kept in {out}: run {again} to continue"
        )
        raise typer.Exit(getattr(interrupt, "code", 130)) from None
    say_notes(outcome.notes)
    if outcome.stored:
        say_notes([f"{outcome.stored} of {outcome.planned} runs were already there"])
    if outcome.elsewhere:
        say_notes([f"{outcome.elsewhere} runs were computed by other processes meanwhile"])
    for failure in outcome.failures:
        complain(f"failed: {failure.label}, {failure.runs} runs: {failure.reason}")
    if outcome.failures:
        complain(f"run {again} with --retry-failed to try the failed fleets again")
    elif outcome.failed_before:
        say(
            f"{outcome.failed_before} runs failed before ('puarena status {out}'); --retry-failed tries them again"
        )
    return outcome


def exit_code(outcome: Outcome, out: Path) -> int:
    """1 if fleets failed, 4 if every run diverged; how many did is said."""
    from puarena.results import open_results

    store = open_results(out)
    outcomes = store.outcomes()
    diverged = len(store.diverged(outcomes))
    if diverged:
        say(f"{diverged:,} of {len(outcomes):,} runs diverged: 'puarena report {out}' says which")
    return (
        1
        if outcome.failures or outcome.failed_before
        else 4
        if diverged and diverged == len(outcomes)
        else 0
    )


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    for command in (demo, plan, run, status, doctor):
        app.command()(command)
