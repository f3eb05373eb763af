"""The command line: names, exit codes, one sentence per mistake."""

from __future__ import annotations

import csv
import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import puarena
from puarena import training
from puarena.cli import app

TINY = [
    "--algorithms",
    "nnpu,nnpu-c",
    "--splits",
    "2",
    "--configs",
    "1",
    "--steps",
    "20",
    "--cases",
    "1",
]


def call(*args: object):
    return CliRunner().invoke(app, [str(arg) for arg in args])


def fails(*args: object) -> str:
    """Run a command that must end in one sentence and exit code 2."""
    result = call(*args)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    assert result.stderr.count("\n") == 1, result.stderr
    assert result.stderr.startswith("error: ")
    return result.stderr


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    out = tmp_path_factory.mktemp("cli") / "out"
    result = call("run", "demo", *TINY, "--out", out, "--device", "cpu")
    assert result.exit_code == 0, result.output
    return out


@pytest.mark.parametrize(
    "code", ["import puarena", "import puarena.cli", "from puarena.cli import app; app(['--help'])"]
)
def test_nothing_heavy_is_imported(code):
    heavy = ("torch", "pandas", "duckdb", "numpy", "pydantic")
    script = f"try:\n    {code}\nexcept SystemExit: pass\nimport sys; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_version_and_metadata_agree():
    from pathlib import Path

    assert call("--version").stdout.split() == ["puarena", puarena.__version__]
    pyproject = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    assert f'version = "{puarena.__version__}"' in pyproject


@pytest.mark.parametrize(
    "what, name, key",
    [
        ("algorithms", "nnpu-c", "paper"),
        ("datasets", "digits", "cases"),
        ("criteria", "pa", "meaning"),
        ("networks", "resnet34", "meaning"),
        ("suites", "label-shift", "description"),
    ],
)
def test_list(what, name, key):
    assert name in call("list", what).stdout
    rows = json.loads(call("list", what, "--json").stdout)
    assert {row["name"]: row for row in rows}[name][key]


def test_plan():
    result = call("plan", "demo", *TINY, "--json")
    plan = json.loads(result.stdout)
    assert plan.keys() == {"runs", "fleets", "steps", "seconds", "device"}
    assert (plan["runs"], plan["fleets"], plan["steps"]) == (4, 1, 80)
    assert 0 < plan["seconds"] < 60
    assert "4 runs in 1 fleets" in call("plan", "demo", *TINY).stdout


def test_whole_way(results, tmp_path):
    status = json.loads(call("status", results, "--json").stdout)
    assert status == {"planned": 4, "done": 4, "diverged": 0, "failed": 0, "missing": 0}
    assert "planned 4  done 4" in call("status", results).stdout

    again = call("run", "demo", *TINY, "--out", results, "--device", "cpu")
    assert again.exit_code == 0
    assert "4 of 4 runs were already there" in again.stderr

    files = {kind: tmp_path / f"table.{kind}" for kind in ("markdown", "latex", "csv", "html")}
    options = [part for kind, file in files.items() for part in (f"--{kind}", str(file))]
    result = call(
        "report",
        results,
        *options,
        "--metric",
        "accuracy,f1",
        "--criterion",
        "pa",
        "--error",
        "std",
    )
    assert result.exit_code == 0, result.output
    assert "nnpu-c" in result.stdout
    assert all("nnpu-c" in file.read_text() for file in files.values())
    assert {row["algorithm"] for row in csv.DictReader(files["csv"].open())} == {"nnpu", "nnpu-c"}


def test_demo(tmp_path, monkeypatch):
    from puarena.experiments import suites

    tiny = suites.get("demo").override(
        algorithms=["nnpu", "pn-oracle"], splits=1, configs=1, steps=20, cases=[1]
    )
    monkeypatch.setattr(suites, "get", lambda name: tiny)
    result = call("demo", "--out", tmp_path / "demo", "--device", "cpu")
    assert result.exit_code == 0, result.output
    assert "pn-oracle" in result.stdout
    assert (tmp_path / "demo" / "page.html").is_file()


@pytest.mark.parametrize(
    "args, words",
    [
        (["run", "demo", "--algorithms", "nnpux", "--out", "x"], ["algorithm 'nnpux'", "'nnpu'"]),
        (["run", "demo", "--datasets", "lettre", "--out", "x"], ["dataset 'lettre'", "'letter'"]),
        (["run", "dmeo", "--out", "x"], ["suite 'dmeo'", "'demo'"]),
        (["run", "demo", "--priors", "1.2", "--out", "x"], ["priors", "1.2"]),
        (["run", "demo", "--rates", "0", "--out", "x"], ["rates"]),
        (["run", "demo", "--rates", "a", "--out", "x"], ["--rates", "numbers"]),
        (["run", "demo", "--rates", "0.9", "--out", "x"], ["digits"]),
        (["run", "demo", "--cases", "7", "--out", "x"], ["digits", "7"]),
        (["run", "demo", "--settings", "ost", "--out", "x"], ["setting 'ost'", "'os'"]),
        (["run", "demo", "--splits", "0", "--out", "x"], ["splits"]),
        (["run", "demo", "--device", "gpu", "--out", "x"], ["gpu", "cuda"]),
        (["run", "demo", "--plugin", "none.py", "--out", "x"], ["none.py"]),
        (
            ["run", "demo", "--datasets", "digits", "--data", "no/folder", "--out", "x"],
            ["no/folder"],
        ),
        (["run", "demo", *TINY, "--out", "file"], ["file"]),
        (["plan", "none.yaml"], ["none.yaml"]),
        (["list", "algoritms"], ["'algoritms'", "'algorithms'"]),
        (["status", "nowhere"], ["nowhere"]),
        (["report", "nowhere"], ["nowhere"]),
        (["data", "fetch", "lettre"], ["'letter'"]),
        (["data", "verify", "lettre"], ["'letter'"]),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(args, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("not a folder")
    message = fails(*args)
    for word in words:
        assert word in message


def test_mistakes_in_a_report(results, tmp_path):
    assert "'accuracy'" in fails("report", results, "--metric", "acuracy")
    assert "'pauc'" in fails("report", results, "--criterion", "paucc")
    assert "std" in fails("report", results, "--error", "variance")
    assert "another spec" in fails("run", "demo", *TINY, "--seed", "5", "--out", results)


def test_usage_errors_have_exit_code_2():
    for args in (
        ["run", "demo"],
        ["frobnicate"],
        ["run", "demo", "--out", "x", "--steps", "many"],
        ["plan"],
    ):
        assert call(*args).exit_code == 2


def test_interrupt_and_failure(tmp_path, monkeypatch):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    def broken(*args, **kwargs):
        raise RuntimeError("boom")

    command = ["run", "demo", *TINY, "--device", "cpu", "--out", tmp_path / "out"]
    monkeypatch.setattr(training, "Fleet", interrupted)
    result = call(*command)
    assert result.exit_code == 130
    assert "run the same command to continue" in result.stderr
    monkeypatch.setattr(training, "Fleet", broken)
    result = call(*command)
    assert result.exit_code == 1
    assert "failed: nnpu + nnpu-c on digits" in result.stderr
    assert json.loads(call("status", tmp_path / "out", "--json").stdout)["failed"] == 4
    assert "boom" in call("status", tmp_path / "out").stdout
    monkeypatch.undo()
    assert call(*command).exit_code == 1, "it is tried again only where that is asked for"
    assert call(*command, "--retry-failed").exit_code == 0
    assert json.loads(call("status", tmp_path / "out", "--json").stdout)["done"] == 4


def test_plugin(tmp_path):
    plugin = tmp_path / "mine.py"
    plugin.write_text(
        "from puarena.algorithms import Algorithm, logistic\n"
        "class Mine(Algorithm):\n"
        "    name, title, paper = 'cli-test', 'Mine', 'me'\n"
        "    def objective(self, f_p, f_u):\n"
        "        return logistic(f_p, +1).mean(-1) + logistic(f_u, -1).mean(-1)\n"
    )
    args = ["--algorithms", "cli-test", "--splits", 1, "--configs", 1, "--steps", 10, "--cases", 1]
    result = call(
        "run", "demo", *args, "--plugin", plugin, "--out", tmp_path / "out", "--device", "cpu"
    )
    assert result.exit_code == 0, result.output
    assert set(puarena.load(tmp_path / "out").df()["algorithm"]) == {"cli-test"}


def test_data(tmp_path):
    assert "embedded" in call("data", "list", "digits").stdout
    assert "nothing to download" in call("data", "fetch", "digits").stdout
    assert call("data", "verify", "digits").exit_code == 0
    folder = tmp_path / "letter"
    folder.mkdir()
    (folder / "letter-recognition.data").write_text("not the file")
    assert "wrong checksum" in fails("data", "verify", "letter", "--data", tmp_path)


def test_fleet_size_and_workers_change_no_number(tmp_path):
    command = ["run", "demo", *TINY, "--device", "cpu"]
    assert call(*command, "--out", tmp_path / "whole").exit_code == 0
    assert (
        call(*command, "--fleet-size", 1, "--workers", 1, "--out", tmp_path / "single").exit_code
        == 0
    )
    whole, single = (
        puarena.load(tmp_path / name).df().sort_values(["run", "step"]).reset_index(drop=True)
        for name in ("whole", "single")
    )
    assert single["fleet"].nunique() > whole["fleet"].nunique()
    assert whole["run"].equals(single["run"])
    assert (whole["test_auc"] - single["test_auc"]).abs().max() < 1e-3
    assert call(*command, "--fleet-size", 0, "--out", tmp_path / "none").exit_code == 2
