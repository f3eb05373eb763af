"""Commands about labels that are not given at random: bias show, verdict."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from puarena.cli import options as opt
from puarena.cli.output import App, emit

if TYPE_CHECKING:
    from puarena.pu.draw import HiddenLabels

app = App(help="Labels that are not given at random.")


@app.command("show")
def show(
    ctx: typer.Context,
    dataset: Annotated[
        str, typer.Argument(help="a dataset, or a YAML file that describes your own table")
    ],
    labeling: Annotated[
        str, typer.Option(metavar="M", help="labeling mechanism (see 'list mechanisms')")
    ],
    case: Annotated[int, typer.Option(metavar="N", help="positive-class case")] = 1,
    setting: Annotated[
        str, typer.Option(metavar="S", help="one-sample or two-sample")
    ] = "one-sample",
    rate: Annotated[float, typer.Option(metavar="R", help="positive rate")] = 0.3,
    split: Annotated[int, typer.Option(metavar="N", min=0, help="which draw")] = 0,
    data: opt.Data = None,
) -> None:
    """Draw once, and print how strong the bias is and how many of every class are labeled."""
    from puarena import datasets
    from puarena.pu import Problem, draw_pu_data

    source = datasets.load(dataset, data)
    problem = Problem(source.name, case, setting, rate, None, labeling)
    _, hidden = draw_pu_data(source, problem, split)
    facts = {} if hidden.bias is None else asdict(hidden.bias)
    emit(ctx, {"labeling": problem.labeling, **facts}, _describe_bias(problem.labeling, hidden))


def _describe_bias(labeling: str, hidden: HiddenLabels) -> str:
    bias, chances = hidden.bias, hidden.propensity_train
    if bias is None or chances is None:
        return f"{labeling}: labels are given at random"
    counts = ", ".join(f"{name} {count}" for name, count in bias.by_class.items())
    return (
        f"{labeling}\n"
        f"labels by class: {counts}\n"
        f"the labeled lie {bias.label_strength:+.2f} standard deviations from all positives along "
        f"the posterior's logit (its AUC: {bias.posterior_auc:.3f})\n"
        f"propensities of the labeled: {chances.min():.3g} to {chances.max():.3g}; weighted by "
        f"their inverse they are worth {100 * bias.effective:.0f}% of as many"
    )


@app.command("verdict")
def verdict(
    ctx: typer.Context,
    folder: opt.Folder,
    metric: Annotated[str, typer.Option(metavar="M", help="a test metric")] = "accuracy",
    criterion: Annotated[
        str, typer.Option(metavar="C", help="the criterion that chooses the models")
    ] = "pa",
) -> None:
    """Print mean, AUC and gain over the best naive baseline by labeling, with 95% intervals."""
    from puarena import metrics
    from puarena.report.bias import bias_costs_to_markdown, compute_bias_costs

    names = metrics.get_metric(metric).name, metrics.get_criterion(criterion).name
    table = compute_bias_costs(folder, *names)
    emit(ctx, table.to_dict("records"), bias_costs_to_markdown(table))
