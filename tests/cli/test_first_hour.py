"""What a newcomer does in the first hour works, and what is said about it is true."""

from __future__ import annotations

import errno
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from typer.testing import CliRunner

import puarena
from puarena.cli import app
from puarena.errors import UserError
from puarena.experiments.plan import group, make_plan
from puarena.experiments.progress import Live
from puarena.experiments.suites import get
from puarena.report import describe_missing_runs
from puarena.report.compare import (
    compare,
    comparison_to_csv,
    describe_protocols,
    describe_rankings,
)
from puarena.results import Folder, open_results
from puarena.results.planned import Planned
from sample_results import curves

TINY = ["--algorithms", "nnpu,nnpu-c", "--splits", "1", "--steps", "20", "--device", "cpu"]
SCRIPT = """
import puarena
spec = puarena.Spec(problems=[{"dataset": "digits"}], algorithms=["nnpu", "vpu"], splits=2, configs=1, steps=20)
outcome = puarena.run(spec, out="results", device="cpu", workers=2)
print("computed", outcome.computed)
"""


def call(*args: object):
    return CliRunner().invoke(app, [str(arg) for arg in args])


@pytest.mark.parametrize("way", ["script", "stdin"])
def test_workers_do_not_import_the_users_main_module(way, tmp_path):
    """Without ``if __name__ == "__main__"``; the progress is shown from Python, too."""
    (tmp_path / "five.py").write_text(SCRIPT)
    paths = os.pathsep.join(path for path in sys.path if path)
    environment = os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "five.py"] if way == "script" else [sys.executable, "-"]
    done = subprocess.run(
        command,
        input=SCRIPT,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["computed", "4"]  # once: no worker ran the script again
    assert "runs 4/4" in done.stderr


@pytest.mark.parametrize("name", ["priors", "classics", "metrics"])
def test_rooms_are_there_after_import(name):
    code = f"import sys, puarena; assert 'torch' not in sys.modules; print(puarena.{name}.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"puarena.{name}"
    assert name in dir(puarena)


def test_types_are_published():
    assert (Path(puarena.__file__).parent / "py.typed").is_file()
    assert issubclass(UserError, ValueError)


@pytest.fixture
def churn(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    yes = np.arange(300) < 150
    frame = pd.DataFrame({"age": rng.normal(size=300) + yes, "outcome": np.where(yes, "yes", "no")})
    frame.to_csv(tmp_path / "churn.csv", index=False)
    (tmp_path / "churn.yaml").write_text(
        "name: churn\nfile: churn.csv\nlabel: outcome\npositive: [yes]\n"
    )
    return tmp_path


def test_the_demo_on_ones_own_data(churn):
    result = call(
        "run", "demo", *TINY, "--datasets", "churn.yaml", "--rates", "0.1,0.2", "--out", "results"
    )
    assert result.exit_code == 0, result.output
    assert "note: churn has no case 2: left out" in result.stderr
    spec = open_results("results").spec
    assert "digits" not in json.dumps(spec)
    assert (spec["title"], spec["description"]) == (
        "",
        "Nnpu and nnpu-c on churn, one-sample, 10% and 20% labeled: 1 split, 1 configuration, 20 steps.",
    )
    call("report", "results", "--html", "page.html")
    assert "handwritten" not in (churn / "page.html").read_text().lower()


def test_a_suite_that_is_run_as_it_is_keeps_its_words():
    suite = get("demo")
    assert suite.override() == suite
    assert suite.override(splits=suite.splits) == suite
    changed = suite.override(splits=5)
    assert (changed.title, changed.name) == ("", "demo")
    assert "5 splits" in changed.description


def test_cases_that_a_dataset_lacks_are_left_out_with_a_note():
    plan = make_plan(get("demo").override(algorithms=["nnpu"], cases=[1, 7]))
    assert {run.problem.case for run in plan.runs} == {1}
    assert plan.notes == ("digits has no case 7: left out",)


# -- what is not there ---------------------------------------------------------------


def keep(folder: Folder, algorithms: dict[str, str]) -> None:
    """Plan runs by name, each of an algorithm."""
    about = {"fleet": "f0", "dataset": "d"}
    rows = {run: about | {"run": run, "algorithm": name} for run, name in algorithms.items()}
    folder.keep_planned(Planned(rows))


@pytest.fixture
def folder(tmp_path):
    store = Folder.create(tmp_path / "f", {"name": "x", "steps": 20}, "0" * 16)
    store.write_shard("f0", curves("f0", runs=3, dataset="d", setting="os", algorithm="nnpu"))
    return store


def test_nothing_is_said_where_everything_is_there(folder):
    assert describe_missing_runs(folder.path) == []
    keep(folder, {f"f0-{i}": "nnpu" for i in range(3)})
    assert describe_missing_runs(folder.path) == []
    assert describe_missing_runs(puarena.load(folder.path).df()) == []


def test_what_is_missing_failed_or_diverged_is_said_first(folder):
    keep(folder, {f"f0-{i}": "nnpu" for i in range(3)} | {f"v-{i}": "vpu" for i in range(5)})
    broken = curves(
        "f1", runs=2, dataset="d", setting="os", algorithm="upu", status="the loss is not finite"
    )
    folder.write_shard("f1", broken)
    folder.write_failure("f2", ["v-0", "v-1"], "RuntimeError: on purpose")
    assert describe_missing_runs(folder.path) == [
        "3 of 8 runs; missing: vpu on d (5).",
        "2 runs failed: RuntimeError: on purpose (2).",
        "2 runs of 5 diverged: upu on d (2).",
    ]
    for command in ("report", "stats"):
        assert call(command, folder.path).stdout.startswith(
            "3 of 8 runs; missing: vpu on d (5).\n"
        ), command
    as_json = call("stats", folder.path, "--json")
    assert isinstance(json.loads(as_json.stdout), list)
    assert as_json.stderr.startswith("3 of 8 runs")


def test_only_the_first_kinds_are_named(folder):
    keep(folder, {f"{name}-{i}": f"a{name}" for name in range(9) for i in range(name + 1)})
    (sentence,) = describe_missing_runs(folder.path)
    assert sentence.startswith("0 of 45 runs; missing: a8 on d (9), a7 on d (8), ")
    assert sentence.endswith("and 10 others.")


def test_all_diverged_has_an_exit_code_of_its_own(tmp_path):
    spec = tmp_path / "spec.yaml"
    spec.write_text(
        "problems: [{dataset: digits}]\nalgorithms: [upu]\nsplits: 1\nconfigs: 1\nsteps: 60\nrecord_every: 20\n"
        "hyper: {upu: {lr: 1.0e+30}}\n"
    )
    result = call("run", spec, "--out", tmp_path / "out", "--device", "cpu")
    assert "1 of 1 runs diverged" in result.stderr
    assert result.exit_code == 4
    assert "1 run of 1 diverged" in call("report", tmp_path / "out").stdout


def test_an_edited_spec_is_noticed(folder):
    file = folder.path / "spec.json"
    info = json.loads(file.read_text())
    file.write_text(json.dumps(info | {"spec": info["spec"] | {"steps": 20_000}}))
    result = call("report", folder.path)
    assert result.exit_code == 2
    assert "was edited after its runs were made" in result.stderr
    file.write_text(json.dumps(info))
    assert call("report", folder.path).exit_code == 0


def published(folder, **spec):
    """Results on letter under a protocol."""
    store = Folder.create(
        folder, {"name": "x", "steps": 20_000, "configs": 10, "splits": 3, **spec}, "0" * 16
    )
    for name in ("nnpu", "upu", "vpu"):
        store.write_shard(
            name, curves(name, dataset="letter", case=1, setting="os", algorithm=name)
        )
    return store


def test_compare_names_the_differences_of_the_protocols_first(tmp_path):
    same = compare(published(tmp_path / "a"), metrics="accuracy", criteria="pa")
    assert describe_protocols(same) == []
    assert "within two published standard errors" in same[0].verdict
    other = published(tmp_path / "b", steps=20, hyper={"*": {"lr": 0.1}})
    found = compare(other, metrics="accuracy", criteria="pa")
    words = "training steps: 20 here, 20,000 published; hyperparameters fixed here (lr)"
    assert describe_protocols(found) == [f"The two protocols differ: {words}."]
    assert "within two" not in found[0].verdict + describe_rankings(found)
    assert "protocols differ" in describe_rankings(found)
    assert all(
        not row for row in pd.read_csv(io.StringIO(comparison_to_csv(found)))["in_errors"].notna()
    )
    assert call("compare", other.path).stdout.startswith("The two protocols differ: training steps")


# -- small things --------------------------------------------------------------------


def test_progress_keeps_bar_percentage_and_time_at_80_columns():
    text = io.StringIO()
    live = Live(
        Console(file=text, width=80, force_terminal=True, color_system=None, legacy_windows=False)
    )
    fleets = group(make_plan(get("demo")).runs)
    with live:
        live.start(fleets, {})
        live.news(fleets[0], fleets[0].steps)
        live.fleet_ends(fleets[0])  # only what was seen tells how long the rest takes
        live._bar.refresh()
    lines = [line for line in text.getvalue().replace("\r", "\n").split("\n") if " left" in line]
    assert lines
    assert set("━╸") & set(lines[-1])
    assert "%" in lines[-1]
    assert len(lines[-1].split("\x1b")[0].rstrip()) <= 80


def test_list_algorithms_has_a_line_each_at_80_columns():
    result = CliRunner().invoke(app, ["list", "algorithms"], env={"COLUMNS": "80"})
    head, *lines = result.stdout.rstrip().splitlines()
    names = [row["name"] for row in json.loads(call("list", "algorithms", "--json").stdout)]
    assert head.split() == ["name", "setting", "prior", "year"]
    assert [line.split()[0] for line in lines] == names
    assert next(line.split() for line in lines if line.startswith("nnpu ")) == [
        "nnpu",
        "two-sample",
        "yes",
        "2017",
    ]
    assert max(map(len, lines)) <= 80


PLUGIN = '''
from puarena.algorithms import Algorithm, logistic

class Mine(Algorithm):
    """A method with words of its own."""

    name, title, paper, setting, calibrates = "mine", "Mine", "me, 2026", "two-sample", True

    def objective(self, f_p, f_u):
        return self.prior * logistic(f_p, +1).mean(-1) + self.mean_u(logistic(f_u, -1), logistic(f_p, -1))
'''


def test_a_plugin_in_its_own_words(churn):
    (churn / "mine.py").write_text(PLUGIN)
    words = call("explain", "mine-c", "--plugin", "mine.py").stdout
    assert "Mine-c (mine-c)" in words
    assert "A method with words of its own." in words
    assert "published code" not in words
    options = ["--plugin", "mine.py", "--algorithms", "mine-c,nnpu-c"]
    result = call("run", "demo", *TINY, *options, "--cases", "1", "--out", "race")
    assert result.exit_code == 0, result.output
    assert result.stdout.strip().endswith("next: puarena report race --plugin mine.py")
    assert call("report", "race", "--plugin", "mine.py", "--html", "page.html").exit_code == 0
    assert "me, 2026" in (churn / "page.html").read_text()
    fit = [
        "fit",
        "churn.csv",
        "--label",
        "outcome",
        "--positive",
        "yes",
        "--steps",
        "5",
        "--prior",
        "0.7",
    ]
    result = call(*fit, "--algorithm", "mine", "--plugin", "mine.py", "--out", "model")
    assert result.exit_code == 0, result.output
    assert result.stdout.strip().endswith(
        "puarena predict model TABLE --out scores.csv --plugin mine.py"
    )


def test_a_full_disk_after_training_is_one_sentence(churn, monkeypatch):
    from puarena.estimators.table_classifier import TableClassifier

    def full(self, folder):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(TableClassifier, "save", full)
    fit = [
        "fit",
        "churn.csv",
        "--label",
        "outcome",
        "--positive",
        "yes",
        "--steps",
        "5",
        "--prior",
        "0.7",
    ]
    result = call(*fit, "--algorithm", "nnpu", "--out", "model")
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == (
        "error: the model was fitted and cannot be saved in 'model' (no space left on device); use another --out"
    )


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_is_known_before_training(churn):
    (churn / "locked").mkdir(mode=0o500)
    result = call(
        "fit", "churn.csv", "--label", "outcome", "--positive", "yes", "--out", "locked/model"
    )
    assert result.exit_code == 2
    assert "nothing can be written" in result.stderr
