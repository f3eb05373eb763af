"""Commands about labels that are not given at random: bias list, show, toy, verdict."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from puarena.cli import options as opt
from puarena.cli.manners import App, answer

bias_app = App(
    help="Labels that are not given at random.", no_args_is_help=True, rich_markup_mode=None
)


@bias_app.command("list")
def bias_list(as_json: opt.AsJson = False) -> None:
    """List the ways of labeling, their parameters and the names they have in the literature."""
    from puarena.pu import labeling

    if as_json:
        ways = map(labeling.get_mechanism, labeling.list_mechanisms())
        answer([{"name": way.text, "aliases": way.aliases, "meaning": way.meaning} for way in ways])
        return
    for name in labeling.list_mechanisms():
        mechanism = labeling.get_mechanism(name)
        known = f" (also: {', '.join(mechanism.aliases)})" if mechanism.aliases else ""
        typer.echo(f"{mechanism.text}{known}\n    {mechanism.meaning}")


@bias_app.command("show")
def bias_show(
    dataset: Annotated[
        str, typer.Argument(help="a dataset, or a YAML file that describes your own table")
    ],
    labeling: Annotated[str, typer.Option(metavar="M", help="a way of labeling (see 'bias list')")],
    case: Annotated[int, typer.Option(metavar="N", help="positive-class case")] = 1,
    setting: Annotated[
        str, typer.Option(metavar="S", help="one-sample or two-sample")
    ] = "one-sample",
    rate: Annotated[float, typer.Option(metavar="R", help="positive rate")] = 0.3,
    split: Annotated[int, typer.Option(metavar="N", min=0, help="which draw")] = 0,
    data: opt.Data = None,
    as_json: opt.AsJson = False,
) -> None:
    """Draw once, and say how strong the bias came out and how many of every class are labeled."""
    from puarena import datasets as room
    from puarena.pu import Problem, draw_pu_data

    source = room.load(dataset, data)
    problem = Problem(source.name, case, setting, rate, None, labeling)
    _, hidden = draw_pu_data(source, problem, split)
    if as_json:
        answer(
            {
                "labeling": problem.labeling,
                **(asdict(hidden.bias) if hidden.bias is not None else {}),
            }
        )
        return
    if hidden.bias is None:
        typer.echo(f"{problem.labeling}: labels are given at random")
        return
    bias, chances = hidden.bias, hidden.propensity_train
    assert chances is not None
    counts = ", ".join(f"{name} {count}" for name, count in bias.by_class.items())
    typer.echo(
        f"{problem.labeling}\n"
        f"labels by class: {counts}\n"
        f"the labeled lie {bias.label_strength:+.2f} standard deviations from all positives along the posterior's "
        f"logit (its AUC: {bias.posterior_auc:.3f})\n"
        f"propensities of the labeled: {chances.min():.3g} to {chances.max():.3g}; weighted by their inverse they are "
        f"worth {100 * bias.effective:.0f}% of as many"
    )


@bias_app.command("toy")
def bias_toy(
    points: Annotated[
        int, typer.Option(metavar="N", min=1000, help="points of the sample")
    ] = 400_000,
    as_json: opt.AsJson = False,
) -> None:
    """Show on two Gaussians what PA and PAUC lose to biased labels, and what true propensities recover."""
    from puarena.experiments import bias_toy as toy

    rows, turned = toy.thresholds(points), toy.directions(max(1000, points // 10))
    if as_json:
        answer({"thresholds": rows, "directions": turned})
        return
    typer.echo(
        f"Gaussians at -1 and 1, {points:,} points, {toy.FREQUENCY:.0%} of the positives labeled: accuracy of the "
        f"chosen threshold\n{'labeling':<34}{'prior':>6}{'best':>7}{'PA':>7}{'PA-IPW':>8}{'effective':>11}"
    )
    for row in rows:
        typer.echo(
            f"{row['labeling']:<34}{row['prior']:>6g}{100 * row['best']:>7.1f}{100 * row['pa']:>7.1f}"
            f"{100 * row['pa-ipw']:>8.1f}{100 * row['effective']:>10.1f}%"
        )
    typer.echo("\nA second feature without meaning, prior 0.3: the direction that PAUC chooses")
    typer.echo(f"{'labeling':<34}{'degrees':>8}{'AUC':>7}")
    for row in turned:
        typer.echo(f"{row['labeling']:<34}{row['angle']:>8}{100 * row['auc']:>7.1f}")


@bias_app.command("verdict")
def bias_verdict(
    folder: opt.Folder,
    metric: Annotated[str, typer.Option(metavar="M", help="a test metric")] = "accuracy",
    criterion: Annotated[
        str, typer.Option(metavar="C", help="the criterion that chooses the models")
    ] = "pa",
    as_json: opt.AsJson = False,
) -> None:
    """Say for every method and way of labeling what it gains over the naive method, with 95% intervals."""
    from puarena import metrics
    from puarena.report.bias import bias_costs_to_markdown, compute_bias_costs

    names = metrics.metric(metric).name, metrics.criterion(criterion).name
    table = compute_bias_costs(folder, *names)
    if as_json:
        answer(table.to_dict("records"))
    else:
        typer.echo(bias_costs_to_markdown(table))


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.add_typer(bias_app, name="bias")
