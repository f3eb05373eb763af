"""Commands that plan and run experiments: demo, plan, run, status, doctor."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from puarena.cli import options as opt
from puarena.cli.output import App, emit, log, open_console

if TYPE_CHECKING:
    from puarena.experiments.progress import ConsoleProgress
    from puarena.experiments.run import Outcome
    from puarena.experiments.spec import Spec

EXIT_FAILED, EXIT_STOPPED, EXIT_DIVERGED = 1, 3, 4
MAX_SECONDS = 90 * 86_400  # a plan that takes longer is not one for these machines
INTERRUPTED = 130  # 128 and the number of SIGINT
NEXT_STEPS = """\
next: 'puarena list suites' shows the real experiments, 'puarena plan tabular' how long one takes,
'puarena list algorithms' what the rows are"""

app = App()


@app.command()
def demo(
    ctx: typer.Context,
    out: opt.Out = Path("puarena-demo"),
    algorithms: opt.Algorithms = None,
    steps: opt.Steps = None,
    device: opt.Device = "auto",
    workers: opt.Workers = None,
) -> None:
    """Run every algorithm on handwritten digits: a table in minutes, without network access."""
    from puarena import report
    from puarena.experiments import suites

    spec = suites.get("demo").override(algorithms=algorithms, steps=steps)
    outcome = _train(ctx, spec, out, {"device": device, "workers": workers})
    page = out / "page.html"
    report.write_page(out, page)
    tables = report.table(out)
    emit(ctx, outcome, lambda console: report.to_terminal(tables, console))
    log.info(f"wrote {page}")
    log.info(NEXT_STEPS)
    raise typer.Exit(_exit_code(outcome))


@app.command()
@opt.add_spec_options
def plan(
    ctx: typer.Context,
    source: opt.Source,
    parameters: opt.Parameters = None,
    device: opt.Device = "auto",
    data: opt.Data = None,
    workers: opt.Workers = None,
    engine: opt.Engine = None,
    gpus: Annotated[
        int | None, typer.Option("--gpus", metavar="N", min=1, help="as if there were N GPUs")
    ] = None,
    **spec_options: Any,
) -> None:
    """Count runs and fleets, and measure how long they take on this machine, or on several."""
    from puarena.experiments.duration import summarize
    from puarena.experiments.plan import make_plan
    from puarena.experiments.progress import format_duration

    changes = opt.read_parameters(parameters)
    share = changes.pop("gpus_per_fleet", None)
    plan = make_plan(opt.read_spec(source, spec_options, changes))
    count = None if gpus is None else str(gpus)
    options = {"workers": workers, "gpus": count, "gpus_per_fleet": share}
    summary = summarize(plan, device, data, engine, **options)
    _log_notes(plan.notes)
    machines = _describe_machines(engine, gpus, summary["device"])
    low, high = summary["seconds_low"], summary["seconds_high"]
    span = format_duration(low, high)
    text = (
        f"{plan.spec.name}: {summary['runs']:,} runs in {summary['fleets']:,} fleets, "
        f"{summary['steps']:,} steps; "
    )
    if low > MAX_SECONDS:
        text += f"not {machines}: it would take {span}"
    else:
        text += f"about {span} {machines}"
    if fits := summary["fits_not_measured"]:
        text += f", and the time of {fits:,} fits of classics and guests, which is not measured"
    emit(ctx, summary, text)


def _describe_machines(engine: str | None, gpus: int | None, device: str) -> str:
    """Return where a plan takes so long; a GPU that is not there cannot be measured."""
    if engine is None and gpus is None:
        return "on this machine"
    parts = [] if engine is None else [engine]
    if gpus is not None:
        speed = "like this one" if device == "cuda" else "as fast as one core of this machine"
        parts.append(f"{gpus} GPUs {speed}")
    return f"with {' on '.join(parts)}"


@app.command()
@opt.add_spec_options
def run(
    ctx: typer.Context,
    source: opt.Source,
    out: opt.Out,
    parameters: opt.Parameters = None,
    device: opt.Device = "auto",
    data: opt.Data = None,
    workers: opt.Workers = None,
    fleet_size: opt.FleetSize = None,
    engine: opt.Engine = None,
    gpus: opt.GPUs = None,
    retry_failed: opt.RetryFailed = False,
    stop_after: opt.StopAfter = None,
    **spec_options: Any,
) -> None:
    """Run what is missing of an experiment, and nothing else."""
    options = {
        "device": device,
        "data": data,
        "workers": workers,
        "fleet_size": fleet_size,
        "engine": engine,
        "gpus": gpus,
        "retry_failed": retry_failed,
        "seconds": stop_after,
        **opt.read_parameters(parameters),
    }
    outcome = _train(ctx, opt.read_spec(source, spec_options, {}), out, options)
    emit(ctx, outcome, None)
    if outcome.stopped:
        log.info(f"stopped: {outcome.stopped}; run the same command to continue")
        raise typer.Exit(EXIT_STOPPED)
    log.info(f"results in {out}; next: puarena report {out}")
    raise typer.Exit(_exit_code(outcome))


@app.command()
def status(
    ctx: typer.Context,
    folder: opt.Folder,
    watch: Annotated[
        bool, typer.Option("--watch", help="update the display until nothing is missing")
    ] = False,
) -> None:
    """Count the runs of a results folder: done, diverged, running, failed and missing."""
    from puarena.experiments import status as statuses
    from puarena.results import open_results

    store = open_results(folder)
    if watch and not ctx.obj.json:
        statuses.watch(store, console=open_console())
        return
    emit(ctx, statuses.read_status(store).counts, lambda console: statuses.show(store, console))


@app.command()
def doctor(
    ctx: typer.Context,
    folder: opt.Folder,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair", help="move damaged files aside; the next 'run' computes them again"
        ),
    ] = False,
) -> None:
    """Check every file of a results folder: checksums, columns, and runs against the plan.

    The exit code is 1 if files are damaged.
    """
    from puarena.experiments.doctor import examine

    report = examine(folder, repair)
    lines = []
    for finding in report.findings:
        moved = f"; moved to {finding.moved}" if finding.moved else ""
        lines.append(f"{finding.file}: {finding.what}{moved}")
    emit(ctx, report, "\n".join([*lines, report.line]))
    damaged = any(not finding.moved for finding in report.findings)
    raise typer.Exit(EXIT_FAILED if damaged else 0)


def make_progress(ctx: typer.Context) -> ConsoleProgress | None:
    """Return the live progress on stderr; None with ``--quiet``."""
    from puarena.experiments.progress import ConsoleProgress

    if ctx.obj.quiet:
        return None
    return ConsoleProgress(open_console(stderr=True), ctx.obj.verbose)


def _train(ctx: typer.Context, spec: Spec, out: Path, options: dict[str, Any]) -> Outcome:
    """Run a spec with live progress, and log what was left out and what failed."""
    from puarena.experiments import run as experiments

    progress = make_progress(ctx)
    try:
        outcome = experiments.run(**(options | {"spec": spec, "out": out, "progress": progress}))
    except KeyboardInterrupt as interrupt:
        by = f" by {interrupt.args[0]}" if interrupt.args else ""
        log.error(
            f"interrupted{by}; finished fleets and checkpoints are kept in {out}: run the same "
            "command to continue"
        )
        raise typer.Exit(getattr(interrupt, "code", INTERRUPTED)) from None
    _log_outcome(outcome)
    return outcome


def _log_outcome(outcome: Outcome) -> None:
    _log_notes(outcome.notes)
    if outcome.stored:
        _log_notes([f"{outcome.stored} of {outcome.planned} runs were already there"])
    if outcome.elsewhere:
        _log_notes([f"{outcome.elsewhere} runs were computed by other processes meanwhile"])
    for failure in outcome.failures:
        log.error(f"failed: {failure.label}, {failure.runs} runs: {failure.reason}")
    if outcome.failures:
        log.error("run the same command with --retry-failed to try the failed fleets again")
    elif outcome.failed_before:
        log.info(
            f"{outcome.failed_before} runs failed before ('puarena status {outcome.out}'); "
            "--retry-failed tries them again"
        )


def _log_notes(notes: list[str] | tuple[str, ...]) -> None:
    for note in notes:
        log.info(f"note: {note}")


def _exit_code(outcome: Outcome) -> int:
    """Return 1 if fleets failed, 4 if every run diverged, and log how many diverged."""
    from puarena.results import open_results

    store = open_results(outcome.out)
    outcomes = store.outcomes()
    diverged = len(store.diverged(outcomes))
    if diverged:
        log.info(
            f"{diverged:,} of {len(outcomes):,} runs diverged: 'puarena report {outcome.out}' "
            "lists them"
        )
    if outcome.failures or outcome.failed_before:
        return EXIT_FAILED
    return EXIT_DIVERGED if diverged and diverged == len(outcomes) else 0
