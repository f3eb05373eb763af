"""The reading of ``y``: which rows are labeled, in Python and on the command line alike."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from puarena.cli.tables import read_marks
from puarena.pu.labels import check_weights, read_labels, resample_by_weight
from user_errors import raises_user_error

READABLE = {
    "two numbers": ([0, 1, 0], None, [0, 1, 0], [0, 1]),
    "the greater of any two": ([2, 1, 1], None, [1, 0, 0], [1, 2]),
    "minus one is unlabeled": ([1, -1, -1], None, [1, 0, 0], [-1, 1]),
    "bools": ([True, False, False], None, [1, 0, 0], [False, True]),
    "three numbers": ([1, 0, -1, 0], None, [1, 0, -1, 0], [-1, 1]),
    "three words": (
        ["positive", "unlabeled", "negative"],
        None,
        [1, 0, -1],
        ["negative", "positive"],
    ),
    "two words": (["positive", "unlabeled"], None, [1, 0], ["unlabeled", "positive"]),
    "words in any case": (["Positive", "UNLABELED"], None, [1, 0], ["unlabeled", "Positive"]),
    "text with a label": (["yes", "no", "no"], "yes", [1, 0, 0], ["no", "yes"]),
    "the most frequent of the rest": (["a", "b", "c", "c"], "a", [1, 0, 0, 0], ["c", "a"]),
    "the word negative": (["a", "b", "negative"], "a", [1, 0, -1], ["negative", "a"]),
    "a label in another spelling": ([1, 2, 3, 3], "1.0", [1, 0, 0, 0], [3, 1]),
    "one number and gaps": ([1, np.nan, np.nan], None, [1, 0, 0], [0, 1]),
    "one text and gaps": (["yes", None, "yes", None], None, [1, 0, 1, 0], ["unlabeled", "yes"]),
}


@pytest.mark.parametrize("case", READABLE)
def test_readable_labels(case):
    y, label, marks, classes = READABLE[case]
    for values in (y, np.array(y), pd.Series(y), np.array(y, object)):
        labels = read_labels(values, label)
        assert labels.marks.tolist() == marks
        assert labels.classes.tolist() == classes
        assert labels.unlabeled.tolist() == [mark == 0 for mark in marks]


@pytest.mark.parametrize(
    ("y", "label", "token"),
    [
        ([], None, "empty"),
        ([np.nan, np.nan], None, "empty"),
        ([1, 1], None, "unlabeled rows"),
        ([0, 0], None, "labeled positives"),
        (["a", "a"], None, "labeled positives"),
        (["a", "b"], None, "positive_label"),
        ([1, 2, 3], None, "multiclass"),
        ([0, 1, np.nan], None, "missing"),
        ([0, 1], 5, "positive_label=5"),
        (["positive", "negative"], None, "unlabeled rows"),
        (["negative", "unlabeled"], None, "labeled positives"),
    ],
    ids=str,
)
def test_unreadable_labels(y, label, token):
    with pytest.raises(ValueError, match=token):
        read_labels(y, label)


def test_a_known_negative():
    assert read_labels(["a", "b", "c"], "a", "c").marks.tolist() == [1, 0, -1]
    for label, token in (("x", "'x'"), ("a", "'a'")):
        with pytest.raises(ValueError, match=token):
            read_labels(["a", "b", "c"], "a", label)


def test_the_command_line_reads_the_same(tmp_path):
    frame = pd.DataFrame({"x": range(4), "s": ["yes", "no", "yes", "maybe"]})
    file = tmp_path / "t.csv"
    assert read_marks(frame, file, "s", "yes").tolist() == [1, 0, 1, 0]
    assert read_marks(frame, file, "s", "yes", "no").tolist() == [1, -1, 1, 0]
    with raises_user_error("invalid-value", file, "'s'", "--positive", "'yes'"):
        read_marks(frame, file, "s", None)
    with raises_user_error("invalid-value", "'maybe'", "--positive='never'"):
        read_marks(frame, file, "s", "never")
    with raises_user_error("unknown-name", "'t'"):
        read_marks(frame, file, "t", "yes")
    with raises_user_error("missing-data", "'s'", "1 labeled"):
        read_marks(frame, file, "s", "no")


def test_weights():
    positive = np.array([True, True, False])
    check_weights(np.array([0.0, 1, 1]), positive)
    for weight in ([0.0, 0, 1], [1.0, 1, 0]):
        with pytest.raises(ValueError, match="sample_weight"):
            check_weights(np.array(weight), positive)
    rng = np.random.RandomState(0)
    rows = np.arange(3)
    assert resample_by_weight(rows, None, rng) is rows
    assert resample_by_weight(rows, np.ones(3), rng) is rows
    assert set(resample_by_weight(rows, np.array([0.0, 1, 1]), rng)) <= {1, 2}
