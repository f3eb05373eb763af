"""Reports of results work without the packages that train; a plugin's code is not needed either."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import puarena
from puarena.cli import app
from puarena.errors import PACKAGES

SOURCES = Path(__file__).parents[2] / "src"
PLUGIN = '''
import torch
from puarena.algorithms import Algorithm, logistic


class Mine(Algorithm):
    """``mean_P l+ + |mean_U l-|``, and nobody knows why."""

    name, title, paper, needs_prior = "mine", "My method", "me, 2026", False

    def objective(self, f_p, f_u):
        return logistic(f_p, +1).mean(-1) + torch.abs(logistic(f_u, -1)).mean(-1)
'''
# Runs commands in an interpreter in which the given packages cannot be imported.
RUNNER = """
import json, sys
missing, commands = json.loads(sys.stdin.read())

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in missing:
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)

sys.meta_path.insert(0, Missing())
from typer.testing import CliRunner
from puarena.cli import app

answers = []
for command in commands:
    result = CliRunner().invoke(app, command)
    answers.append([result.exit_code, result.stdout, result.stderr, repr(result.exception)])
json.dump(answers, sys.stdout)
"""


def call_without_torch(*commands: tuple[object, ...]) -> list[list]:
    """Return exit code, stdout, stderr and exception of every command."""
    content = [[*PACKAGES, "joblib"], [[str(word) for word in command] for command in commands]]
    path = f"{SOURCES}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    done = subprocess.run(
        [sys.executable, "-c", RUNNER],
        input=json.dumps(content),
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """A results folder of two methods, one of them of a plugin that is gone afterwards."""
    folder = tmp_path_factory.mktemp("results")
    plugin = folder / "mine.py"
    plugin.write_text(PLUGIN)
    spec = {"problems": [{"dataset": "digits"}], "algorithms": ["nnpu-c", "mine"]}
    spec |= {"splits": 2, "configs": 1, "steps": 20, "record_every": 10, "plugins": [str(plugin)]}
    puarena.run(spec, folder / "own", device="cpu", workers=1, progress=False)
    plugin.unlink()
    return folder / "own"


def test_the_methods_are_in_the_folder(results):
    methods = {each["name"]: each for each in json.loads((results / "methods.json").read_text())}
    assert set(methods) == {"nnpu-c", "nnpu", "mine"}
    assert methods["mine"]["origin"] == "plugin"
    assert "nobody knows why" in methods["mine"]["description"]
    assert str(results.parent) not in (results / "methods.json").read_text()


def test_reports_need_neither_torch_nor_the_plugin(results, tmp_path):
    page, csv, summary = tmp_path / "page.html", tmp_path / "table.csv", tmp_path / "s.parquet"
    commands = (
        ("report", results, "--csv", csv, "--html", page),
        ("stats", results, "--json"),
        ("figures", results, "--metric", "accuracy", "--criterion", "pa", "--out", tmp_path / "f"),
        ("export", results, "--out", summary),
        ("report", summary, "--html", tmp_path / "summary.html"),
        ("merge", results, summary, "--out", tmp_path / "merged"),
        ("report", tmp_path / "merged", "--html", tmp_path / "merged.html"),
        ("compare", "published:tabular"),
        ("report", "published:tabular", "--html", tmp_path / "published.html"),
        ("status", results, "--json"),
        ("doctor", results),
        ("publish", results, "--out", tmp_path / "shelf"),
        ("site", tmp_path / "shelf", "--out", tmp_path / "site"),
        ("--help",),
    )
    for command, answer in zip(commands, call_without_torch(*commands), strict=True):
        assert answer[0] == 0, (command, answer)
    for name in ("page", "summary", "merged"):
        text = (tmp_path / f"{name}.html").read_text()
        assert "nobody knows why" in text, name
        assert "My method" in text, name
    assert "Kiryo" in (tmp_path / "published.html").read_text()
    assert list((tmp_path / "f").glob("*.svg"))
    again = tmp_path / "again.csv"
    assert CliRunner().invoke(app, ["report", str(results), "--csv", str(again)]).exit_code == 0
    assert again.read_bytes() == csv.read_bytes()


def test_what_needs_torch_names_it(tmp_path):
    run = ("run", "demo", "--out", tmp_path / "run")
    commands = (run, ("list", "algorithms"), ("check", "nnpu"))
    for command, answer in zip(commands, call_without_torch(*commands), strict=True):
        assert answer[0] == 2, (command, answer)
        assert "torch" in answer[2], command
    assert not (tmp_path / "run").exists()
