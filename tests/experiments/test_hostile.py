"""Files that are damaged or mean harm end in one sentence: no traceback, no hang, no explosion of memory."""

from __future__ import annotations

import gzip
import io
import json
import resource
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import puarena
from puarena.cli import app
from puarena.datasets import archives, download, image_files, own
from puarena.datasets.image_files import LARGEST as LARGEST_IMAGE
from puarena.errors import UserError
from puarena.experiments.plan import MAX_PLAN_RUNS
from puarena.results import Folder
from puarena.results.published import read_card
from sample_results import curves


def refused(words: list[str]) -> str:
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2, (done.output, done.exception)
    assert done.stderr.startswith(("error: ", "Usage: ")), done.stderr
    return done.stderr


@pytest.mark.parametrize(
    "text, words",
    [
        (
            "problems: [{dataset: digits}]\nsplits: 1000000",
            "10,000,000 runs, and a plan has at most",
        ),
        ("problems: [{dataset: digits}]\nsplits: 1000000000000000000", "runs, and"),
        ("x: 2001-99-99", "not valid YAML"),
    ],
)
def test_specs(tmp_path, text, words):
    (tmp_path / "spec.yaml").write_text(text)
    assert words in refused(["plan", str(tmp_path / "spec.yaml"), "--algorithms", "nnpu"])
    assert MAX_PLAN_RUNS >= 100_000


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
