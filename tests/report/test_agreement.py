"""Which cells agree with published numbers."""

from __future__ import annotations

import math
from typing import Any

import pytest

from puarena.report.compare import (
    ComparedCell,
    compare,
    count_agreement,
    read_published,
    to_published_csv,
)
from puarena.report.methods import METHOD_COLUMNS, Method
from sample_results import facts, records

PLAIN = Method(
    **({name: facts("nnpu").get(name, "") for name in METHOD_COLUMNS} | {"precision": "float32"})
)


@pytest.mark.parametrize(
    "difference, ours, published, same",
    [
        (1.99, 0.0, 0.0, True),  # within two points, whatever the errors
        (2.01, 0.0, 0.0, False),
        (2.01, math.nan, math.nan, False),  # an error that is not known counts as none
        (4.9, 1.0, 1.3, True),  # 3 * 1.64
        (5.0, 1.0, 1.3, False),
        (-4.9, 1.0, 1.3, True),
    ],
)
def test_two_points_or_three_combined_errors(
    difference: float, ours: float, published: float, same: bool
) -> None:
    assert ComparedCell(PLAIN, 80 + difference, ours, 3, 80.0, published).agrees is same


def test_cells_outside_are_named() -> None:
    found = {key[1]: value[0] for key, value in read_published().items() if is_letter(key)}
    values = {name: mean / 100 for name, mean in found.items()} | {"vpu": found["vpu"] / 100 + 0.3}
    source = records(values, dataset="letter", case=1)
    together = count_agreement(compare(source, metrics="accuracy", criteria="pa"))
    assert together.n == len(found)
    (cell,) = together.outside
    assert cell.startswith("letter, case 1: vpu, Accuracy by PA: ")
    assert cell.endswith("(+30.00)")
    assert f"{len(found) - 1} of {len(found)} cells" in together.verdict


def is_letter(key: Any) -> bool:
    problem, _, calibrated, metric, criterion = key
    where = (problem.dataset, problem.case, calibrated, metric, criterion)
    return where == ("letter", 1, False, "accuracy", "pa")


def test_rows_with_an_optimizer_of_their_own_meet_rows_that_have_it(tmp_path: Any) -> None:
    for optimizer, mean in (("protocol", 0.7), ("authors", 0.9)):
        source = records({"pan": mean, "upu": 0.8}, optimizer=optimizer)
        to_published_csv(source, tmp_path / f"{optimizer}.csv")
    authors = (tmp_path / "authors.csv").read_text().partition("\n")[2]
    (tmp_path / "both.csv").write_text((tmp_path / "protocol.csv").read_text() + authors)
    source = records({"pan": 0.9}, optimizer="authors")
    # without a row of its own it meets the usual one
    for file, published in (("both", 90.0), ("authors", 90.0), ("protocol", 70.0)):
        found = compare(source, tmp_path / f"{file}.csv", "accuracy", "oa")
        assert [cell.published for cell in found[0].cells] == [pytest.approx(published)]
