"""What is wrong in a folder ends in a sentence: no traceback, no hang, no escape in the terminal."""

from __future__ import annotations

import io
import os
import random
import shutil
from pathlib import Path

import pytest

from puarena.results import Folder, open_results
from puarena.utils.terminal import open_console, strip_controls
from sample_results import curves
from user_errors import raises_user_error
from wrong_folders import list_commands, make_whole, spoil, try_command

SPEC = {"name": "demo", "problems": [{"dataset": "digits"}]}
NUMBERS = (
    *range(16),
    88,
    1004,
    1023,
    1157,
    1194,
)  # of wrong folders; 400 are tried by wrong_folders.py


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    return make_whole(tmp_path_factory.mktemp("whole"))


@pytest.mark.parametrize("number", NUMBERS)
def test_commands_end_in_order(whole: Path, tmp_path: Path, number: int) -> None:
    out = tmp_path / "out"
    shutil.copytree(whole, out)
    what = spoil(out, number)
    lines = list_commands(out, tmp_path)
    others = lines[4:7]
    others = random.Random(number).sample(others, min(1, len(others)))
    for line in (lines[0], *lines[2:3], *others):
        assert not try_command(line), what


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("run", None),
        ("case", None),
        ("split", -1),
        ("config", None),
        ("algorithm", "\x1b[31mx"),
        ("dataset", "x" * 20_000),
        ("status", "diverged at step x"),
        ("variant", "other"),
        ("rate", float("inf")),
        ("step", -1),
    ],
)
def test_rows_that_are_not_written_are_not_read(tmp_path: Path, column: str, value: object) -> None:
    import duckdb

    store = Folder.create(tmp_path / "out", SPEC, "abc")
    frame = curves("a", runs=2)
    store.write_shard("a", frame)
    assert len(open_results(store.path).done_runs()) == 2
    frame.loc[0, column] = value
    with duckdb.connect() as con:
        con.register("frame", frame)
        store.write_rows(con, "SELECT * FROM frame", "a")
    with raises_user_error("wrong-format", str(store.path)):
        open_results(store.path).outcomes()


def test_what_is_printed_does_nothing_to_a_terminal() -> None:
    hostile = "a\x1b[31m\x1b]0;x\x07b\x9b\u202ec\ud8ff\td\n"
    assert [*filter(lambda letter: letter in "abcd\t\n", strip_controls(hostile))] == [*"abc\td\n"]
    file = io.StringIO()
    console = open_console(file=file, force_terminal=True, color_system="standard")
    console.print(hostile, style="red")
    text = file.getvalue()
    assert "\x1b[31ma" in text, "its own colors pass"
    assert text.count("\x1b") == 2
    assert not {"\x07", "\x9b", "\u202e", "\ud8ff"} & set(text)


@pytest.mark.skipif(os.name == "nt", reason="names are Unicode there")
def test_a_folder_whose_name_is_not_utf8_is_named(tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    folder.mkdir()
    (folder / "spec.json").write_text("{}")
    with raises_user_error("cannot-read", "UTF-8"):
        open_results(folder)
