"""Specs and command lines made up at random, and files of every kind that is read, damaged at random.

No traceback, no hang, no explosion of memory, nothing written elsewhere; what has a checksum is never taken for whole.
``PUARENA_FUZZ=500`` tries 500 damaged files of every kind, 2,000 specs and 2,000 command lines.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import resource
import shutil
import tarfile
import time
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from safetensors.numpy import save
from typer.testing import CliRunner

import puarena
from pu_tables import quick
from pu_tables import table as learnable
from puarena.cli import app
from puarena.datasets import images, own_tables
from puarena.errors import UserError
from puarena.experiments.doctor import examine
from puarena.experiments.plan import make_plan
from puarena.experiments.resume import StateFolder, interrupted_fleets
from puarena.experiments.spec import Spec
from puarena.pu import Problem
from puarena.report.compare import read_published
from puarena.report.export import export
from puarena.results import Folder, open_results
from puarena.results.planned import Planned
from puarena.results.published import read_card
from puarena.utils import files
from sample_results import curves

MANY = int(
    os.environ.get("PUARENA_FUZZ", "10")
)  # damaged files of every kind; four times as many specs
SLOW = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.filter_too_much]
LIMIT = 60.0  # seconds for anything here
SPEC = {"name": "demo", "problems": [{"dataset": "digits"}], "algorithms": ["nnpu"]}


@dataclass(frozen=True)
class Kind:
    """A kind of file: how one is made in a folder, which file that is, how it is read; is every bit of it checked?"""

    make: Callable[[Path], None]
    file: str
    read: Callable[[Path], None]
    sealed: bool = False


# Tables of users


def frame() -> pd.DataFrame:
    return pd.DataFrame(
        {"a": range(40), "b": [i * i for i in range(40)], "y": [i % 2 for i in range(40)]}
    )


def table(name: str, write: Callable[[Path], object], **more: object) -> Kind:
    def make(folder: Path) -> None:
        write(folder / name)
        (folder / "own.yaml").write_text(
            json.dumps({"file": name, "label": "y", "positive": [1], **more})
        )

    return Kind(make, name, lambda folder: own_tables.load(folder / "own.yaml") and None)


def parquet(file: Path) -> None:
    import duckdb

    with duckdb.connect() as connection:
        connection.from_df(frame()).write_parquet(str(file))


def rows() -> str:
    return "\n".join(f"{a}, {b}, {y}" for a, b, y in frame().itertuples(index=False))


def attributes(label: str) -> str:
    return f"@relation t\n@attribute a numeric\n@attribute b numeric\n@attribute {label}\n@data\n{rows()}\n"


def embedded(folder: Path) -> None:
    frame()[["y"]].to_csv(folder / "t.csv", index=False)
    np.save(folder / "x.npy", np.ones((40, 3)) * np.arange(40)[:, None])
    checksum = hashlib.sha256((folder / "x.npy").read_bytes()).hexdigest()
    about = {
        "file": "t.csv",
        "label": "y",
        "positive": [1],
        "features": "x.npy",
        "model": "m@1",
        "sha256": checksum,
    }
    (folder / "own.yaml").write_text(json.dumps(about))


def described(folder: Path) -> None:
    frame().to_csv(folder / "t.csv", index=False)
    (folder / "own.yaml").write_text(
        "name: t\nfile: t.csv\nlabel: y\npositive: [1]\ntest: 0.2\nsize: 20\n"
    )


# Results


def results(folder: Path) -> None:
    store = Folder.create(folder / "out", SPEC, "abc")
    store.write_shard("a", curves("a", algorithm="nnpu"))
    store.write_failure("b", ["b-0"], "boom")
    about = Problem("digits", prior=0.5).columns() | {"algorithm": "nnpu", "fleet": "a"}
    store.keep_planned(Planned({run: about | {"run": run} for run in ("a-0", "a-1", "b-0")}))
    marks = {
        "runs": '["b-0"]',
        "done": "1",
        "parts": '[{"step": 1, "log": {"step": [1]}}]',
        "seal": files.SEAL,
    }
    state = files.add_seal(save({"0/x": np.arange(50.0)}, marks))
    (folder / "out" / "progress" / "b.safetensors").write_bytes(state)
    claim = {"token": "t", "machine": "m", "host": "h", "pid": 1, "began": ""}
    (folder / "out" / "claims" / "b.1").write_text(json.dumps(claim))
    (folder / "out" / ".running-h-1.json").write_text(
        json.dumps({"host": "h", "pid": 1, "fleets": {"b": ["b-0"]}})
    )
    export(store, folder / "summary.parquet")


def commands(*words: str) -> Callable[[Path], None]:
    """Commands that end in good order, whatever they find."""

    def read(folder: Path) -> None:
        for word in words:
            done = CliRunner().invoke(app, [word, str(folder / "out")])
            assert done.exit_code in (0, 1, 2), (done.output, done.exception)
            assert done.exception is None or isinstance(done.exception, SystemExit), done.exception

    return read


def shard(folder: Path) -> None:
    commands("status", "doctor")(folder)
    open_results(folder / "out").outcomes()


def plan(folder: Path) -> None:
    commands("status", "doctor")(folder)
    open_results(folder / "out").planned()


def state(folder: Path) -> None:
    commands("status", "doctor")(folder)
    store, said = Folder(folder / "out"), []
    damage = [finding for finding in examine(folder / "out").findings if "progress" in finding.file]
    fleets = interrupted_fleets(
        store, [], StateFolder(store.path / "progress", "abc", "cpu"), said.append
    )
    assert fleets == {}
    if damage:
        raise UserError(damage[0].what)


def summary(folder: Path) -> None:
    open_results(folder / "summary.parquet").outcomes()


def claim(folder: Path) -> None:
    commands("status")(folder)
    Folder(folder / "out").claimed()
    mine = Folder(folder / "out").claim("b")
    if mine is not None:
        mine.release()


# Models, pictures, published numbers


def model(folder: Path) -> None:
    X, y, _ = learnable(120)
    quick("nnpu", steps=10).fit(X, y).save(folder / "model")


def predictions(folder: Path) -> None:
    puarena.load_model(folder / "model")


def picture(seed: int) -> bytes:
    out = io.BytesIO()
    pixels = np.random.default_rng(seed).integers(0, 256, (40, 50, 3), np.uint8)
    Image.fromarray(pixels).save(out, "JPEG" if seed % 2 else "PNG")
    return out.getvalue()


PICTURES = {
    f"train/n{seed % 3}/{seed}.{'jpg' if seed % 2 else 'png'}": picture(seed) for seed in range(6)
}


def zipped(folder: Path) -> None:
    with zipfile.ZipFile(folder / "images.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in PICTURES.items():
            packed.writestr(name, content)


def tarred(folder: Path) -> None:
    with tarfile.open(folder / "images.tgz", "w:gz") as packed:
        for name, content in PICTURES.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            packed.addfile(entry, io.BytesIO(content))


def pictures(name: str) -> Callable[[Path], None]:
    def read(folder: Path) -> None:
        names = images.list_images(folder / name)
        images.decode_images(folder / name, names)

    return read


def published(folder: Path) -> None:
    names = "dataset,case,algorithm,calibrated,test_metric,criterion,mean,error\n"
    lines = "".join(f"letter,1,nnPU,{c},accuracy,PA,{80 + c},0.5\n" for c in (0, 1))
    (folder / "numbers.csv").write_text(names + lines)


KINDS = {
    "csv": table("t.csv", lambda file: frame().to_csv(file, index=False)),
    "csv.gz": table(
        "t.csv.gz",
        lambda file: file.write_bytes(gzip.compress(frame().to_csv(index=False).encode())),
    ),
    "npz": table(
        "t.npz", lambda file: np.savez_compressed(file, X=np.ones((40, 2)), y=np.arange(40) % 2)
    ),
    "parquet": table("t.parquet", parquet),
    "arff": table("t.arff", lambda file: file.write_text(attributes("y {0, 1}"))),
    "dat": table("t.dat", lambda file: file.write_text(attributes("y {0, 1}"))),
    "npy": Kind(
        embedded, "x.npy", lambda folder: own_tables.load(folder / "own.yaml") and None, sealed=True
    ),
    "yaml": Kind(
        described, "own.yaml", lambda folder: own_tables.load(folder / "own.yaml") and None
    ),
    "shard": Kind(results, "out/shards/a.parquet", shard, sealed=True),
    "plan": Kind(results, "out/planned.parquet", plan, sealed=True),
    "state": Kind(results, "out/progress/b.safetensors", state, sealed=True),
    "summary": Kind(results, "summary.parquet", summary, sealed=True),
    "note": Kind(results, "out/failures/b.json", commands("status", "doctor")),
    "spec.json": Kind(results, "out/spec.json", commands("status", "doctor")),
    "claim": Kind(results, "out/claims/b.1", claim),
    "beacon": Kind(results, "out/.running-h-1.json", commands("status")),
    "model": Kind(model, "model", predictions),
    "zip": Kind(zipped, "images.zip", pictures("images.zip")),
    "tgz": Kind(tarred, "images.tgz", pictures("images.tgz")),
    "published": Kind(
        published, "numbers.csv", lambda folder: read_published(folder / "numbers.csv") and None
    ),
    "card": Kind(
        lambda folder: (folder / "c.json").write_text('{"name": "x", "files": {}}') and None,
        "c.json",
        lambda folder: read_card(folder / "c.parquet") and None,
    ),
}


@st.composite
def damages(draw: st.DrawFn) -> Callable[[bytes], bytes]:
    """Cut, overwritten, added to, a bit flipped, a part gone or there twice."""
    place, length, noise = (
        draw(st.floats(0, 1)),
        draw(st.integers(1, 400)),
        draw(st.binary(min_size=1, max_size=12)),
    )
    how = draw(st.sampled_from(["cut", "overwrite", "insert", "flip", "drop", "double", "zeros"]))

    def damage(content: bytes) -> bytes:
        at = min(int(place * len(content)), max(len(content) - 1, 0))
        flipped = bytes([content[at] ^ (1 << length % 8)]) if content else b""
        return {
            "cut": content[:at],
            "overwrite": content[:at] + noise + content[at + len(noise) :],
            "insert": content[:at] + noise + content[at:],
            "flip": content[:at] + flipped + content[at + 1 :],
            "drop": content[:at] + content[at + length :],
            "double": content[: at + length] + content[at:],
            "zeros": content[:at] + bytes(length) + content[at + length :],
        }[how]

    return damage


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Callable[[str], Path]:
    """A folder with a whole file of a kind, made once."""
    made: dict[str, Path] = {}

    def folder(name: str) -> Path:
        if name not in made:
            made[name] = tmp_path_factory.mktemp("whole")
            KINDS[name].make(made[name])
            copy = tmp_path_factory.mktemp("copy") / "folder"
            shutil.copytree(made[name], copy)
            KINDS[name].read(copy)  # what is whole is read
        return made[name]

    return folder


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=MANY, deadline=None, suppress_health_check=SLOW)
@given(damage=damages())
def test_damaged_files(tmp_path_factory, whole, name, damage):
    kind, around = KINDS[name], tmp_path_factory.mktemp("around")
    folder = around / "folder"
    shutil.copytree(whole(name), folder)
    content = (folder / kind.file).read_bytes()
    damaged = damage(content)
    (folder / kind.file).write_bytes(damaged)
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    accepted = False
    with suppress(UserError):
        kind.read(folder)
        accepted = True
    assert time.monotonic() - began < LIMIT
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 20, "a gigabyte"
    assert not (kind.sealed and accepted and damaged != content), "taken for whole"
    assert [path.name for path in around.iterdir()] == ["folder"], "nothing is written elsewhere"
    shutil.rmtree(around)


# Specs and command lines

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
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
        "labeling": values,
    },
)


@settings(max_examples=4 * MANY, deadline=None, suppress_health_check=SLOW)
@given(st.dictionaries(KEYS, values, max_size=4), st.lists(PROBLEM, max_size=2), st.booleans())
def test_any_spec_is_planned_or_refused(content, problems, few):
    content = {"algorithms": ["nnpu"], **content, "problems": problems} if few else content
    content.pop("plugins", None)
    with suppress(UserError):
        assert make_plan(Spec.load({**content, "splits": 1, "configs": 1})).runs


WORDS = st.sampled_from(
    [
        "--splits",
        "--rates",
        "--cases",
        "--settings",
        "--for",
        "--engine",
        "--gpus",
        "--algorithms",
        "--set",
        "--workers",
        "--priors",
    ]
)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=6) | st.sampled_from(
    ["0", "1", "-1", "all", "1e9", "nan", "0.5"]
)


@settings(max_examples=4 * MANY, deadline=None, suppress_health_check=SLOW)
@given(st.lists(st.tuples(WORDS, TEXTS), min_size=1, max_size=3))
def test_any_command_line_is_refused_or_planned(tmp_path_factory, pairs):
    folder = tmp_path_factory.mktemp("nothing")
    words = [word for pair in pairs for word in pair]
    done = CliRunner().invoke(
        app, ["run", "demo", "--out", str(folder / "out"), *words, "--splits", "0"]
    )
    assert done.exit_code == 2, (done.output, done.exception)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert list(folder.iterdir()) == []
