"""A suite that runs in a second, a method of a user's own, and calls of commands."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from typer.testing import CliRunner

import puarena
from puarena.cli import app
from puarena.experiments.spec import ProblemSpec, Spec

TINY = Spec(
    name="tiny",
    problems=[ProblemSpec(dataset="digits")],
    algorithms=("nnpu", "vpu"),
    splits=2,
    configs=1,
    steps=20,
    record_every=10,
)
PLUGIN = '''
from puarena.algorithms import Algorithm
from puarena.algorithms import logistic


class Mine(Algorithm):
    """The labeled against the unlabeled, the latter with half the weight."""

    name, title, paper = "mine", "Mine", "none"
    needs_prior = False

    def objective(self, f_p, f_u):
        return logistic(f_p, +1).mean(-1) + 0.5 * logistic(f_u, -1).mean(-1)
'''
WHO = ("--name", "My method", "--code", "https://example.org/mine")


def read_curves(out: Path) -> pd.DataFrame:
    """All stored values, but how long it took and in which fleet."""
    frame = puarena.load(out).df().drop(columns=["seconds", "fleet"])
    return frame.sort_values(["run", "step"]).reset_index(drop=True)


def call(*args: object):
    return CliRunner().invoke(app, [str(arg) for arg in args])


def fails(*args: object) -> str:
    """Run a command that must end in one sentence and exit code 2."""
    result = call(*args)
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1, result.stderr
    return result.stderr
