"""Damaged files end in one sentence, and what has a checksum is never taken for whole."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save
from typer.testing import CliRunner

from puarena.cli import app
from puarena.datasets import own_tables
from puarena.errors import UserError
from puarena.experiments.checkpoints import CheckpointFolder, find_interrupted
from puarena.experiments.doctor import examine
from puarena.pu import Problem
from puarena.report.export import export
from puarena.results import Folder, open_results
from puarena.results.planned import Planned
from puarena.utils import files
from sample_results import curves

SPEC = {"name": "demo", "problems": [{"dataset": "digits"}], "algorithms": ["nnpu"]}


@dataclass(frozen=True)
class Kind:
    """A kind of file: how it is made in a folder, which file it is, how it is read."""

    make: Callable[[Path], object]
    file: str
    read: Callable[[Path], object]
    sealed: bool = False


def results(folder: Path) -> None:
    store = Folder.create(folder / "out", SPEC, "abc")
    store.write_shard("a", curves("a", algorithm="nnpu"))
    store.write_failure("b", ["b-0"], "boom")
    about = Problem("digits", prior=0.5).to_columns() | {"algorithm": "nnpu", "fleet": "a"}
    store.keep_planned(Planned({run: about | {"run": run} for run in ("a-0", "a-1", "b-0")}))
    marks = {
        "runs": '["b-0"]',
        "done": "1",
        "parts": '[{"step": 1, "log": {"step": [1]}}]',
        "seal": files.SEAL,
    }
    state = files.add_seal(save({"0/x": np.arange(50.0)}, marks))
    (folder / "out" / "progress" / "b.safetensors").write_bytes(state)
    claim = {"token": "t", "machine": "m", "host": "h", "pid": 1, "started": ""}
    (folder / "out" / "claims" / "b.1").write_text(json.dumps(claim))
    export(store, folder / "summary.parquet")


def commands(folder: Path) -> None:
    """Have status and doctor read the folder; they end in good order, whatever they find."""
    for word in ("status", "doctor"):
        done = CliRunner().invoke(app, [word, str(folder / "out")])
        assert done.exit_code in (0, 1, 2), (done.output, done.exception)
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception


def checkpoint(folder: Path) -> None:
    commands(folder)
    damage = [each for each in examine(folder / "out").findings if "progress" in each.file]
    store = Folder(folder / "out")
    checkpoints = CheckpointFolder(store.path / "progress", "abc", "cpu")
    assert find_interrupted(store, [], checkpoints, report=lambda text: None) == {}
    if damage:
        raise UserError(damage[0].what)


def claim(folder: Path) -> None:
    commands(folder)
    mine = Folder(folder / "out").claim("b")
    if mine is not None:
        mine.release()


def table(folder: Path) -> None:
    frame = pd.DataFrame({"a": range(40), "b": np.arange(40) ** 2, "y": np.arange(40) % 2})
    frame.to_csv(folder / "t.csv", index=False)
    about = "name: t\nfile: t.csv\nlabel: y\npositive: [1]\ntest: 0.2\nsize: 20\n"
    (folder / "own.yaml").write_text(about)


def shard(folder: Path) -> None:
    commands(folder)
    open_results(folder / "out").outcomes()


def plan(folder: Path) -> None:
    commands(folder)
    open_results(folder / "out").planned()


KINDS = {
    "shard": Kind(results, "out/shards/a.parquet", shard, sealed=True),
    "plan": Kind(results, "out/planned.parquet", plan, sealed=True),
    "checkpoint": Kind(results, "out/progress/b.safetensors", checkpoint, sealed=True),
    "summary": Kind(
        results,
        "summary.parquet",
        lambda folder: open_results(folder / "summary.parquet").outcomes(),
        sealed=True,
    ),
    "note": Kind(results, "out/failures/b.json", commands),
    "spec.json": Kind(results, "out/spec.json", commands),
    "claim": Kind(results, "out/claims/b.1", claim),
    "table": Kind(table, "t.csv", lambda folder: own_tables.load(folder / "own.yaml")),
    "table's YAML": Kind(table, "own.yaml", lambda folder: own_tables.load(folder / "own.yaml")),
}


def flip_bit(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 4]) + content[middle + 1 :]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "truncated": lambda content: content[: 2 * len(content) // 3],
    "without its end": lambda content: content[:-1],
    "a flipped bit": flip_bit,
    "zeros at its end": lambda content: content[: len(content) // 2] + bytes(len(content) // 2),
    "another file": lambda content: b"\x89PNG\r\n" + bytes(range(256)),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Callable[[str], Path]:
    """A folder with a whole file of a kind, made once and read."""
    made: dict[object, Path] = {}

    def folder(name: str) -> Path:
        make = KINDS[name].make
        if make not in made:
            made[make] = tmp_path_factory.mktemp("whole")
            make(made[make])
        copy = tmp_path_factory.mktemp("copy") / "folder"
        shutil.copytree(made[make], copy)
        KINDS[name].read(copy)
        return made[make]

    return folder


@pytest.mark.parametrize("name", KINDS)
def test_damaged_files(tmp_path, whole, name):
    kind, source = KINDS[name], whole(name)
    for damage in DAMAGES:
        folder = tmp_path / damage / "folder"
        shutil.copytree(source, folder)
        content = (folder / kind.file).read_bytes()
        (folder / kind.file).write_bytes(DAMAGES[damage](content))
        accepted = True
        try:
            kind.read(folder)
        except UserError:
            accepted = False
        assert not (kind.sealed and accepted), f"{damage}: taken for whole"
        assert [path.name for path in folder.parent.iterdir()] == ["folder"]


def test_a_link_is_not_followed_by_a_repair(tmp_path):
    results(tmp_path)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.json").write_text("{")
    link = tmp_path / "out" / "failures" / "x.json"
    link.symlink_to(outside / "secret.json")
    (tmp_path / "out" / "shards" / "id_rsa").write_text("not a name that we write")
    found = examine(tmp_path / "out", repair=True).findings
    assert {Path(each.file).name: each.moved for each in found} == {"x.json": "", "id_rsa": ""}
    shutil.rmtree(tmp_path / "out" / "failures")
    for part in ("failures", "damaged"):
        (tmp_path / "out" / part).symlink_to(outside)
        with pytest.raises(UserError) as error:
            examine(tmp_path / "out", repair=True)
        assert error.value.code == "not-supported"
        (tmp_path / "out" / part).unlink()
    assert [file.name for file in outside.iterdir()] == ["secret.json"]
