"""A user's own table: CSV, Parquet and NPZ with a few lines of YAML, and everything that can be wrong with them."""

from __future__ import annotations

import numpy as np
import pytest
import yaml

from puarena import datasets
from puarena.errors import UserError
from puarena.pu import Problem, draw_pu_data

N = 200
AGE = np.arange(N) % 37 + 20
CALLS = np.arange(N) * 0.5 - 3
LEFT = ["yes" if i % 4 == 0 else "no" for i in range(N)]  # 25% positive


def write_csv(path, columns):
    rows = zip(*columns.values(), strict=True)
    path.write_text(
        "\n".join([",".join(columns), *(",".join(str(v) for v in row) for row in rows)]) + "\n"
    )


def table():
    return {"age": list(AGE), "calls": list(CALLS), "left": list(LEFT)}


def describe(folder, **spec):
    content = {"file": "t.csv", "label": "left", "positive": ["yes"]} | spec
    path = folder / "own.yaml"
    path.write_text(
        yaml.safe_dump({key: value for key, value in content.items() if value is not None})
    )
    return path


@pytest.fixture
def folder(tmp_path):
    write_csv(tmp_path / "t.csv", table())
    return tmp_path


def test_csv(folder):
    dataset = datasets.load(describe(folder))
    assert dataset.name == "own"
    assert dataset.class_names == ("no", "yes")
    assert dataset.cases == {1: (1,)}
    assert dataset.features.dtype == np.float32
    expected = np.stack(
        [(AGE - AGE.mean()) / AGE.std(), (CALLS - CALLS.mean()) / CALLS.std()], axis=1
    )
    assert dataset.features == pytest.approx(expected, abs=1e-5)
    assert list(dataset.classes) == [int(value == "yes") for value in LEFT]
    assert (dataset.test_fraction, dataset.size, dataset.balanced) == (0.2, 160, False)
    assert dataset.prior_of(1) == dataset.default_prior == 0.25
    pu, hidden = draw_pu_data(dataset, Problem("own", rate=0.1), 0)
    assert len(pu.p_train) + len(pu.p_val) + len(pu.u_train) + len(pu.u_val) == 160
    assert (len(pu.test), hidden.test.sum()) == (40, 10)


def test_loading_by_text_or_path_and_again(folder):
    path = describe(folder)
    dataset = datasets.load(str(path))
    assert datasets.load(path) is dataset
    write_csv(folder / "t.csv", {**table(), "age": list(AGE + np.arange(N))})
    assert datasets.load(path).revision != dataset.revision


def test_info_of_own_data(folder):
    info = datasets.info(str(describe(folder, name="churn")))
    assert (info.name, info.shape, info.network, info.kind) == ("churn", (2,), "mlp", "tabular")
    assert (info.examples, info.class_names, info.default_prior) == (N, ("no", "yes"), 0.25)


def test_parquet_and_npz_give_the_same(folder):
    import duckdb

    csv = datasets.load(describe(folder))
    with duckdb.connect() as connection:
        connection.sql(
            f"copy (from read_csv('{folder / 't.csv'}', types={{'left': 'VARCHAR'}})) to '{folder / 't.parquet'}'"
        )
    np.savez(folder / "t.npz", X=np.stack([AGE, CALLS], axis=1), left=np.array(LEFT))
    for file in ("t.parquet", "t.npz"):
        dataset = datasets.load(describe(folder, file=file))
        assert np.array_equal(dataset.features, csv.features)
        assert np.array_equal(dataset.classes, csv.classes)
        assert dataset.class_names == csv.class_names


def test_npz_names(folder):
    np.savez(
        folder / "t.npz",
        images=np.ones((N, 4, 3)) * np.arange(N)[:, None, None],
        y=np.arange(N) % 3,
    )
    dataset = datasets.load(
        describe(folder, file="t.npz", label=None, features="images", positive=2, standardize=False)
    )
    assert dataset.features.shape == (N, 12)
    assert dataset.features[7, 5] == 7
    assert dataset.class_names == ("0", "1", "2")
    assert dataset.cases == {1: (2,)}


def test_choices(folder):
    write_csv(folder / "t.csv", table() | {"plan": [i % 3 for i in range(N)]})
    spec = {
        "name": "churn",
        "label": "plan",
        "positive": None,
        "cases": {1: [0], 2: [1, 2.0]},
        "features": ["calls"],
        "test": 0.25,
        "size": 120,
        "standardize": False,
    }
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
        assert np.concatenate([hidden.u_train, hidden.u_val]).mean() == pytest.approx(
            pu.shifted_prior, abs=0.01
        )


def test_balanced_and_prior(folder):
    write_csv(folder / "t.csv", table() | {"plan": [i % 3 for i in range(N)]})
    dataset = datasets.load(
        describe(folder, label="plan", features=["age"], positive=[1], balanced=True)
    )
    assert dataset.balanced
    assert dataset.prior_of(1) == pytest.approx(1 / 3)
    assert dataset.size == 159
    assert draw_pu_data(dataset, Problem("own", rate=0.2), 0)[0].prior == pytest.approx(1 / 3)
    assert datasets.load(describe(folder, prior=0.4)).prior_of(1) == 0.4


def test_a_test_file(folder):
    write_csv(
        folder / "test.csv", {name: values[:60] for name, values in reversed(table().items())}
    )
    dataset = datasets.load(describe(folder, test="test.csv"))
    assert (list(dataset.train[[0, -1]]), list(dataset.test[[0, -1]])) == ([0, 199], [200, 259])
    assert (dataset.size, dataset.test_fraction) == (200, None)
    assert np.array_equal(
        dataset.features[200:], dataset.features[:60]
    )  # scaled with the training file's values
    assert np.array_equal(dataset.classes[200:], dataset.classes[:60])


def test_columns_without_spread_and_truth_values(folder):
    write_csv(folder / "t.csv", table() | {"same": [5] * N, "flag": [i % 2 == 0 for i in range(N)]})
    dataset = datasets.load(describe(folder))
    assert dataset.features.shape == (N, 4)
    assert (dataset.features[:, 2] == 0).all()
    assert dataset.features[:, 3] == pytest.approx(np.where(np.arange(N) % 2 == 0, 1, -1))


def test_truth_values_as_labels(folder):
    write_csv(folder / "t.csv", table() | {"left": [value == "yes" for value in LEFT]})
    assert datasets.load(describe(folder, positive=True)).prior_of(1) == 0.25


# Bad input


@pytest.mark.parametrize(
    "spec, message",
    [
        ({"positve": ["x"]}, "unknown key 'positve'; did you mean 'positive'"),
        ({"file": None}, "`file` is wrong"),
        ({"file": "absent.csv"}, r"absent\.csv' does not exist"),
        ({"test": "absent.csv"}, r"absent\.csv' does not exist"),
        ({"file": "own.yaml"}, r"no \.csv, \.parquet, \.arff, \.dat or \.npz"),
        ({"label": "lft"}, "there is no column 'lft'; did you mean 'left'"),
        ({"features": ["agee"]}, "there is no column 'agee'; did you mean 'age'"),
        ({"features": ["age", "left"]}, "'left' is the label"),
        ({"positive": ["yess"]}, "unknown positive label 'yess'; did you mean 'yes'"),
        ({"positive": [0.5]}, "unknown positive label '0.5'"),
        ({"positive": []}, "no positives"),
        ({"positive": ["yes", "no"]}, "no negatives"),
        ({"positive": None}, "give either `positive`"),
        ({"cases": {1: ["yes"]}}, "give either `positive`"),
        ({"positive": None, "cases": {}}, "is empty"),
        ({"positive": None, "cases": {"a": ["yes"]}}, "`cases` is wrong"),
        ({"test": 1.5}, "`test` is wrong"),
        ({"prior": 0}, "`prior` is wrong"),
        ({"prior": 1.2}, "`prior` is wrong"),
        ({"size": 0}, "`size` is wrong"),
        ({"size": 161}, "`size` is 161 but only 160 examples"),
        ({"balanced": "perhaps"}, "`balanced` is wrong"),
        ({"name": "letter"}, "belongs to a built-in dataset"),
    ],
    ids=str,
)
def test_bad_descriptions(folder, spec, message):
    with pytest.raises(UserError, match=message) as caught:
        datasets.load(describe(folder, **spec))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text, message",
    [("file: [", "not valid YAML"), ("- 1", "must hold keys and values"), ("", "must hold keys")],
)
def test_bad_yaml(folder, text, message):
    (folder / "bad.yml").write_text(text)
    with pytest.raises(UserError, match=message):
        datasets.load(folder / "bad.yml")


def test_missing_yaml(folder):
    with pytest.raises(UserError, match=r"there is no dataset file .*nowhere"):
        datasets.load(folder / "nowhere.yaml")


@pytest.mark.parametrize(
    "value, message",
    [
        ("", r"column 'calls' in data row 8 is missing"),
        ("nan", r"column 'calls' in data row 8 is missing"),
        ("inf", r"column 'calls' in data row 8 is infinite"),
        ("-inf", r"column 'calls' in data row 8 is infinite"),
        ("much", r"'much' in column 'calls', data row 8, is not a number"),
        ("1e300", r"column 'calls' in data row 8 is too large"),
    ],
)
def test_bad_values_name_column_and_row(folder, value, message):
    columns = table()
    columns["calls"][7] = value
    write_csv(folder / "t.csv", columns)
    with pytest.raises(UserError, match=message):
        datasets.load(describe(folder, standardize=False))


def test_categorical_columns_are_refused(folder):
    write_csv(folder / "t.csv", table() | {"town": ["Ulm", "Bonn"] * (N // 2)})
    with pytest.raises(UserError, match=r"column 'town' is categorical \('Ulm' in data row 1\)"):
        datasets.load(describe(folder))
    assert datasets.load(describe(folder, features=["age", "calls"])).features.shape == (N, 2)


def test_dates_are_refused(folder):
    import duckdb

    with duckdb.connect() as connection:
        query = "select 'a' as left, i as x, date '2020-01-01' + i::int as day from range(50) t(i)"
        connection.sql(f"copy ({query}) to '{folder / 't.parquet'}' (format parquet)")
    with pytest.raises(UserError, match="column 'day' is categorical"):
        datasets.load(describe(folder, file="t.parquet"))


def test_missing_labels(folder):
    columns = table()
    columns["left"][2] = ""
    write_csv(folder / "t.csv", columns)
    with pytest.raises(UserError, match="label 'left' is missing in data row 3"):
        datasets.load(describe(folder))


@pytest.mark.parametrize(
    "content, message",
    [
        (b"", "cannot be read as CSV"),
        (b"age,left\n", "has no rows"),
        (b"left\nyes\nno\n", "no column beside the label"),
        (b"age,left\n1,yes,7\n2,no,8\n", "cannot be read as CSV"),
        (b"age,left\n\xff\xfe\x00,yes\n", "cannot be read as CSV"),
    ],
)
def test_bad_csv(folder, content, message):
    (folder / "t.csv").write_bytes(content)
    with pytest.raises(UserError, match=message) as caught:
        datasets.load(describe(folder))
    assert "\n" not in str(caught.value)


def test_foreign_files(folder):
    for file in ("t.parquet", "t.npz"):
        (folder / file).write_bytes(b"something else altogether")
        with pytest.raises(UserError, match="cannot be read as"):
            datasets.load(describe(folder, file=file))


@pytest.mark.parametrize(
    "arrays, message",
    [
        ({"X": np.ones((9, 2)), "z": np.ones(9)}, "there is no array 'left'"),
        ({"x": np.ones((9, 2)), "left": np.ones(9)}, "there is no array 'X'"),
        ({"X": np.ones((9, 2)), "left": np.ones(8)}, "the shapes are"),
        ({"X": np.ones(9), "left": np.ones(9)}, "the shapes are"),
        ({"X": np.full((9, 2), "a"), "left": np.ones(9)}, "must be real numbers"),
        ({"X": np.ones((9, 2)) * 1j, "left": np.ones(9)}, "must be real numbers"),
        (
            {"X": np.where(np.eye(9) > 0, np.nan, 1), "left": np.ones(9)},
            r"column 'X\[0\]' in data row 1 is missing",
        ),
        (
            {"X": np.ones((9, 2)), "left": np.full(9, np.nan)},
            "label 'left' is missing in data row 1",
        ),
        ({"X": np.array([[{}]] * 9), "left": np.ones(9)}, "cannot be read as NPZ"),
    ],
    ids=range(9),
)
def test_bad_npz(folder, arrays, message):
    np.savez(folder / "t.npz", **arrays)
    with pytest.raises(UserError, match=message):
        datasets.load(describe(folder, file="t.npz"))


def test_a_test_file_with_other_columns(folder):
    write_csv(folder / "test.csv", {"age": [1, 2], "left": ["yes", "no"]})
    with pytest.raises(UserError, match="there is no column 'calls'"):
        datasets.load(describe(folder, test="test.csv"))


def test_too_few_positives(folder):
    columns = table() | {"left": ["yes", *["no"] * (N - 1)]}
    write_csv(folder / "t.csv", columns)
    dataset = datasets.load(describe(folder))
    with pytest.raises(UserError, match="is above the class prior"):
        draw_pu_data(dataset, Problem("own", rate=0.3), 0)


def test_yes_without_quotes_is_what_the_person_meant(folder):
    path = describe(folder)
    path.write_text("file: t.csv\nlabel: left\npositive: [yes]\n")
    assert datasets.load(path).cases == {1: (1,)}
    path.write_text("file: t.csv\nlabel: left\npositive: no\n")
    assert datasets.load(path).cases == {1: (0,)}


def test_a_truth_value_that_could_be_two_labels_is_refused(folder):
    write_csv(folder / "t.csv", table() | {"left": [("yes", "on", "no")[i % 3] for i in range(N)]})
    path = describe(folder)
    path.write_text("file: t.csv\nlabel: left\npositive: [yes]\n")
    with pytest.raises(UserError, match=r"needs quotes in YAML"):
        datasets.load(path)
