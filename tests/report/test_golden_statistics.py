"""The statistics of ``golden/statistics.json``: Elo, ranks, gap closed, signed rank and the rest."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from goldens import FOLDER
from puarena.report.statistics import bootstrap, compute_standings, ranking

CASES = json.loads((FOLDER / "statistics.json").read_text())["cases"]


def _elo(case: Any) -> Any:
    inputs = case["inputs"]
    won = np.array(inputs["wins"]) if "wins" in inputs else ranking.sum_battles(inputs["scores"])
    np.testing.assert_allclose(won, case["expected_extra"]["wins"], rtol=1e-12)
    return ranking.fit_ratings(won, case["params"]["reference"])


def _rank(case: Any) -> Any:
    means = np.array([np.mean(problem, axis=0) for problem in case["inputs"]["scores"]])
    drawn = means[np.array(case["inputs"]["draws"])].mean(1)
    np.testing.assert_allclose(ranking.compute_ranks(drawn), case["expected_extra"]["draw_ranks"])
    index = [
        (f"p{p}", s)
        for p, problem in enumerate(case["inputs"]["scores"])
        for s in range(len(problem))
    ]
    rows = [row for problem in case["inputs"]["scores"] for row in problem]
    frame = pd.DataFrame(rows, pd.MultiIndex.from_tuples(index))
    places = compute_standings(frame, {name: name for name, _ in index}).table["place"]
    assert [places[str(name)] for name in frame] == case["expected_value"]
    return ranking.compute_ranks(means.mean(0))


def _gap(case: Any) -> Any:
    closed = bootstrap.compute_gap_closed(
        *(case["inputs"][name] for name in ("acc", "naive", "oracle"))
    )
    expected = [
        np.nan if value is None else value for value in case["expected_extra"]["per_problem"]
    ]
    np.testing.assert_allclose(closed, expected, rtol=1e-12)
    return np.nanmean(closed)


def _improvement(case: Any) -> Any:
    chances = bootstrap.compute_win_chances(case["inputs"]["scores_x"], case["inputs"]["scores_y"])
    np.testing.assert_allclose(chances, case["expected_extra"]["per_problem"], rtol=1e-12)
    return np.mean(chances)


KINDS: dict[str, Callable[[Any], Any]] = {
    "elo": _elo,
    "rank": _rank,
    "improvability": lambda case: bootstrap.compute_improvability(case["inputs"]["err"]).mean(0),
    "gap-closed": _gap,
    "signed-rank": lambda case: bootstrap.compute_rope_shares(
        case["inputs"]["z"], case["inputs"]["w"], case["params"]["rope"]
    ),
    "iqm": lambda case: bootstrap.compute_iqm(case["inputs"]["scores"]),
    "profile": lambda case: bootstrap.share_above(
        np.ravel(case["inputs"]["scores"]), case["inputs"]["x"]
    ),
    "improvement": _improvement,
}


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_golden(case: Any) -> None:
    value = KINDS[case["params"]["kind"]](case)
    np.testing.assert_allclose(value, case["expected_value"], **case["tolerance"]["float64"])


def test_every_kind_has_a_case() -> None:
    assert {case["params"]["kind"] for case in CASES} == set(KINDS)
