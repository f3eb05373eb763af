"""Damage is noticed, nothing counts twice, and several processes can use one folder."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save
from typer.testing import CliRunner

from puarena.cli import app
from puarena.errors import UserError
from puarena.pu import Problem
from puarena.results import Folder, claims, open_results
from puarena.results.planned import Planned
from puarena.utils import files, processes
from sample_results import curves
from user_errors import raises_user_error

SPEC = {"name": "demo", "problems": [{"dataset": "digits"}]}


@pytest.fixture
def store(tmp_path: Path) -> Folder:
    return Folder.create(tmp_path / "out", SPEC, "abc")


def flipped(content: bytes, bit: int) -> bytes:
    damaged = bytearray(content)
    damaged[bit // 8] ^= 1 << bit % 8
    return bytes(damaged)


def test_every_flipped_bit_of_a_shard_is_noticed(store: Folder) -> None:
    store.write_shard("a", curves("a", runs=5, records=20))
    file = store.path / "shards" / "a.parquet"
    content, chance = file.read_bytes(), random.Random(0)
    for bit in chance.sample(range(8 * len(content)), 400):
        file.write_bytes(flipped(content, bit))
        with raises_user_error("damaged-file", "a.parquet"):
            Folder(store.path).outcomes()
    file.write_bytes(content)
    assert len(Folder(store.path).done_runs()) == 5


def test_a_seal_covers_itself() -> None:
    content = files.add_seal(b"before " + files.SEAL.encode() + b" after")
    assert files.is_intact(content) is True
    for bit in range(8 * len(content)):
        assert not files.is_intact(flipped(content, bit))
    assert files.is_intact(b"never sealed") is None


def test_a_run_counts_once(store: Folder) -> None:
    """As after two drivers with other fleet sizes, one better by chance: the first fleet by name
    counts, for all.
    """
    store.write_shard("b", curves("b", runs=1).assign(run="r", test_accuracy=0.9))
    store.write_shard(
        "a", curves("a", runs=2).assign(test_accuracy=0.5).replace({"run": {"a-0": "r"}})
    )
    frame = open_results(store.path).relation().df()
    assert not frame.duplicated(["run", "step"]).any()
    assert set(frame["run"]) == {"r", "a-1"}
    assert set(frame["test_accuracy"]) == {0.5}
    with pytest.raises(ValueError, match="two rows of one run and step"):
        store.write_shard("c", curves("c", runs=1, records=2).assign(step=1))


def test_folder_names_are_no_patterns(tmp_path: Path) -> None:
    for name, fleet in (("exp1", "a"), ("exp[1]", "b")):
        Folder.create(tmp_path / name, SPEC, "abc").write_shard(fleet, curves(fleet))
    assert open_results(tmp_path / "exp[1]").done_runs() == {"b-0", "b-1"}
    assert open_results(tmp_path / "exp1").done_runs() == {"a-0", "a-1"}


def test_tidying_leaves_what_is_not_its_own(store: Folder) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    machine = processes.MACHINE
    foreign = [store.path / ".editor.tmp", store.path / "shards" / ".x.parquet.otherhost-1.tmp"]
    alive = store.path / "shards" / f".x.parquet.{machine}-{os.getpid()}.tmp"
    dead = store.path / "shards" / f".x.parquet.{machine}-{ended.pid}.tmp"
    for file in (*foreign, alive, dead):
        file.write_text("half")
    Folder.create(store.path, SPEC, "abc")
    assert [file.exists() for file in (*foreign, alive, dead)] == [True, True, True, False]


def race(path: Path, name: str, start, results) -> None:
    start.wait()
    try:
        Folder.create(path, SPEC, name)
        results.put(name)
    except UserError:
        results.put("")


def test_of_two_specs_that_race_for_a_folder_one_is_refused(tmp_path: Path) -> None:
    for trial in range(20):
        accepted: list[str] = []
        start = threading.Barrier(2)

        class Results:
            put = accepted.append

        racers = [
            threading.Thread(target=race, args=(tmp_path / str(trial), n, start, Results))
            for n in ("a", "b")
        ]
        for racer in racers:
            racer.start()
        for racer in racers:
            racer.join()
        (winner,) = [name for name in accepted if name]
        assert open_results(tmp_path / str(trial)).spec_hash == winner


def test_a_file_system_without_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*given: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", no_links)
    store = Folder.create(tmp_path / "out", SPEC, "abc")
    with raises_user_error("conflict", "def"):
        Folder.create(tmp_path / "out", SPEC, "def")
    mine = store.claim("f")
    assert mine is not None
    assert store.claim("f") is None
    with pytest.raises(FileExistsError):
        files.write_file(mine.file, "again", exclusive=True)
    mine.release()
    left = {path.name for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert left == {"methods.json", "spec.json"}


def test_an_unwritable_folder_is_noticed_at_once(
    store: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Path.write_bytes

    def read_only(self: Path, content: bytes) -> int:
        if self.parent.name == "shards":
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return write(self, content)

    monkeypatch.setattr(files.Path, "write_bytes", read_only)
    with raises_user_error("cannot-write", "read-only"):
        Folder.create(store.path, SPEC, "abc")


def test_claims(tmp_path: Path) -> None:
    first = claims.claim(tmp_path, "f")
    assert first is not None
    assert claims.claim(tmp_path, "f") is None, "its owner lives"
    assert claims.claimed(tmp_path) == {"f"}
    assert not first.is_lost()
    first.release()
    assert list(tmp_path.iterdir()) == []
    again = claims.claim(tmp_path, "f")
    assert again is not None
    again.release()


def test_parts_of_a_fleet_are_claimed_by_themselves(tmp_path: Path) -> None:
    def take(part: str = "", runs: str = "") -> claims.Claim | None:
        return claims.claim(tmp_path, "f", part, runs)

    first, second = take("one", "ab"), take("two", "cd")
    assert first is not None
    assert second is not None, "it has other runs"
    assert claims.claim(tmp_path, "g") is not None, "another fleet"
    assert claims.claimed(tmp_path) == {"f", "g"}
    assert take() is take("one", "ab") is take("three", "bx") is None
    first.release()
    assert take() is None
    assert take("three", "bd") is None
    second.release()
    whole = take()
    assert whole is not None
    assert take("one", "ab") is None
    whole.release()
    assert [file.name for file in tmp_path.iterdir()] == ["g.1"]


def taken(path: Path, leave: bool) -> None:
    assert claims.claim(path, "f") is not None
    if not leave:
        time.sleep(60)


def test_the_claim_of_the_dead_expires(tmp_path: Path) -> None:
    process = multiprocessing.get_context("spawn").Process(target=taken, args=(tmp_path, True))
    process.start()
    process.join()
    assert len(list(tmp_path.iterdir())) == 1
    assert claims.claimed(tmp_path) == set()
    mine = claims.claim(tmp_path, "f")
    assert mine is not None
    assert mine.file.name == "f.2"
    mine.release()
    assert list(tmp_path.iterdir()) == []


def test_a_claim_of_another_machine_needs_signs_of_life(tmp_path: Path) -> None:
    file = tmp_path / "f.1"
    file.write_text(
        json.dumps({"token": "t", "machine": "elsewhere", "host": "h", "pid": 1, "started": ""})
    )
    assert claims.claim(tmp_path, "f") is None
    past = time.time() - 2 * claims.STALE_SECONDS
    os.utime(file, (past, past))
    mine = claims.claim(tmp_path, "f")
    assert mine is not None
    theirs = claims.Claim(file, "t")
    assert theirs.is_lost(), "who comes back from the dead learns that"
    theirs.release()
    assert mine.file.exists(), "and takes nothing from the living"
    assert not mine.is_lost()
    file.write_text("half of a fi")
    assert not mine.is_lost()
    mine.release()


def planned(fleets: dict[str, str], limit: int | None = None) -> Planned:
    """Planned runs by name, each in the fleet of that name."""
    about = Problem("digits", prior=0.5).to_columns() | {"algorithm": "upu"}
    runs = {run: about | {"run": run, "fleet": fleet} for run, fleet in fleets.items()}
    return Planned(runs, limit)


def test_planned_runs_are_kept(store: Folder) -> None:
    assert store.planned() is None
    kept = planned({"a-0": "a", "a-1": "a"}, limit=7)
    store.keep_planned(kept)
    assert Folder(store.path).planned() == kept
    file = store.path / "planned.parquet"
    file.write_bytes(flipped(file.read_bytes(), 1000))
    with raises_user_error("damaged-file", "planned.parquet"):
        store.planned()


def test_doctor(store: Folder) -> None:
    store.keep_planned(planned({"a-0": "a", "a-1": "a", "b-0": "b"}))
    store.write_shard("a", curves("a"))
    store.write_shard("b", curves("b"))
    (store.path / "progress" / "c.safetensors").write_bytes(b"no state")
    marks = {
        "runs": '["a-0", "x"]',
        "done": "1",
        "parts": '[{"step": 1, "log": {"step": [1]}}]',
        "seal": files.SEAL,
    }
    foreign = files.add_seal(save({"x": np.zeros(1)}, marks))
    (store.path / "progress" / "d.safetensors").write_bytes(foreign)
    file = store.path / "shards" / "a.parquet"
    file.write_bytes(flipped(file.read_bytes(), 5000))
    seen = CliRunner().invoke(app, ["doctor", str(store.path), "--json"])
    assert seen.exit_code == 1, seen.output
    report = json.loads(seen.stdout)
    what = {Path(each["file"]).name: each["what"] for each in report["findings"]}
    assert what["b.parquet"] == "has 1 runs that were not planned"
    assert what["c.safetensors"] == "is damaged"
    assert what["d.safetensors"] == "has 1 runs that were not planned"
    assert set(what) == {"a.parquet", "b.parquet", "c.safetensors", "d.safetensors"}
    assert (report["shards"], report["planned"]) == (1, 3)
    CliRunner().invoke(app, ["doctor", str(store.path), "--repair"])
    assert {path.name for path in (store.path / "damaged").iterdir()} == set(what)
    assert open_results(store.path).done_runs() == set()


def test_a_damaged_list_of_methods_is_named(tmp_path: Path) -> None:
    folder = Folder.create(
        tmp_path / "out", SPEC, "abc", methods=({"name": "mine", "base": "mine"},)
    ).path
    assert open_results(folder).info.methods == ({"name": "mine", "base": "mine"},)
    assert "methods" not in json.loads((folder / "spec.json").read_text())
    (folder / "methods.json").write_text('[{"name": 5, "base": "mine"}]')
    with raises_user_error("damaged-file", "methods.json"):
        open_results(folder)
    (folder / "methods.json").write_text("[{")
    with raises_user_error("damaged-file", "methods.json"):
        open_results(folder)
    (folder / "methods.json").unlink()
    assert open_results(folder).info.methods == ()
