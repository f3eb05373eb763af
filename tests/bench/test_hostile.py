"""Files that are damaged or mean harm end in one sentence: no traceback, no hang, no explosion of memory."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import resource
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import puarena
from puarena.bench.plan import LARGEST, make_plan
from puarena.bench.resume import StateFolder, interrupted_fleets
from puarena.bench.spec import Spec
from puarena.cli import app
from puarena.cli.practice import _write
from puarena.data import archives, download, own
from puarena.errors import UserError
from puarena.files import plain_cell
from puarena.store import Folder, open_store
from results import curves

MANY = int(os.environ.get("PUARENA_FUZZ", "60"))  # examples of each kind; 2000 in the command of docs/performance.md
SLOW = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.filter_too_much]


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
        ("problems: [{dataset: digits}]\nsplits: 1000000", "10,000,000 runs, and a plan has at most"),
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
    assert [plain_cell(cell) for cell in ("=1+1", "+a", "-a", "@a", "-2+3", "a", 3, -0.5, "-0.5", "+1e-3")] == [
        "'=1+1", "'+a", "'-a", "'@a", "'-2+3", "a", 3, -0.5, "-0.5", "+1e-3",
    ]  # fmt: skip
    frame = pd.DataFrame({"=name": ["=cmd()", "plain", None], "value": [-1.5, 2.0, 3.0]})
    _write(frame, tmp_path / "scores.csv")
    assert (tmp_path / "scores.csv").read_text() == "'=name,value\n'=cmd(),-1.5\nplain,2.0\n,3.0\n"


def test_whatever_writes_csv_guards_its_cells():
    modules = {path: path.read_text() for path in Path(puarena.__file__).parent.rglob("*.py")}
    writing = {path for path, text in modules.items() if re.search(r"\.to_csv\(|csv\.(Dict)?[wW]riter\(", text)}
    assert len(writing) >= 5
    assert [
        path for path in writing if "plain_cell(" not in modules[path] and "map(plain_cell" not in modules[path]
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


KINDS = {
    "t.npz": arrays(),
    "t.csv": b"a,b,y\n" + b"".join(b"%d,%d,%d\n" % (i, i * i, i % 2) for i in range(40)),
    "t.csv.gz": gzip.compress(b"a,b,y\n" + b"".join(b"%d,%d,%d\n" % (i, i * i, i % 2) for i in range(40))),
}


@settings(max_examples=MANY, deadline=None, suppress_health_check=SLOW)
@given(st.sampled_from(sorted(KINDS)), st.floats(0, 1), st.binary(min_size=1, max_size=12), st.booleans())
def test_damaged_tables(tmp_path_factory, name, place, noise, cut):
    folder = tmp_path_factory.mktemp("damaged")
    content = KINDS[name]
    at = int(place * len(content))
    damaged = content[:at] if cut else content[:at] + noise + content[at + len(noise) :]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with suppress(UserError):
        own.load(table(folder, name, damaged))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 20, "a gigabyte"


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
KEYS = st.sampled_from([*Spec.model_fields, "spilts"])
PROBLEM = st.fixed_dictionaries(
    {"dataset": st.sampled_from(["digits", "digit", "no.yaml"])},
    optional={
        "cases": st.lists(st.integers(-1, 3), max_size=2),
        "settings": st.sampled_from(["os", "ts", "one-sample", ""]),
        "rates": st.floats(-0.5, 1.5) | values,
        "priors": st.floats(-0.5, 1.5) | st.none(),
        "labelling": values,
    },
)


@settings(max_examples=MANY, deadline=None, suppress_health_check=SLOW)
@given(st.dictionaries(KEYS, values, max_size=4), st.lists(PROBLEM, max_size=2), st.booleans())
def test_any_spec_is_planned_or_refused(content, problems, few):
    content = {"algorithms": ["nnpu"], **content, "problems": problems} if few else content
    content.pop("plugins", None)
    with suppress(UserError):
        assert make_plan(Spec.load({**content, "splits": 1, "configs": 1})).runs


WORDS = st.sampled_from(["--splits", "--rates", "--cases", "--settings", "--for", "--engine", "--gpus", "--algorithms"])


@settings(max_examples=MANY // 2, deadline=None, suppress_health_check=SLOW)
@given(st.lists(st.tuples(WORDS, st.text(st.characters(codec="utf-8"), max_size=6)), min_size=1, max_size=3))
def test_any_command_line_is_refused_or_planned(tmp_path_factory, pairs):
    folder = tmp_path_factory.mktemp("nothing")
    words = [word for pair in pairs for word in pair]
    done = CliRunner().invoke(app, ["run", "demo", "--out", str(folder / "out"), "--splits", "0", *words])
    assert done.exit_code == 2 or not done.exception, (done.output, done.exception)
    assert not (folder / "out").exists() or "--splits" in words
    assert [path.name for path in folder.iterdir()] in ([], ["out"])


@settings(max_examples=MANY, deadline=None, suppress_health_check=SLOW)
@given(
    st.sampled_from(["shards/a.parquet", "planned.parquet", "failures/b.json", "spec.json", "progress/c.safetensors"]),
    st.floats(0, 0.999),
    st.binary(min_size=1, max_size=9),
    st.booleans(),
)
def test_damaged_folders(tmp_path_factory, name, place, noise, cut):
    folder = tmp_path_factory.mktemp("folder") / "out"
    store = Folder.create(folder, {"name": "demo", "problems": [{"dataset": "digits"}], "algorithms": ["nnpu"]}, "abc")
    store.write_shard("a", curves("a"))
    store.write_failure("b", ["b-0"], "boom")
    (folder / "progress" / "c.safetensors").write_bytes(b"\x08\0\0\0\0\0\0\0{}      ")
    (folder / "planned.parquet").write_bytes(b"PAR1")
    (folder / "planned.parquet").unlink()
    file = folder / name
    content = file.read_bytes() if file.exists() else b"PAR1 and no more PAR1"
    at = int(place * len(content))
    damaged = content[:at] if cut else content[:at] + noise + content[at + len(noise) :]
    file.write_bytes(damaged)
    for words in (["status", str(folder)], ["doctor", str(folder)]):
        done = CliRunner().invoke(app, words)
        assert done.exit_code in (0, 1, 2), (done.output, done.exception)
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    if damaged != content and name.startswith("shards"):
        with pytest.raises(UserError):
            open_store(folder).outcomes()
    said: list[str] = []
    if name.startswith("progress"):
        assert interrupted_fleets(store, [], StateFolder(folder / "progress", "abc", "cpu"), said.append) == {}
        assert said
