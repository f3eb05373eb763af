"""Commands that must refuse: one clear sentence, exit code 2, no traceback, and nothing written."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from puarena.cli import app


def call(line: str, **paths: object) -> Any:
    """Return the result of a command, given as in a shell; paths take the place of {name}."""
    return CliRunner().invoke(app, [word.format(**paths) for word in shlex.split(line)])


def refused(folder: Path, line: str, **paths: object) -> str:
    """Return the message of a command that must refuse, having written nothing to the folder."""
    before = list_files(folder)
    result = call(line, **paths)
    assert result.exit_code == 2, (line, result.output, result.exception)
    assert isinstance(result.exception, (SystemExit, type(None))), line
    assert "Traceback" not in result.output
    last = result.stderr.splitlines()[-1]
    assert last.startswith(("error: ", "Error: ")), result.stderr
    assert len(last) < 600, last
    assert list_files(folder) == before, f"'{line}' wrote something"
    return result.stderr


def list_files(folder: Path) -> dict[Path, int]:
    """Return the times at which the files of a folder were written."""
    files = (file for file in folder.rglob("*") if "__pycache__" not in file.parts)
    return {file: file.stat().st_mtime_ns for file in files}
