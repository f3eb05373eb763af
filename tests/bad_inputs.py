"""Commands that must refuse: one clear sentence, exit code 2, no traceback, and nothing written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from puarena.cli import app


def call(*args: object) -> Any:
    """The result of a command."""
    return CliRunner().invoke(app, [str(arg) for arg in args])


def refused(folder: Path, *args: object) -> str:
    """The sentence of a command that must refuse, having written nothing."""
    before = {
        path: path.stat().st_mtime_ns
        for path in folder.rglob("*")
        if "__pycache__" not in path.parts
    }
    result = call(*args)
    assert result.exit_code == 2, (args, result.output, result.exception)
    assert isinstance(result.exception, (SystemExit, type(None))), args
    assert "Traceback" not in result.output
    assert len(result.stderr) < 1500, args
    usage = result.stderr.startswith("Usage:")
    lines = [line for line in result.stderr.splitlines() if not line.startswith("note: ")]
    assert usage or (len(lines) == 1 and lines[0].startswith("error: ")), result.stderr
    after = {
        path: path.stat().st_mtime_ns
        for path in folder.rglob("*")
        if "__pycache__" not in path.parts
    }
    assert after == before, f"{args} left something behind"
    return result.stderr
