"""The record of a problem: what is checked, how it is worded, and what results keep of it."""

from __future__ import annotations

import math

import pytest

from puarena.errors import UserError
from puarena.pu import Problem
from puarena.pu.problem import PROBLEM_COLUMNS


@pytest.mark.parametrize(
    "values, token",
    [
        ({"case": 0}, "0"),
        ({"case": True}, "True"),
        ({"rate": 1}, "1"),
        ({"rate": math.nan}, "nan"),
        ({"prior": "half"}, "'half'"),
        ({"labeled": 5, "unlabeled": 50}, "5"),
    ],
)
def test_wrong_values(values, token):
    with pytest.raises(UserError, match=token) as error:
        Problem("letter", **values)
    assert error.value.code == "invalid-value"


def test_titles():
    problem = Problem("letter", 2, "two-sample", 0.3, 0.5)
    assert problem.title == ("letter, case 2, two-sample (TS), 30% positive rate, class prior 0.5")
    assert problem.label() == "letter, case 2, TS 30%"
    assert problem.label(prior=True) == "letter, case 2, TS 30%, prior 0.5"
    assert Problem("letter").label(prior=True) == "letter, case 1, OS 30%"
    assert "class" in Problem("letter", labeling="class(strength=2)").label()


def test_results_keep_it():
    problem = Problem("letter", prior=0.4, labeling="class")
    row = problem.to_columns()
    assert tuple(row) == PROBLEM_COLUMNS
    assert Problem.from_columns(row | {"algorithm": "nnpu"}) == problem


def test_results_of_other_installations_can_be_read():
    row = {"dataset": "d", "case": 1, "setting": "xs", "rate": 0.3, "prior": float("nan")}
    problem = Problem.from_columns(row | {"labeling": "moonlight"})
    assert problem == Problem.from_columns(problem.to_columns() | {"prior": float("nan")})
    assert problem.label(prior=True) == "d, case 1, xs 30%, labels by moonlight"
    assert not problem.one_sample
