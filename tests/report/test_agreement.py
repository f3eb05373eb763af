"""Which cells agree with published numbers."""

from __future__ import annotations

import math

import pytest

from puarena.report.agreement import agreement, agrees, to_published_csv
from puarena.report.compare import Line, compare, read_published
from puarena.report.methods import METHOD, Method
from sample_results import facts, records

PLAIN = Method(
    **({name: facts("nnpu").get(name, "") for name in METHOD} | {"precision": "float32"})
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
def test_two_points_or_three_combined_errors(difference, ours, published, same):
    assert agrees(Line(PLAIN, 80 + difference, ours, 3, 80.0, published)) is same


def test_cells_outside_are_named():
    found = {key[1]: value[0] for key, value in read_published().items() if _is_letter(key)}
    values = {name: mean / 100 for name, mean in found.items()} | {"vpu": found["vpu"] / 100 + 0.3}
    together = agreement(
        compare(records(values, dataset="letter", case=1), metrics="accuracy", criteria="pa")
    )
    assert (together.cells, together.within) == (len(found), len(found) - 1)
    (cell,) = together.outside
    assert cell.words.startswith("letter, case 1: vpu, Accuracy by PA: ")
    assert cell.words.endswith("(+30.00)")
    assert f"{len(found) - 1} of {len(found)} cells" in together.words


def _is_letter(key) -> bool:
    problem, _, calibrated, metric, criterion = key
    return (problem.dataset, calibrated, metric, criterion) == ("letter", False, "accuracy", "pa")


def test_rows_with_an_optimizer_of_their_own_meet_rows_that_have_it(tmp_path):
    for optimizer, mean in (("protocol", 0.7), ("authors", 0.9)):
        to_published_csv(
            records({"pan": mean, "upu": 0.8}, optimizer=optimizer), tmp_path / f"{optimizer}.csv"
        )
    both = (tmp_path / "protocol.csv").read_text() + (
        tmp_path / "authors.csv"
    ).read_text().partition("\n")[2]
    (tmp_path / "both.csv").write_text(both)
    for file, published in (
        ("both", 90.0),
        ("authors", 90.0),
        ("protocol", 70.0),
    ):  # else with the usual row
        found = compare(
            records({"pan": 0.9}, optimizer="authors"), tmp_path / f"{file}.csv", "accuracy", "oa"
        )
        assert [line.published for line in found[0].lines] == [pytest.approx(published)]
