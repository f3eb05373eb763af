"""What a method is comes from its columns, never from its name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from puarena.errors import UserError
from puarena.report import select, table, write_page
from puarena.report.figures import find_figures, read_figure_data
from puarena.report.statistics import summarize
from sample_results import records


def labels(source: pd.DataFrame) -> list[str]:
    (only,) = table(source)
    return [row.method.label for row in only.rows]


@pytest.mark.parametrize(
    "facts, label",
    [
        ({}, "upu"),
        ({"profile": "released"}, "upu (released)"),
        ({"profile": "released", "variant": "released"}, "upu"),
        ({"variant": "released"}, "upu"),
        ({"prior_source": "bbe"}, "upu (prior by bbe)"),
        (
            {"profile": "released", "prior_source": "km2", "precision": "bf16"},
            "upu (released, prior by km2, bf16)",
        ),
    ],
)
def test_labels(facts: dict[str, Any], label: str) -> None:
    assert labels(records({"upu": 0.7}, **facts)) == [label]


def test_runs_of_one_algorithm_in_two_manners_are_two_rows() -> None:
    manners: list[dict[str, Any]] = [
        {},
        {"prior_source": "bbe"},
        {"precision": "bf16"},
        {"profile": "released"},
    ]
    source = pd.concat([records({"nnpu": 0.7}, **manner) for manner in manners])
    assert labels(source) == ["nnpu", "nnpu (bf16)", "nnpu (prior by bbe)", "nnpu (released)"]
    assert len(table(pd.concat([source, records({"nnpu": 0.7}, labeling="other")]))) == 2


def test_a_plugin_is_what_it_declares() -> None:
    soft = records({"soft-c": 0.9})  # a method of its own, whatever its name
    mine = records({"other": 0.8}, base="soft-c", calibrated=True)
    (only,) = table(pd.concat([mine, soft, records({"upu": 0.7, "nnpu@released-c": 0.6})]))
    assert [row.method.label for row in only.rows] == ["upu", "nnpu@released-c", "soft-c", "other"]
    assert [row.method.label for row in only.rows if row.method.calibrated] == ["other"]


def cheat() -> pd.DataFrame:
    """Six problems; a plugin that is handed true labels wins all of them."""
    means = {"upu": 0.7, "nnpu": 0.8, "vpu": 0.75}
    parts = []
    for i in range(6):
        parts.append(records(means, dataset=f"d{i}"))
        parts.append(records({"cheat": 0.99}, dataset=f"d{i}", supervised=True))
        parts.append(
            records({"pn-oracle": 0.95, "pn-naive": 0.5, "all-positive": 0.4}, dataset=f"d{i}")
        )
        parts[-1].loc[parts[-1]["algorithm"] == "all-positive", "baseline"] = True
    source = pd.concat(parts).assign(status="ok", device="cpu", version="0", torch="2", seconds=1.0)
    return source.assign(run=source["dataset"] + source["algorithm"] + source["split"].astype(str))


def test_what_sees_true_labels_never_competes(tmp_path: Path) -> None:
    source = cheat()
    first = table(source)[0]
    order = ["pn-oracle", "cheat", "upu", "nnpu", "vpu", "pn-naive", "all-positive"]
    assert [row.method.label for row in first.rows] == order
    assert [row.method.label for row in first.rows if row.cells[0].best] == ["nnpu"]
    assert [row.method.kind for row in first.rows] == [
        "baseline",
        "baseline",
        "",
        "",
        "",
        "baseline",
        "baseline",
    ]
    assert "(pn-oracle, cheat, " in first.caption()
    (numbers,) = summarize(source, criteria="pa")
    assert list(numbers.standings.table.index) == ["nnpu", "vpu", "upu"]
    assert not {"cheat", "pn-oracle"} & set(numbers.frame["algorithm"])
    # not even if asked for
    (numbers,) = summarize(source, criteria="pa", algorithms=["cheat", "upu"])
    assert "cheat" not in set(numbers.frame["algorithm"])
    (ranks,) = (figure for figure in find_figures() if figure.name == "ranks")
    chart = ranks.draw(read_figure_data(source), "accuracy", "pa")
    assert "cheat" not in json.dumps(chart.to_dict())
    write_page(source, tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert 'class="best">99' not in text
    assert "<b>pn-oracle</b>, <b>cheat</b>" in text


def test_a_table_that_is_none() -> None:
    with pytest.raises(UserError, match="base, supervised"):
        select(records({"upu": 0.7}).drop(columns=["base", "supervised"]))
