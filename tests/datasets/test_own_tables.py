"""A user's own table: CSV, Parquet, NPZ or embeddings with a few lines of YAML, and its mistakes."""

from __future__ import annotations

import hashlib

import duckdb
import numpy as np
import pandas as pd
import pytest
import yaml

from puarena import datasets
from puarena.errors import UserError
from puarena.pu import Problem, draw_pu_data
from user_errors import raises_user_error

N = 200
AGE = np.arange(N) % 37 + 20
CALLS = np.arange(N) * 0.5 - 3
LEFT = ["yes" if i % 4 == 0 else "no" for i in range(N)]  # 25% positive
PLAN = [i % 3 for i in range(N)]


def table(**columns) -> pd.DataFrame:
    return pd.DataFrame({"age": AGE, "calls": CALLS, "left": LEFT} | columns)


def describe(folder, **spec):
    content = {"file": "t.csv", "label": "left", "positive": ["yes"]} | spec
    path = folder / "own.yaml"
    path.write_text(yaml.safe_dump({k: v for k, v in content.items() if v is not None}))
    return path


def fails(path, code: str, *tokens: str) -> None:
    with raises_user_error(code, *tokens):
        datasets.load(path)


@pytest.fixture
def folder(tmp_path):
    table().to_csv(tmp_path / "t.csv", index=False)
    return tmp_path


def test_csv(folder):
    dataset = datasets.load(describe(folder))
    assert dataset.name == "own"
    assert dataset.class_names == ("no", "yes")
    assert dataset.cases == {1: (1,)}
    assert dataset.features.dtype == np.float32
    columns = [(AGE - AGE.mean()) / AGE.std(), (CALLS - CALLS.mean()) / CALLS.std()]
    assert dataset.features == pytest.approx(np.stack(columns, axis=1), abs=1e-5)
    assert list(dataset.classes) == [int(value == "yes") for value in LEFT]
    assert (dataset.test_fraction, dataset.size, dataset.balanced) == (0.2, 160, False)
    assert dataset.prior_of(1) == dataset.default_prior == 0.25
    pu, hidden = draw_pu_data(dataset, Problem("own", rate=0.1), 0)
    assert len(pu.p_train) + len(pu.p_val) + len(pu.u_train) + len(pu.u_val) == 160
    assert (len(pu.test), hidden.test.sum()) == (40, 10)


def test_a_table_is_read_again_only_if_it_changes(folder):
    path = describe(folder)
    dataset = datasets.load(str(path))
    assert datasets.load(path) is dataset
    table(age=AGE + np.arange(N)).to_csv(folder / "t.csv", index=False)
    assert datasets.load(path).revision != dataset.revision


def test_info_of_own_data(folder):
    info = datasets.info(str(describe(folder, name="churn")))
    assert (info.name, info.shape, info.network, info.kind) == ("churn", (2,), "mlp", "tabular")
    assert (info.examples, info.class_names, info.default_prior) == (N, ("no", "yes"), 0.25)


def test_every_kind_of_file_gives_the_same(folder):
    csv = datasets.load(describe(folder))
    with duckdb.connect() as connection:
        connection.from_df(table()).write_parquet(str(folder / "t.parquet"))
    np.savez(folder / "t.npz", X=np.stack([AGE, CALLS], axis=1), left=np.array(LEFT))
    table().to_csv(folder / "t.csv.gz", index=False)
    for file in ("t.parquet", "t.npz", "t.csv.gz"):
        dataset = datasets.load(describe(folder, file=file))
        assert np.array_equal(dataset.features, csv.features)
        assert np.array_equal(dataset.classes, csv.classes)
        assert dataset.class_names == csv.class_names


def test_arrays_of_an_npz_file_by_name(folder):
    pixels = np.ones((N, 4, 3)) * np.arange(N)[:, None, None]
    np.savez(folder / "t.npz", images=pixels, y=PLAN)
    spec = {"label": None, "features": "images", "positive": 2, "standardize": False}
    dataset = datasets.load(describe(folder, file="t.npz", **spec))
    assert dataset.features.shape == (N, 12)
    assert dataset.features[7, 5] == 7
    assert dataset.class_names == ("0", "1", "2")
    assert dataset.cases == {1: (2,)}


def test_choices(folder):
    table(plan=PLAN).to_csv(folder / "t.csv", index=False)
    spec = {"name": "churn", "label": "plan", "positive": None, "cases": {1: [0], 2: [1, 2.0]}}
    spec |= {"features": ["calls"], "test": 0.25, "size": 120, "standardize": False}
    dataset = datasets.load(describe(folder, **spec))
    assert dataset.name == "churn"
    assert dataset.cases == {1: (0,), 2: (1, 2)}
    assert dataset.features[:, 0] == pytest.approx(CALLS)
    assert (dataset.size, dataset.test_fraction) == (120, 0.25)
    assert dataset.prior_of(1) == pytest.approx(1 / 3, abs=0.01)
    assert dataset.prior_of(2) == pytest.approx(1 - dataset.prior_of(1))
    for case in (1, 2):
        pu, hidden = draw_pu_data(dataset, Problem("churn", case, rate=0.2), 0)
        assert pu.prior == dataset.prior_of(case)
        truth = np.concatenate([hidden.u_train, hidden.u_val])
        assert truth.mean() == pytest.approx(pu.shifted_prior, abs=0.01)


def test_balanced_and_prior(folder):
    table(plan=PLAN).to_csv(folder / "t.csv", index=False)
    spec = {"label": "plan", "features": ["age"], "positive": [1], "balanced": True}
    dataset = datasets.load(describe(folder, **spec))
    assert dataset.balanced
    assert dataset.prior_of(1) == pytest.approx(1 / 3)
    assert dataset.size == 159
    assert draw_pu_data(dataset, Problem("own", rate=0.2), 0)[0].prior == pytest.approx(1 / 3)
    spec = {"features": ["age"], "prior": 0.4}
    assert datasets.load(describe(folder, **spec)).prior_of(1) == 0.4


def test_a_test_file(folder):
    table()[["left", "calls", "age"]][:60].to_csv(folder / "test.csv", index=False)
    dataset = datasets.load(describe(folder, test="test.csv"))
    assert (list(dataset.train[[0, -1]]), list(dataset.test[[0, -1]])) == ([0, 199], [200, 259])
    assert (dataset.size, dataset.test_fraction) == (200, None)
    # The test file is scaled with the values of the training file.
    assert np.array_equal(dataset.features[200:], dataset.features[:60])
    assert np.array_equal(dataset.classes[200:], dataset.classes[:60])


def test_text_is_encoded_on_request(folder):
    towns = np.array(["Ulm", "Bonn", None], object)[PLAN]
    frame = table(town=towns, calls=np.where(AGE == 20, np.nan, CALLS))
    frame.to_csv(folder / "t.csv", index=False)
    frame[:9].assign(town="Kiel").to_csv(folder / "test.csv", index=False)
    fails(describe(folder, features=["town"]), "wrong-format", "'town'", "encode: true")
    spec = {"encode": True, "standardize": False, "test": "test.csv"}
    dataset = datasets.load(describe(folder, **spec))
    assert dataset.features.shape == (N + 9, 5)  # age, calls, and three values of town
    assert dataset.features[:3, 2:].tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 1]]
    assert dataset.features[0, 1] == np.float32(np.median(CALLS[AGE != 20]))
    assert (dataset.features[N:, 2:] == 0).all()  # a value that only the test file has
    frame.assign(town=[f"text {i}" for i in range(N)]).to_csv(folder / "t.csv", index=False)
    assert datasets.load(describe(folder, encode=True)).features.shape == (N, 2 + N)
    many = pd.concat([frame] * 6).assign(town=[f"text {i}" for i in range(6 * N)])
    many.to_csv(folder / "t.csv", index=False)
    fails(describe(folder, encode=True), "not-supported", "'town'", "1200")


def test_constant_columns_and_truth_values(folder):
    flag = np.arange(N) % 2 == 0
    table(same=5, flag=flag).to_csv(folder / "t.csv", index=False)
    dataset = datasets.load(describe(folder))
    assert dataset.features.shape == (N, 4)
    assert (dataset.features[:, 2] == 0).all()
    assert dataset.features[:, 3] == pytest.approx(np.where(flag, 1, -1))
    table(left=[value == "yes" for value in LEFT]).to_csv(folder / "t.csv", index=False)
    assert datasets.load(describe(folder, positive=True)).prior_of(1) == 0.25


def test_yes_without_quotes_means_the_text(folder):
    path = describe(folder)
    for text, case in (("[yes]", 1), ("no", 0)):
        path.write_text(f"file: t.csv\nlabel: left\npositive: {text}\n")
        assert datasets.load(path).cases == {1: (case,)}
    table(left=np.array(["yes", "on", "no"])[PLAN]).to_csv(folder / "t.csv", index=False)
    path.write_text("file: t.csv\nlabel: left\npositive: [yes]\n")
    fails(path, "unknown-name", "quotes")


# Embeddings


@pytest.fixture
def reviews(tmp_path):
    frame = pd.DataFrame({"text": [f"text {i}" for i in range(60)], "y": list("nppp") * 15})
    frame.to_csv(tmp_path / "reviews.csv", index=False)
    np.save(tmp_path / "reviews.npy", np.arange(180, dtype=np.float32).reshape(60, 3))
    checksum = hashlib.sha256((tmp_path / "reviews.npy").read_bytes()).hexdigest()
    return {
        "file": "reviews.csv",
        "label": "y",
        "positive": ["p"],
        "features": "reviews.npy",
        "model": "mini@c9745ed1",
        "sha256": checksum,
        "standardize": False,
    }


def test_text_as_embeddings(tmp_path, reviews):
    path = describe(tmp_path, **reviews)
    dataset = datasets.load(path)
    assert dataset.features.tolist() == np.arange(180).reshape(60, 3).tolist()
    assert dataset.classes[:5].tolist() == [0, 1, 1, 1, 0]
    assert "mini@c9745ed1" in datasets.info(path).description
    np.save(tmp_path / "reviews.npy", np.zeros((59, 3)))
    checksum = hashlib.sha256((tmp_path / "reviews.npy").read_bytes()).hexdigest()
    fails(describe(tmp_path, **(reviews | {"sha256": checksum})), "wrong-format", "60 rows")


@pytest.mark.parametrize(
    ("changes", "code", "token"),
    [
        ({"sha256": "0" * 64}, "damaged-file", "mini@c9745ed1"),
        ({"sha256": None}, "invalid-spec", "`sha256`"),
        ({"model": "mini"}, "invalid-spec", "`model`"),
        ({"features": ["text"]}, "invalid-spec", "`model`"),
        ({"features": ["reviews.npy", "text"]}, "invalid-spec", ".npy"),
        ({"features": "other.npy"}, "missing-file", "other.npy"),
    ],
)
def test_bad_embeddings(tmp_path, reviews, changes, code, token):
    fails(describe(tmp_path, **(reviews | changes)), code, token)


# Mistakes


@pytest.mark.parametrize(
    ("spec", "code", "token"),
    [
        ({"positve": ["x"]}, "unknown-name", "'positive'"),
        ({"file": None}, "invalid-spec", "`file`"),
        ({"file": "absent.csv"}, "missing-file", "absent.csv"),
        ({"test": "absent.csv"}, "missing-file", "absent.csv"),
        ({"file": "own.yaml"}, "wrong-format", "own.yaml"),
        ({"label": "lft"}, "unknown-name", "'left'"),
        ({"features": ["agee"]}, "unknown-name", "'age'"),
        ({"features": ["age", "left"]}, "conflict", "'left'"),
        ({"positive": ["yess"]}, "unknown-name", "'yes'"),
        ({"positive": []}, "invalid-spec", "positives"),
        ({"positive": ["yes", "no"]}, "invalid-spec", "negatives"),
        ({"positive": None}, "invalid-spec", "`positive`"),
        ({"cases": {1: ["yes"]}}, "invalid-spec", "`positive`"),
        ({"positive": None, "cases": {}}, "invalid-spec", "`cases`"),
        ({"positive": None, "cases": {"a": ["yes"]}}, "invalid-spec", "`cases`"),
        ({"test": 1.5}, "invalid-spec", "`test`"),
        ({"prior": 0}, "invalid-spec", "`prior`"),
        ({"size": 161}, "missing-data", "160"),
        ({"name": "letter"}, "conflict", "'letter'"),
    ],
    ids=str,
)
def test_bad_descriptions(folder, spec, code, token):
    fails(describe(folder, **spec), code, token)


def test_a_missing_description(folder):
    fails(folder / "nowhere.yaml", "missing-file", "nowhere.yaml")


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("", "missing-data"),
        ("inf", "missing-data"),
        ("much", "wrong-format"),
        ("1e300", "invalid-value"),
    ],
)
def test_bad_values_name_column_and_row(folder, value, code):
    calls = [*map(str, CALLS)]
    calls[7] = value
    table(calls=calls).to_csv(folder / "t.csv", index=False)
    for standardize in (False, True):
        fails(describe(folder, standardize=standardize), code, "'calls'", "data row 8")


def test_missing_labels(folder):
    table(left=["yes", "no", None, *LEFT[3:]]).to_csv(folder / "t.csv", index=False)
    fails(describe(folder), "missing-data", "'left'", "data row 3")


@pytest.mark.parametrize(
    ("content", "code", "token"),
    [
        (b"", "damaged-file", "CSV"),
        (b"age,left\n", "missing-data", "rows"),
        (b"left\nyes\nno\n", "missing-data", "'left'"),
        (b"age,left\n1,yes,7\n2,no,8\n", "damaged-file", "CSV"),
        (b"age,left\n\xff\xfe\x00,yes\n", "damaged-file", "UTF-8"),
        (b"age,left,left\n1,yes,no\n", "conflict", "'left'"),
    ],
)
def test_bad_csv(folder, content, code, token):
    (folder / "t.csv").write_bytes(content)
    fails(describe(folder), code, token)


@pytest.mark.parametrize("file", ["t.parquet", "t.npz", "t.csv.gz"])
def test_damaged_files(folder, file):
    (folder / file).write_bytes(b"something else altogether")
    fails(describe(folder, file=file), "damaged-file", file)


@pytest.mark.parametrize(
    ("arrays", "code"),
    [
        ({"X": np.ones((9, 2)), "z": np.ones(9)}, "unknown-name"),
        ({"x": np.ones((9, 2)), "left": np.ones(9)}, "unknown-name"),
        ({"X": np.ones((9, 2)), "left": np.ones(8)}, "wrong-format"),
        ({"X": np.ones(9), "left": np.ones(9)}, "wrong-format"),
        ({"X": np.full((9, 2), "a"), "left": np.ones(9)}, "wrong-format"),
        ({"X": np.where(np.eye(9) > 0, np.nan, 1), "left": np.ones(9)}, "missing-data"),
        ({"X": np.ones((9, 2)), "left": np.full(9, np.nan)}, "missing-data"),
        ({"X": np.array([[{}]] * 9), "left": np.ones(9)}, "damaged-file"),
    ],
    ids=range(8),
)
def test_bad_npz(folder, arrays, code):
    np.savez(folder / "t.npz", **arrays)
    fails(describe(folder, file="t.npz"), code)


def test_a_test_file_with_other_columns(folder):
    pd.DataFrame({"age": [1, 2], "left": ["yes", "no"]}).to_csv(folder / "test.csv", index=False)
    fails(describe(folder, test="test.csv"), "unknown-name", "'calls'")


def test_too_few_positives(folder):
    table(left=["yes", *["no"] * (N - 1)]).to_csv(folder / "t.csv", index=False)
    with pytest.raises(UserError) as caught:
        draw_pu_data(datasets.load(describe(folder)), Problem("own", rate=0.3), 0)
    assert caught.value.code == "missing-data"
