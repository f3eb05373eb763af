"""Figures: right numbers in every chart, files of every kind, and a reason where there are too few
results.
"""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import puarena.report.figures as package
from puarena.cli import app
from puarena.errors import UserError
from puarena.report.export import export
from puarena.report.figures import (
    TooFewError,
    draw_figure,
    find_figures,
    read_figure_data,
    save_chart,
    save_figures,
)
from puarena.report.figures.learning_curves import list_curve_rows
from puarena.results import Folder
from sample_results import SPEC, curves, frame


def source(
    methods: dict[str, float], datasets: int = 5, splits: int = 2, **fixed: Any
) -> pd.DataFrame:
    """Two configurations with three records: PA finds the best, PAUC loses two points, OA one."""
    rows = []
    for d in range(datasets):
        for split in range(splits):
            for k, (algorithm, level) in enumerate(methods.items()):
                for config in (0, 1):
                    for i, step in enumerate((0, 100, 200, 300)):
                        accuracy = level + 0.01 * i - 0.1 * config
                        values = {
                            "test_accuracy": accuracy,
                            "test_auc": accuracy,
                            "test_f1": accuracy,
                        }
                        values |= {
                            "val_pa": accuracy,
                            "val_pauc": float(i == 1),
                            "val_oa": float(i == 2),
                        }
                        who = {
                            "dataset": f"d{d}",
                            "algorithm": algorithm,
                            "split": split,
                            "config": config,
                        }
                        rows.append(
                            who | {"step": step, "seconds": (1 + k) * step / 100, **values, **fixed}
                        )
    return frame(
        [
            row | {"run": f"{row['dataset']}{row['algorithm']}{row['split']}{row['config']}"}
            for row in rows
        ]
    )


METHODS = {"pn-oracle": 0.9, "upu": 0.6, "nnpu": 0.7, "nnpu-c": 0.8}


@pytest.fixture(scope="module")
def facts() -> Any:
    return read_figure_data(source(METHODS), ["accuracy", "auc"], ["pa", "pauc", "oa"])


def chart(name: str, facts: Any, metric: str = "accuracy", criterion: str = "pa") -> Any:
    """One figure as Vega-Lite."""
    (figure,) = (figure for figure in find_figures() if figure.name == name)
    return figure.draw(facts, metric, criterion).to_dict()


def data(spec: Any) -> pd.DataFrame:
    """Everything a chart draws."""
    return pd.concat([pd.DataFrame(rows) for rows in spec["datasets"].values()])


def test_overall(facts: Any) -> None:
    drawn = data(chart("overall", facts)).set_index(["metric", "method", "criterion"])
    assert len(drawn) == 2 * 4 * 3
    assert drawn.loc[("Accuracy", "upu", "PA"), "value"] == pytest.approx(63)
    assert drawn.loc[("AUC", "upu", "PAUC"), "value"] == pytest.approx(61)
    assert set(drawn["problems"]) == {5}


def test_a_method_without_all_problems_is_not_in_a_mean() -> None:
    rows = source(METHODS, datasets=3)
    rows = rows[~((rows["algorithm"] == "upu") & (rows["dataset"] == "d0"))]
    assert set(data(chart("overall", read_figure_data(rows, None, ["pa"])))["method"]) == {
        "pn-oracle",
        "nnpu",
        "nnpu-c",
    }


def test_regret(facts: Any) -> None:
    drawn = data(chart("regret", facts)).set_index(["against", "method", "criterion"])["value"]
    best, oa = "against the best checkpoint", "against OA"
    for method in METHODS:
        assert drawn[(best, method, "PA")] == pytest.approx(0)
        assert drawn[(best, method, "PAUC")] == pytest.approx(2)
        assert drawn[(best, method, "OA")] == pytest.approx(1)
        assert drawn[(oa, method, "PA")] == pytest.approx(-1)
        assert drawn[(oa, method, "PAUC")] == pytest.approx(1)
        assert (oa, method, "OA") not in drawn.index


def test_ranks(facts: Any) -> None:
    spec = chart("ranks", facts)
    drawn = data(spec)
    assert dict(drawn[["method", "rank"]].dropna().values.tolist()) == {
        "nnpu-c": 1,
        "nnpu": 2,
        "upu": 3,
    }
    # 2.343 sqrt(3 * 4 / (6 * 5)) = 1.48 (Demšar 2006, table 5): neighbors cannot be told apart
    assert drawn[["from", "to"]].dropna().values.tolist() == [["nnpu-c", "nnpu"], ["nnpu", "upu"]]
    title = " ".join(spec["title"]["text"])
    assert "critical difference 1.48" in title
    assert "n = 5 problems" in title


def test_ranks_over_splits_where_problems_are_few() -> None:
    few = read_figure_data(source(METHODS, datasets=2, splits=3), None, ["pa"])
    assert "n = 6 splits of problems" in chart("ranks", few)["title"]["text"][0]
    with pytest.raises(TooFewError, match="there are 4"):
        chart("ranks", read_figure_data(source(METHODS, datasets=2, splits=2), None, ["pa"]))
    with pytest.raises(TooFewError, match="3"):
        chart("ranks", read_figure_data(source({"upu": 0.5, "nnpu": 0.6}), None, ["pa"]))


def test_wins(facts: Any) -> None:
    drawn = data(chart("wins", facts)).set_index(["a", "b"])
    assert set(drawn.index.get_level_values("a")) == {
        "nnpu-c",
        "nnpu",
        "upu",
    }  # the oracle does not compete
    assert drawn.loc[("nnpu-c", "upu"), ["w", "t", "l", "d"]].tolist() == [5, 0, 0, 20]
    assert drawn.loc[("upu", "nnpu-c"), ["w", "t", "l", "d"]].tolist() == [0, 0, 5, -20]
    order = ["nnpu-c", "nnpu", "upu"]
    assert (
        chart("wins", facts)["layer"][0]["encoding"]["x"]["scale"]["domain"] == order
    )  # as the leaderboard
    with pytest.raises(TooFewError, match="competing"):
        chart("wins", read_figure_data(source({"pn-oracle": 0.9, "upu": 0.5}), None, ["pa"]))


def test_what_calibration_gains(facts: Any) -> None:
    spec = chart("calibration", facts)
    sets = [pd.DataFrame(rows) for rows in spec["datasets"].values()]
    mean = next(rows for rows in sets if "problems" in rows)
    assert mean[["method", "problems", "n"]].values.tolist() == [["nnpu", 5, 10]]
    assert mean["value"].tolist() == pytest.approx([10])
    with pytest.raises(TooFewError, match="calibrated form"):
        chart("calibration", read_figure_data(source({"upu": 0.5, "nnpu": 0.6}), None, ["pa"]))


def test_intervals_and_order(facts: Any) -> None:
    noisy = source(METHODS)
    noisy["test_accuracy"] += 0.01 * noisy["split"]
    drawn = data(chart("overall", read_figure_data(noisy, ["accuracy"], ["pa"]))).set_index(
        "method"
    )
    row = drawn.loc["upu"]
    assert row["low"] < row["value"] < row["high"]
    half = (
        2.5706 * (5 * 0.5 / 2) ** 0.5 / 5
    )  # Student's, 5 degrees of freedom; variance 0.5 in each of five problems
    assert row["high"] - row["value"] == pytest.approx(half, rel=1e-3)
    single = data(chart("overall", read_figure_data(source(METHODS, splits=1), None, ["pa"])))
    assert set(single["interval"]) == {"not known: a single split"}
    legend = chart("overall", facts)["spec"]["layer"][1]["encoding"]
    assert (
        legend["shape"]["scale"]["domain"] == legend["color"]["scale"]["domain"]
    )  # one legend for both
    assert chart("regret", facts)["spec"]["layer"][1]["encoding"]["y"]["sort"] == [
        "pn-oracle",
        "nnpu-c",
        "nnpu",
        "upu",
    ]
    assert chart("overall", facts)["resolve"]["scale"]["x"] == "independent"


def test_profile(facts: Any) -> None:
    drawn = data(chart("profile", facts))
    shares = drawn.groupby("method")["share"].max()
    assert shares.to_dict() == {
        "nnpu-c": 1,
        "nnpu": 1,
        "upu": 0,
    }  # strictly above the lowest result
    assert drawn["share"].between(0, 1).all()


MANY = {f"m{i:02}": 0.6 + i / 100 for i in range(28)}


def test_profile_of_many_methods() -> None:
    """Eight have a color, the rest is drawn in gray, and only the leader has a band."""
    spec = chart("profile", read_figure_data(source(MANY), ["accuracy"], ["pa"]))
    lines, leader = spec["layer"][2:]
    sets = {
        name: {row["method"] for row in spec["datasets"][layer["data"]["name"]]}
        for name, layer in zip(("gray", "band", "lines", "leader"), spec["layer"], strict=True)
    }
    assert [len(sets[name]) for name in ("gray", "band", "lines", "leader")] == [20, 1, 7, 1]
    assert sets["leader"] == sets["band"] == {"m27"}
    assert leader["mark"]["strokeWidth"] > lines["mark"]["strokeWidth"]
    assert len(lines["encoding"]["color"]["scale"]["domain"]) == 8


def test_names_of_many_methods_do_not_overlap() -> None:
    spec = chart("time", read_figure_data(source(MANY), ["accuracy"], ["pa"]))
    text = spec["layer"][-1]
    rows = spec["datasets"][text["data"]["name"]]
    low, high = spec["layer"][-2]["encoding"]["y"]["scale"]["domain"]
    places = sorted(row["place"] for row in rows)
    apart = [b - a for a, b in itertools.pairwise(places)]
    assert len(rows) >= 8
    assert min(apart) * spec["height"] / (high - low) > 11  # the size of a letter
    assert places[0] >= low
    assert places[-1] <= high


def test_time(facts: Any) -> None:
    spec = chart("time", facts)
    sets = [pd.DataFrame(rows) for rows in spec["datasets"].values()]
    everyone = next(rows for rows in sets if len(rows) == 4).set_index("method")
    assert everyone.loc["nnpu", "seconds"] == pytest.approx(9)
    assert everyone.loc["nnpu", "value"] == pytest.approx(73)
    front = spec["datasets"][spec["layer"][1]["data"]["name"]]
    assert [row["method"] for row in front] == [
        "upu",
        "nnpu",
        "nnpu-c",
    ]  # slower, but better each time
    with pytest.raises(TooFewError, match="time"):
        chart("time", replace(facts, seconds=facts.seconds.assign(seconds=math.nan)))


def test_label_shift() -> None:
    parts = []
    for rate in (0.1, 0.5):
        parts.append(
            source({"nnpu": 0.7 - rate / 10, "nnpu-c": 0.7}, datasets=1, splits=3, rate=rate)
        )
        parts.append(source({"nnpu": 0.75}, datasets=1, splits=3, rate=rate, setting="ts"))
    parts.append(source({"lbe": 0.6}, datasets=1, rate=0.5))  # only one-sample: no panel
    shifted = read_figure_data(pd.concat(parts), None, ["pa"])
    drawn = data(chart("label-shift", shifted)).set_index(["panel", "series", "percent"])
    assert len(drawn) == 6
    assert drawn.loc[("nnpu", "OS", 50), "mean"] == pytest.approx(68)
    assert drawn.loc[("nnpu", "OS calibrated", 50), "mean"] == pytest.approx(73)
    assert drawn.loc[("nnpu", "TS", 10), "mean"] == pytest.approx(78)
    with pytest.raises(TooFewError, match="label-shift"):
        chart(
            "label-shift",
            replace(shifted, selection=shifted.selection[shifted.selection["setting"] == "os"]),
        )


def test_learning_curves_pass_through_what_was_selected(facts: Any) -> None:
    rows = list_curve_rows(facts, "accuracy")
    marks = rows[rows["criterion"].notna()].set_index(["panel", "criterion"])
    assert marks.loc[("upu", "PA"), "step"] == 300
    assert marks.loc[("upu", "OA"), "step"] == 200
    lines = rows[rows["criterion"].isna()].set_index(["panel", "split", "config", "step"])["value"]
    for mark in marks.reset_index().itertuples():
        assert lines[(mark.panel, mark.split, mark.config, mark.step)] == pytest.approx(mark.value)
    assert chart("learning-curves", facts)["facet"]["field"] == "panel"


def test_curves_are_thinned() -> None:
    rows = [{"config": 0, "step": s, "val_pa": float(s == 777), "run": "r"} for s in range(1, 1001)]
    thinned = read_figure_data(frame(rows), None, ["pa"], points=50).curves
    assert 50 <= len(thinned) <= 53
    assert {1, 777, 1000} <= set(thinned["step"])


def test_names_of_users_and_unknown_priors() -> None:
    facts = read_figure_data(source({"a'b<script>": 0.5, 'c"d': 0.6}, prior=math.nan), None, ["pa"])
    assert (
        len(facts.curves) == 2 * 5 * 2 * 4
    )  # configuration 0 of each split; an unknown prior is itself
    assert any("a'b<script>" in str(row) for row in chart("overall", facts)["datasets"].values())


@pytest.fixture(scope="module")
def drawn(facts: Any) -> Any:
    """A chart to save."""
    (drawing,) = draw_figure(
        next(figure for figure in find_figures() if not figure.per_metric), facts
    )
    return drawing.chart


@pytest.mark.parametrize("kind, start", [("svg", b"<svg"), ("pdf", b"%PDF"), ("png", b"\x89PNG")])
def test_files(kind: str, start: bytes, drawn: Any, tmp_path: Path) -> None:
    save_chart(drawn, tmp_path / "new" / f"f.{kind}")
    assert (tmp_path / "new" / f"f.{kind}").read_bytes().startswith(start)


def test_files_that_cannot_be_written(drawn: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for name, code in (("file/f.svg", "cannot-write"), ("f.gif", "unknown-name")):
        with pytest.raises(UserError) as error:
            save_chart(drawn, tmp_path / name)
        assert error.value.code == code


def test_all_of_them(tmp_path: Path) -> None:
    written, missing = save_figures(source(METHODS), tmp_path, ["svg"], ["accuracy"], ["pa"])
    names = ["overall", "regret-accuracy", "learning-curves-accuracy"]
    names += [f"{name}-accuracy-pa" for name in ("calibration", "ranks", "wins", "time", "profile")]
    assert sorted(path.stem for path in written) == sorted(names)
    assert list(missing) == ["label-shift", "bias"]
    few = read_figure_data(source({"upu": 0.5}, 1, 1), ["auc"], ["pa"])
    missing = {
        d.figure.name: d.reason
        for figure in find_figures()
        for d in draw_figure(figure, few)
        if d.chart is None
    }
    assert set(missing) == {
        "overall",
        "calibration",
        "ranks",
        "wins",
        "time",
        "profile",
        "label-shift",
        "bias",
    }
    assert all(missing.values())


def test_command(tmp_path: Path) -> None:
    store = Folder.create(tmp_path / "out", SPEC, "abc")
    for name in ("upu", "nnpu"):
        store.write_shard(name, curves(name, algorithm=name, selectable=True))
    options = [
        "--out",
        str(tmp_path / "figures"),
        "--format",
        "svg",
        "--metric",
        "auc",
        "--criterion",
        "pa",
    ]
    result = CliRunner().invoke(app, ["figures", str(store.path), *options])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "figures" / "regret-auc.svg").is_file()
    assert "left out ranks: " in result.output
    only = ["figures", str(store.path), "--out", str(tmp_path / "one"), "--only"]
    assert CliRunner().invoke(app, [*only, "overall"]).exit_code == 0
    assert [file.name for file in (tmp_path / "one").iterdir()] == ["overall.svg"]
    wrong = CliRunner().invoke(app, [*only, "overal"])
    assert wrong.exit_code == 2
    assert "'overall'" in wrong.output
    # a summary has the chosen checkpoints, which make no curve
    export(store.path, tmp_path / "s.parquet")
    files, missing = save_figures(tmp_path / "s.parquet", tmp_path / "s", only=["learning-curves"])
    assert files == []
    assert "summary" in missing["learning-curves"]
    result = CliRunner().invoke(app, ["figures", str(store.path), "--out", "x", "--format", "gif"])
    assert result.exit_code == 2


def test_importing_the_report_is_light() -> None:
    code = "import puarena.report, sys; print([m for m in ('altair', 'vl_convert', 'torch') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_numbers_are_finite() -> None:
    spec = chart("overall", read_figure_data(source(METHODS, val_oa=math.nan), None, ["pa", "oa"]))
    assert np.isfinite(data(spec)["value"]).all()


def test_a_file_is_a_figure() -> None:
    files = {path.stem for path in Path(package.__file__).parent.glob("*.py")} - {
        "__init__",
        "base",
    }
    listed = find_figures()
    assert {type(figure).__module__.rpartition(".")[2] for figure in listed} == files
    assert len({figure.name for figure in listed}) == len(listed) == len(files)
    assert [figure.order for figure in listed] == sorted(figure.order for figure in listed)
    assert all(figure.title and figure.caption for figure in listed)
