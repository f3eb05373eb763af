"""Files that are damaged or mean harm end in one sentence: no traceback, no hang, no explosion of memory."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import resource
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from typer.testing import CliRunner

import puarena
from puarena.cli import app
from puarena.cli.practice import _write
from puarena.datasets import archives, download, image_files, own
from puarena.datasets.image_files import LARGEST as LARGEST_IMAGE
from puarena.errors import UserError
from puarena.experiments.plan import LARGEST
from puarena.results import Folder
from puarena.results.published import read_card
from puarena.utils.files import escape_cell
from sample_results import curves


def refused(words: list[str]) -> str:
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2, (done.output, done.exception)
    assert done.stderr.startswith(("error: ", "Usage: ")), done.stderr
    return done.stderr


BOMB = "a: &a [x, x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [*{chr(97 + i)}, *{chr(97 + i)}]\n" for i in range(24)
)


@pytest.mark.parametrize(
    "text, words",
    [
        (BOMB, "aliases"),
        ("[" * 5000, "nested more than 20 deep"),
        (
            "problems: [{dataset: digits}]\nsplits: 1000000",
            "10,000,000 runs, and a plan has at most",
        ),
        ("problems: [{dataset: digits}]\nsplits: 1000000000000000000", "runs, and"),
        ('problems: [{dataset: "a\\0b.yaml"}]', "NUL"),
        ('problems: [{dataset: digits}]\nplugins: ["a\\0b.py"]', "NUL"),
        ("x: 2001-99-99", "not valid YAML"),
        ("a: b\n" * 300_000, "more than 1,048,576 bytes"),
    ],
)
def test_specs(tmp_path, text, words):
    (tmp_path / "spec.yaml").write_text(text)
    assert words in refused(["plan", str(tmp_path / "spec.yaml"), "--algorithms", "nnpu"])
    assert LARGEST >= 100_000


def test_a_pipe_as_spec(tmp_path):
    os.mkfifo(tmp_path / "spec.yaml")
    assert "not a regular file" in refused(["plan", str(tmp_path / "spec.yaml")])


def table(folder: Path, name: str, content: bytes) -> Path:
    (folder / name).write_bytes(content)
    (folder / "own.yaml").write_text(json.dumps({"file": name, "label": "y", "positive": [1]}))
    return folder / "own.yaml"


def arrays() -> bytes:
    out = io.BytesIO()
    rng = np.random.default_rng(0)
    np.savez_compressed(out, X=rng.normal(size=(40, 3)), y=np.arange(40) % 2)
    return out.getvalue()


def with_header(shape: str) -> bytes:
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    body = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + b"\0" * 64
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        file.writestr("X.npy", body)
        file.writestr("y.npy", body)
    return out.getvalue()


def test_huge_headers(tmp_path):
    for shape in ("(1000000000000, 3)", "(10, 1000000000000)"):
        with pytest.raises(UserError, match="does not hold the array"):
            own.load(table(tmp_path, "t.npz", with_header(shape)))


def test_bombs(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "LARGE", 1 << 22)
    out = io.BytesIO()
    np.savez_compressed(out, X=np.zeros((1 << 20, 2)), y=np.zeros(1 << 20))
    with pytest.raises(UserError, match="would unpack to more than"):
        own.load(table(tmp_path, "t.npz", out.getvalue()))
    with pytest.raises(UserError, match="would unpack to more than"):
        own.load(table(tmp_path, "t.csv.gz", gzip.compress(b"a,y\n" + b"0,1\n" * (1 << 21))))


def test_formulas_are_guarded(tmp_path):
    assert [
        escape_cell(cell)
        for cell in ("=1+1", "+a", "-a", "@a", "-2+3", "a", 3, -0.5, "-0.5", "+1e-3")
    ] == [
        "'=1+1",
        "'+a",
        "'-a",
        "'@a",
        "'-2+3",
        "a",
        3,
        -0.5,
        "-0.5",
        "+1e-3",
    ]
    frame = pd.DataFrame({"=name": ["=cmd()", "plain", None], "value": [-1.5, 2.0, 3.0]})
    _write(frame, tmp_path / "scores.csv")
    assert (tmp_path / "scores.csv").read_text() == "'=name,value\n'=cmd(),-1.5\nplain,2.0\n,3.0\n"


def test_whatever_writes_csv_guards_its_cells():
    modules = {path: path.read_text() for path in Path(puarena.__file__).parent.rglob("*.py")}
    writing = {
        path
        for path, text in modules.items()
        if re.search(r"\.to_csv\(|csv\.(Dict)?[wW]riter\(", text)
    }
    assert len(writing) >= 5
    assert [
        path
        for path in writing
        if "escape_cell(" not in modules[path] and "map(escape_cell" not in modules[path]
    ] == []


def test_downloads_stop(monkeypatch):
    from requests import RequestException

    file = download._Limited(io.BytesIO(), 10)
    file.write(b"0123456789")
    with pytest.raises(RequestException, match="more bytes"):
        file.write(b"0")
    monkeypatch.setattr(download, "LONGEST", -1.0)
    with pytest.raises(RequestException, match="took longer"):
        download._Limited(io.BytesIO(), None).write(b"0")


def test_json_that_no_stack_holds(tmp_path):
    """In every file of a results folder, a model and a card."""
    store = Folder.create(
        tmp_path / "out", {"name": "demo", "problems": [{"dataset": "digits"}]}, "abc"
    )
    store.write_shard("a", curves("a"))
    deep = "[" * 200_000
    for name in ("claims/x.1", ".running-a-1.json"):
        (store.path / name).write_text(deep)
        assert CliRunner().invoke(app, ["status", str(store.path)]).exit_code == 0
        assert store.claimed() in (set(), {"x"})
    for name in ("failures/x.json", "spec.json"):
        (store.path / name).write_text(deep)
        refused(["status", str(store.path)])
    (tmp_path / "model.json").write_text(deep)
    (tmp_path / "weights.safetensors").write_bytes(b"")
    with pytest.raises(UserError, match="nested too deeply"):
        puarena.load_model(tmp_path)
    (tmp_path / "card.json").write_text(deep)
    with pytest.raises(UserError, match="is not JSON"):
        read_card(tmp_path / "card.parquet")


def test_image_bombs(tmp_path):
    """A few kilobytes that say they are 40,000 pixels wide and high, or are packed zeros: no photographs."""
    out = io.BytesIO()
    Image.new("1", (40_000, 40_000)).save(out, "PNG")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with zipfile.ZipFile(tmp_path / "images.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("train/a/wide.png", out.getvalue())
        packed.writestr("train/a/long.png", bytes(LARGEST_IMAGE + 1))
    names = image_files.listed(tmp_path / "images.zip")
    _, _, good = image_files.decoded(tmp_path / "images.zip", names)
    assert not good.any()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 20, "a gigabyte"
