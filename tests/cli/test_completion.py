"""Completion in shells: names of suites, algorithms and datasets."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from puarena import cli


def complete(line: str) -> list[str]:
    """What a shell offers for the last word of a line."""
    words = line.split(" ")
    environment = {
        "_PUARENA_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
    }
    done = CliRunner().invoke(cli.app, env=environment, prog_name="puarena")
    return done.stdout.split()


@pytest.mark.parametrize(
    "line, offered",
    [
        ("puarena run tabu", ["tabular", "tabular-standardised"]),
        ("puarena plan demo --algorithms vpu,nnpu-g", ["vpu,nnpu-ga", "vpu,nnpu-ga-c"]),
        ("puarena run demo --datasets lette", ["letter", "letter-standardised"]),
        ("puarena explain dist-pu-", ["dist-pu-c"]),
    ],
)
def test_names_are_completed(line, offered):
    assert complete(line)[: len(offered)] == offered


def test_an_account_without_a_home(monkeypatch, capsys):
    def home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", home)
    monkeypatch.setattr("shellingham.detect_shell", lambda *_: ("bash", "/bin/bash"))
    monkeypatch.setattr(sys, "argv", ["puarena", "--install-completion", "bash"])
    with pytest.raises(SystemExit) as error:
        cli.main()
    assert error.value.code == cli.EXIT_USER_ERROR
    assert "HOME" in capsys.readouterr().err
