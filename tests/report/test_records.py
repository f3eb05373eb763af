"""Criteria and metrics follow their records: columns that are missing, counts, another direction,
another unit.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from puarena.errors import UserError
from puarena.metrics import CRITERIA, METRICS, Counts, Criterion, Metric
from puarena.report import aggregate, load, select, table, to_csv, to_markdown, write_page
from puarena.report.export import export
from puarena.report.figures import draw_figure, find_figures, read_figure_data
from puarena.report.statistics import summarize
from puarena.results import Folder
from sample_results import SPEC, curves, frame, records

FOUR = ("val_positive_p", "val_size_p", "val_positive_u", "val_size_u")


def test_a_criterion_that_was_not_stored() -> None:
    others = [c.column for c in CRITERIA.values() if c.name not in ("pa", "oa")]
    source = records({"upu": 0.7, "nnpu": 0.8}).drop(columns=others)
    (only,) = table(source)
    assert [column.criterion for column in only.columns[:2]] == ["pa", "oa"]
    assert any("PAUC" in note for note in only.notes)
    assert len(select(source)) == 2 * 3 * 2
    with pytest.raises(UserError, match=r"'val_pauc'.*PA, OA"):
        table(source, criteria=["pauc"])
    assert not table(source, criteria=["oa"])[0].notes  # nobody asked
    (only,) = table(source.drop(columns="test_auc"))
    assert {column.metric for column in only.columns} == {"accuracy", "f1"}
    with pytest.raises(UserError, match="'test_auc'"):
        table(source.drop(columns="test_auc"), metrics="auc")
    with pytest.raises(UserError, match="criterion"):
        select(source.drop(columns=["val_pa", "val_oa"]))


def counted() -> pd.DataFrame:
    """Records with counts, one-sample and two-sample, without PA."""
    random = np.random.default_rng(0)
    rows: list[dict[str, Any]] = []
    for setting in ("os", "ts"):
        for split in range(3):
            for step in range(100, 2100, 100):
                numbers = dict(
                    zip(FOUR, (random.integers(0, 50), 50, random.integers(0, 80), 80), strict=True)
                )
                rows.append(
                    {"setting": setting, "split": split, "step": step, "prior_used": 0.4, **numbers}
                )
    return frame(rows).drop(columns=["val_pa", "val_pa_released"])


@pytest.mark.parametrize("name", ["pa", "pa-released"])
def test_criteria_made_of_counts_cost_a_query(name: str) -> None:
    source = counted()
    values = [source[column].to_numpy(float) for column in FOUR]
    value = CRITERIA[name].compute(Counts(*values, 0.4, (source["setting"] == "os").to_numpy()))
    stored = source.assign(**{CRITERIA[name].column: value})
    pd.testing.assert_frame_equal(select(source, name), select(stored, name))
    holes = stored.copy()
    holes.loc[holes["split"] == 1, CRITERIA[name].column] = (
        None  # a part that an older version wrote
    )
    pd.testing.assert_frame_equal(select(duck(holes), name), select(stored, name))


def duck(source: pd.DataFrame) -> Any:
    """A relation with real nulls."""
    import duckdb

    column = "val_pa" if "val_pa" in source else "val_pa_released"
    relation = duckdb.connect().from_df(source)
    return relation.project(
        f"* REPLACE (CASE WHEN isnan({column}) THEN NULL ELSE {column} END AS {column})"
    )


def test_a_criterion_of_tomorrow_reads_the_folders_of_today(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Folder.create(tmp_path / "out", SPEC, "abc")
    part = curves("a", algorithm="upu", setting="os", records=30)
    random = np.random.default_rng(1)
    numbers = {
        "val_positive_p": random.integers(0, 50, len(part)),
        "val_positive_u": random.integers(0, 80, len(part)),
    }
    store.write_shard("a", part.assign(**numbers, val_size_p=50, val_size_u=80))
    new = Criterion(
        "positives",
        "Positives",
        "few",
        lambda c: c.positive_u / c.size_u,
        needs="counts",
        higher=False,
    )
    monkeypatch.setitem(CRITERIA, new.name, new)
    chosen = select(store, "positives").iloc[0]
    usable = part.assign(**numbers)[part["selectable"]]
    assert chosen["value"] == pytest.approx(usable["val_positive_u"].min() / 80)  # lower is better
    (only,) = table(store)
    assert only.columns[-1].criterion == "positives"
    write_page(store, tmp_path / "page.html")
    assert "Positives" in (tmp_path / "page.html").read_text(encoding="utf-8")
    export(store, tmp_path / "small.parquet")
    kept = load(tmp_path / "small.parquet").df()
    assert {"val_positive_p", "val_size_u", "val_pa", "test_f1"} <= set(kept.columns)
    assert chosen["step"] in set(kept["step"])
    pd.testing.assert_frame_equal(
        select(tmp_path / "small.parquet", "positives"), select(store, "positives")
    )


@pytest.fixture
def brier(monkeypatch: pytest.MonkeyPatch) -> pd.DataFrame:
    """Six problems with a metric that is no fraction, and of which less is better."""
    record = Metric(
        "brier", "Brier", "squared error", abs, "score", higher=False, percent=False, high=None
    )
    monkeypatch.setitem(METRICS, record.name, record)
    means = {"upu": 0.7, "nnpu": 0.8, "vpu": 0.75, "pn-oracle": 0.95}
    parts = [records(means, dataset=f"d{i}") for i in range(6)]
    source = pd.concat(parts).assign(status="ok", device="cpu", version="0", torch="2", seconds=1.0)
    source = source.assign(
        run=source["dataset"] + source["algorithm"] + source["split"].astype(str)
    )
    return source.assign(test_brier=2 * (1 - source["test_accuracy"]) + 0.00012)


def test_less_is_better_in_tables(brier: pd.DataFrame) -> None:
    only = table(brier, metrics=["accuracy", "brier"], criteria="pa")[0]
    cells = {row.method.label: row.cells for row in only.rows}
    assert [label for label, (_, cell) in cells.items() if cell.best] == ["nnpu"]
    assert cells["nnpu"][1].text() == "0.4001 ± 0.0094"  # not in percent
    assert cells["nnpu"][0].text() == "80.00 ± 0.47"
    assert "Test results (Accuracy in percent) (Brier: lower is better)" in only.caption()
    assert "**0.4001 ± 0.0094**" in to_markdown([only])
    assert "brier,pa,0.400" in to_csv([only])
    mean = aggregate(select(brier, "pa"), "brier").set_index("algorithm")["mean"]
    assert mean["upu"].iloc[0] == pytest.approx(0.60012)


def test_less_is_better_in_statistics(brier: pd.DataFrame) -> None:
    (accuracy,) = summarize(brier, "accuracy", "pa")
    (error,) = summarize(brier, "brier", "pa")
    for name in ("mean-rank", "friedman-chi2", "wins", "elo"):
        pd.testing.assert_frame_equal(error.of(name), accuracy.of(name))
    assert list(error.standings.table.index) == ["nnpu", "vpu", "upu"]
    gaps = error.of("difference")
    assert list(gaps["algorithm"]) == ["vpu", "upu"]
    assert gaps["value"].tolist() == pytest.approx([0.1, 0.2])


def test_less_is_better_in_figures_and_on_the_page(brier: pd.DataFrame, tmp_path: Path) -> None:
    data = read_figure_data(brier, ["brier"], ["pa", "oa"])
    charts = {
        d.figure.name: d.chart.to_dict()
        for f in find_figures()
        for d in draw_figure(f, data)
        if d.chart is not None
    }
    assert {"overall", "ranks", "regret", "learning-curves"} <= set(charts)

    def rows(name: str) -> pd.DataFrame:
        return pd.concat([pd.DataFrame(rows) for rows in charts[name]["datasets"].values()])

    ranked = dict(rows("ranks")[["method", "rank"]].dropna().values.tolist())
    assert ranked == {"nnpu": 1, "vpu": 2, "upu": 3}
    assert (rows("regret")["value"] == 0).all()
    assert rows("overall").set_index("method").loc["upu", "value"].max() == pytest.approx(0.60012)
    assert "%" not in json.dumps(charts["overall"])
    write_page(brier, tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    page = json.loads(text.split('id="data">')[1].split("</script>")[0])
    (record,) = (metric for metric in page["metrics"] if metric["name"] == "brier")
    assert (record["higher"], record["percent"], record["decimals"], record["factor"]) == (
        False,
        False,
        4,
        1,
    )
    assert 'class="best">0.4001 ± 0.0094' in text


def test_what_is_lost_where_less_is_better(brier: pd.DataFrame) -> None:
    better = brier.assign(step=200, val_pa=0.0, val_oa=1.0, test_brier=brier["test_brier"] - 0.1)
    data = read_figure_data(pd.concat([brier, better]), ["brier"], ["pa", "oa"])
    regret = next(figure for figure in find_figures() if figure.name == "regret")
    rows = pd.concat(
        [pd.DataFrame(r) for r in regret.draw(data, "brier", "").to_dict()["datasets"].values()]
    )
    lost = rows.groupby(["against", "criterion"])["value"].agg(["min", "max"])
    assert lost.loc[("against the best checkpoint", "PA")].tolist() == pytest.approx([0.1, 0.1])
    assert lost.loc[("against the best checkpoint", "OA")].tolist() == pytest.approx([0, 0])
    assert lost.loc[("against OA", "PA")].tolist() == pytest.approx([0.1, 0.1])
