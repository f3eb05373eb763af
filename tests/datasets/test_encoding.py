"""The encoding of tables: numbers, gaps, categories, and the columns that are dropped or refused."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from pu_tables import needs_embeddings, notes
from puarena.datasets.encoding import (
    MAX_CATEGORIES,
    TableEncoder,
    TableWarning,
    fill_gaps,
    make_benchmark_encoder,
)
from puarena.errors import PUWarning
from user_errors import raises_user_error

N = 40
NUMBERS = np.arange(N, dtype=float)


def frame() -> pd.DataFrame:
    gaps = NUMBERS.copy()
    gaps[::8] = np.nan
    return pd.DataFrame(
        {
            "age": NUMBERS,
            "size": gaps,
            "flag": NUMBERS % 2 == 0,
            "city": [[" Ulm", "Bonn", None][i % 3] for i in range(N)],
            "kind": pd.Categorical(["a" if i % 2 else "b" for i in range(N)]),
            "count": pd.array([None if i % 5 == 0 else i for i in range(N)], dtype="Int64"),
        }
    )


def test_dense_and_tree_forms():
    encoder = TableEncoder().fit(frame())
    dense, tree = encoder.dense(frame()), encoder.tree(frame())
    assert encoder.dense_names == [
        *("age", "size", "size missing", "flag", "city = Bonn", "city = Ulm"),
        *("kind = a", "kind = b", "count", "count missing"),
    ]
    assert dense.shape == (N, encoder.width)
    assert not np.isnan(dense).any()
    size = frame()["size"]
    assert dense[0, 1:3].tolist() == [size.median(), 1]
    assert dense[1, 1:3].tolist() == [1, 0]
    # The third city is missing, which is neither of the values.
    assert dense[:3, 4:6].tolist() == [[0, 1], [1, 0], [0, 0]]
    assert tree.shape == (N, 6)
    assert np.isnan(tree[0, 1])
    assert tree[:2, 3].tolist() == [1, 0]
    assert np.isnan(tree[2, 3])


def test_new_rows_have_the_columns_that_were_fitted():
    encoder = TableEncoder().fit(frame())
    new = frame().assign(city="Lima", size=np.nan, age=np.nan)
    dense = encoder.dense(new)
    assert (dense[:, 4:6] == 0).all()
    assert (dense[:, 0] == np.median(NUMBERS)).all()  # a gap where none was fitted
    assert np.isnan(encoder.tree(new)[:, 3]).all()
    assert (encoder.dense(frame().assign(city=None))[:, 4:6] == 0).all()
    with pytest.raises(ValueError, match="'age'"):
        encoder.dense(frame().assign(age="old"))
    with pytest.raises(ValueError, match="'city'"):
        encoder.dense(frame().assign(city=1.0))


def test_a_matrix_without_gaps_stays_as_it_is():
    matrix = np.random.default_rng(0).normal(size=(N, 3))
    encoder = TableEncoder().fit(matrix)
    assert encoder.dense(matrix) is matrix
    assert encoder.tree(matrix) is matrix
    matrix[0, 0] = np.nan
    assert TableEncoder().fit(matrix).dense(matrix).shape == (N, 4)


def test_polars_gives_what_pandas_gives():
    polars = pytest.importorskip("polars")
    city = [[" Ulm", "Bonn", None][i % 3] for i in range(N)]
    columns = {"age": NUMBERS, "flag": NUMBERS % 2 == 0, "city": city}
    ours, theirs = pd.DataFrame(columns), polars.DataFrame(columns)
    one, other = TableEncoder().fit(ours), TableEncoder().fit(theirs)
    np.testing.assert_array_equal(one.dense(ours), other.dense(theirs))
    np.testing.assert_array_equal(one.tree(ours), other.tree(theirs))


def test_dropped_columns_are_named():
    names = [f"customer {i}" for i in range(N)]
    table = frame().assign(row=names, empty=np.nan)
    with pytest.warns(TableWarning) as caught:
        encoder = TableEncoder().fit(table)
    messages = [str(warning.message) for warning in caught]
    assert ["'row'" in messages[0], "'empty'" in messages[1]] == [True, True]
    assert encoder.width == TableEncoder().fit(frame()).width
    with pytest.warns(TableWarning), pytest.raises(ValueError, match="no column"):
        TableEncoder().fit(table[["row", "empty"]])


def test_only_frequent_values_are_encoded():
    values = [f"v{i % 70}" if i % 2 else "v0" for i in range(1000)]
    encoder = TableEncoder().fit(pd.DataFrame({"x": values}))
    assert encoder.width == MAX_CATEGORIES + 1
    rows = encoder.dense(pd.DataFrame({"x": ["v0", "v69", "new", None]}))
    assert rows[:, 0].tolist() == [1, 0, 0, 0]
    assert rows[:, -1].tolist() == [0, 1, 1, 0]  # the others


def test_values_of_a_category_are_told_apart_by_their_share_of_labels():
    rng = np.random.default_rng(0)
    city = rng.integers(0, 100, 4000)
    labeled = rng.random(4000) < np.where(city % 2 == 0, 0.6, 0.1)
    table = pd.DataFrame({"city": [f"c{each}" for each in city], "x": rng.normal(size=4000)})
    encoder = TableEncoder().fit(table)
    rates = encoder.fit_rates(table, labeled, seed=1)
    dense, tree, linear = encoder.encode(table, rates)
    assert linear is None
    assert dense.shape[1] == encoder.width + 1
    np.testing.assert_array_equal(dense[:, -1], rates[:, 0])
    np.testing.assert_array_equal(tree[:, -1], rates[:, 0])
    new = pd.DataFrame({"city": ["c2", "c3", "nowhere", None], "x": 0.0})
    even, odd, unknown, _ = encoder.encode(new)[0][:, -1]
    assert even > 0 > unknown > odd
    # The share of a row is that of other rows: noise does not look like a signal.
    noise = rng.permutation(labeled)
    shares = encoder.fit_rates(table, noise, seed=1)[:, 0]
    assert abs(np.corrcoef(shares, noise)[0, 1]) < 0.06


def test_rare_values_are_not_remembered():
    values = [f"v{i % 200}" for i in range(1000)] + ["unique"]
    table = pd.DataFrame({"x": values})
    encoder = TableEncoder().fit(table)
    encoder.fit_rates(table, np.arange(1001) % 3 == 0, seed=0)
    assert "v7" in encoder.rates.categories_[0]
    assert "unique" not in encoder.rates.categories_[0]
    assert "unique" not in encoder.columns[0].values


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("row", [f"r-{i % 600}" for i in range(1000)]),
        ("customer_id", [f"c{i % 100}" for i in range(1000)]),
        ("customerID", [1000 + 7 * (i % 100) for i in range(1000)]),
        ("number", list(range(5000, 6000))),
        ("order", [3 * i + i % 2 for i in range(1000)]),
    ],
)
def test_identifiers_are_left_out(name, values):
    table = pd.DataFrame({"x": np.random.default_rng(0).normal(size=1000), name: values})
    with pytest.warns(TableWarning, match=name):
        encoder = TableEncoder().fit(table)
    assert encoder.dropped == [name]
    # They are needed for no prediction.
    assert encoder.dense(table[["x"]]).shape == (1000, 1)


def test_dates_become_numbers():
    days = pd.to_datetime(["2020-02-29", "2021-12-31", None, "2019-07-01"] * 10)
    written = [None if day is pd.NaT else day.strftime("%d/%m/%Y") for day in days]
    zoned = days.tz_localize("UTC")
    for values in (days, zoned, written, [None if d is pd.NaT else d.date() for d in days]):
        table = pd.DataFrame({"day": values, "x": 1.0})
        encoder = TableEncoder().fit(table)
        assert encoder.dense_names[:5] == [
            *("day year", "day month", "day weekday", "day days", "day missing")
        ]
        tree = encoder.tree(table)
        assert tree[:2, :4].tolist() == [[2020, 2, 5, 18321], [2021, 12, 4, 18992]]
        assert np.isnan(tree[2, :4]).all()
        assert encoder.dense(table.iloc[:3])[2, 4] == 1
        assert np.isnan(encoder.tree(table.assign(day=np.nan))[0, 0])


def test_text_is_read_by_its_words():
    rng = np.random.default_rng(0)
    subject = rng.random(300) < 0.5
    words = [f"w{i}" for i in range(40)]
    texts = [
        " ".join([*rng.choice(words, 8), "engine" if about else "goalkeeper"]) for about in subject
    ]
    table = pd.DataFrame({"note": texts, "x": rng.normal(size=300)})
    encoder = TableEncoder().fit(table)
    dense, tree, linear = encoder.encode(table)
    assert dense.shape[1] == tree.shape[1] == encoder.width
    assert linear.shape == (300, 1 + len(encoder.texts["note"].words.vocabulary_))
    assert encoder.encode(table.iloc[:2].assign(note=None))[2].shape == (2, linear.shape[1])
    engine = 1 + encoder.texts["note"].words.vocabulary_["engine"]
    np.testing.assert_array_equal(linear[:, engine].toarray()[:, 0] > 0, subject)
    np.testing.assert_array_equal(encoder.dense(table), dense)
    np.testing.assert_array_equal(encoder.tree(table), tree)


@needs_embeddings
def test_embeddings_know_words_that_were_not_fitted_to():
    (old, cars), (new, answers) = notes(), notes(new=True)
    right = {}
    for text in ("words", "embeddings"):
        encoder = TableEncoder(text=text).fit(old)
        for form in (0, 2):  # of networks, and of linear models
            model = LogisticRegression().fit(encoder.encode(old)[form], cars)
            assert model.score(encoder.encode(old)[form], cars) > 0.99
            right[text, form] = model.score(encoder.encode(new)[form], answers)
    assert max(right["words", 0], right["words", 2]) < 0.6
    assert min(right["embeddings", 0], right["embeddings", 2]) > 0.9


@needs_embeddings
def test_forms_with_an_embedding():
    table, _ = notes()
    table["title"] = table["note"] + " note"
    words, encoder = TableEncoder().fit(table), TableEncoder(text="embeddings").fit(table)
    forms, plain = encoder.encode(table), words.encode(table)
    assert forms[0].shape[1] == encoder.width == len(set(encoder.dense_names))
    np.testing.assert_array_equal(forms[1], plain[1])
    for form in range(3):
        at = [column for place in encoder.find_places().values() for column in place[form]]
        assert sorted(at) == list(range(forms[form].shape[1]))
    # What find_places calls the linear form of a text has its words, and a vector of length 1.
    note = forms[2][:, encoder.find_places()["note"][2]].toarray()
    np.testing.assert_array_equal(
        note[:, :-256], encoder.texts["note"].words.transform(table["note"]).toarray()
    )
    np.testing.assert_allclose(np.linalg.norm(note[:, -256:], axis=1), 1)
    assert "wordllama" in str(encoder.describe())
    assert "wordllama" not in str(words.describe())


@needs_embeddings
def test_any_text_has_an_embedding():
    table, _ = notes()
    encoder = TableEncoder(text="embeddings").fit(table)
    odd = ["", None, " ", "\ud800", "engine \x00 oil", "car " * 100_000, 7, "engine oil"]
    dense, _, linear = encoder.encode(pd.DataFrame({"note": odd, "x": 0.0}))
    assert np.isfinite(dense).all()
    assert np.isfinite(linear.toarray()).all()
    assert not dense[:3, 1:].any()
    assert dense[3:, 1:].any(axis=1).all()
    # A row is the same alone, and a column without any text is one of missing texts.
    alone = pd.DataFrame({"note": odd[-1:], "x": 0.0})
    np.testing.assert_array_equal(encoder.dense(alone)[0], dense[-1])
    for missing in (None, np.nan):
        assert not encoder.dense(alone.assign(note=missing))[:, 1:].any()


@needs_embeddings
def test_another_version_of_the_embedding_is_warned_of():
    table, _ = notes()
    encoder = TableEncoder(text="embeddings").fit(table)
    encoder.texts["note"] = replace(encoder.texts["note"], embedding="wordllama 0.1")
    with pytest.warns(PUWarning, match=r"wordllama 0\.1"):
        encoder.dense(table)


def test_embeddings_need_a_package_and_words_do_not(monkeypatch):
    monkeypatch.setitem(sys.modules, "wordllama", None)
    table, _ = notes()
    assert TableEncoder().fit(table).texts
    assert TableEncoder(text="embeddings").fit(table[["x"]]).width == 1
    with raises_user_error("missing-dependency", "puarena[text]"):
        TableEncoder(text="embeddings").fit(table)


@pytest.mark.parametrize(
    ("values", "token"),
    [
        (np.inf, "infinity"),
        (1e300, "too large"),
    ],
    ids=str,
)
def test_refused_columns(values, token):
    with pytest.raises(ValueError, match=token) as caught:
        TableEncoder().fit(frame().assign(day=values))
    assert "'day'" in str(caught.value)


def test_one_huge_number_is_named_when_rows_are_predicted():
    encoder = TableEncoder().fit(np.ones((4, 2)) * np.arange(4)[:, None])
    rows = np.ones((3, 2))
    rows[2, 1] = 1e308
    for form in (encoder.dense, TableEncoder().fit):
        with pytest.raises(ValueError, match="data row 3") as caught:
            form(rows)
        assert "'column 1'" in str(caught.value)


def test_benchmark_tables_keep_every_value():
    table = pd.DataFrame({"a": [1, np.nan, 4, 3], "b": ["x", None, "y", "x"]})
    filled = fill_gaps(table)
    encoder = make_benchmark_encoder().fit(filled)
    assert encoder.dense_names == ["a", "b = missing", "b = x", "b = y"]
    assert encoder.dense(filled)[:, 0].tolist() == [1, 3, 4, 3]
    assert encoder.dense(filled)[:, 1].tolist() == [0, 1, 0, 0]
    categories = fill_gaps(table, categorical=True)
    assert make_benchmark_encoder().fit(categories).width == 4 + 3
