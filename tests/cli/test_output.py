"""Quiet, verbose, JSON, completion, colors and interrupts of every command; docs say the same."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer

import puarena
from bad_inputs import call
from puarena.cli import app
from puarena.cli.output import format_cell
from puarena.experiments.spec import Spec
from puarena.utils.plain import to_plain

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
TINY = "--algorithms nnpu --splits 1 --configs 1 --steps 20 --cases 1 --device cpu"


def list_commands() -> list[str]:
    """Return the words of every command."""
    found = []
    for name, command in typer.main.get_command(app).commands.items():
        inner = getattr(command, "commands", None)
        found += [f"{name} {each}" for each in inner] if inner else [name]
    return found


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("output") / "out"
    spec = Spec(
        problems=[{"dataset": "digits"}],
        algorithms=("nnpu", "pn-oracle"),
        splits=2,
        configs=1,
        steps=20,
        record_every=10,
    )
    puarena.run(spec, out, device="cpu", workers=1, progress=False)
    return out


def test_every_command_takes_the_shared_options():
    assert len(list_commands()) <= 29
    for name in list_commands():
        text = call(f"{name} --help").stdout
        for option in ("--quiet", "-q", "--verbose", "-v", "--json"):
            assert option in text, name


def test_json_is_one_value_and_nothing_else(results, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [f"{i % 7},{i % 5},{int(i % 7 > 4)}\n" for i in range(90)]
    (tmp_path / "table.csv").write_text("".join(["a,b,s\n", *rows]))
    for line in (
        "status {r}",
        "doctor {r}",
        "report {r}",
        "stats {r}",
        "list criteria",
        "compare published:tabular --metric accuracy --criterion pa",
        "explain nnpu",
        "bias show digits --labeling scar",
        "data list digits",
        "data fetch digits",
        "export {r} --out summary.parquet",
        "merge {r} summary.parquet --out merged",
        f"run demo {TINY} --out run",
        "fit table.csv --label s --algorithm nnpu --steps 20 --out model",
        "predict model table.csv --out scores.csv",
    ):
        result = call(f"{line} --json", r=results)
        assert result.exit_code == 0, (line, result.output, result.exception)
        assert result.stdout.count("\n") == 1, line
        json.loads(result.stdout, parse_constant=pytest.fail)


def test_numbers_that_are_not_finite_are_null():
    value = {"a": [float("nan"), float("inf"), 0.5], "b": Path("x"), "c": (1, 2)}
    assert to_plain(value) == {"a": [None, None, 0.5], "b": "x", "c": [1, 2]}
    assert to_plain([1 / 3, 2.0], digits=3) == [0.333, 2]
    values = (None, True, float("nan"), 0.25, ["a", "b"], 7)
    assert "|".join(map(format_cell, values)) == "|yes||0.25|a, b|7"


def test_quiet_prints_the_answer_and_nothing_else(results, tmp_path, monkeypatch):
    done = call(f"run demo {TINY} --out {{out}} --quiet", out=tmp_path / "a")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "")
    assert "1/1" in call(f"run demo {TINY} --out {{out}}", out=tmp_path / "b").stderr
    for line in ("--quiet list algorithms", "list algorithms -q"):
        assert "nnpu" in call(line).stdout
        assert call(line).stderr == ""
    assert "explain" in call("list algorithms").stderr  # and it does not stay quiet
    monkeypatch.setenv("PUARENA_QUIET", "1")
    assert call("report {r} --csv {out}", r=results, out=tmp_path / "t.csv").stderr == ""
    assert call("report nowhere").stderr.startswith("error: ")


def test_verbose_prints_more(tmp_path):
    more = call(f"run demo {TINY} --out {{out}} --verbose", out=tmp_path / "a").stderr
    assert re.search(r"stored: nnpu on digits .*, 1 runs", more)
    wrong = call("report nowhere --verbose")
    assert wrong.exit_code == 2
    assert "Traceback" in wrong.stderr
    assert wrong.stderr.splitlines()[-1].startswith("error: ")
    assert "Traceback" not in call("report nowhere").stderr


def make_program(line: str, **environment: str) -> tuple[list[str], dict[str, str]]:
    """Return a command as a program of its own, and its environment."""
    path = f"{ROOT / 'src'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    command = [sys.executable, "-m", "puarena", *line.split()]
    return command, {**os.environ, "PYTHONPATH": path, **environment}


def run_program(line: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command, variables = make_program(line, **environment)
    return subprocess.run(command, capture_output=True, text=True, env=variables)


def test_version():
    assert run_program("--version").stdout.split() == ["puarena", puarena.__version__]


def test_completion_knows_the_commands():
    words = {"COMP_WORDS": "puarena re", "COMP_CWORD": "1"}
    done = run_program("", _PUARENA_COMPLETE="complete_bash", **words)
    assert done.stdout.split() == ["report", "reproduce"]


def run_on_terminal(line: str, **environment: str) -> str:
    """Return what a command prints on a terminal."""
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    command, variables = make_program(line, TERM="xterm-256color", COLUMNS="100", **environment)
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, env=variables) as process:
        os.close(theirs)
        text = b""
        try:
            while block := os.read(ours, 4096):
                text += block
        except OSError:  # the end of a terminal
            pass
    os.close(ours)
    assert process.returncode == 0
    return text.decode()


def test_colors_are_for_terminals_that_want_them(results):
    color = re.compile(r"\x1b\[(?:\d+;)*(?:3|4|9|10)\d")
    assert color.search(run_on_terminal(f"status {results}"))
    assert not color.search(run_on_terminal(f"status {results}", NO_COLOR="1"))
    assert "\x1b" not in run_program(f"status {results}").stdout


def test_a_closed_pipe_ends_a_command_without_a_message():
    command, environment = make_program("list algorithms")
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        process.stdout.close()
        text = process.stderr.read()
    assert "Traceback" not in text
    assert "error" not in text


def test_an_interrupted_run_says_how_to_continue(tmp_path):
    out = tmp_path / "out"
    words = TINY.replace("--steps 20", "--steps 400000")
    command, environment = make_program(f"run demo {words} --out {out}")
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        until = time.monotonic() + 240
        while not list(out.glob("claims/*")) and time.monotonic() < until:
            time.sleep(0.1)
        time.sleep(2)  # the first records
        process.send_signal(signal.SIGINT)
        _, text = process.communicate(timeout=240)
    assert process.returncode == 130
    assert "Traceback" not in text
    last = text.splitlines()[-1]
    assert last.startswith("interrupted by SIGINT")
    assert str(out) in last
    assert list((out / "progress").glob("*.safetensors"))
    assert "(1 begun)" in call("status {out}", out=out).stdout


def test_an_interrupt_of_any_command_is_no_traceback(monkeypatch, results):
    from puarena import report

    def interrupt(*words: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(report, "table", interrupt)
    done = call("report {r}", r=results)
    assert done.exit_code == 130
    assert done.stderr.startswith("interrupted")


def test_the_page_has_every_variable_that_is_read():
    source = "\n".join(file.read_text(encoding="utf-8") for file in (ROOT / "src").rglob("*.py"))
    listed = set(re.findall(r"^\| `(PUARENA_\w+)`", PAGE, re.M))
    assert listed == set(re.findall(r"\bPUARENA_[A-Z_]+\b", source)) - {"PUARENA_COMPLETE"}


def test_the_page_has_every_exit_code():
    rows = PAGE.split("## Exit codes")[1].split("##")[0]
    listed = ",".join(re.findall(r"^\| ([\d, ]+) \|", rows, re.M))
    assert set(map(int, listed.split(","))) == {0, 1, 2, 3, 4, 130, 143}


def test_help_costs_little():
    command, environment = make_program("--help")

    def measure_seconds(words: list[str]) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(words, stdout=subprocess.DEVNULL, env=environment, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    # A tenth of a second on an idle core, several times a bare interpreter; an import of torch or
    # pandas costs seconds. The bound is wide, since other work on the machine slows both.
    bare = min(measure_seconds([sys.executable, "-c", "pass"]) for _ in range(3))
    assert min(measure_seconds(command) for _ in range(3)) < max(0.3, 20 * bare)
