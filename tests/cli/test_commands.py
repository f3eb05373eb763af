"""The commands work together, from the demo to the report, and nothing heavy is imported early."""

from __future__ import annotations

import csv
import inspect
import json
import os
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer

import puarena
from bad_inputs import call
from puarena import training
from puarena.cli import app, options
from puarena.errors import UserError
from puarena.estimators.search import PUSearch
from puarena.experiments import duration
from puarena.experiments.executors.base import ExecutorOptions
from puarena.experiments.suites import get
from puarena.priors import estimate_prior
from puarena.report.compare import compare
from puarena.report.statistics import summarize
from puarena.report.tables import keep, table
from puarena.results import open_results

TINY = "--algorithms nnpu,nnpu-c --splits 2 --configs 1 --steps 20 --cases 1 --device cpu"
FIT = "fit churn.csv --label outcome --positive yes --steps 5 --prior 0.7"
HEAVY = ("torch", "pandas", "duckdb", "numpy", "pydantic")
SCRIPT = """
import puarena
spec = puarena.Spec(
    problems=[{"dataset": "digits"}], algorithms=["nnpu", "vpu"], splits=2, configs=1, steps=20
)
outcome = puarena.run(spec, out="results", device="cpu", workers=2)
print("computed", outcome.computed)
"""
PLUGIN = '''
from puarena.algorithms import Algorithm, logistic

class Mine(Algorithm):
    """A method with words of its own."""

    name, title, paper, setting, calibrates = "mine", "Mine", "me, 2026", "two-sample", True

    def objective(self, f_p, f_u):
        u = self.mean_u(logistic(f_u, -1), logistic(f_p, -1))
        return self.prior * logistic(f_p, +1).mean(-1) + u
'''


def answer(line: str, **paths: object) -> object:
    """Return what a command prints with --json."""
    result = call(f"{line} --json", **paths)
    assert result.exit_code == 0, (result.output, result.exception)
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    out = tmp_path_factory.mktemp("cli") / "out"
    result = call(f"run demo {TINY} --out {{out}}", out=out)
    assert result.exit_code == 0, result.output
    return out


@pytest.fixture
def churn(tmp_path, monkeypatch):
    """A folder with a table and its description."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    yes = np.arange(300) < 150
    frame = pd.DataFrame({"age": rng.normal(size=300) + yes, "outcome": np.where(yes, "yes", "no")})
    frame.to_csv(tmp_path / "churn.csv", index=False)
    text = "name: churn\nfile: churn.csv\nlabel: outcome\npositive: [yes]\n"
    (tmp_path / "churn.yaml").write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    "code", ["import puarena", "import puarena.cli", "from puarena.cli import app; app(['--help'])"]
)
def test_nothing_heavy_is_imported(code):
    script = (
        f"import sys\ntry:\n    {code}\nexcept SystemExit:\n    pass\n"
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("name", ["priors", "classics", "metrics"])
def test_packages_are_there_after_import(name):
    code = f"import sys, puarena; assert 'torch' not in sys.modules; print(puarena.{name}.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"puarena.{name}"
    assert name in dir(puarena)
    assert (Path(puarena.__file__).parent / "py.typed").is_file()


@pytest.mark.parametrize(
    "what, name, key",
    [
        ("algorithms", "nnpu-c", "paper"),
        ("datasets", "digits", "cases"),
        ("criteria", "pa", "meaning"),
        ("networks", "resnet34", "meaning"),
        ("suites", "label-shift", "description"),
        ("mechanisms", "scar", "meaning"),
    ],
)
def test_list(what, name, key):
    assert name in call(f"list {what}").stdout
    assert {row["name"]: row for row in answer(f"list {what}")}[name][key]


def test_a_list_has_a_line_for_each_algorithm_at_80_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    head, *lines = call("list algorithms").stdout.rstrip().splitlines()
    assert head.split() == ["name", "setting", "prior", "year"]
    assert [line.split()[0] for line in lines] == [row["name"] for row in answer("list algorithms")]
    assert ["nnpu", "two-sample", "yes", "2017"] in [line.split() for line in lines]
    assert max(map(len, lines)) <= 80


def test_plan():
    plan = answer(f"plan demo {TINY}")
    times = {"seconds", "seconds_low", "seconds_high"}
    assert plan.keys() == {"runs", "fleets", "steps", "device", "fits_not_measured", *times}
    assert (plan["runs"], plan["fleets"], plan["steps"]) == (4, 1, 80)
    assert 0 < plan["seconds"] < 60
    assert "4 runs in 1 fleets" in call(f"plan demo {TINY}").stdout
    assert "not measured" not in call(f"plan demo {TINY}").stdout


def test_a_plan_says_what_it_does_not_measure():
    options = "--algorithms nnpu,elkan-noto --splits 2 --configs 1 --steps 20 --device cpu"
    assert answer(f"plan demo {options}")["fits_not_measured"] == 4
    assert "4 fits of classics and guests" in call(f"plan demo {options}").stdout


def test_a_plan_for_years_says_that_it_is_not_for_this_machine(monkeypatch):
    speed = duration.Speed(0.0005, 0.0005, 0.0005)
    monkeypatch.setattr(duration, "measure_speed", lambda *given: speed)
    said = call(f"plan demo {TINY}").stdout
    assert "not on this machine" in said
    assert "years" in said


def test_run_status_report(results, tmp_path):
    counts = {"planned": 4, "done": 4, "diverged": 0, "failed": 0, "missing": 0}
    assert answer("status {r}", r=results) == counts
    assert "planned 4  done 4" in call("status {r}", r=results).stdout
    again = call(f"run demo {TINY} --out {{r}}", r=results)
    assert again.exit_code == 0
    assert "4 of 4 runs were already there" in again.stderr
    files = {kind: tmp_path / f"table.{kind}" for kind in ("markdown", "latex", "csv", "html")}
    line = "report {r} --metric accuracy,f1 --criterion pa --error std"
    for kind in files:
        line += f" --{kind} {{{kind}}}"
    result = call(line, r=results, **files)
    assert result.exit_code == 0, result.output
    assert "nnpu-c" in result.stdout
    assert all("nnpu-c" in file.read_text().lower() for file in files.values())
    assert {row["algorithm"] for row in csv.DictReader(files["csv"].open())} == {"nnpu", "nnpu-c"}


def test_demo(tmp_path, monkeypatch):
    from puarena.experiments import suites

    tiny = get("demo").override(
        algorithms=["nnpu", "pn-oracle"], splits=1, configs=1, steps=20, cases=[1]
    )
    monkeypatch.setattr(suites, "get", lambda name: tiny)
    result = call("demo --out {out} --device cpu", out=tmp_path / "demo")
    assert result.exit_code == 0, result.output
    assert "pn-oracle" in result.stdout
    assert (tmp_path / "demo" / "page.html").is_file()


def test_an_interrupt_a_failure_and_a_second_attempt(tmp_path, monkeypatch):
    def fail(*args, **kwargs):
        raise RuntimeError("boom")

    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    out = tmp_path / "out"
    line = f"run demo {TINY} --workers 1 --out {{out}}"
    monkeypatch.setattr(training, "Fleet", interrupt)
    result = call(line, out=out)
    assert result.exit_code == 130
    assert "run the same command to continue" in result.stderr
    monkeypatch.setattr(training, "Fleet", fail)
    result = call(line, out=out)
    assert result.exit_code == 1
    assert "failed: nnpu + nnpu-c on digits" in result.stderr
    assert answer("status {out}", out=out)["failed"] == 4
    assert "boom" in call("status {out}", out=out).stdout
    monkeypatch.undo()
    assert call(line, out=out).exit_code == 1, "it is tried again only with --retry-failed"
    assert call(f"{line} --retry-failed", out=out).exit_code == 0
    assert answer("status {out}", out=out)["done"] == 4


def test_if_all_runs_diverge_the_exit_code_is_4(tmp_path):
    spec = tmp_path / "spec.yaml"
    spec.write_text(
        "problems: [{dataset: digits}]\nalgorithms: [upu]\nsplits: 1\nconfigs: 1\nsteps: 60\n"
        "record_every: 20\nhyper: {upu: {lr: 1.0e+30}}\n"
    )
    result = call("run {spec} --out {out} --device cpu", spec=spec, out=tmp_path / "out")
    assert "1 of 1 runs diverged" in result.stderr
    assert result.exit_code == 4
    assert "diverged: upu" in call("report {out}", out=tmp_path / "out").stdout


def test_the_demo_on_a_users_data(churn):
    line = f"run demo {TINY} --cases 1,2 --datasets churn.yaml --rates 0.1,0.2 --out results"
    result = call(line)
    assert result.exit_code == 0, result.output
    assert "churn has no case 2" in result.stderr
    spec = open_results("results").info.spec
    assert "digits" not in json.dumps(spec)
    assert spec["title"] == ""
    assert "on churn" in spec["description"]
    call("report results --html page.html")
    assert "handwritten" not in (churn / "page.html").read_text().lower()


def test_a_plugin_is_described_in_its_own_words(churn):
    (churn / "mine.py").write_text(PLUGIN)
    text = call("explain mine-c --plugin mine.py").stdout
    assert "Mine-c (mine-c)" in text
    assert "A method with words of its own." in text
    line = f"run demo {TINY} --plugin mine.py --algorithms mine-c,nnpu-c --out race"
    assert call(line).exit_code == 0
    assert set(puarena.load("race").df()["algorithm"]) == {"mine-c", "nnpu-c"}
    assert call("report race --html page.html").exit_code == 0
    assert "me, 2026" in (churn / "page.html").read_text()
    result = call(f"{FIT} --algorithm mine --plugin mine.py --out model")
    assert result.exit_code == 0, result.output
    assert result.stdout.strip().endswith("--out scores.csv --plugin mine.py")


def test_data(tmp_path):
    assert "embedded" in call("data list digits").stdout
    assert "nothing to download" in call("data fetch digits").stdout
    folder = tmp_path / "letter"
    folder.mkdir()
    (folder / "letter-recognition.data").write_text("not the file")
    result = call("data list letter --data {data}", data=tmp_path)
    assert result.exit_code == 2
    assert "wrong checksum" in result.stderr


def test_fleet_size_and_workers_change_no_number(tmp_path):
    line = f"run demo {TINY} --out {{out}}"
    whole, single = tmp_path / "whole", tmp_path / "single"
    assert call(line, out=whole).exit_code == 0
    assert call(f"{line} --fleet-size 1 --workers 1", out=single).exit_code == 0
    order = ["run", "step"]
    whole, single = (
        puarena.load(out).df().sort_values(order, ignore_index=True) for out in (whole, single)
    )
    assert single["fleet"].nunique() > whole["fleet"].nunique()
    assert whole["run"].equals(single["run"])
    assert (whole["test_auc"] - single["test_auc"]).abs().max() < 1e-3


def test_parameters_of_python_can_be_set(tmp_path):
    line = f"run demo {TINY} --set seed=3 --set checkpoint-every=1m --set threads=1"
    assert call(f"{line} --out {{out}}", out=tmp_path / "a").exit_code == 0
    assert open_results(tmp_path / "a").spec.seed == 3
    given = ["threads=2", "capture=off", "slurm_time=4h", "slurm=a=b", "slurm=c=d", "gpus=0,1"]
    assert options.read_parameters(given) == {
        "threads": 2,
        "capture": False,
        "slurm_time": 14400.0,
        "slurm": ("a=b", "c=d"),
        "gpus": "0,1",
    }
    for text in ("threads", "threads=", "slurm_time=soon"):
        with pytest.raises(UserError) as caught:
            options.read_parameters([text])
        assert caught.value.code == "invalid-value"


@pytest.mark.parametrize("way", ["script", "stdin"])
def test_workers_do_not_import_the_users_main_module(way, tmp_path):
    """A script needs no ``if __name__ == "__main__"``, and shows its progress."""
    (tmp_path / "five.py").write_text(SCRIPT)
    paths = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, "five.py" if way == "script" else "-"],
        input=SCRIPT,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["computed", "4"]  # once: no worker ran the script again
    assert "4/4" in done.stderr


# -- names of options -----------------------------------------------------------------------------

SHARED = {"help", "json", "quiet", "verbose"}
RUN = [puarena.run]
PYTHON = {  # the functions that a command's options are parameters of, and what only shells need
    "run": (RUN, {"set"}),
    "plan": (RUN, {"set"}),
    "report": ([table, keep], {"markdown", "latex", "csv", "html", "plugin", "with"}),
    "stats": ([summarize], {"with"}),
    "compare": ([compare], {"markdown", "csv"}),
    "fit": (
        [puarena.PUNetClassifier, puarena.PUClassifier.fit, PUSearch],
        {"label", "out", "negative", "positive", "features", "drop", "plugin", "html"},
    ),
    "priors estimate": ([estimate_prior], {"label", "features", "drop"}),
}


def list_options(command: str) -> list[set[str]]:
    """Return the names of every option of a command."""
    found = typer.main.get_command(app)
    for word in command.split():
        found = found.commands[word]
    names = []
    for option in found.params:
        long = {word[2:].replace("-", "_") for word in option.opts if word.startswith("--")}
        if long:
            names.append(long)
    return names


@pytest.mark.parametrize("command", PYTHON)
def test_every_option_has_its_name_in_python(command):
    functions, known = PYTHON[command]
    names = set(known)
    for function in functions:
        names |= set(inspect.signature(function).parameters)
    if puarena.run in functions:
        names |= {*puarena.Spec.model_fields, *(field.name for field in fields(ExecutorOptions))}
        names |= {"datasets", "cases", "settings", "rates", "priors", "labeling"}
    for option in list_options(command):
        assert option & (names | SHARED), f"{command}: {option} has no such name in Python"


def test_run_has_no_more_parameters_than_people_can_survey():
    assert len(list_options("run")) <= 28


def list_declared(group: typer.Typer) -> list[tuple[str, str, object]]:
    """Return command, parameter and declaration of everything that a command line takes."""
    declared = []
    for command in group.registered_commands:
        for name, parameter in typer.main.get_params_from_function(command.callback).items():
            declared.append((command.callback.__name__, name, parameter.default))
    for subgroup in group.registered_groups:
        declared += list_declared(subgroup.typer_instance)
    return declared


def test_an_option_whose_value_is_called_like_itself_is_named():
    # From "name" and metavar="NAME", typer 0.27 makes an option --NAME.
    for command, name, declaration in list_declared(app):
        if isinstance(declaration, typer.models.OptionInfo) and not declaration.param_decls:
            assert (declaration.metavar or "").lower() != name.replace("_", "-"), (command, name)
