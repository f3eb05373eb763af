"""An option has the same name in the shell and in Python: both held side by side."""

from __future__ import annotations

import inspect
from dataclasses import fields

import pytest
import typer

import puarena
from puarena.cli import app
from puarena.estimators.search import PUSearch
from puarena.experiments.executors.base import How
from puarena.experiments.spec import PROBLEM_LISTS
from puarena.priors import estimate_prior
from puarena.report.compare import compare
from puarena.report.statistics import summarize
from puarena.report.tables import keep, table

EVERYWHERE = {"help", "json", "quiet", "verbose"}  # how a command says its answer
SHELL_ONLY = {  # what a call in Python does with another call, or has no use for
    "run": {"slurm_partition", "slurm_time"},  # parts of `slurm`
    "plan": set(),
    "report": {"markdown", "latex", "csv", "html", "plugin", "plugins", "with"},
    "stats": {"with"},
    "compare": {"markdown", "csv"},
    "fit": {"label", "out", "negative", "features", "drop", "plugin", "plugins"},  # X, y and save()
    "priors estimate": {"label", "features", "drop"},
}


def parameters(*functions: object) -> set[str]:
    return {name for function in functions for name in inspect.signature(function).parameters}  # type: ignore[arg-type]


def python_names(command: str) -> set[str]:
    spec = {
        *puarena.Spec.model_fields,
        *PROBLEM_LISTS,
        "datasets",
        *(field.name for field in fields(How)),
    }
    return {
        "run": parameters(puarena.run) | spec,
        "plan": parameters(puarena.run) | spec,
        "report": parameters(table, keep),
        "stats": parameters(summarize),
        "compare": parameters(compare),
        "fit": parameters(puarena.PUNetClassifier, PUSearch),
        "priors estimate": parameters(estimate_prior),
    }[command]


@pytest.mark.parametrize("command", SHELL_ONLY)
def test_every_option_has_its_name_in_python(command):
    found = typer.main.get_command(app)
    for word in command.split():
        found = found.commands[word]
    known = python_names(command) | SHELL_ONLY[command]
    for option in found.params:
        words = {
            word.removeprefix("--").replace("-", "_")
            for word in option.opts
            if word.startswith("--")
        }
        assert not words - EVERYWHERE or words & known, (
            f"{command}: {option.opts} has no such name in Python"
        )


def test_the_other_way_round():
    """What ``puarena.run`` takes can be said in the shell, but for what only Python has."""
    options = {
        word.removeprefix("--").replace("-", "_")
        for option in typer.main.get_command(app).commands["run"].params
        for word in option.opts
    }
    python = {"spec", "progress", "only", "options"}
    assert parameters(puarena.run) - options == python - options
