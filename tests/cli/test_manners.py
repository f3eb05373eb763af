"""How every command behaves: quiet, verbose, JSON, completion, colors, interrupts; and that the page says so."""

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
from typer.testing import CliRunner

import puarena
from puarena.cli import app
from puarena.cli.manners import answer
from puarena.experiments.spec import ProblemSpec, Spec

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
TINY = (
    "--algorithms",
    "nnpu",
    "--splits",
    1,
    "--configs",
    1,
    "--steps",
    20,
    "--cases",
    1,
    "--device",
    "cpu",
)


def call(*words: object):
    return CliRunner().invoke(app, [str(word) for word in words])


def commands() -> dict[str, list[str]]:
    """The options of every command, by its words."""
    found = {}

    def walk(group, before: tuple[str, ...] = ()) -> None:
        for name, command in group.commands.items():
            if hasattr(command, "commands"):
                walk(command, (*before, name))
            else:
                found[" ".join((*before, name))] = [
                    word for each in command.params for word in each.opts
                ]

    walk(typer.main.get_command(app))
    return found


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("manners") / "out"
    problems = [ProblemSpec(dataset="digits")]
    spec = Spec(
        problems=problems,
        algorithms=("nnpu", "pn-oracle"),
        splits=2,
        configs=1,
        steps=20,
        record_every=10,
    )
    puarena.run(spec, out, device="cpu", workers=1, progress=False)
    return out


def test_every_command_can_be_quiet_and_verbose():
    listed = commands()
    assert len(listed) > 25
    for name, options in listed.items():
        assert {"--quiet", "-q", "--verbose", "-v"} <= set(options), name


def test_the_page_lists_the_commands_with_json():
    told = PAGE.split("a test holds this list -->")[1].split("\n\n")[0]
    assert re.findall(r"`(.+?)`", told) == sorted(
        name for name, options in commands().items() if "--json" in options
    )


def test_json_is_one_value_and_nothing_else(results, tmp_path):
    (tmp_path / "table.csv").write_text(
        "a,b,s\n" + "".join(f"{i % 7},{i % 5},{int(i % 7 > 4)}\n" for i in range(90))
    )
    model = tmp_path / "model"
    for words in (
        ("status", results),
        ("doctor", results),
        ("report", results),
        ("stats", results),
        ("list", "criteria"),
        ("compare", "published:tabular", "--metric", "accuracy", "--criterion", "pa"),
        ("explain", "nnpu"),
        ("bias", "list"),
        ("bias", "show", "digits", "--labeling", "scar"),
        ("data", "list", "digits"),
        ("data", "verify", "digits"),
        ("export", results, "--out", tmp_path / "summary.parquet"),
        ("merge", results, tmp_path / "summary.parquet", "--out", tmp_path / "merged"),
        ("run", "demo", *TINY, "--out", tmp_path / "run"),
        (
            "fit",
            tmp_path / "table.csv",
            "--label",
            "s",
            "--algorithm",
            "nnpu",
            "--steps",
            20,
            "--out",
            model,
        ),
        ("predict", model, tmp_path / "table.csv", "--out", tmp_path / "scores.csv"),
    ):
        result = call(*words, "--json")
        assert result.exit_code == 0, (words, result.output, result.exception)
        assert result.stdout.count("\n") == 1, words
        assert json.loads(result.stdout, parse_constant=pytest.fail), words
    assert (
        json.loads(call("run", "demo", *TINY, "--out", tmp_path / "run", "--json").stdout)["stored"]
        == 1
    )


def test_json_has_no_word_for_no_number(capsys):
    answer({"a": [float("nan"), float("inf"), 0.5], "b": Path("x")})
    assert json.loads(capsys.readouterr().out, parse_constant=pytest.fail) == {
        "a": [None, None, 0.5],
        "b": "x",
    }


def test_quiet_says_the_answer_and_nothing_else(results, tmp_path, monkeypatch):
    done = call("run", "demo", *TINY, "--out", tmp_path / "a", "--quiet")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "")
    assert "runs 1/1" in call("run", "demo", *TINY, "--out", tmp_path / "b").stderr
    for words in (("--quiet", "list", "algorithms"), ("list", "algorithms", "-q")):
        assert "nnpu" in call(*words).stdout
        assert call(*words).stderr == ""
    assert "explain" in call("list", "algorithms").stderr  # and it does not stay quiet
    monkeypatch.setenv("PUARENA_QUIET", "1")
    assert call("report", results, "--csv", tmp_path / "t.csv").stderr == ""
    assert call("report", tmp_path / "nothing").stderr.startswith("error: ")


def test_verbose_says_more(tmp_path):
    told = call("run", "demo", *TINY, "--out", tmp_path / "a", "--verbose").stderr
    assert re.search(r"stored: nnpu on digits .*, 1 runs", told)
    wrong = call("report", tmp_path / "nothing", "--verbose")
    assert wrong.exit_code == 2
    assert "Traceback" in wrong.stderr
    assert wrong.stderr.splitlines()[-1].startswith("error: ")
    assert "Traceback" not in call("report", tmp_path / "nothing").stderr


def program(*words: object, **environment: str) -> tuple[list[str], dict[str, str]]:
    """A command as a program of its own, and its environment."""
    path = f"{ROOT / 'src'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    return [sys.executable, "-m", "puarena", *map(str, words)], {
        **os.environ,
        "PYTHONPATH": path,
        **environment,
    }


def test_completion_knows_the_commands():
    command, environment = program(
        _PUARENA_COMPLETE="complete_bash", COMP_WORDS="puarena re", COMP_CWORD="1"
    )
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.stdout.split() == ["report", "reproduce"]


def on_terminal(*words: object, **environment: str) -> str:
    """What a command prints on a terminal."""
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    command, variables = program(*words, TERM="xterm-256color", COLUMNS="100", **environment)
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, env=variables) as process:
        os.close(theirs)
        text = b""
        try:
            while block := os.read(ours, 4096):
                text += block
        except OSError:  # how a terminal ends
            pass
    os.close(ours)
    assert process.returncode == 0
    return text.decode()


def test_colors_are_for_terminals_that_want_them(results):
    color = re.compile(r"\x1b\[(?:\d+;)*(?:3|4|9|10)\d")
    assert color.search(on_terminal("status", results))
    assert not color.search(on_terminal("status", results, NO_COLOR="1"))
    command, environment = program("status", results)
    assert (
        "\x1b"
        not in subprocess.run(command, capture_output=True, text=True, env=environment).stdout
    )


def test_an_interrupt_leaves_a_folder_to_go_on_with_and_says_how(tmp_path):
    words = (
        "run",
        "demo",
        "--algorithms",
        "nnpu",
        "--splits",
        1,
        "--configs",
        1,
        "--steps",
        400_000,
        "--cases",
        1,
    )
    command, environment = program(*words, "--device", "cpu", "--out", tmp_path / "out")
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        until = time.monotonic() + 240
        while (
            not list((tmp_path / "out").glob(".running-*")) and time.monotonic() < until
        ):  # the first record
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=240)
    assert process.returncode == 130
    assert "Traceback" not in told
    kept = f"finished fleets and last states are kept in {tmp_path / 'out'}"
    assert (
        told.splitlines()[-1] == f"interrupted by SIGINT; {kept}: run the same command to continue"
    )
    assert list((tmp_path / "out" / "progress").glob("*.safetensors"))
    assert "(1 begun)" in call("status", tmp_path / "out").stdout


def test_an_interrupt_of_any_command_is_no_traceback(monkeypatch, results):
    from puarena import report

    def interrupted(*words: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(report, "table", interrupted)
    done = call("report", results)
    assert done.exit_code == 130
    assert done.stderr.startswith("interrupted")


def test_the_page_has_every_variable_that_is_read():
    source = "\n".join(file.read_text(encoding="utf-8") for file in (ROOT / "src").rglob("*.py"))
    told = set(re.findall(r"^\| `(PUARENA_\w+)`", PAGE, re.M))
    assert told == set(re.findall(r"\bPUARENA_[A-Z_]+\b", source)) - {"PUARENA_COMPLETE"}


def test_the_page_has_every_exit_code():
    source = "\n".join(
        file.read_text(encoding="utf-8")
        for file in (ROOT / "src" / "puarena" / "cli").rglob("*.py")
    )
    used = {
        int(code)
        for exit in re.findall(r"typer\.Exit\((.*)\)", source)
        for code in re.findall(r"\b\d+\b", exit)
    }
    table = PAGE.split("## Exit codes")[1].split("##")[0]
    told = {
        int(code) for row in re.findall(r"^\| ([\d, ]+) \|", table, re.M) for code in row.split(",")
    }
    assert used | {130} <= told


def test_help_costs_little():
    command, environment = program("--help")

    def seconds(words: list[str]) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(words, stdout=subprocess.DEVNULL, env=environment, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    bare = min(seconds([sys.executable, "-c", "pass"]) for _ in range(3))
    assert min(seconds(command) for _ in range(3)) < max(
        0.15, 12 * bare
    )  # a tenth of a second on a calm core
