"""The results folder: files are written atomically, nothing is lost, and every fault is one error."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

from puarena import __version__
from puarena.cli import app
from puarena.errors import UserError
from puarena.experiments.spec import Spec
from puarena.experiments.status import read_status
from puarena.pu import Problem
from puarena.report import describe_missing_runs, write_page
from puarena.results import COLUMNS, Folder, folder, open_results
from puarena.results.planned import Planned
from puarena.utils import files
from puarena.utils.identity import digest
from sample_results import curves
from user_errors import raises_user_error

SPEC = {"name": "demo", "problems": [{"dataset": "digits"}]}


@pytest.fixture
def store(tmp_path: Path) -> Folder:
    return Folder.create(tmp_path / "out", SPEC, "abc")


def leftovers(store: Folder) -> list[Path]:
    return [path for path in store.path.rglob("*") if path.suffix == ".tmp"]


def test_what_is_written_is_read(store: Folder) -> None:
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


def test_an_empty_folder_is_an_empty_relation(store: Folder) -> None:
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


def test_the_same_spec_goes_on(store: Folder) -> None:
    store.write_shard("a", curves("a"))
    again = Folder.create(store.path, SPEC, "abc")
    assert again.done_runs() == {"a-0", "a-1"}
    assert again.spec == Spec.load(SPEC)
    assert again.version == __version__


def test_another_spec_is_refused(store: Folder) -> None:
    with raises_user_error("conflict", "demo", "abc", "def"):
        Folder.create(store.path, SPEC, "def")


def rewrite(store: Folder, **changes: Any) -> None:
    info = json.loads((store.path / "spec.json").read_text())
    (store.path / "spec.json").write_text(json.dumps(info | changes))


def test_another_version_is_refused_for_writing_only(store: Folder) -> None:
    rewrite(store, versions={"puarena": "0.0.9"})
    with raises_user_error("conflict", "0.0.9"):
        Folder.create(store.path, SPEC, "abc")
    assert open_results(store.path).spec == Spec.load(SPEC)


def test_a_patch_version_goes_on(store: Folder) -> None:
    major, minor, *_ = __version__.split(".")
    rewrite(store, versions={"puarena": f"{major}.{minor}.99"})
    Folder.create(store.path, SPEC, "abc")


def test_another_format_is_refused(store: Folder) -> None:
    rewrite(store, format=99)
    for use in (open_results, lambda path: Folder.create(path, SPEC, "abc")):
        with raises_user_error("wrong-format", "format 99"):
            use(store.path)


def test_not_a_results_folder(tmp_path: Path, store: Folder) -> None:
    with raises_user_error("missing-file", "nowhere"):
        open_results(tmp_path / "nowhere")
    with raises_user_error("wrong-format", "spec.json"):
        open_results(tmp_path)
    spec = store.path / "spec.json"
    whole = spec.read_text()
    spec.write_text(whole[: len(whole) // 2])
    with raises_user_error("damaged-file", "spec.json"):
        open_results(store.path)
    with raises_user_error("damaged-file", "spec.json"):
        Folder.create(store.path, SPEC, "abc")
    spec.write_text("[1, 2]")
    with raises_user_error("wrong-format", "spec.json"):
        open_results(store.path)


def test_shards_without_their_spec_are_not_taken_over(store: Folder) -> None:
    store.write_shard("a", curves("a"))
    (store.path / "spec.json").unlink()
    with raises_user_error("conflict", "spec.json"):
        Folder.create(store.path, SPEC, "def")


def test_an_unwritable_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("I am a file")
    with raises_user_error("cannot-write", "not a directory"):
        Folder.create(tmp_path / "file" / "out", SPEC, "abc")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "shards").write_text("I am a file, too")
    with raises_user_error("cannot-write", "out"):
        Folder.create(tmp_path / "out", SPEC, "abc")


def test_a_folder_that_vanishes_while_writing(store: Folder) -> None:
    (store.path / "shards").rmdir()
    with raises_user_error("cannot-write", "a.parquet"):
        store.write_shard("a", curves("a"))


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_loses_nothing(
    store: Folder, monkeypatch: pytest.MonkeyPatch, call: str
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
            with raises_user_error("cannot-write", "disk is full"):
                write()
    assert leftovers(store) == []
    assert (store.path / "shards" / "a.parquet").read_bytes() == before
    assert store.done_runs() == {"a-0", "a-1"}
    assert store.failed() == {}
    store.write_shard("b", curves("b"))
    assert store.done_runs() == {"a-0", "a-1", "b-0", "b-1"}


def test_a_disk_that_fills_while_duckdb_writes(
    store: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """/dev/full answers every write with ENOSPC."""
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")

    def to_full(self: Path, name: str) -> Path:
        return Path("/dev/full") if name.endswith(".tmp") else Path(str(self.parent), name)

    monkeypatch.setattr(files.Path, "with_name", to_full)
    monkeypatch.setattr(files.Path, "unlink", lambda *args, **kwargs: None)
    with raises_user_error("cannot-write", "a.parquet", "disk is full"):
        store.write_shard("a", curves("a"))
    monkeypatch.undo()
    assert store.done_runs() == set()


def test_a_shard_has_its_name_only_when_it_is_on_the_disk(
    store: Folder, monkeypatch: pytest.MonkeyPatch
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


def test_killed_in_the_middle_of_a_write(store: Folder) -> None:
    store.write_shard("a", curves("a"))
    script = f"""
import os, sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from sample_results import curves
from puarena.results.planned import Planned
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


def assert_names_the_file(store: Folder, name: str) -> None:
    for use in (store.done_runs, store.relation, store.shards, store.failed, store.diverged):
        with raises_user_error("damaged-file", name, "puarena run"):
            use()
    (store.path / "shards" / name).unlink()
    assert store.done_runs() == {"a-0", "a-1"}


@pytest.mark.parametrize("kept", [0, 3, 0.5, -1])
def test_a_truncated_shard(store: Folder, kept: float) -> None:
    store.write_shard("a", curves("a"))
    store.write_shard("b", curves("b"))
    assert len(store.done_runs()) == 4  # seen whole before it was damaged
    file = store.path / "shards" / "b.parquet"
    whole = file.read_bytes()
    file.write_bytes(whole[: int(kept * len(whole)) if kept == 0.5 else int(kept)])
    assert_names_the_file(store, "b.parquet")


def test_a_shard_cut_anywhere(store: Folder) -> None:
    """Every byte of the two ends, and many places between."""
    store.write_shard("a", curves("a"))
    file = store.path / "shards" / "a.parquet"
    whole = file.read_bytes()
    ends = [*range(20), *range(len(whole) - 40, len(whole))]
    for kept in {*ends, *range(20, len(whole), 199)}:
        file.write_bytes(whole[:kept])
        with raises_user_error("damaged-file", "a.parquet"):
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


@pytest.mark.parametrize("most, printed", [(4096, "60"), (32, "ulimit")])
def test_more_shards_than_files_may_be_open(store: Folder, most: int, printed: str) -> None:
    for number in range(60):
        store.write_shard(f"f{number}", curves(f"f{number}", runs=1, records=1))
    environment = os.environ | {"PYTHONPATH": str(Path(files.__file__).parents[2])}
    call = [sys.executable, "-c", HANDLES, str(store.path), str(most)]
    assert printed in subprocess.check_output(call, text=True, env=environment)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems ignore this limit")
def test_little_address_space_is_a_sentence(store: Folder) -> None:
    """DuckDB ended the process, or a list of planned runs that could not be read was "damaged"."""
    about = Problem("digits", prior=0.3).to_columns() | {"algorithm": "upu", "run": "a-0"}
    store.keep_planned(Planned({"a-0": about | {"fleet": "a"}}))
    store.write_shard("a", curves("a"))
    environment = os.environ | {"PYTHONPATH": str(Path(files.__file__).parents[2])}
    for command in ("status", "report"):
        call = f"ulimit -v 900000; exec {sys.executable} -m puarena {command} {store.path}"
        done = subprocess.run(["sh", "-c", call], capture_output=True, text=True, env=environment)
        assert done.returncode == 2, done.stderr
        assert "ulimit" in done.stderr
        assert "Traceback" not in done.stderr


def test_a_pipe_instead_of_a_shard(store: Folder) -> None:
    store.write_shard("a", curves("a"))
    os.mkfifo(store.path / "shards" / "b.parquet")
    assert_names_the_file(store, "b.parquet")


def test_shards_with_other_metrics_are_joined(store: Folder) -> None:
    store.write_shard("a", curves("a").drop(columns="test_auc"))
    store.write_shard("b", curves("b").assign(test_new=0.5))
    frame = store.relation().df().set_index("fleet")
    assert frame.loc["a", ["test_auc", "test_new"]].isna().all(axis=None)
    assert frame.loc["b", ["test_auc", "test_new"]].notna().all(axis=None)


def test_a_shard_is_verified_once(store: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    for fleet in ("a", "b"):
        store.write_shard(fleet, curves(fleet))
    verified: list[Path] = []
    check = folder.is_sealed
    monkeypatch.setattr(folder, "is_sealed", lambda file: verified.append(file) or check(file))
    page = store.path / "page.html"
    assert CliRunner().invoke(app, ["report", str(store.path), "--html", str(page)]).exit_code == 0
    assert sorted(file.name for file in verified) == ["a.parquet", "b.parquet"]


WRONG = (None, 5, [1], {})


def replace_everywhere(content: Any, value: Any) -> Iterator[Any]:
    """Copies of JSON content, in each of which one part has another value."""
    yield value
    if isinstance(content, dict):
        for key, part in content.items():
            for changed in replace_everywhere(part, value):
                yield content | {key: changed}
    if isinstance(content, list):
        for i, part in enumerate(content):
            for changed in replace_everywhere(part, value):
                yield [*content[:i], changed, *content[i + 1 :]]


@pytest.mark.parametrize("name", ["spec.json", "failures/b.json"])
@pytest.mark.parametrize("value", WRONG, ids=str)
def test_wrong_types_are_an_error_or_make_no_difference(
    store: Folder, name: str, value: Any
) -> None:
    store.write_shard("a", curves("a"))
    store.write_failure("b", ["b-0"], "why", machine="m", seconds=1.0)
    file = store.path / name
    content = json.loads(file.read_text())
    for changed in replace_everywhere(content, value):
        # The spec's own digest would find it at once.
        if isinstance(changed, dict) and isinstance(changed.get("spec"), dict):
            changed = changed | {"spec_seal": digest(changed["spec"])}
        file.write_text(json.dumps(changed))
        with suppress(UserError):
            opened = Folder(store.path)
            describe_missing_runs(opened)
            read_status(opened)
            # The page shows a spec as text, whatever it is.
            if changed.get("spec") == content.get("spec"):
                write_page(opened, store.path / "page.html")


@pytest.mark.parametrize("name", ["b.parquet", "notes.txt"])
def test_a_foreign_file(store: Folder, name: str) -> None:
    store.write_shard("a", curves("a"))
    (store.path / "shards" / name).write_text("shopping list")
    assert_names_the_file(store, name)


def test_foreign_parquet(store: Folder, tmp_path: Path) -> None:
    import duckdb

    store.write_shard("a", curves("a"))
    file = store.path / "shards" / "b.parquet"
    duckdb.connect().execute(f"COPY (SELECT 1 AS run) TO '{file}' (FORMAT parquet)")
    assert_names_the_file(store, "b.parquet")
    other = Folder.create(tmp_path / "other", SPEC, "def")
    other.write_shard("b", curves("b"))
    file.write_bytes((other.path / "shards" / "b.parquet").read_bytes())
    assert_names_the_file(store, "b.parquet")
    file.write_bytes((store.path / "shards" / "a.parquet").read_bytes())
    assert_names_the_file(store, "b.parquet")


def test_a_shard_damaged_in_its_middle(store: Folder) -> None:
    store.write_shard("a", curves("a"))
    store.write_shard("b", curves("b", runs=50, records=50))
    file = store.path / "shards" / "b.parquet"
    whole = bytearray(file.read_bytes())
    whole[4:200] = bytes(196)
    file.write_bytes(whole)
    with raises_user_error("damaged-file", "b.parquet"):
        store.done_runs()


def test_columns_are_checked(store: Folder) -> None:
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
def test_a_fleet_is_a_file_name(store: Folder, fleet: str) -> None:
    with pytest.raises(ValueError, match="valid as a file name"):
        store.write_failure(fleet, [], "")


def test_diverged_and_failed(store: Folder) -> None:
    frame = curves("a", runs=3)
    frame.loc[frame["run"] == "a-1", "status"] = "diverged at step 100"
    store.write_shard("a", frame)
    store.write_failure("b", ["b-0", "b-1"], "out of memory")
    assert store.diverged() == {"a-1": "diverged at step 100"}  # done, and data
    assert store.failed() == {"b-0": "out of memory", "b-1": "out of memory"}
    # A diverged run is not tried again, a failed fleet is.
    assert store.done_runs() == {"a-0", "a-1", "a-2"}
    store.write_shard("b", curves("b"))  # the failure is forgotten
    assert store.failures() == []
    assert store.failed() == {}
    store.write_failure("c", ["c-0"], "why")
    store.clear_failure("c")
    store.clear_failure("c")
    assert store.failures() == []


def test_a_spoiled_failure_note(store: Folder) -> None:
    (store.path / "failures" / "a.json").write_text('{"fleet": "a"')
    with raises_user_error("damaged-file", "a.json"):
        store.failed()


@pytest.mark.skipif(not Path("/dev/stdout").exists(), reason="needs /dev/stdout")
def test_a_report_can_go_to_the_standard_output(tmp_path: Path) -> None:
    script = (
        "from puarena.utils.files import write_file\n"
        "print('hello', flush=True)\n"
        "write_file('/dev/stdout', 'you')"
    )
    assert subprocess.check_output([sys.executable, "-c", script], text=True) == "hello\nyou"
    with (tmp_path / "log").open("w") as log:
        subprocess.run([sys.executable, "-c", script], stdout=log, check=True)
    assert (tmp_path / "log").read_text() == "hello\nyou"


def test_import_is_light() -> None:
    heavy = "('torch', 'pandas', 'duckdb', 'rich', 'jinja2')"
    script = (
        "import sys, puarena.results, puarena.report\n"
        f"print([m for m in {heavy} if m in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", script], text=True).strip() == "[]"
