"""The results folder: whole files or none, nothing lost, and one clear sentence for all that can be wrong with it."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from puarena import __version__
from puarena.errors import UserError
from puarena.results import COLUMNS, Folder, Results, open_results
from puarena.utils import files
from sample_results import curves

SPEC = {"name": "demo", "problems": [{"dataset": "digits"}]}


@pytest.fixture
def store(tmp_path: Path) -> Results:
    return Folder.create(tmp_path / "out", SPEC, "abc")


def leftovers(store: Results) -> list[Path]:
    return [path for path in store.path.rglob("*") if path.suffix == ".tmp"]


def test_what_is_written_is_read(store: Results) -> None:
    a, b = curves("a", seed=2**63 - 1), curves("b", val_pa=float("nan"))
    store.write_shard("a", a)
    store.write_shard("b", b[list(reversed(b.columns))])  # the order of columns does not matter
    frame = open_results(store.path).relation().df()
    assert list(frame.columns)[: len(COLUMNS)] == list(COLUMNS)
    assert len(frame) == 12
    mine = frame[frame["fleet"] == "a"].reset_index(drop=True)
    assert set(frame.columns) == set(a.columns)
    pd.testing.assert_frame_equal(mine, a[list(frame.columns)], check_dtype=False)
    assert frame[frame["fleet"] == "b"]["val_pa"].isna().all()
    assert store.done_runs() == {"a-0", "a-1", "b-0", "b-1"}
    assert [path.name for path in store.shards()] == ["a.parquet", "b.parquet"]


def test_an_empty_folder_is_an_empty_relation(store: Results) -> None:
    frame = store.relation().df()
    assert list(frame.columns)[: len(COLUMNS)] == list(COLUMNS)
    assert len(frame) == 0
    assert store.done_runs() == set()


@pytest.mark.parametrize("name", ["a=b", "it's", "star*", "set[1]", "ünï cödé"])
def test_odd_folder_names(tmp_path: Path, name: str) -> None:
    store = Folder.create(tmp_path / name, SPEC, "abc")
    store.write_shard("a", curves("a"))
    frame = store.relation().df()
    assert list(frame.columns)[: len(COLUMNS)] == list(COLUMNS)
    assert len(frame) == 6


def test_the_same_spec_goes_on(store: Results) -> None:
    store.write_shard("a", curves("a"))
    again = Folder.create(store.path, SPEC, "abc")
    assert again.done_runs() == {"a-0", "a-1"}
    assert again.spec == SPEC
    assert again.info["versions"]["puarena"] == __version__


def test_another_spec_is_refused(store: Results) -> None:
    with pytest.raises(
        UserError, match=r"another spec \('demo', abc; this one is def\).*another --out"
    ):
        Folder.create(store.path, SPEC, "def")


def rewrite(store: Results, **changes: Any) -> None:
    info = json.loads((store.path / "spec.json").read_text())
    (store.path / "spec.json").write_text(json.dumps(info | changes))


def test_another_version_is_refused_for_writing_only(store: Results) -> None:
    rewrite(store, versions={"puarena": "0.0.9"})
    with pytest.raises(UserError, match=r"made by puarena 0\.0\.9.*another --out"):
        Folder.create(store.path, SPEC, "abc")
    assert open_results(store.path).spec == SPEC


def test_a_patch_version_goes_on(store: Results) -> None:
    major, minor, *_ = __version__.split(".")
    rewrite(store, versions={"puarena": f"{major}.{minor}.99"})
    Folder.create(store.path, SPEC, "abc")


def test_another_format_is_refused(store: Results) -> None:
    rewrite(store, format=99)
    for use in (open_results, lambda path: Folder.create(path, SPEC, "abc")):
        with pytest.raises(UserError, match="format 99"):
            use(store.path)


def test_not_a_results_folder(tmp_path: Path, store: Results) -> None:
    with pytest.raises(UserError, match="there is no results folder"):
        open_results(tmp_path / "nowhere")
    with pytest.raises(UserError, match=r"not a results folder.*no spec\.json"):
        open_results(tmp_path)
    spec = store.path / "spec.json"
    whole = spec.read_text()
    spec.write_text(whole[: len(whole) // 2])
    with pytest.raises(UserError, match="truncated or not JSON"):
        open_results(store.path)
    with pytest.raises(UserError, match="truncated or not JSON"):
        Folder.create(store.path, SPEC, "abc")
    spec.write_text("[1, 2]")
    with pytest.raises(UserError, match="not written by puarena"):
        open_results(store.path)


def test_shards_without_their_spec_are_not_taken_over(store: Results) -> None:
    store.write_shard("a", curves("a"))
    (store.path / "spec.json").unlink()
    with pytest.raises(UserError, match=r"holds shards but no spec\.json"):
        Folder.create(store.path, SPEC, "def")


def test_an_unwritable_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("I am a file")
    with pytest.raises(
        UserError, match=r"cannot use the results folder .*not a directory.*another --out"
    ):
        Folder.create(tmp_path / "file" / "out", SPEC, "abc")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "shards").write_text("I am a file, too")
    with pytest.raises(UserError, match="cannot use the results folder"):
        Folder.create(tmp_path / "out", SPEC, "abc")


def test_a_folder_that_vanishes_while_writing(store: Results) -> None:
    (store.path / "shards").rmdir()
    with pytest.raises(UserError, match=r"cannot write '.*a\.parquet'"):
        store.write_shard("a", curves("a"))


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_loses_nothing(
    store: Results, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    store.write_shard("a", curves("a"))
    before = (store.path / "shards" / "a.parquet").read_bytes()

    def full(*args: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(files.os, call, full)
        for write in (
            lambda: store.write_shard("a", curves("a", runs=9)),
            lambda: store.write_shard("b", curves("b")),
            lambda: store.write_failure("b", ["b-0"], "no reason"),
        ):
            with pytest.raises(UserError, match=r"the disk is full.*stored before is still there"):
                write()
    assert leftovers(store) == []
    assert (store.path / "shards" / "a.parquet").read_bytes() == before
    assert store.done_runs() == {"a-0", "a-1"}
    assert store.failed() == {}
    store.write_shard("b", curves("b"))
    assert store.done_runs() == {"a-0", "a-1", "b-0", "b-1"}


def test_a_disk_that_fills_while_duckdb_writes(
    store: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    """/dev/full answers every write with ENOSPC."""
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")

    def to_full(self: Path, name: str) -> Path:
        return Path("/dev/full") if name.endswith(".tmp") else Path(str(self.parent), name)

    monkeypatch.setattr(files.Path, "with_name", to_full)
    monkeypatch.setattr(files.Path, "unlink", lambda *args, **kwargs: None)
    with pytest.raises(UserError, match=r"cannot write '.*a\.parquet' \(the disk is full\)"):
        store.write_shard("a", curves("a"))
    monkeypatch.undo()
    assert store.done_runs() == set()


def test_a_shard_has_its_name_only_when_it_is_on_the_disk(
    store: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    fsync, replace = os.fsync, os.replace

    def seen_fsync(handle: int) -> None:
        events.append("folder" if os.path.isdir(f"/proc/self/fd/{handle}") else "file")
        fsync(handle)

    def seen_replace(source: Path, target: Path) -> None:
        assert not target.exists()
        assert source.parent == target.parent
        events.append("rename")
        replace(source, target)

    monkeypatch.setattr(files.os, "fsync", seen_fsync)
    monkeypatch.setattr(files.os, "replace", seen_replace)
    store.write_shard("a", curves("a"))
    assert events == ["file", "rename", "folder"] or not Path("/proc/self/fd").exists()


def test_killed_in_the_middle_of_a_write(store: Results) -> None:
    store.write_shard("a", curves("a"))
    script = f"""
import os, sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from sample_results import curves
from puarena.utils import files
from puarena.results import Folder
files.os.replace = lambda *args: os._exit(9)
Folder({str(store.path)!r}).write_shard("b", curves("b"))
"""
    killed = subprocess.run([sys.executable, "-c", script], capture_output=True)
    assert killed.returncode == 9, killed.stderr
    assert len(leftovers(store)) == 1
    assert store.done_runs() == {"a-0", "a-1"}  # what is half-written is not seen
    again = Folder.create(store.path, SPEC, "abc")
    assert leftovers(again) == []
    assert again.done_runs() == {"a-0", "a-1"}


def assert_names_the_file(store: Results, name: str, what: str) -> None:
    for use in (store.done_runs, store.relation, store.shards, store.failed, store.diverged):
        with pytest.raises(
            UserError, match=f"{name}' {what}.*remove it.*recomputes only what it held"
        ):
            use()
    (store.path / "shards" / name).unlink()
    assert store.done_runs() == {"a-0", "a-1"}


@pytest.mark.parametrize("kept", [0, 3, 0.5, -1])
def test_a_truncated_shard(store: Results, kept: float) -> None:
    store.write_shard("a", curves("a"))
    store.write_shard("b", curves("b"))
    assert len(store.done_runs()) == 4  # seen whole before it was damaged
    file = store.path / "shards" / "b.parquet"
    whole = file.read_bytes()
    file.write_bytes(whole[: int(kept * len(whole)) if kept == 0.5 else int(kept)])
    assert_names_the_file(store, "b.parquet", "is truncated")


def test_a_shard_cut_anywhere(store: Results) -> None:
    """In the magic words, in each page, in the footer and in its length: at every byte of the ends, often between."""
    store.write_shard("a", curves("a"))
    file = store.path / "shards" / "a.parquet"
    whole = file.read_bytes()
    ends = [*range(20), *range(len(whole) - 40, len(whole))]
    for kept in {*ends, *range(20, len(whole), 61)}:
        file.write_bytes(whole[:kept])
        with pytest.raises(
            UserError, match=r"a\.parquet' .*remove it, and 'puarena run' recomputes"
        ):
            Folder(store.path).done_runs()
    file.write_bytes(whole)
    assert Folder(store.path).done_runs() == {"a-0", "a-1"}


HANDLES = """
import resource, sys
from puarena.results import Folder
resource.setrlimit(resource.RLIMIT_NOFILE, (32, int(sys.argv[2])))
try:
    print(len(Folder(sys.argv[1]).done_runs()))
except ValueError as error:
    print(error)
"""


@pytest.mark.parametrize("most, words", [(4096, "60\n"), (32, "ulimit -n 4096')\n")])
def test_more_shards_than_files_may_be_open(store: Results, most: int, words: str) -> None:
    for number in range(60):
        store.write_shard(f"f{number}", curves(f"f{number}", runs=1, records=1))
    environment = os.environ | {"PYTHONPATH": str(Path(files.__file__).parents[2])}
    call = [sys.executable, "-c", HANDLES, str(store.path), str(most)]
    assert subprocess.check_output(call, text=True, env=environment).endswith(words)


@pytest.mark.parametrize("name", ["b.parquet", "notes.txt"])
def test_a_foreign_file(store: Results, name: str) -> None:
    store.write_shard("a", curves("a"))
    (store.path / "shards" / name).write_text("shopping list")
    assert_names_the_file(store, name, "is truncated or not a Parquet file")


def test_foreign_parquet(store: Results, tmp_path: Path) -> None:
    import duckdb

    store.write_shard("a", curves("a"))
    file = store.path / "shards" / "b.parquet"
    duckdb.connect().execute(f"COPY (SELECT 1 AS run) TO '{file}' (FORMAT parquet)")
    assert_names_the_file(store, "b.parquet", "is a Parquet file that puarena did not write")
    other = Folder.create(tmp_path / "other", SPEC, "def")
    other.write_shard("b", curves("b"))
    file.write_bytes((other.path / "shards" / "b.parquet").read_bytes())
    assert_names_the_file(store, "b.parquet", "holds results of another spec")
    file.write_bytes((store.path / "shards" / "a.parquet").read_bytes())
    assert_names_the_file(store, "b.parquet", "is a renamed copy")


def test_a_shard_damaged_in_its_middle(store: Results) -> None:
    store.write_shard("a", curves("a"))
    store.write_shard("b", curves("b", runs=50, records=50))
    file = store.path / "shards" / "b.parquet"
    whole = bytearray(file.read_bytes())
    whole[4:200] = bytes(196)
    file.write_bytes(whole)
    with pytest.raises(UserError, match=r"b\.parquet' is damaged; remove it"):
        store.done_runs()


def test_columns_are_checked(store: Results) -> None:
    with pytest.raises(ValueError, match="missing \\['loss'\\]"):
        store.write_shard("a", curves("a").drop(columns="loss"))
    with pytest.raises(ValueError, match="foreign \\['extra'\\]"):
        store.write_shard("a", curves("a").assign(extra=1))
    with pytest.raises(ValueError, match="rows of \\['a'\\]"):
        store.write_shard("b", curves("a"))
    with pytest.raises(Exception, match=r"(?i)conversion|convert"):
        store.write_shard("a", curves("a", split="first"))
    assert leftovers(store) == []
    assert store.shards() == []


@pytest.mark.parametrize("fleet", ["", "../a", "a/b", ".a", "a" * 300])
def test_a_fleet_is_a_file_name(store: Results, fleet: str) -> None:
    with pytest.raises(ValueError, match="must do as a file name"):
        store.write_failure(fleet, [], "")


def test_diverged_and_failed(store: Results) -> None:
    frame = curves("a", runs=3)
    frame.loc[frame["run"] == "a-1", "status"] = "diverged at step 100"
    store.write_shard("a", frame)
    store.write_failure("b", ["b-0", "b-1"], "out of memory")
    assert store.diverged() == {"a-1": "diverged at step 100"}  # done, and data
    assert store.failed() == {"b-0": "out of memory", "b-1": "out of memory"}
    assert store.done_runs() == {
        "a-0",
        "a-1",
        "a-2",
    }  # a diverged run is not tried again, a failed fleet is
    store.write_shard("b", curves("b"))  # the failure is forgotten
    assert store.failures() == []
    assert store.failed() == {}
    store.write_failure("c", ["c-0"], "why")
    store.clear_failure("c")
    store.clear_failure("c")
    assert store.failures() == []


def test_a_spoiled_failure_note(store: Results) -> None:
    (store.path / "failures" / "a.json").write_text('{"fleet": "a"')
    with pytest.raises(UserError, match=r"a\.json' is not a note of a failed fleet; remove it"):
        store.failed()


@pytest.mark.skipif(not Path("/dev/stdout").exists(), reason="needs /dev/stdout")
def test_a_report_can_go_to_the_standard_output(tmp_path: Path) -> None:
    script = "from puarena.utils.files import write_file as w; print('hello', flush=True); w('/dev/stdout', 'you')"
    assert subprocess.check_output([sys.executable, "-c", script], text=True) == "hello\nyou"
    with (tmp_path / "log").open("w") as log:
        subprocess.run([sys.executable, "-c", script], stdout=log, check=True)
    assert (tmp_path / "log").read_text() == "hello\nyou"


def test_import_is_light() -> None:
    heavy = "('torch', 'pandas', 'duckdb', 'rich', 'jinja2')"
    script = f"import sys, puarena.results, puarena.report; print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", script], text=True).strip() == "[]"
