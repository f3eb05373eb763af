"""The command that measures speed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from puarena.cli import options as opt
from puarena.cli.manners import say
from puarena.cli.options import many
from puarena.errors import UserError, unknown_name


def speed(
    algorithms: opt.Algorithms = None,
    features: Annotated[
        str, typer.Option(metavar="16,256", help="numbers of input features")
    ] = "16",
    runs: Annotated[str, typer.Option(metavar="1,30", help="runs in a stack")] = "1,10,30",
    batch_size: Annotated[
        int, typer.Option(metavar="N", help="examples of each kind in a batch")
    ] = 64,
    device: opt.Device = "auto",
    capture: Annotated[
        str, typer.Option(metavar="auto|off|both", help="on a GPU: replay captured steps")
    ] = "auto",
    seconds: Annotated[float, typer.Option(metavar="S", help="seconds for each figure")] = 1.0,
    network: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="nnPU with a network for images instead (see list networks)"
        ),
    ] = None,
    precision: opt.Precision = None,
    against: Annotated[
        Path | None, typer.Option(metavar="FILE", help="baseline to compare with")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="write the figures as JSON")
    ] = None,
) -> None:
    """Measure run-steps per second, records included, and print ratios measured side by side in one run."""
    from puarena import algorithms as known
    from puarena import speed as room
    from puarena.experiments.machine import choose_device
    from puarena.utils.files import write_file

    choices = {"auto": (True,), "off": (False,), "both": (True, False)}
    if capture not in choices:
        raise UserError(f"--capture is '{capture}'; choose one of: auto, off, both")
    stacks = many(runs, "runs", int) or [1]
    if min(stacks) < 1:
        raise UserError(f"--runs has {min(stacks)}; a stack has 1 run or more")
    widths = many(features, "features", int) or [16]
    if min(widths) < 1 or batch_size < 1:
        raise UserError(
            f"--features is {features} and --batch-size {batch_size}; both take whole numbers of 1 or more"
        )
    if not 0 < seconds < 3600:
        raise UserError(f"--seconds is {seconds:g}; give more than 0 and less than an hour")
    opt.check_files(out)
    if network is None and precision is not None:
        raise UserError(
            f"--precision is '{precision}', and the perceptron has no choice; give --network"
        )
    if network is not None and (algorithms or against or out):
        raise UserError(
            "--network measures nnPU alone; leave out --algorithms, --against and --out"
        )
    if network is not None:
        images(network, stacks, batch_size, precision or "float32", choose_device(device))
        return
    names = many(algorithms, "algorithms", str) or room.default_algorithms()
    for name in names:
        known.get(name)
    measurements = room.measure(
        names,
        widths,
        stacks,
        batch_size,
        choose_device(device),
        choices[capture],
        seconds,
        against,
        say=say,
    )
    typer.echo(
        f"{'algorithm':<14}{'features':>9}{'runs':>6}{'':>10}{'run-steps/s':>13}{'us a step':>11}"
    )
    for m in measurements:
        way = "baseline" if m.runs == 0 else m.device if m.capture else "uncaptured"
        typer.echo(
            f"{m.algorithm:<14}{m.features:>9}{m.runs or 1:>6}{way:>10}"
            f"{m.run_steps_per_second:>13,.0f}{m.step_microseconds:>11,.0f}"
        )
    for label, ratio in room.summary(measurements).items():
        typer.echo(
            f"largest stack against {label}: {ratio:.1f} times the run-steps per second (geometric mean)"
        )
    if out is not None:
        write_file(out, room.to_json(measurements))
        say(f"wrote {out}")


def images(network: str, runs: list[int], batch_size: int, precision: str, device: str) -> None:
    """Measure a network on made-up images of 32x32 pixels and print a line for each number of runs."""
    from puarena import networks
    from puarena import speed as room

    choices = [name for name in networks.names() if networks.get(name).images]
    if network not in choices:
        raise unknown_name("network for images", network, choices)
    heads = f"{'ms a step':>11}{'weak view':>11}{'ms a record':>13}{'s a run':>9}{'GiB':>6}"
    typer.echo(f"{'network':<10}{'runs':>5}{heads}")
    for count in runs:
        m = room.measure_images(network, count, batch_size, precision, device)
        typer.echo(
            f"{m.network:<10}{m.runs:>5}{m.step:>11.3f}{m.view / m.step:>11.1%}{m.record:>13.1f}{m.run_seconds:>9.1f}"
            f"{m.gigabytes:>6.1f}"
        )
    typer.echo(
        "milliseconds are of one run of the stack; a run has 20,000 steps and 200 records of 12,000 images"
    )


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command()(speed)
