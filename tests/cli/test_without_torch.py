"""Reading results works where torch, scikit-learn and the like are not installed; the rest says so in a sentence."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import puarena
from puarena.cli import app
from puarena.experiments import suites
from puarena.experiments.spec import Spec
from puarena.without_torch import TRAINING

ROOT = Path(__file__).parents[2]
TINY = {
    "name": "tiny",
    "problems": [{"dataset": "digits"}],
    "algorithms": ["nnpu", "vpu"],
    "splits": 2,
    "configs": 1,
}
TINY |= {"steps": 20, "record_every": 10}
PLUGIN = '''
import torch
from puarena.algorithms import Algorithm, logistic


class Mine(Algorithm):
    """The labeled against the unlabeled."""

    name, title, paper, needs_prior = "mine", "Mine", "none", False

    def objective(self, f_p, f_u):
        return logistic(f_p, +1).mean(-1) + torch.abs(logistic(f_u, -1)).mean(-1)
'''
RUNNER = """
import json, sys
gone, tiny, *commands = json.loads(sys.stdin.read())

class Gone:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in gone:
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)

sys.meta_path.insert(0, Gone())
from typer.testing import CliRunner
from puarena.experiments import suites
from puarena.experiments.spec import Spec
from puarena.cli import app

suites.SUITES.append(Spec.load(tiny))
answers = []
for command in commands:
    result = CliRunner().invoke(app, command)
    answers.append([result.exit_code, result.stdout, result.stderr, repr(result.exception)])
json.dump([answers, sorted(set(gone) & set(sys.modules))], sys.stdout)
"""


def without_torch(*commands: tuple[object, ...]) -> list[list]:
    """Exit code, stdout, stderr and exception of every command, in one process that lacks what trains."""
    asked = [
        [*TRAINING, "joblib"],
        TINY,
        *([str(word) for word in command] for command in commands),
    ]
    environment = os.environ | {
        "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    }
    done = subprocess.run(
        [sys.executable, "-c", RUNNER],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    answers, leaked = json.loads(done.stdout)
    assert not leaked, "a stand-in was left behind, where others would take it for the real one"
    return answers


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Results of a suite of two methods, and the same with a plugin."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "mine.py").write_text(PLUGIN)
    tiny = Spec.load(TINY)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(suites, "SUITES", [*suites.SUITES, tiny])
        puarena.run("tiny", folder / "plain", device="cpu", workers=1, progress=False)
        own = Spec.load(TINY | {"plugins": [str(folder / "mine.py")], "algorithms": ["mine"]})
        puarena.run(own, folder / "own", device="cpu", workers=1, progress=False)
    return folder


def test_reading_results_needs_no_torch(made, tmp_path):
    commands = (
        (
            "report",
            made / "plain",
            "--csv",
            tmp_path / "table.csv",
            "--html",
            tmp_path / "page.html",
        ),
        ("stats", made / "plain", "--json"),
        ("compare", "published:tabular"),
        (
            "submit",
            made / "plain",
            "--name",
            "Tiny",
            "--code",
            "https://a.b/c",
            "--out",
            tmp_path / "submission",
        ),
        (
            "figures",
            made / "plain",
            "--metric",
            "accuracy",
            "--criterion",
            "pa",
            "--out",
            tmp_path / "figures",
        ),
        ("export", made / "plain", "--out", tmp_path / "summary.parquet"),
        ("merge", made / "plain", tmp_path / "summary.parquet", "--out", tmp_path / "merged"),
        ("publish", made / "plain", "--out", tmp_path / "shelf"),
        ("status", made / "plain", "--json"),
        ("doctor", made / "plain"),
        *(
            ("list", what, "--json")
            for what in ("algorithms", "networks", "datasets", "criteria", "suites")
        ),
        ("explain", "pubn"),
        ("--help",),
        ("report", "--help"),
        ("--version",),
    )
    answers = without_torch(*commands)
    for command, (code, _, stderr, exception) in zip(commands, answers, strict=True):
        assert code == 0, (command, stderr, exception)
    words = {command: stdout for command, (_, stdout, *_) in zip(commands, answers, strict=True)}
    for command in commands:  # the same words as with torch, whatever plugins other tests brought
        if command[0] == "list":
            with_torch = json.loads(CliRunner().invoke(app, list(command)).stdout)
            names = {each["name"] for each in json.loads(words[command])}
            assert json.loads(words[command])[:5] == with_torch[:5]
            assert [each for each in with_torch if each["name"] in names] == [
                each for each in json.loads(words[command]) if each["name"] != "tiny"
            ]
    assert words["explain", "pubn"] == CliRunner().invoke(app, ["explain", "pubn"]).stdout
    assert "VPU" in (tmp_path / "page.html").read_text()
    assert {file.name for file in (tmp_path / "submission").iterdir()} >= {"spec.yaml", "card.json"}
    assert list((tmp_path / "figures").glob("*.svg"))
    CliRunner().invoke(app, ["report", str(made / "plain"), "--csv", str(tmp_path / "same.csv")])
    assert (tmp_path / "same.csv").read_bytes() == (tmp_path / "table.csv").read_bytes()


def test_what_computes_says_what_it_lacks(made, tmp_path):
    (tmp_path / "table.csv").write_text("a,s\n" + "".join(f"{i},{i % 2}\n" for i in range(60)))
    commands = (
        ("run", "demo", "--out", tmp_path / "run"),
        ("demo", "--out", tmp_path / "demo"),
        ("plan", "demo"),
        ("fit", tmp_path / "table.csv", "--label", "s", "--out", tmp_path / "model"),
        ("check", "nnpu"),
        ("speed",),
        ("reproduce", "published:tabular", "nnpu"),
        ("priors", "estimate", tmp_path / "table.csv", "--label", "s"),
        ("data", "list"),
        (
            "submit",
            made / "own",
            "--name",
            "Mine",
            "--code",
            "https://a.b/c",
            "--out",
            tmp_path / "submission",
        ),
    )
    for command, (code, _, stderr, exception) in zip(
        commands, without_torch(*commands), strict=True
    ):
        assert code == 2, (command, stderr, exception)
        assert re.fullmatch(
            r"error: [^\n]*this needs [a-z-]+, which is not installed here; [^\n]*\n", stderr
        ), (
            command,
            stderr,
        )
    assert not (tmp_path / "run").exists()
    assert not (tmp_path / "submission").exists()
