"""Model selection: the golden cases, the rules on ties and NaN, and a plain second implementation
to compare with.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from puarena.errors import UserError
from puarena.metrics import CRITERIA, METRICS
from puarena.report import aggregate, load, select
from puarena.report.sources import GROUP
from puarena.results import Folder
from sample_results import PROBLEM, SPEC, USUAL, curves, facts, frame

GOLDEN = Path(os.environ.get("PUARENA_GOLDEN") or Path(__file__).parents[1] / "golden")
CHOOSING = {criterion.name: criterion.column for criterion in CRITERIA.values()}
TESTED = [metric.column for metric in METRICS.values()]
CASES = json.loads((GOLDEN / "selection.json").read_text())["cases"]


def golden(case: dict[str, Any]) -> pd.DataFrame:
    records = [{"split": r.pop("trial"), **r} for r in (dict(r) for r in case["inputs"]["records"])]
    return frame([{k: math.nan if v is None else v for k, v in r.items()} for r in records])


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_golden(case: dict[str, Any]) -> None:
    chosen = select(golden(case))
    tolerance = case["tolerance"]["float64"]
    numbers = aggregate(chosen).set_index(["criterion", "metric"])
    for criterion, expected in case["expected_value"].items():
        mine = chosen[chosen["criterion"] == criterion]
        picks = [{"trial": r.split, "config": r.config, "step": r.step} for r in mine.itertuples()]
        assert picks == expected.pop("chosen")
        for metric, values in expected.items():
            row = numbers.loc[(criterion, metric)]
            assert row["n"] == case["params"]["trials"]
            for name, value in values.items():
                found = row["stderr" if name == "error" else name]
                assert abs(found - value) <= tolerance["atol"] + tolerance["rtol"] * abs(value), (
                    metric,
                    name,
                )


def test_ties_go_to_the_earliest_step_then_the_lowest_configuration() -> None:
    records = [
        {"config": c, "step": s, "val_pa": 0.9}
        for c in (3, 1, 2)
        for s in (300, 200)
        if (c, s) != (1, 200)
    ]
    chosen = select(frame(records), ["pa"]).iloc[0]
    assert (chosen["step"], chosen["config"]) == (200, 2)


def test_nan_never_wins_and_nothing_but_nan_selects_nothing() -> None:
    nan = math.nan
    values = [
        {"step": 100, "val_pa": nan, "val_oa": nan},
        {"step": 200, "val_pa": -5.0, "val_oa": nan},
    ]
    chosen = select(
        frame([{"split": 0, **v} for v in values] + [{"split": 1, "step": 100}])
    ).set_index(["criterion", "split"])
    assert chosen.loc[("pa", 0), "step"] == 200
    nothing = chosen.loc[("oa", 0)]
    assert nothing[["step", "config", "run", "value", *TESTED]].isna().all()
    numbers = aggregate(chosen.reset_index()).set_index(["criterion", "metric"])
    assert (numbers.loc[("oa", "f1"), ["n", "splits"]] == [1, 2]).all()
    assert (numbers.loc[("pa", "f1"), ["n", "splits"]] == [2, 2]).all()


def test_records_that_are_not_selectable_count_for_nothing() -> None:
    records = [{"step": 100, "val_pa": 0.9, "selectable": False}, {"step": 200, "val_pa": 0.1}]
    assert select(frame(records), ["pa"])["step"].tolist() == [200]
    assert select(frame(records[:1]), ["pa"])["step"].isna().all()


def test_one_split_has_no_error() -> None:
    numbers = aggregate(select(frame([{"step": 100}]))).iloc[0]
    assert (numbers["mean"], numbers["n"]) == (50.0, 1)
    assert math.isnan(numbers["stderr"])
    assert math.isnan(numbers["std_sample"])


def test_groups_are_kept_apart_also_without_a_prior() -> None:
    others: list[dict[str, Any]] = [
        {},
        {"case": 2},
        {"setting": "ts"},
        {"rate": 0.1},
        {"prior": math.nan},
    ]
    others += [
        {"prior": 0.7},
        {"algorithm": "upu"},
        {"profile": "released"},
        {"dataset": "it's"},
        {"split": 1},
    ]
    records = [{"step": 100, "run": str(i), **other} for i, other in enumerate(others)]
    chosen = select(frame(records), ["pa"])
    assert sorted(chosen["run"]) == [str(i) for i in range(len(others))]
    assert len(aggregate(chosen, ["f1"])) == len(others) - 1


def test_against_plain_python() -> None:
    """200,000 made-up records, with many ties and NaN, against the rule written out in pandas."""
    random = np.random.default_rng(1)
    groups, splits, configs, records = 10, 2, 10, 1000
    group, split, config, step = (
        axis.ravel()
        for axis in np.meshgrid(range(groups), range(splits), range(configs), range(records))
    )
    data = pd.DataFrame(
        {
            "algorithm": [f"a{i}" for i in group],
            "split": split,
            "config": config,
            "step": 100 * step,
        }
    )
    data = data.assign(
        **PROBLEM,
        **USUAL,
        **(facts("a") | {"algorithm": data["algorithm"], "selectable": step > 0}),
    )
    data["run"] = (
        data["algorithm"] + "-" + data["split"].astype(str) + "-" + data["config"].astype(str)
    )
    for name in (*CHOOSING.values(), *TESTED):
        data[name] = random.integers(0, 300, len(data)) / 300
        data.loc[random.random(len(data)) < 0.1, name] = math.nan
    data = data.sample(frac=1, random_state=1)
    chosen = select(data)
    assert len(chosen) == groups * splits * len(CRITERIA)
    for criterion, column in CHOOSING.items():
        usable = data[data["selectable"] & data[column].notna()]
        ranked = usable.sort_values([column, "step", "config"], ascending=[False, True, True])
        first = ranked.groupby(["algorithm", "split"]).head(1).sort_values(["algorithm", "split"])
        mine = chosen[chosen["criterion"] == criterion].sort_values(["algorithm", "split"])
        compared = ["algorithm", "split", "config", "step", "run", *TESTED]
        pd.testing.assert_frame_equal(
            mine[compared].reset_index(drop=True),
            first[compared].reset_index(drop=True),
            check_dtype=False,
        )
        assert (mine["value"].to_numpy() == first[column].to_numpy()).all()
        assert (mine["configs"] == configs).all()


def test_every_kind_of_source(tmp_path: Path) -> None:
    store = Folder.create(tmp_path, SPEC, "abc")
    assert len(select(store)) == 0
    assert len(aggregate(select(store))) == 0
    store.write_shard("a", curves("a"))
    sources = [store, tmp_path, str(tmp_path), load(tmp_path), load(store).df()]
    results = [select(source) for source in sources]
    assert len(results[0]) == len(CRITERIA)
    assert results[0]["configs"].tolist() == [2] * len(CRITERIA)
    for result in results[1:]:
        pd.testing.assert_frame_equal(result, results[0])
    assert set(GROUP) < set(results[0].columns)


def test_a_damaged_shard_is_named(tmp_path: Path) -> None:
    store = Folder.create(tmp_path, SPEC, "abc")
    store.write_shard("b", curves("b", runs=50, records=50))
    file = tmp_path / "shards" / "b.parquet"
    whole = bytearray(file.read_bytes())
    whole[4 : len(whole) // 2] = bytes(len(whole) // 2 - 4)
    file.write_bytes(whole)
    with pytest.raises(UserError, match=r"b\.parquet"):
        select(tmp_path)


def test_unknown_names() -> None:
    with pytest.raises(UserError, match=r"'pau'.*'pauc'"):
        select(frame([{"step": 100}]), ["pau"])
    with pytest.raises(UserError, match=r"'acuracy'.*'accuracy'"):
        aggregate(select(frame([{"step": 100}])), ["acuracy"])
