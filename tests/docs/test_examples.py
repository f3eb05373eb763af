"""The examples run, and what the docstrings promise is true."""

from __future__ import annotations

import ast
import doctest
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import yaml

from puarena import catalog

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    "name, size, words",
    [
        (
            "own_table.py",
            "400",  # rows of an embedded table
            ["estimated share of positives", "predictions change", "AUC on the unlabeled rows"],
        ),
        (
            "choosing_without_negatives.py",
            "50",
            ["rank", "chosen: ", "true accuracy", "scikit-learn's search"],
        ),
        ("adding_a_method.py", "50", ["nnpu: accuracy", "soft-pu: accuracy"]),
    ],
)
def test_examples(name, size, words, tmp_path):
    environment = {
        **os.environ,
        # No address is reached: examples need no network.
        **dict.fromkeys(("http_proxy", "https_proxy"), "http://127.0.0.1:9"),
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
    }
    done = subprocess.run(
        [sys.executable, EXAMPLES / name, size],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    for word in words:
        assert word in done.stdout


def test_guests_are_named_as_their_spec_names_them():
    """Their libraries are no dependencies, so that here the plugin is only read, not run."""
    body = ast.parse((EXAMPLES / "guests.py").read_text(encoding="utf-8")).body
    guests = {node.targets[0].id.replace("_", "-") for node in body if isinstance(node, ast.Assign)}
    spec = yaml.safe_load((EXAMPLES / "guests.yaml").read_text(encoding="utf-8"))
    assert spec["plugins"] == ["guests.py"]
    assert set(spec["algorithms"]) - set(catalog.names()) == guests


def test_every_example_is_tested():
    assert {path.name for path in EXAMPLES.glob("*.py")} == {
        "guests.py",
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
