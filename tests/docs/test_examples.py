"""The examples run, and what the docstrings promise is true."""

from __future__ import annotations

import doctest
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from givens import penguins

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    "name, words",
    [
        (
            "own_table.py",
            ["estimated share of positives", "rows change sides", "accuracy on the unlabeled rows"],
        ),
        (
            "choosing_without_negatives.py",
            ["rank", "chosen: ", "true accuracy", "scikit-learn's search"],
        ),
        ("adding_a_method.py", ["nnpu: accuracy", "soft-pu: accuracy"]),
    ],
)
def test_examples(name, words, tmp_path):
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
    }
    arguments = ["50"]
    if name == "own_table.py":
        penguins(tmp_path / "penguins.csv")
        arguments.append(tmp_path / "penguins.csv")
    done = subprocess.run(
        [sys.executable, EXAMPLES / name, *arguments],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    for word in words:
        assert word in done.stdout


def test_every_example_is_tested():
    assert {path.name for path in EXAMPLES.glob("*.py")} == {
        "own_table.py",
        "choosing_without_negatives.py",
        "adding_a_method.py",
    }


@pytest.mark.parametrize(
    "module",
    [
        "puarena.priors.estimate",
        *(
            f"puarena.estimators.{name}"
            for name in ("classifier", "network", "search", "model_selection", "scar")
        ),
    ],
)
def test_docstrings(module):
    result = doctest.testmod(import_module(module))
    assert result.attempted > 0
    assert result.failed == 0
